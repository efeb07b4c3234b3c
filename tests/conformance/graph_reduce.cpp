// Reductions of graphs' messages, and channels that meet and part: several at a time, as the ranks of a collective do.
// All ranks are streams of this process, and every operation is captured.
#include "line.hpp"

#include "device/capability/fused_reduce.hpp"
#include "support/reduction_reference.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace gpurun::conformance::graph_reduce {

namespace reference = test::reference;
using device::Channel;
using device::GraphReduction;
using reference::Content;

namespace {

// Lines between all of some ranks, by source and target. Their counters are never given back, so a test has them once.
class Lines {
  public:
    explicit Lines(size_t ranks, size_t bytes = 0) : ranks_(ranks) {
        for (size_t i = 0; i < ranks * ranks; ++i)
            all_.emplace_back(bytes);
    }
    void clear(size_t bytes) {
        for (Line& each : all_)
            each.clear(bytes);
    }
    Line& operator()(size_t from, size_t to) { return all_[from * ranks_ + to]; }

  private:
    const size_t ranks_;
    std::deque<Line> all_;
};

// Each rank puts its buffer to all others, and reduces it with theirs in the order of the ranks.
class Ranks {
  public:
    Ranks(Lines& lines, size_t number, int type, size_t count, size_t skew, bool in_place)
        : type_(type), count_(count), bytes_(count * reference::bytes_of(type)), skew_(skew), in_place_(in_place),
          distance_((bytes_ + skew + 512) & ~size_t{255}), number_(number), lines_(lines),
          memory_(2 * number * distance_), streams_(number) {
        lines.clear(bytes_);
    }

    // What each rank does in every run.
    void capture(int op, uint32_t blocks) {
        graphs_.clear();
        for (size_t rank = 0; rank < number_; ++rank)
            graphs_.emplace_back(streams_[rank], [&](device::Stream stream) { enqueue(rank, op, blocks, stream); });
    }
    void fill(unsigned run) {
        contents_.clear();
        Bytes all(2 * number_ * distance_, kUntouched);
        for (size_t rank = 0; rank < number_; ++rank) {
            contents_.push_back(reference::values(type_, count_, 100 * run + 10 * number_ + rank));
            std::memcpy(all.data() + rank * distance_ + skew_, contents_[rank].data(), bytes_);
        }
        write(memory_.get(), all);
    }
    void launch(size_t rank) { graphs_[rank].launch(streams_[rank]); }
    void finish() {
        for (const Stream& each : streams_)
            each.finish();
    }
    // Nothing but the results has been written.
    void check(int op) {
        const Content expected = reference::reduced(type_, op, contents_, static_cast<uint32_t>(number_));
        for (size_t rank = 0; rank < number_; ++rank) {
            CAPTURE(rank);
            const std::byte* const from = result(rank);
            const Bytes got = read(from - skew_, bytes_ + skew_ + 1);
            Content values(bytes_);
            std::memcpy(values.data(), got.data() + skew_, bytes_);
            CHECK(reference::same(type_, values, expected));
            CHECK(got.back() == kUntouched);
            CHECK(std::count(got.begin(), got.begin() + static_cast<ptrdiff_t>(skew_), kUntouched) ==
                  static_cast<ptrdiff_t>(skew_));
        }
    }
    // The last run is told of with the next one.
    void check_runs(unsigned runs) {
        for (size_t from = 0; from < number_; ++from)
            for (size_t to = 0; to < number_; ++to)
                if (from != to)
                    lines_(from, to).check_runs(runs, runs, std::max(runs, 1U) - 1);
    }
    const Stream& stream(size_t rank) const { return streams_[rank]; }
    Line& line(size_t from, size_t to) { return lines_(from, to); }

