// Reductions: every collective, type and operation, at any length, in any order domain and memory, against a reference.
#include "collectives.hpp"
#include "graphs.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace gpurun::test::reductions {

namespace {

enum class Which { kAllreduce, kReduce, kReduceScatterBlock, kReduceScatter, kScan, kExscan };
constexpr Which kAll[] = {Which::kAllreduce,     Which::kReduce, Which::kReduceScatterBlock,
                          Which::kReduceScatter, Which::kScan,   Which::kExscan};
constexpr const char* kNames[] = {"allreduce", "reduce", "reduce_scatter_block", "reduce_scatter", "scan", "exscan"};

struct Round {
    Which which;
    int type, op;
    size_t count; // of the result, or about that
    Manner manner;
    uint64_t seed;
};

// Of a reduce-scatter, each rank gets a part of its own length.
std::vector<size_t> counts_of(const Round& round) {
    std::vector<size_t> counts;
    for (int each = 0; each < size(); each++)
        counts.push_back(round.which == Which::kReduceScatter
                             ? (round.count + static_cast<size_t>(each) * 3) % 1000 * static_cast<size_t>(each % 3)
                             : round.count);
    return counts;
}
bool is_scattered(Which which) { return which == Which::kReduceScatter || which == Which::kReduceScatterBlock; }

// One round on this rank.
class Part {
  public:
    explicit Part(const Round& round)
        : round_(round), type_(static_cast<gpurun_datatype>(round.type)),
          op_(gpurun_make_op(static_cast<uint64_t>(round.op))), element_(reference::bytes_of(round.type)),
          counts_(counts_of(round)) {
        size_t all = 0;
        for (const size_t each : counts_)
            all += each;
        given_ = is_scattered(round.which) ? all : round.count;
        for (int each = 0; each < size(); each++)
            contents_.push_back(reference::values(round.type, given_, round.seed * 64 + static_cast<uint64_t>(each)));
        for (int each = 0; each < rank(); each++)
            first_ += counts_[static_cast<size_t>(each)];
    }

    // What this rank must have then; nothing: what it had.
    std::optional<Bytes> expected() const {
        const auto ranks = static_cast<unsigned>(size());
        const int self = rank();
        switch (round_.which) {
        case Which::kAllreduce: return reference::reduced(round_.type, round_.op, contents_, ranks);
        case Which::kReduce:
            if (self != round_.manner.root)
                return std::nullopt;
            return reference::reduced(round_.type, round_.op, contents_, ranks);
        case Which::kScan: return of_first(self + 1);
        case Which::kExscan: return self == 0 ? std::nullopt : std::optional(of_first(self));
        default: break;
        }
        const Bytes all = reference::reduced(round_.type, round_.op, contents_, ranks);
        const auto begin = all.begin() + static_cast<ptrdiff_t>(first_ * element_);
        return Bytes(begin, begin + static_cast<ptrdiff_t>(counts_[static_cast<size_t>(self)] * element_));
    }

    // What it has then.
    Bytes run() {
        const Bytes& own = contents_[static_cast<size_t>(rank())];
        const bool has_result = round_.which != Which::kReduce || rank() == round_.manner.root;
        const bool in_place = round_.manner.in_place && has_result;
        const size_t result_bytes = counts_[static_cast<size_t>(rank())] * element_;
        Guarded recv(round_.manner.kind, in_place ? own : Bytes(result_bytes, 0x77));
        Guarded send(round_.manner.kind, own);
        const void* const from = in_place ? GPURUN_IN_PLACE : send.get();
        call(round_.manner,
             {[&] { return blocking(from, recv.get()); },
              [&](gpurun_request* request) { return start(from, recv.get(), request); },
              [&](gpurun_request* request) { return prepare(from, recv.get(), request); }},
             {&send, &recv});
        CHECK(send.read() == own);
        Bytes got = recv.read();
        got.resize(result_bytes);
        return got;
    }
    Bytes before() const {
        const size_t bytes = counts_[static_cast<size_t>(rank())] * element_;
        return round_.manner.in_place && round_.which == Which::kExscan ? contents_[0] : Bytes(bytes, 0x77);
    }

