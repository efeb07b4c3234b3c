// What is enqueued in a graph for the steps of a collective that move together.
#include "transfer/protocol/captured_exchange.hpp"

#include "one_device.hpp"
#include "scripted_device.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using namespace gpurun::test;
using device::Channel;
using transfer::CapturedExchange;
using Names = std::vector<std::string>;

namespace {

constexpr size_t kCount = 25, kReducedBytes = 4 * kCount;

Channel channel(size_t bytes) {
    Channel made;
    made.bytes = bytes;
    return made;
}
const Channel kWords = channel(kReducedBytes), kSignal = channel(0);

class Bench {
  public:
    explicit Bench(uint32_t ranks_on_device = 2)
        : device_(open_one_device()), pools_(device_, 8, ranks_on_device, 4, engines_), exchange(device_, pools_) {
        device_.told_of_graphs.emplace();
    }
    void put(const Channel& of, device::Stream stream) {
        must(exchange.put(of, of.bytes != 0 ? buffer_ : nullptr, stream));
    }
    // Of its own operand, and what has come.
    void reduce(const std::vector<Channel>& come, std::optional<device::Stream> stream = std::nullopt,
                size_t answers = 0) {
        std::vector<CapturedExchange::Operand> operands = {{std::nullopt, buffer_, nullptr, nullptr}};
        for (const Channel& each : come)
            operands.push_back(
                {each, each.bytes == 0 ? buffer_ : nullptr, buffer_, operands.size() <= answers ? buffer_ : nullptr});
        must(exchange.reduce({{base::Type::kInt32, base::Op::kSum, 0}, kCount, buffer_, operands},
                             stream.value_or(one)));
    }
    void take(const Channel& of, device::Stream stream, size_t at = kReducedBytes) {
        must(exchange.take(of, buffer_ + at, of.bytes, stream));
    }
    void await_taken(size_t times, std::optional<device::Stream> stream = std::nullopt) {
        for (size_t i = 0; i < times; ++i)
            must(exchange.await_taken(kSignal, stream.value_or(one)));
    }
    Names launch() {
        must(exchange.launch());
        return std::exchange(*device_.told_of_graphs, {});
    }
    const Names& told() const { return *device_.told_of_graphs; }
    device::Stream last() const { return device_.last_in_graph; }

    const device::Stream one{reinterpret_cast<CUstream_st*>(uintptr_t{16})};
    const device::Stream other{reinterpret_cast<CUstream_st*>(uintptr_t{32})};

  private:
    ScriptedDevice device_;
    transfer::EngineCount engines_{1};
    transfer::Pools pools_;
    std::byte buffer_[2 * kReducedBytes];

  public:
    CapturedExchange exchange;
};

} // namespace

TEST_SUITE_BEGIN("captured exchanges");

TEST_CASE("words are put, awaited and reduced in one operation") {
    Bench bench;
    CHECK(bench.exchange.can_reduce());
    for (int i = 0; i < 2; ++i)
        bench.put(kWords, bench.one);
    CHECK(bench.told().empty());
    bench.reduce({kWords, kWords});
    CHECK(bench.exchange.combines_as_it_comes());
    CHECK(bench.launch() == Names{"reduce 2 3"});
    CHECK(bench.launch().empty());
}

TEST_CASE("what stays with its source is reduced between the meeting of the ranks and their parting") {
    Bench bench;
    for (int i = 0; i < 2; ++i)
        bench.put(kSignal, bench.one);
    bench.reduce({kSignal, kSignal});
    bench.await_taken(2);
    CHECK_FALSE(bench.exchange.combines_as_it_comes());
    CHECK(bench.launch() == Names{"meet 2 2", "reduce buffers 3 0", "part 2 2"});
}

TEST_CASE("words that come beside signals are taken to their place first") {
    Bench bench;
    bench.put(kWords, bench.one);
    bench.put(kSignal, bench.one);
    bench.reduce({kSignal, kWords});
    bench.await_taken(1);
    CHECK_FALSE(bench.exchange.combines_as_it_comes());
    CHECK(bench.launch() == Names{"put", "meet 1 1", "take", "reduce buffers 3 0", "part 1 1"});
}

// With all its blocks it would wait beside those of other ranks, until none of them leaves room for what they wait for.
TEST_CASE("long words beside signals are taken once they have begun to come") {
    Bench bench;
    Channel words = kWords;
    words.bytes = device::kLargestInChannel;
    bench.reduce({kSignal, words});
    CHECK(bench.launch() == Names{"meet 0 1", "await put", "take", "reduce buffers 3 0", "part 1 0"});
}

TEST_CASE("the result is written where the sources of the operands want it") {
    Bench bench;
    bench.reduce({kSignal, kSignal, kSignal}, std::nullopt, 2);
    CHECK_FALSE(bench.exchange.combines_as_it_comes());
    CHECK(bench.launch() == Names{"meet 0 3", "reduce buffers 4 2", "part 3 0"});
}

TEST_CASE("what is not reduced here is put together, and what ends later is awaited together") {
    Bench bench;
    bench.put(kWords, bench.one);
    bench.put(kSignal, bench.one);
    bench.put(kSignal, bench.one);
    CHECK(bench.launch() == Names{"exchange 3 0"});
    bench.await_taken(2);
    CHECK(bench.launch() == Names{"part 0 2"});
    bench.await_taken(device::kMostMet);
    CHECK(bench.told().empty());
    bench.await_taken(1);
    CHECK(bench.told() == Names{"part 0 8"});
    bench.await_taken(1, bench.other);
    CHECK(bench.launch() == Names{"part 0 8", "await taken", "await taken"});
}