  private:
    void enqueue(size_t rank, int op, uint32_t blocks, device::Stream stream) {
        std::vector<device::ChannelPut> puts;
        std::deque<Channel> channels;
        std::vector<GraphReduction::Operand> operands(number_);
        for (size_t other = 0; other < number_; ++other) {
            if (other == rank) {
                operands[rank].buffer = buffer(rank);
                continue;
            }
            puts.push_back({lines_(rank, other).source(), buffer(rank)});
            operands[other].channel = &channels.emplace_back(lines_(other, rank).target());
        }
        const bool average = op == reference::kAvg;
        const base::Reduction reduction{static_cast<base::Type>(type_),
                                        average ? base::Op::kSum : static_cast<base::Op>(op),
                                        average ? static_cast<uint32_t>(number_) : 0};
        REQUIRE_OK(subject().fused_reduce()->reduce_in_graph({reduction, count_, result(rank), puts, operands, blocks},
                                                             stream));
    }
    std::byte* buffer(size_t rank) const { return memory_.get() + rank * distance_ + skew_; }
    std::byte* result(size_t rank) const { return buffer(in_place_ ? rank : number_ + rank); }

    const int type_;
    const size_t count_, bytes_, skew_;
    const bool in_place_;
    const size_t distance_, number_;
    Lines& lines_;
    std::vector<Content> contents_;
    const Memory memory_;
    std::deque<Stream> streams_;
    std::vector<Graph> graphs_;
};

constexpr unsigned kRuns = 2 * kChannelPlaces + 1; // each place is used again
constexpr uint32_t kBlocks = 16;

} // namespace

TEST_SUITE_BEGIN("graph-reduce");

TEST_CASE("runs of graphs are reduced as they come, by every type and operation, at odd lengths and alignments") {
    Lines lines(2);
    for (int type = 1; type <= reference::kTypes; ++type)
        for (const size_t count : {1u, 3u, 1027u})
            for (const size_t skew : {size_t{0}, reference::bytes_of(type)}) {
                Ranks ranks(lines, 2, type, count, skew, count == 3);
                unsigned runs = 0;
                for (int op = 1; op <= reference::kOps; ++op) {
                    if (!reference::has_meaning(op, type))
                        continue;
                    CAPTURE(base::info_of_type(type).name);
                    CAPTURE(base::kOpNames[static_cast<size_t>(op)]);
                    CAPTURE(count);
                    CAPTURE(skew);
                    ranks.capture(op, kBlocks);
                    ranks.fill(runs++);
                    ranks.launch(0);
                    ranks.launch(1);
                    ranks.finish();
                    ranks.check(op);
                }
                ranks.check_runs(runs);
            }
}

TEST_CASE("several ranks reduce in every run, also in place, up to the largest message, however few blocks they have") {
    Lines lines(4);
    for (const size_t number : {2u, 3u, 4u})
        for (const size_t bytes : {size_t{8}, size_t{12}, size_t{4096}, size_t{4100}, size_t{65536}, kLargestInChannel})
            for (const bool in_place : {false, true})
                for (const uint32_t blocks : {1u, 3u, kBlocks}) {
                    if (is_emulated() && blocks != kBlocks)
                        continue; // it has none
                    CAPTURE(number);
                    CAPTURE(bytes);
                    CAPTURE(in_place);
                    CAPTURE(blocks);
                    Ranks ranks(lines, number, reference::kFloat, bytes / 4, 0, in_place);
                    ranks.capture(reference::kSum, blocks);
                    for (unsigned run = 0; run < kRuns; ++run) {
                        ranks.fill(run);
                        for (size_t rank = 0; rank < number; ++rank)
                            ranks.launch((rank + run) % number);
                        ranks.finish();
                        ranks.check(reference::kSum);
                    }
                    ranks.check_runs(kRuns);
                }
}

TEST_CASE("a reduction puts at once, and holds up its stream until all has come") {
    Lines lines(3);
    Ranks ranks(lines, 3, reference::kFloat, 1000, 0, false);
    ranks.capture(reference::kSum, kBlocks);
    ranks.fill(0);
    ranks.launch(0);
    ranks.launch(1);
    watch();
    CHECK_FALSE(ranks.stream(0).done());
    CHECK_FALSE(ranks.stream(1).done());
    ranks.launch(2); // for which nobody waits
    ranks.finish();
    ranks.check(reference::kSum);
    ranks.check_runs(1);
}