  private:
    Bytes of_first(int number) const {
        const std::vector<Bytes> first(contents_.begin(), contents_.begin() + number);
        return reference::reduced(round_.type, round_.op, first, static_cast<unsigned>(number));
    }
    gpurun_status blocking(const void* from, void* into) const {
        const gpurun_stream in = round_.manner.domain;
        switch (round_.which) {
        case Which::kAllreduce: return gpurun_allreduce(from, into, round_.count, type_, op_, kWorld, in);
        case Which::kReduce: return gpurun_reduce(from, into, round_.count, type_, op_, round_.manner.root, kWorld, in);
        case Which::kReduceScatterBlock:
            return gpurun_reduce_scatter_block(from, into, round_.count, type_, op_, kWorld, in);
        case Which::kReduceScatter: return gpurun_reduce_scatter(from, into, counts_.data(), type_, op_, kWorld, in);
        case Which::kScan: return gpurun_scan(from, into, round_.count, type_, op_, kWorld, in);
        default: return gpurun_exscan(from, into, round_.count, type_, op_, kWorld, in);
        }
    }
    gpurun_status start(const void* from, void* into, gpurun_request* ret) const {
        const gpurun_stream in = round_.manner.domain;
        switch (round_.which) {
        case Which::kAllreduce: return gpurun_iallreduce(from, into, round_.count, type_, op_, kWorld, in, ret);
        case Which::kReduce:
            return gpurun_ireduce(from, into, round_.count, type_, op_, round_.manner.root, kWorld, in, ret);
        case Which::kReduceScatterBlock:
            return gpurun_ireduce_scatter_block(from, into, round_.count, type_, op_, kWorld, in, ret);
        case Which::kReduceScatter:
            return gpurun_ireduce_scatter(from, into, counts_.data(), type_, op_, kWorld, in, ret);
        case Which::kScan: return gpurun_iscan(from, into, round_.count, type_, op_, kWorld, in, ret);
        default: return gpurun_iexscan(from, into, round_.count, type_, op_, kWorld, in, ret);
        }
    }
    gpurun_status prepare(const void* from, void* into, gpurun_request* ret) const {
        const gpurun_stream in = round_.manner.domain;
        switch (round_.which) {
        case Which::kAllreduce: return gpurun_allreduce_init(from, into, round_.count, type_, op_, kWorld, in, ret);
        case Which::kReduce:
            return gpurun_reduce_init(from, into, round_.count, type_, op_, round_.manner.root, kWorld, in, ret);
        case Which::kReduceScatterBlock:
            return gpurun_reduce_scatter_block_init(from, into, round_.count, type_, op_, kWorld, in, ret);
        case Which::kReduceScatter:
            return gpurun_reduce_scatter_init(from, into, counts_.data(), type_, op_, kWorld, in, ret);
        case Which::kScan: return gpurun_scan_init(from, into, round_.count, type_, op_, kWorld, in, ret);
        default: return gpurun_exscan_init(from, into, round_.count, type_, op_, kWorld, in, ret);
        }
    }

