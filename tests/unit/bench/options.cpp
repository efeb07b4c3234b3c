// The command line.
#include "options.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace gpurun::bench;

namespace {

Or<Options> parse(std::initializer_list<const char*> words) {
    std::vector<const char*> argv{"gpurun-perf"};
    argv.insert(argv.end(), words);
    return parse_options(static_cast<int>(argv.size()), argv.data());
}

Options options(std::initializer_list<const char*> words) {
    auto parsed = parse(words);
    if (const auto* refusal = std::get_if<Refusal>(&parsed))
        FAIL(refusal->text);
    return std::get<Options>(parsed);
}

std::string refused(std::initializer_list<const char*> words) {
    const auto parsed = parse(words);
    REQUIRE(std::holds_alternative<Refusal>(parsed));
    CHECK(std::get<Refusal>(parsed).exit_status == 2);
    return std::get<Refusal>(parsed).text;
}

bool says(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

} // namespace

TEST_SUITE_BEGIN("options");

TEST_CASE("nothing asked for is latency and bandwidth of device memory, in both orders, against nothing") {
    const Options found = options({});
    CHECK(found.tests == std::vector{Test::kLatency, Test::kBandwidth});
    CHECK(found.orders == std::vector{Order::kStream, Order::kHost});
    CHECK(found.memory == std::array{Memory::kDevice, Memory::kDevice});
    CHECK(found.against.empty());
    CHECK(found.sizes.empty());
    CHECK_FALSE(found.validate);
}

TEST_CASE("tests are words, options may stand anywhere") {
    const Options found = options({"rate", "--validate", "call", "--window=8", "--json"});
    CHECK(found.tests == std::vector{Test::kRate, Test::kCall});
    CHECK(found.window == 8);
    CHECK(found.validate);
    CHECK(found.json);
    CHECK(options({"all"}).tests.size() == 10);
    CHECK(options({"rate", "rate"}).tests.size() == 1);
}

TEST_CASE("an exchange has a form") {
    CHECK(options({"exchange"}).form == Form::kGroup);
    CHECK(options({"exchange", "--form=requests"}).form == Form::kRequests);
    CHECK(says(refused({"exchange", "--form=both"}), "--form: there is no 'both'; there are blocking, sendrecv"));
    CHECK(says(refused({"exchange", "--form=blocking"}), "sendrecv, requests, startall or group"));
}

TEST_CASE("collectives have a form, which is another one by default") {
    CHECK(options({"collective"}).collective_form == Form::kBlocking);
    CHECK(options({"collective", "--form=requests"}).collective_form == Form::kRequests);
    CHECK(options({"all", "--form=sendrecv"}).collective_form == Form::kBlocking);
    CHECK(options({"all", "--form=group"}).collective_form == Form::kGroup);
    CHECK(says(refused({"collective", "--form=startall"}), "collectives are blocking, requests or group"));
    CHECK(says(refused({"collective", "--order=graph", "--form=group"}), "in graphs are blocking calls"));
}

TEST_CASE("collectives are a list, or all, and all-reduce if nothing is said") {
    CHECK(options({"collective"}).collectives == std::vector{Collective::kAllreduce});
    CHECK(options({"collective", "--collective=bcast,reduce_scatter,bcast"}).collectives ==
          std::vector{Collective::kBcast, Collective::kReduceScatter});
    CHECK(options({"collective", "--collective=all"}).collectives.size() == 9);
    CHECK(says(refused({"collective", "--collective=scan"}), "--collective: there is no 'scan'; there are allreduce"));
    CHECK(says(refused({"collective", "--collective=all,bcast"}), "there is no 'all'"));
    CHECK_FALSE(options({"collective"}).in_place);
    CHECK(options({"collective", "--in-place"}).in_place);
}

TEST_CASE("tune measures collectives by each algorithm that they have") {
    const Options found = options({"tune", "--sizes=8,64K"});
    CHECK(found.tune);
    CHECK(found.tests == std::vector{Test::kCollective});
    CHECK(found.collectives == std::vector{Collective::kAllreduce, Collective::kReduce, Collective::kBcast});
    CHECK(found.against == std::vector{Reference::kDirect, Reference::kDoubling, Reference::kPieces, Reference::kTree});
    const Options fewer = options({"tune", "--collective=bcast", "--against=nccl"});
    CHECK(fewer.collectives == std::vector{Collective::kBcast});
    CHECK(fewer.against == std::vector{Reference::kNccl, Reference::kDirect, Reference::kTree, Reference::kPieces});
    CHECK_FALSE(options({"collective", "--against=direct"}).tune);
    CHECK(says(refused({"tune", "latency"}), "leave the other tests out"));
    CHECK(says(refused({"tune", "--collective=gather"}), "gather has one algorithm"));
}

TEST_CASE("memory is one kind, or one for each side") {
    CHECK(options({"--memory=host"}).memory == std::array{Memory::kHost, Memory::kHost});
    CHECK(options({"--memory", "device-async:pinned"}).memory == std::array{Memory::kDeviceAsync, Memory::kPinned});
    CHECK(says(refused({"--memory=gpu"}),
               "there is no 'gpu'; there are device, device-async, device-mapped, pinned, host"));
    CHECK(says(refused({"--memory=host:"}), "there is no ''"));
    CHECK(says(refused({"--memory=host:host:host"}), "write one kind, or two"));
}

TEST_CASE("references are a list") {
    CHECK(options({"--against=nccl,copy"}).against == std::vector{Reference::kNccl, Reference::kCopy});
    CHECK(options({"--against=nccl-window"}).against == std::vector{Reference::kNcclWindow});
    CHECK(options({"--against=tcp,fabric"}).against == std::vector{Reference::kTcp, Reference::kFabric});
    CHECK(says(refused({"--against=mpi"}), "there are copy, nccl, nccl-window, tcp, fabric"));
}

TEST_CASE("what cannot be measured is refused with what can") {
    CHECK(says(refused({"speed"}), "there is no 'speed'; there are latency"));
    CHECK(says(refused({"all", "rate"}), "there is no 'all'"));
    CHECK(says(refused({"--order=gpu"}), "there are stream, host, graph"));
    CHECK(says(refused({"--sizes=8,y"}), "cannot read 'y'"));
    CHECK(says(refused({"--window=0"}), "--window"));
    CHECK(says(refused({"--iterations=0"}), "--iterations"));
    CHECK(says(refused({"--warmup=-1"}), "--warmup"));
    CHECK(says(refused({"--plot=a.png"}), "does not end in .svg"));
    CHECK(says(refused({"--frequency"}), "--frequency"));
    CHECK(says(refused({"call", "--order=host"}), "call measures calls on a stream"));
    CHECK(options({"all", "--order=host"}).tests.size() == 10); // without calls: they are left out
}

TEST_CASE("graphs are asked for, and have the tests and the memory that can be captured") {
    CHECK(options({"--order=graph"}).orders == std::vector{Order::kGraph});
    CHECK(options({"--order=both"}).orders == std::vector{Order::kStream, Order::kHost});
    CHECK(options({"all", "--order=graph"}).tests.size() == 10); // those that cannot are left out of the plan
    for (const char* test : {"overlap", "call", "first"})
        CHECK(says(refused({"rate", test, "--order=graph"}), "is not measured in graphs: latency, bandwidth"));
    CHECK(says(refused({"--memory=device:host", "--order=graph"}), "use --memory=pinned in place of host"));
    CHECK(options({"--memory=pinned:device-async", "--order=graph"}).memory[0] == Memory::kPinned);
}

TEST_CASE("help and the version are no mistakes") {
    for (const char* word : {"--help", "--version"}) {
        const auto parsed = parse({word});
        REQUIRE(std::holds_alternative<Refusal>(parsed));
        CHECK(std::get<Refusal>(parsed).exit_status == 0);
        CHECK(says(std::get<Refusal>(parsed).text, "gpurun-perf"));
    }
}