TEST_CASE("a reduction ends when a source has died, takes nothing of it, and goes on to the next run") {
    Lines lines(2);
    Ranks ranks(lines, 2, reference::kFloat, 1000, 0, false);
    ranks.capture(reference::kSum, kBlocks);
    ranks.fill(0);
    ranks.launch(0);
    watch();
    CHECK_FALSE(ranks.stream(0).done());
    ranks.line(1, 0).lose_source();
    ranks.stream(0).finish();
    CHECK(ranks.line(1, 0).cut_at_target() == 1);
    ranks.line(1, 0).find_source();
}

TEST_CASE("what meets has put all of its signals before it waits for one, and parts when all are taken") {
    constexpr size_t kNumber = 3;
    constexpr uint64_t kSignalRuns = 4;
    Lines lines(kNumber, 0);
    const auto others = [&](size_t rank, bool sources) {
        std::vector<Channel> all;
        for (size_t other = 0; other < kNumber; ++other)
            if (other != rank)
                all.push_back(sources ? lines(other, rank).target() : lines(rank, other).source());
        return all;
    };
    const Memory flags(kNumber * sizeof(uint64_t));
    write(flags.get(), Bytes(kNumber * sizeof(uint64_t)));
    std::deque<Stream> streams(kNumber);
    std::vector<Graph> meetings, partings;
    for (size_t rank = 0; rank < kNumber; ++rank) {
        meetings.emplace_back(streams[rank], [&](device::Stream in) {
            REQUIRE_OK(subject().channels()->channel_meet(others(rank, false), others(rank, true), in));
        });
        partings.emplace_back(streams[rank], [&](device::Stream in) {
            REQUIRE_OK(subject().channels()->channel_part(others(rank, true), others(rank, false), in));
        });
    }
    for (uint64_t run = 0; run < kSignalRuns; ++run) {
        for (size_t rank = 0; rank + 1 < kNumber; ++rank)
            meetings[rank].launch(streams[rank]);
        watch();
        CHECK_FALSE(streams[0].done());
        CHECK_FALSE(streams[1].done());
        meetings[kNumber - 1].launch(streams[kNumber - 1]);
        for (const Stream& each : streams)
            each.finish();
        partings[0].launch(streams[0]);
        watch();
        CHECK_FALSE(streams[0].done());
        for (size_t rank = 1; rank < kNumber; ++rank)
            partings[rank].launch(streams[rank]);
        for (const Stream& each : streams)
            each.finish();
    }
    for (size_t from = 0; from < kNumber; ++from)
        for (size_t to = 0; to < kNumber; ++to)
            if (from != to)
                lines(from, to).check_runs(kSignalRuns, kSignalRuns);
}

TEST_CASE("what waits for a peer that has died meets and parts all the same, and says so") {
    Lines lines(2, 0);
    const Stream stream;
    const Channel put[] = {lines(0, 1).source()};
    const Channel awaited[] = {lines(1, 0).target()};
    const Graph meeting(stream,
                        [&](device::Stream in) { REQUIRE_OK(subject().channels()->channel_meet(put, awaited, in)); });
    const Graph parting(stream,
                        [&](device::Stream in) { REQUIRE_OK(subject().channels()->channel_part(awaited, put, in)); });
    meeting.launch(stream);
    watch();
    CHECK_FALSE(stream.done());
    lines(1, 0).lose_source();
    stream.finish();
    CHECK(lines(1, 0).cut_at_target() == 1);
    parting.launch(stream);
    watch();
    CHECK_FALSE(stream.done());
    lines(0, 1).lose_target();
    stream.finish();
    CHECK(lines(0, 1).cut_at_source() == 1);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::graph_reduce