    const Round round_;
    const gpurun_datatype type_;
    const gpurun_op op_;
    const size_t element_;
    const std::vector<size_t> counts_; // of each rank's result
    size_t given_ = 0;                 // by each rank
    size_t first_ = 0;                 // of this rank's part of a reduce-scatter
    std::vector<Bytes> contents_;      // of all ranks
};

// A small all-reduce of more than 4 ranks combines neighbours first, and any that is asked to, or those of one node, so
// sums and products of floats are others.
bool has_order_of_ranks(const Round& round) {
    const char* const asked_for = std::getenv("GPURUN_ALLREDUCE");
    const bool may_double = size() > 4 || std::getenv("GPURUN_EMULATED_NODES") != nullptr ||
                            (asked_for != nullptr && std::strcmp(asked_for, "doubling") == 0);
    const bool rounds = round.type >= reference::kFloat && round.type <= reference::kComplexDouble &&
                        (round.op <= reference::kProd || round.op == reference::kAvg);
    return round.which != Which::kAllreduce || !may_double || !rounds;
}

void check(const Round& round) {
    CAPTURE(kNames[static_cast<int>(round.which)]);
    CAPTURE(round.type);
    CAPTURE(round.op);
    CAPTURE(round.count);
    CAPTURE(describe(round.manner));
    Part part(round);
    Bytes got = part.run();
    const auto expected = part.expected();
    if (!expected)
        CHECK((round.which == Which::kReduce || got == part.before()));
    else if (has_order_of_ranks(round))
        CHECK(reference::same(round.type, got, *expected));
    if (round.which != Which::kAllreduce)
        return;
    Bytes of_root = got; // the same bits everywhere
    REQUIRE_OK(gpurun_bcast(of_root.data(), of_root.size(), GPURUN_BYTE, 0, kWorld, GPURUN_HOST));
    CHECK(reference::same(round.type, got, of_root));
}

} // namespace

TEST_SUITE_BEGIN("reductions");