TEST_CASE("what is put elsewhere, or behind a reduction, or is too much, comes behind the rest") {
    Bench bench;
    bench.put(kWords, bench.one);
    bench.put(kWords, bench.other);
    CHECK(bench.told() == Names{"put"});
    bench.reduce({kWords}, bench.other);
    bench.put(kWords, bench.other);
    CHECK(bench.told() == Names{"put", "reduce 1 2"});
    for (size_t i = 1; i < device::kMostMet; ++i)
        bench.put(kWords, bench.other);
    CHECK(bench.told().size() == 2);
    bench.put(kWords, bench.other);
    CHECK(bench.told() == Names{"put", "reduce 1 2", "exchange 8 0"});
    CHECK(CapturedExchange::admits(device::kMostMet));
    CHECK_FALSE(CapturedExchange::admits(device::kMostMet + 1));
}

TEST_CASE("what is put and taken by one call moves in one operation") {
    Bench bench;
    bench.put(kWords, bench.one);
    bench.take(kWords, bench.one);
    bench.take(kWords, bench.one);
    bench.await_taken(1);
    CHECK(bench.told().empty());
    CHECK(bench.launch() == Names{"exchange 1 2", "await taken"});
    bench.put(kWords, bench.one);
    bench.put(kSignal, bench.one);
    bench.take(kWords, bench.one);
    CHECK(bench.launch() == Names{"exchange 2 1"});
    bench.take(kWords, bench.one);
    CHECK(bench.launch() == Names{"take"});
}

// What comes is there by then, and a kernel that looks for it again and again sees it later.
TEST_CASE("one message each way between two devices moves in two operations") {
    Bench bench(1);
    bench.put(kWords, bench.one);
    bench.take(kWords, bench.one);
    CHECK(bench.launch() == Names{"put", "take"});
    bench.put(kWords, bench.one);
    bench.take(kWords, bench.one);
    bench.take(kWords, bench.one);
    CHECK(bench.launch() == Names{"exchange 1 2"});
}

TEST_CASE("what is put or reduced behind what is taken, and what overwrites what is put, comes in its turn") {
    Bench bench;
    bench.put(kWords, bench.one);
    bench.take(kWords, bench.one);
    bench.put(kWords, bench.one);
    CHECK(bench.told() == Names{"exchange 1 1"});
    bench.take(kWords, bench.one, kReducedBytes - 1); // where the last byte lies that is put
    CHECK(bench.told() == Names{"exchange 1 1", "put"});
    bench.reduce({kWords});
    CHECK(bench.launch() == Names{"exchange 1 1", "put", "take", "reduce 0 2"});
    for (size_t i = 0; i <= device::kMostMet; ++i)
        bench.take(kWords, bench.one);
    CHECK(bench.launch() == Names{"exchange 0 8", "take"});
    bench.take(kWords, bench.one);
    bench.take(kWords, bench.other);
    CHECK(bench.told() == Names{"take"});
}

// What is awaited may be read until then.
TEST_CASE("what is put, taken or reduced behind what is awaited comes in its turn") {
    Bench bench;
    bench.put(kSignal, bench.one);
    bench.await_taken(1);
    bench.put(kSignal, bench.one);
    CHECK(bench.told() == Names{"signal", "await taken"});
    bench.await_taken(1);
    bench.take(kWords, bench.one);
    CHECK(bench.told() == Names{"signal", "await taken", "signal", "await taken"});
    bench.await_taken(2);
    bench.reduce({kSignal});
    CHECK(bench.launch() == Names{"signal", "await taken", "signal", "await taken", "take", "part 0 2", "meet 0 1",
                                  "reduce buffers 2 0", "part 1 0"});
}

// With blocks for all lanes they would wait beside those of other ranks, until none of them leaves room for what they
// wait for.
TEST_CASE("what has many lanes is taken once all of it has begun to come") {
    Bench bench;
    Channel words = kWords;
    words.bytes = device::kLargestInChannel;
    for (int i = 0; i < 2; ++i)
        must(bench.exchange.put(words, nullptr, bench.one));
    for (int i = 0; i < 2; ++i)
        must(bench.exchange.take(words, nullptr, 0, bench.one));
    CHECK(bench.launch() == Names{"exchange 2 0", "meet 0 2", "exchange 0 2"});
    must(bench.exchange.take(words, nullptr, 0, bench.one));
    CHECK(bench.launch() == Names{"await put", "take"});
}

TEST_CASE("a reduction is made in its stream, whether or not anything was put there") {
    Bench bench;
    bench.reduce({kWords}, bench.other);
    CHECK(bench.launch() == Names{"reduce 0 2"});
    CHECK(bench.last() == bench.other);
    bench.put(kWords, bench.other);
    bench.reduce({kWords}, bench.one);
    CHECK(bench.told() == Names{"put"});
    CHECK(bench.last() == bench.other);
    CHECK(bench.launch() == Names{"put", "reduce 0 2"});
    CHECK(bench.last() == bench.one);
}

TEST_SUITE_END();
