// The schedules of collectives with their data, carried out by a model.
#include "collective_model.hpp"
#include "comm/collective/allreduce.hpp"
#include "comm/collective/bcast.hpp"
#include "comm/collective/gather.hpp"
#include "comm/collective/reduce_scatter.hpp"
#include "comm/collective/scan.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using base::Collective;
using comm::Parts;
using comm::Rank;
using comm::Schedule;
using gpurun::test::content_of;
using gpurun::test::kUntouched;
using Kind = Schedule::Step::Kind;
using Model = gpurun::test::CollectiveModel;
namespace reference = gpurun::test::reference;
using reference::Content;

namespace {

struct Case {
    int type, op;
    size_t count;
    bool in_place;
};

base::Reduction reduction_of(const Case& of, int size) {
    const bool average = of.op == reference::kAvg;
    return {static_cast<base::Type>(of.type), average ? base::Op::kSum : static_cast<base::Op>(of.op),
            average ? static_cast<uint32_t>(size) : 0};
}

constexpr Case kCases[] = {
    {reference::kInt32, reference::kSum, 1, false},        {reference::kInt32, reference::kProd, 17, true},
    {reference::kFloat, reference::kAvg, 1000, false},     {reference::kFloat16, reference::kSum, 1000, true},
    {reference::kComplexDouble, reference::kSum, 7, true}, {reference::kBfloat16, reference::kAvg, 3001, false},
    {reference::kInt64, reference::kAvg, 5003, true},      {reference::kDoubleInt, reference::kMinloc, 40'001, false},
    {reference::kUint8, reference::kBxor, 300'007, true},
};

// Every rank's operands and where its result comes: the same buffer, in place.
struct Whole {
    Whole(Model& model, int size, const Case& of) {
        const size_t bytes = of.count * reference::bytes_of(of.type);
        for (int rank = 0; rank < size; ++rank) {
            contents.push_back(reference::values(of.type, of.count, static_cast<uint64_t>(rank) + 1));
            inputs.push_back(model.buffer(rank, contents.back()));
            results.push_back(of.in_place ? inputs.back() : model.buffer(rank, Content(bytes, kUntouched)));
        }
    }
    std::vector<Content> first(int number) const { return {contents.begin(), contents.begin() + number}; }

    std::vector<Content> contents;
    std::vector<Schedule::Buffer> inputs, results;
};

template <typename Check>
void for_each_case(const Check& check) {
    for (int size = 1; size <= 19; size += size < 9 ? 1 : 5)
        for (const Case& each : kCases) {
            // Halves of more ranks than are combined at once are rounded in between.
            const bool is_half = each.type == reference::kFloat16 || each.type == reference::kBfloat16;
            if (size > 9 && (each.count > 4000 || (is_half && size > static_cast<int>(base::kMostOperands))))
                continue;
            CAPTURE(size);
            CAPTURE(base::info_of_type(each.type).name);
            CAPTURE(each.count);
            CAPTURE(each.in_place);
            check(size, each, static_cast<uint64_t>(size) * 100 + each.count);
        }
}

// Sums of floats in another order of operands are other sums.
bool keeps_order(const Case& of, int size) {
    const size_t bytes = of.count * reference::bytes_of(of.type);
    const comm::CollectiveShape shape{Collective::kAllreduce, size, bytes, comm::rounds_once(reduction_of(of, size))};
    return comm::choose_algorithm(shape) != comm::Algorithm::kDoubling || of.type < reference::kFloat16;
}

} // namespace

TEST_SUITE_BEGIN("collective schedules");

TEST_CASE("an all-reduce gives every rank the same, combined in the order of the ranks") {
    for_each_case([](int size, const Case& of, uint64_t seed) {
        Model model(Collective::kAllreduce, size, seed);
        const Whole whole(model, size, of);
        for (int rank = 0; rank < size; ++rank)
            comm::build_allreduce(model.schedule(rank),
                                  {reduction_of(of, size), whole.inputs[rank], whole.results[rank]});
        model.run();
        const Content expected = reference::reduced(of.type, of.op, whole.contents, static_cast<unsigned>(size));
        for (int rank = 0; rank < size; ++rank) {
            CHECK(reference::same(of.type, content_of(whole.results[rank]), content_of(whole.results[0])));
            if (keeps_order(of, size))
                CHECK(reference::same(of.type, content_of(whole.results[rank]), expected));
            if (!of.in_place)
                CHECK(content_of(whole.inputs[rank]) == whole.contents[static_cast<size_t>(rank)]);
        }
    });
}

TEST_CASE("an all-reduce of one rank gives it its own values, by whatever algorithm is asked for") {
    for (const comm::Algorithm each : {comm::Algorithm::kDirect, comm::Algorithm::kDoubling, comm::Algorithm::kPieces})
        for (const bool in_place : {false, true}) {
            Model model(Collective::kAllreduce, 1, 1);
            const Case of{reference::kInt32, reference::kSum, 100, in_place};
            const Whole whole(model, 1, of);
            comm::build_allreduce(model.schedule(0), {.reduction = reduction_of(of, 1),
                                                      .input = whole.inputs[0],
                                                      .result = whole.results[0],
                                                      .wish = {each}});
            model.run();
            CHECK(content_of(whole.results[0]) == whole.contents[0]);
        }
}

TEST_CASE("a large all-reduce sends each rank's bytes about twice, and a small one takes few messages") {
    for (const size_t count : {size_t{1}, size_t{100'000}})
        for (int size = 3; size <= 16; ++size) {
            Model model(Collective::kAllreduce, size, 1);
            const Case of{reference::kInt32, reference::kSum, count, false};
            const Whole whole(model, size, of);
            for (int rank = 0; rank < size; ++rank)
                comm::build_allreduce(model.schedule(rank),
                                      {reduction_of(of, size), whole.inputs[rank], whole.results[rank]});
            const auto [messages, bytes] = model.most_sent();
            if (count == 1)
                CHECK(messages <= 5);
            else
                CHECK(bytes <= 2 * 4 * count);
        }
}

TEST_CASE("a broadcast in pieces gives every rank the buffer, and no rank sends or receives more than that") {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{1000}, size_t{20} << 20})
        for (int size = 1; size <= 6; ++size)
            for (const int root : {0, size - 1}) {
                if (bytes > 1000 && size != 4)
                    continue;
                CAPTURE(bytes);
                CAPTURE(size);
                CAPTURE(root);
                Model model(Collective::kBcast, size, 1);
                const Content content = Content(bytes, 0x5a);
                std::vector<Schedule::Buffer> buffers;
                for (int rank = 0; rank < size; ++rank) {
                    buffers.push_back(model.buffer(rank, rank == root ? content : Content(bytes, kUntouched)));
                    comm::build_bcast(model.schedule(rank), {buffers.back(), Rank{root}, {comm::Algorithm::kPieces}});
                }
                model.run();
                for (const Schedule::Buffer& each : buffers)
                    CHECK(content_of(each) == content);
                CHECK(model.most_sent().second <= bytes + 256 * static_cast<size_t>(size)); // pieces are aligned
            }
}

TEST_CASE("an algorithm that was asked for is taken where it can be") {
    const auto chosen = [](Collective collective, bool half, comm::Algorithm asked_for) {
        return comm::choose_algorithm({collective, 8, 1 << 20, half, false, {asked_for}});
    };
    for (const comm::Algorithm each : {comm::Algorithm::kDirect, comm::Algorithm::kDoubling, comm::Algorithm::kPieces})
        CHECK(chosen(Collective::kAllreduce, false, each) == each);
    CHECK(chosen(Collective::kAllreduce, true, comm::Algorithm::kDirect) == comm::Algorithm::kDirect);
    CHECK(chosen(Collective::kAllreduce, true, comm::Algorithm::kDoubling) == comm::Algorithm::kPieces);
    CHECK(chosen(Collective::kReduce, false, comm::Algorithm::kDoubling) == comm::Algorithm::kPieces);
    CHECK(chosen(Collective::kReduce, false, comm::Algorithm::kTree) == comm::Algorithm::kPieces);
    CHECK(chosen(Collective::kBcast, false, comm::Algorithm::kTree) == comm::Algorithm::kTree);
}

TEST_CASE("a reduce gives the root the reduction, and touches no other rank's memory") {
    for_each_case([](int size, const Case& of, uint64_t seed) {
        for (const int root : {0, size - 1}) {
            Model model(Collective::kReduce, size, seed);
            const Whole whole(model, size, of);
            for (int rank = 0; rank < size; ++rank)
                comm::build_reduce(model.schedule(rank),
                                   {reduction_of(of, size), whole.inputs[rank],
                                    rank == root ? whole.results[rank] : Schedule::Buffer{}},
                                   Rank{root});
            model.run();
            CHECK(reference::same(of.type, content_of(whole.results[root]),
                                  reference::reduced(of.type, of.op, whole.contents, static_cast<unsigned>(size))));
            for (int rank = 0; rank < size; ++rank)
                CHECK((rank == root || content_of(whole.inputs[rank]) == whole.contents[static_cast<size_t>(rank)]));
        }
    });
}

TEST_CASE("a scan gives each rank the reduction of the ranks up to it, an exclusive one of those before it") {
    for_each_case([](int size, const Case& of, uint64_t seed) {
        for (const bool exclusive : {false, true}) {
            Model model(exclusive ? Collective::kExscan : Collective::kScan, size, seed);
            const Whole whole(model, size, of);
            for (int rank = 0; rank < size; ++rank)
                comm::build_scan(model.schedule(rank), reduction_of(of, size), whole.inputs[rank], whole.results[rank],
                                 exclusive);
            model.run();
            for (int rank = 0; rank < size; ++rank) {
                const int contributors = exclusive ? rank : rank + 1;
                const Content got = content_of(whole.results[rank]);
                if (contributors == 0)
                    CHECK(got == (of.in_place ? whole.contents[0] : Content(got.size(), kUntouched)));
                else
                    CHECK(reference::same(of.type, got,
                                          reference::reduced(of.type, of.op, whole.first(contributors),
                                                             static_cast<unsigned>(contributors))));
            }
        }
    });
}

namespace {

// Parts of different lengths, some empty, that differ for each pair of ranks where `pairs`; in an order of their own.
size_t part_count(int from, int to, bool pairs) {
    return static_cast<size_t>((to * 5 + (pairs ? from * 3 : 0)) % 7) * 100;
}

struct Layout {
    std::vector<Parts::Part> parts;
    size_t bytes = 0;

    void add(size_t length) {
        parts.push_back({bytes, length});
        bytes += length + 8; // with a gap
    }
};

} // namespace

TEST_CASE("a reduce-scatter gives each rank its part of the reduction, of any length") {
    for_each_case([](int size, const Case& of, uint64_t seed) {
        if (of.count > 1000)
            return;
        const size_t element = reference::bytes_of(of.type);
        std::vector<Parts::Part> parts;
        size_t bytes = 0, longest = 0;
        for (int rank = 0; rank < size; ++rank) {
            const size_t length = part_count(0, rank, false) * element;
            parts.push_back({bytes, length});
            bytes += length;
            longest = std::max(longest, length);
        }
        Model model(Collective::kReduceScatter, size, seed);
        Case all = of;
        all.count = bytes / element;
        const Whole whole(model, size, all);
        for (int rank = 0; rank < size; ++rank)
            comm::build_reduce_scatter(
                model.schedule(rank), reduction_of(of, size), Parts::listed(whole.inputs[rank], parts),
                whole.results[rank].part(0, parts[static_cast<size_t>(rank)].bytes), longest, of.in_place);
        model.run();
        if (bytes == 0)
            return;
        const Content expected = reference::reduced(of.type, of.op, whole.contents, static_cast<unsigned>(size));
        for (int rank = 0; rank < size; ++rank) {
            const auto [offset, length] = parts[static_cast<size_t>(rank)];
            const auto first = expected.begin() + static_cast<ptrdiff_t>(offset);
            CHECK(reference::same(of.type, content_of(whole.results[rank].part(0, length)),
                                  Content(first, first + static_cast<ptrdiff_t>(length))));
        }
    });
}

TEST_CASE("parts are gathered, scattered and exchanged, each to its place, and gaps stay as they are") {
    for (int size = 1; size <= 9; ++size)
        for (const bool in_place : {false, true}) {
            CAPTURE(size);
            CAPTURE(in_place);
            const auto content = [](int from, int to, size_t length) {
                return reference::values(reference::kUint8, length, static_cast<uint64_t>(from * 100 + to));
            };
            Model model(Collective::kAllgatherv, size, static_cast<uint64_t>(size));
            std::vector<Schedule::Buffer> all;
            Layout layout;
            for (int from = 0; from < size; ++from)
                layout.add(part_count(from, 0, true));
            for (int rank = 0; rank < size; ++rank) {
                all.push_back(model.buffer(rank, Content(layout.bytes, kUntouched)));
                const Parts parts = Parts::listed(all.back(), layout.parts);
                const Content own = content(rank, 0, parts[rank].bytes);
                if (in_place)
                    std::copy(own.begin(), own.end(), reinterpret_cast<uint8_t*>(parts[rank].address));
                comm::build_allgather(model.schedule(rank),
                                      in_place ? std::nullopt : std::optional(model.buffer(rank, own)), parts);
            }
            model.run();
            Content expected(layout.bytes, kUntouched);
            for (int from = 0; from < size; ++from) {
                const auto [offset, length] = layout.parts[static_cast<size_t>(from)];
                const Content part = content(from, 0, length);
                std::copy(part.begin(), part.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
            }
            for (const Schedule::Buffer& each : all)
                CHECK(content_of(each) == expected);
        }
}

TEST_CASE("an all-to-all exchanges every part, also in place") {
    for (int size = 1; size <= 9; ++size)
        for (const bool in_place : {false, true}) {
            CAPTURE(size);
            CAPTURE(in_place);
            Model model(Collective::kAlltoallv, size, static_cast<uint64_t>(size));
            const auto length = [&](int from, int to) { // in place, what comes is as long as what goes
                return in_place ? part_count(std::min(from, to), std::max(from, to), true) : part_count(from, to, true);
            };
            const auto content = [&](int from, int to) {
                return reference::values(reference::kUint8, length(from, to), static_cast<uint64_t>(from * 100 + to));
            };
            std::vector<Schedule::Buffer> got;
            std::vector<Layout> layouts;
            for (int rank = 0; rank < size; ++rank) {
                Layout given, taken;
                for (int other = 0; other < size; ++other) {
                    given.add(length(rank, other));
                    taken.add(length(other, rank));
                }
                Content sent(given.bytes, kUntouched);
                for (int to = 0; to < size; ++to) {
                    const Content part = content(rank, to);
                    std::copy(part.begin(), part.end(),
                              sent.begin() + static_cast<ptrdiff_t>(given.parts[static_cast<size_t>(to)].offset));
                }
                const Schedule::Buffer from = model.buffer(rank, sent);
                got.push_back(in_place ? from : model.buffer(rank, Content(taken.bytes, kUntouched)));
                layouts.push_back(taken);
                if (in_place)
                    comm::build_alltoall_in_place(model.schedule(rank), Parts::listed(from, taken.parts));
                else
                    comm::build_alltoall(model.schedule(rank), Parts::listed(from, given.parts),
                                         Parts::listed(got.back(), taken.parts));
            }
            model.run();
            for (int rank = 0; rank < size; ++rank) {
                Content expected(layouts[static_cast<size_t>(rank)].bytes, kUntouched);
                for (int from = 0; from < size; ++from) {
                    const Content part = content(from, rank);
                    const size_t offset = layouts[static_cast<size_t>(rank)].parts[static_cast<size_t>(from)].offset;
                    std::copy(part.begin(), part.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
                }
                CHECK(content_of(got[static_cast<size_t>(rank)]) == expected);
            }
        }
}

TEST_CASE("a root gathers from all and scatters to all, whichever rank it is") {
    constexpr size_t kBytes = 1000;
    for (int size = 1; size <= 9; ++size)
        for (int root = 0; root < size; ++root)
            for (const bool in_place : {false, true}) {
                CAPTURE(size);
                CAPTURE(root);
                CAPTURE(in_place);
                const Content all = reference::values(reference::kUint8, kBytes * static_cast<size_t>(size), 5);
                const auto part_of = [&](int rank) {
                    const auto first = all.begin() + rank * static_cast<ptrdiff_t>(kBytes);
                    return Content(first, first + kBytes);
                };
                Model gather(Collective::kGather, size, 3), scatter(Collective::kScatter, size, 4);
                Schedule::Buffer gathered;
                std::vector<Schedule::Buffer> parts;
                for (int rank = 0; rank < size; ++rank) {
                    const bool stays = in_place && rank == root;
                    Content before(all.size(), kUntouched);
                    if (stays)
                        std::copy_n(part_of(rank).begin(), kBytes,
                                    before.begin() + rank * static_cast<ptrdiff_t>(kBytes));
                    const auto into = rank == root ? gather.buffer(rank, before) : Schedule::Buffer{};
                    if (rank == root)
                        gathered = into;
                    comm::build_gather(gather.schedule(rank),
                                       stays ? std::nullopt : std::optional(gather.buffer(rank, part_of(rank))),
                                       Parts::equal(into, kBytes), Rank{root});
                    const auto from = rank == root ? scatter.buffer(rank, all) : Schedule::Buffer{};
                    parts.push_back(scatter.buffer(rank, Content(kBytes, kUntouched)));
                    comm::build_scatter(scatter.schedule(rank), Parts::equal(from, kBytes),
                                        stays ? std::nullopt : std::optional(parts.back()), Rank{root});
                }
                gather.run();
                scatter.run();
                CHECK(content_of(gathered) == all);
                for (int rank = 0; rank < size; ++rank)
                    CHECK(content_of(parts[static_cast<size_t>(rank)]) ==
                          (in_place && rank == root ? Content(kBytes, kUntouched) : part_of(rank)));
            }
}

TEST_CASE("more than the scratch memory holds goes in segments") {
    constexpr int kSize = 3;
    const size_t count = comm::kMostScratchBytes / sizeof(int32_t) + 1000;
    Model model(Collective::kAllreduce, kSize, 1);
    const Case of{reference::kInt32, reference::kSum, count, false};
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(count * 4);
    const Schedule::Buffer buffer{memory.get(), count * 4, {}, {}};
    Schedule& schedule = model.schedule(0);
    comm::build_scan(schedule, reduction_of(of, kSize), buffer, buffer, false);
    CHECK(schedule.scratch_bytes() <= comm::kMostScratchBytes + 1024);
    Schedule& last = model.schedule(kSize - 1);
    comm::build_scan(last, reduction_of(of, kSize), buffer, buffer, false);
    CHECK(last.scratch_bytes() <= comm::kMostScratchBytes + 1024);
    int reductions = 0;
    for (const Schedule::Step& each : last.steps())
        reductions += each.kind == Kind::kReduce ? 1 : 0;
    CHECK(reductions == 3);
}

TEST_CASE("a long reduce takes no more scratch memory than there is for it") {
    constexpr int kSize = 3;
    const size_t bytes = 5 * comm::kMostScratchBytes;
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    const Schedule::Buffer buffer{memory.get(), bytes, {}, {}};
    Model model(Collective::kReduce, kSize, 1);
    for (int rank = 0; rank < kSize; ++rank) {
        Schedule& schedule = model.schedule(rank);
        comm::build_reduce(schedule,
                           {.reduction = {base::Type::kInt32, base::Op::kSum, 0},
                            .input = buffer,
                            .result = buffer,
                            .wish = {comm::Algorithm::kPieces}},
                           Rank{0});
        CHECK(schedule.scratch_bytes() <= comm::kMostScratchBytes + 1024);
    }
}

TEST_CASE("a long reduce in pieces gives the root all of them") {
    constexpr int kSize = 3;
    Model model(Collective::kReduce, kSize, 7);
    const Case of{reference::kUint8, reference::kSum, comm::kMostScratchBytes * 7 / 10 + 1001, false}; // two chunks
    const Whole whole(model, kSize, of);
    for (int rank = 0; rank < kSize; ++rank)
        comm::build_reduce(model.schedule(rank),
                           {.reduction = reduction_of(of, kSize),
                            .input = whole.inputs[rank],
                            .result = whole.results[rank],
                            .wish = {comm::Algorithm::kPieces}},
                           Rank{0});
    model.run();
    CHECK(reference::same(of.type, content_of(whole.results[0]),
                          reference::reduced(of.type, of.op, whole.contents, kSize)));
}

TEST_SUITE_END();