// Some of their messages cross in the channels of graphs, some stay with their sources, as there is room.
TEST_CASE("a graph has many long reductions, each right in every run") {
    const Stream stream;
    if (!can_capture_collectives(stream))
        return;
    constexpr size_t kCalls = 12, kCount = (size_t{400} << 10) / sizeof(int32_t);
    constexpr size_t kBytes = kCount * sizeof(int32_t);
    Memory sent(Kind::kDevice, kCalls * kBytes), got(Kind::kDevice, kCalls * kBytes);
    const Graph graph(stream, [&] {
        for (size_t call = 0; call < kCalls; call++)
            REQUIRE_OK(gpurun_allreduce(call % 3 == 2 ? GPURUN_IN_PLACE : sent.at(call * kBytes), got.at(call * kBytes),
                                        kCount, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
    });
    const auto numbers = [&](int32_t factor, int32_t offset) {
        std::vector<int32_t> all(kCalls * kCount);
        for (size_t i = 0; i < all.size(); i++)
            all[i] = factor * static_cast<int32_t>(i % 1009) + offset;
        Bytes content(kCalls * kBytes);
        std::memcpy(content.data(), all.data(), content.size());
        return content;
    };
    const int offsets = 17 * size() * (size() - 1) / 2; // of all ranks
    for (int run = 0; run < 3; run++) {
        const Bytes content = numbers(1, 17 * rank() + run);
        for (Memory* each : {&sent, &got})
            each->write(content);
        graph.launch(stream);
        stream.synchronize();
        CHECK(first_difference(got.read(), numbers(size(), offsets + size() * run)) == -1);
    }
}

// With three and more ranks each reduces a piece, and writes it where the others want it, or the root.
TEST_CASE("long reductions of a graph come before what follows in the stream, at every rank") {
    const Stream stream;
    if (!can_capture_collectives(stream))
        return;
    for (const size_t count : {size_t{70'001}, size_t{200'003}}) {
        CAPTURE(count);
        const size_t bytes = count * sizeof(int32_t);
        Memory input(Kind::kDevice, bytes + 4), sum(Kind::kDevice, bytes + 4), copy(Kind::kDevice, 3 * bytes);
        const Graph graph(stream, [&] {
            uint8_t* const from = input.at(sizeof(int32_t)); // at no boundary of 16 bytes
            uint8_t* const into = sum.get();
            REQUIRE_OK(gpurun_allreduce(from, into, count, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
            REQUIRE_OK(gpurun_memcpy(copy.get(), into, bytes, stream));
            REQUIRE_OK(gpurun_reduce(from, into, count, GPURUN_INT32, GPURUN_MAX, size() - 1, kWorld, stream));
            REQUIRE_OK(gpurun_memcpy(copy.at(bytes), into, bytes, stream));
            REQUIRE_OK(gpurun_allreduce(GPURUN_IN_PLACE, from, count, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
            REQUIRE_OK(gpurun_memcpy(copy.at(2 * bytes), from, bytes, stream));
            REQUIRE_OK(gpurun_memset(from, 0x5a, bytes, stream));
            REQUIRE_OK(gpurun_memset(into, 0x5a, bytes, stream));
        });
        for (int32_t run = 1; run <= 2; run++) {
            std::vector<int32_t> own(count + 1), sums(count), largest(count);
            for (size_t i = 0; i < count; i++) {
                const auto base = static_cast<int32_t>(i % 997) * run;
                own[i + 1] = base + rank();
                sums[i] = base * size() + size() * (size() - 1) / 2;
                largest[i] = rank() == size() - 1 ? base + size() - 1 : sums[i];
            }
            input.write(bytes_of(own));
            graph.launch(stream);
            stream.synchronize();
            const Bytes got = copy.read();
            CHECK(first_difference(got.data(), bytes_of(sums).data(), bytes) == -1);
            CHECK(first_difference(got.data() + bytes, bytes_of(largest).data(), bytes) == -1);
            CHECK(first_difference(got.data() + 2 * bytes, bytes_of(sums).data(), bytes) == -1);
        }
    }
}

// In pieces, the longest in several chunks (collective/contributions.hpp), of which the root gets messages: it can
// export no pinned memory.
TEST_CASE(
    "the root of a reduction in a graph takes what it gets of a chunk before others wait for it in the next one") {
    const Stream stream;
    const int ranks = size(), self = rank();
    if (ranks < 3 || ranks > 4 || !can_capture_collectives(stream))
        return;
    const size_t others = static_cast<size_t>(ranks) - 1;
    const size_t count = ((size_t{64} << 20) / (others + 1) * others + (size_t{1} << 20)) / sizeof(int32_t);
    Memory input(Kind::kDevice, count * sizeof(int32_t)), sum(Kind::kPinned, count * sizeof(int32_t));
    const Graph graph(stream, [&] {
        REQUIRE_OK(gpurun_reduce(input.get(), sum.get(), count, GPURUN_INT32, GPURUN_SUM, 0, kWorld, stream));
    });
    std::vector<int32_t> own(count), sums(count);
    for (int32_t run = 1; run <= 2; run++) {
        for (size_t i = 0; i < count; i++) {
            own[i] = static_cast<int32_t>(i % 997) * run + self;
            sums[i] = static_cast<int32_t>(i % 997) * run * ranks + ranks * (ranks - 1) / 2;
        }
        input.write(bytes_of(own));
        graph.launch(stream);
        stream.synchronize();
        if (self == 0)
            CHECK(first_difference(sum.read(), bytes_of(sums)) == -1);
        REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
    }
}

TEST_CASE("every type is reduced by every operation that it has") {
    Choices choices;
    CAPTURE(choices.seed());
    const Stream stream;
    for (int type = 1; type <= reference::kTypes; type++)
        for (int op = 1; op <= reference::kOps; op++) {
            if (!reference::has_meaning(op, type))
                continue;
            const Which which = kAll[choices.number() % std::size(kAll)];
            const size_t count = choices.one_of({size_t{1}, size_t{7}, size_t{301}});
            check({which, type, op, count, choices.manner(stream), choices.number()});
        }
}

TEST_CASE("every reduction is right at every length, in every order domain and memory, also in place") {
    Choices choices;
    CAPTURE(choices.seed());
    const Stream stream;
    for (const size_t count : {1u, 100u, 5003u, 40'009u, 300'007u})
        for (const Which which : kAll)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                for (const Form form : kForms) {
                    // With many ranks one of the large ones is enough: each rank computes what all contribute.
                    const size_t all = count * static_cast<size_t>(size() * size());
                    if (all > 1'500'000 && choices.number() % 4 != 0)
                        continue;
                    Manner manner = choices.manner(stream);
                    manner.domain = domain;
                    manner.form = form;
                    const int type =
                        choices.one_of({int{reference::kInt32}, int{reference::kFloat16}, int{reference::kFloat}});
                    check({which, type, reference::kSum, count, manner, choices.number()});
                }
}

TEST_CASE("a reduction in a stream follows what the stream does before, and comes before what it does then") {
    const Stream stream;
    constexpr size_t kCount = 3000;
    const Memory buffer(Kind::kDevice, kCount * sizeof(int32_t));
    std::vector<std::vector<int32_t>> sources(20), results(20);
    for (size_t round = 0; round < sources.size(); round++) {
        for (size_t i = 0; i < kCount; i++)
            sources[round].push_back(static_cast<int32_t>(i * round) + rank());
        results[round].resize(kCount);
        REQUIRE_OK(gpurun_memcpy(buffer.get(), sources[round].data(), buffer.size(), stream));
        REQUIRE_OK(gpurun_allreduce(GPURUN_IN_PLACE, buffer.get(), kCount, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
        REQUIRE_OK(gpurun_memcpy(results[round].data(), buffer.get(), buffer.size(), stream));
        REQUIRE_OK(gpurun_memset(buffer.get(), 0xff, buffer.size(), stream));
    }
    stream.synchronize();
    size_t wrong = 0;
    for (size_t round = 0; round < sources.size(); round++)
        for (size_t i = 0; i < kCount; i++)
            wrong += results[round][i] != size() * static_cast<int32_t>(i * round) + size() * (size() - 1) / 2 ? 1 : 0;
    CHECK(wrong == 0);
}

TEST_CASE("rows of long reductions end, although the ranks have not the same to do") {
    constexpr size_t kCount = 1 << 20; // as many bytes as fill a GPU with the threads of one kernel
    const int rows = is_cuda() ? 10 : 2, calls = is_cuda() ? 30 : 3;
    const Stream stream;
    const Memory from(Kind::kDevice, kCount * sizeof(int32_t)), into(Kind::kDevice, kCount * sizeof(int32_t));
    std::vector<int32_t> values(kCount);
    for (size_t i = 0; i < kCount; i++)
        values[i] = static_cast<int32_t>(i) * (rank() + 1);
    REQUIRE_OK(gpurun_memcpy(from.get(), values.data(), from.size(), stream));
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < calls; i++)
            REQUIRE_OK(gpurun_scan(from.get(), into.get(), kCount, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
        stream.synchronize();
    }
    REQUIRE_OK(gpurun_memcpy(values.data(), into.get(), into.size(), stream));
    stream.synchronize();
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; i++)
        wrong += values[i] != static_cast<int32_t>(i) * (rank() + 1) * (rank() + 2) / 2 ? 1 : 0;
    CHECK(wrong == 0);
}

TEST_CASE("reductions of nothing need no buffer") {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        REQUIRE_OK(gpurun_allreduce(nullptr, nullptr, 0, GPURUN_FLOAT, GPURUN_SUM, kWorld, domain));
        REQUIRE_OK(gpurun_reduce(nullptr, nullptr, 0, GPURUN_FLOAT, GPURUN_SUM, size() - 1, kWorld, domain));
        REQUIRE_OK(gpurun_scan(nullptr, nullptr, 0, GPURUN_FLOAT, GPURUN_SUM, kWorld, domain));
        REQUIRE_OK(gpurun_reduce_scatter_block(nullptr, nullptr, 0, GPURUN_FLOAT, GPURUN_SUM, kWorld, domain));
    }
}

TEST_CASE("several reductions are under way at once, on several streams") {
    constexpr size_t kCount = 20'000;
    const Stream one, other;
    const gpurun_stream domains[] = {one, GPURUN_HOST, other};
    std::vector<std::vector<int32_t>> sources(9), results(9);
    std::vector<gpurun_request> requests(9, GPURUN_REQUEST_NULL);
    for (size_t i = 0; i < requests.size(); i++) {
        sources[i].assign(kCount, static_cast<int32_t>(i) + rank());
        results[i].resize(kCount);
        REQUIRE_OK(gpurun_iallreduce(sources[i].data(), results[i].data(), kCount, GPURUN_INT32, GPURUN_MAX, kWorld,
                                     domains[i % 3], &requests[i]));
    }
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
    for (size_t i = 0; i < requests.size(); i++)
        CHECK(results[i] == std::vector<int32_t>(kCount, static_cast<int32_t>(i) + size() - 1));
}

// What does not fit into the root's mailbox is read where it is. On a GPU that many ranks share all of it has to find
// room: this had hung with four ranks on each of two.
TEST_CASE("ranks that are many reductions ahead of their root do not hold it up") {
    constexpr size_t kCount = 32 * 1024;
    constexpr int kRounds = 200, kAhead = 50;
    const Stream stream;
    Memory send(Kind::kDevice, kCount * sizeof(int32_t)), recv(Kind::kDevice, kCount * sizeof(int32_t));
    send.write(bytes_of(std::vector<int32_t>(kCount, rank() + 1)));
    for (int round = 1; round <= kRounds; round++) {
        REQUIRE_OK(gpurun_reduce(send.get(), recv.get(), kCount, GPURUN_INT32, GPURUN_SUM, 0, kWorld, stream));
        if (round % kAhead == 0)
            stream.synchronize();
    }
    const std::vector<int32_t> sums(kCount, size() * (size() + 1) / 2);
    if (rank() == 0)
        CHECK(first_difference(recv.read().data(), reinterpret_cast<const uint8_t*>(sums.data()),
                               kCount * sizeof(int32_t)) == -1);
}

TEST_CASE("ranks that give different counts are told so, and nobody waits for ever") {
    if (size() < 2)
        return;
    std::array<int32_t, 8> numbers{}, sums{};
    const size_t count = rank() == 0 ? 6 : 5;
    const gpurun_status status =
        gpurun_allreduce(numbers.data(), sums.data(), count, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST);
    CHECK(status == GPURUN_ERR_COLLECTIVE);
    CHECK(sums[6] == 0);
    const int32_t one = 1;
    int32_t all = 0;
    REQUIRE_OK(gpurun_allreduce(&one, &all, 1, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST));
    CHECK(all == size());
}

TEST_CASE("a graph reduces what its buffers have when it runs") {
    const Stream stream;
    if (!can_capture_collectives(stream))
        return;
    for (int turn = 0; turn < 6; turn++) {
        const size_t count = turn < 2 ? 5 : turn < 4 ? 3000 : 100'000;
        const Kind kind = turn % 2 == 0 ? Kind::kDevice : Kind::kPinned;
        CAPTURE(count);
        CAPTURE(name(kind));
        const size_t bytes = count * sizeof(int32_t);
        Memory send(kind, bytes), recv(kind, bytes), prefix(kind, bytes);
        const Graph graph(stream, [&] {
            REQUIRE_OK(gpurun_allreduce(send.get(), recv.get(), count, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
            REQUIRE_OK(gpurun_scan(send.get(), prefix.get(), count, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
            REQUIRE_OK(
                gpurun_allreduce(GPURUN_IN_PLACE, prefix.get(), count, GPURUN_INT32, GPURUN_MAX, kWorld, stream));
        });
        for (int32_t run = 1; run <= 4; run++) {
            const std::vector<int32_t> own(count, run * (rank() + 1));
            send.write(bytes_of(own));
            graph.launch(stream);
            stream.synchronize();
            const std::vector<int32_t> sums(count, run * size() * (size() + 1) / 2);
            for (const Memory* each : {&recv, &prefix}) // the last rank's prefix is the sum, and the maximum
                CHECK(first_difference(each->read().data(), reinterpret_cast<const uint8_t*>(sums.data()), bytes) ==
                      -1);
        }
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::reductions
