// Several messages of graphs that are put and taken in one operation.
//
// As in channels.cpp, nothing is allocated or waited for while something waits, and streams go first.
#include "line.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace gpurun::conformance::channel_exchanges {

TEST_SUITE_BEGIN("channels");

namespace {

constexpr unsigned kRuns = 2 * kChannelPlaces + 1;    // each place is used again
constexpr device::ExchangeBlocks kBlocks = {128, 33}; // with several lanes each
using Lengths = std::vector<size_t>;

// The messages of one direction, one behind the other at each side, some bytes apart and at odd addresses.
class Direction {
  public:
    explicit Direction(const Lengths& lengths) {
        for (const size_t bytes : lengths) {
            lines_.emplace_back(bytes);
            at_.push_back(total_);
            total_ += bytes + kApart;
        }
        source_.emplace(kRuns * (total_ + 1));
        target_.emplace(kRuns * (total_ + 1));
    }
    std::vector<device::ChannelPut> puts(unsigned run) const {
        std::vector<device::ChannelPut> all;
        for (size_t i = 0; i < lines_.size(); ++i)
            all.push_back({lines_[i].source(), source_->get() + run * total_ + at_[i]});
        return all;
    }
    std::vector<device::ChannelTake> takes(unsigned run) const {
        std::vector<device::ChannelTake> all;
        for (size_t i = 0; i < lines_.size(); ++i)
            all.push_back({lines_[i].target(), target_->get() + run * total_ + at_[i], lines_[i].bytes()});
        return all;
    }
    void prepare(unsigned variant) const {
        write(source_->get(), pattern(kRuns * total_, variant));
        write(target_->get(), Bytes(kRuns * total_, kUntouched));
    }
    // Nothing but the messages has been written.
    void check(unsigned variant) const {
        Bytes expected(kRuns * total_, kUntouched);
        const Bytes content = pattern(kRuns * total_, variant);
        for (unsigned run = 0; run < kRuns; ++run)
            for (size_t i = 0; i < lines_.size(); ++i)
                std::copy_n(content.begin() + static_cast<ptrdiff_t>(run * total_ + at_[i]), lines_[i].bytes(),
                            expected.begin() + static_cast<ptrdiff_t>(run * total_ + at_[i]));
        CHECK(read(target_->get(), kRuns * total_) == expected);
        for (const Line& each : lines_)
            each.check_runs(kRuns, kRuns);
    }
    const Line& line(size_t i) const { return lines_[i]; }

  private:
    static constexpr size_t kApart = 3;

    std::deque<Line> lines_;
    std::vector<size_t> at_;
    size_t total_ = 0;
    std::optional<Memory> source_, target_;
};

void exchange(const std::vector<device::ChannelPut>& puts, const std::vector<device::ChannelTake>& takes,
              device::Stream stream) {
    REQUIRE_OK(subject().channels()->channel_exchange(puts, takes, kBlocks, stream));
}

} // namespace

TEST_CASE("messages of several lengths are put and taken in one operation, by both sides at the same time") {
    const Lengths mixed = {0, 1, 8, 4095, 4096, 4097, 65536, 300'001};
    const Lengths small(device::kMostMet, 8);
    const Lengths large = {kLargestInChannel, 8, kLargestInChannel}; // of more lanes than an operation has blocks
    for (const auto& sent : {std::pair(mixed, mixed), std::pair(small, small), std::pair(large, Lengths{8}),
                             std::pair(Lengths{8}, mixed), std::pair(large, large)}) {
        CAPTURE(sent.first.size());
        CAPTURE(sent.second.size());
        const Direction there(sent.first), back(sent.second);
        const Stream one, other;
        std::vector<Graph> ones, others;
        for (unsigned run = 0; run < kRuns; ++run) {
            ones.emplace_back(one, [&](device::Stream in) { exchange(there.puts(run), back.takes(run), in); });
            others.emplace_back(other, [&](device::Stream in) { exchange(back.puts(run), there.takes(run), in); });
        }
        there.prepare(1);
        back.prepare(2);
        for (unsigned run = 0; run < kRuns; ++run) {
            ones[run].launch(one);
            others[run].launch(other);
        }
        one.finish();
        other.finish();
        there.check(1);
        back.check(2);
    }
}

TEST_CASE("what is only put, or only taken, in one operation goes with what is so one by one") {
    for (const bool puts_together : {false, true}) {
        CAPTURE(puts_together);
        const Direction there({0, 8, 5000, 65536});
        const Stream sender, receiver;
        const auto put = [&](unsigned run, device::Stream in) {
            if (puts_together)
                return exchange(there.puts(run), {}, in);
            for (const device::ChannelPut& each : there.puts(run))
                REQUIRE_OK(subject().channels()->channel_put(each.channel, each.source, in));
        };
        const auto take = [&](unsigned run, device::Stream in) {
            if (!puts_together)
                return exchange({}, there.takes(run), in);
            for (const device::ChannelTake& each : there.takes(run))
                REQUIRE_OK(subject().channels()->channel_take(each.channel, each.destination, each.bytes, in));
        };
        std::vector<Graph> puts, takes;
        for (unsigned run = 0; run < kRuns; ++run) {
            puts.emplace_back(sender, [&](device::Stream in) { put(run, in); });
            takes.emplace_back(receiver, [&](device::Stream in) { take(run, in); });
        }
        there.prepare(3);
        for (unsigned run = 0; run < kRuns; ++run) {
            takes[run].launch(receiver);
            puts[run].launch(sender);
        }
        sender.finish();
        receiver.finish();
        there.check(3);
    }
}

TEST_CASE("messages from a side to itself are put before they are taken in the same operation") {
    const Direction self({8, 65536, kLargestInChannel});
    const Stream stream;
    std::vector<Graph> runs;
    for (unsigned run = 0; run < kRuns; ++run)
        runs.emplace_back(stream, [&](device::Stream in) { exchange(self.puts(run), self.takes(run), in); });
    self.prepare(4);
    for (const Graph& each : runs)
        each.launch(stream);
    stream.finish();
    self.check(4);
}

TEST_CASE("of a message that never comes, since its source has died, nothing is taken; the others are") {
    constexpr size_t kBytes = 5000;
    const Direction there({kBytes, kBytes});
    const Stream sender, receiver;
    const Graph put(sender, [&](device::Stream in) {
        const device::ChannelPut first = there.puts(0)[0];
        REQUIRE_OK(subject().channels()->channel_put(first.channel, first.source, in));
    });
    const Graph take(receiver, [&](device::Stream in) { exchange({}, there.takes(0), in); });
    there.prepare(5);
    take.launch(receiver);
    put.launch(sender);
    sender.finish();
    there.line(1).lose_source();
    receiver.finish();
    CHECK(there.line(0).cut_at_target() == 0);
    CHECK(there.line(1).cut_at_target() == 1);
    const auto takes = there.takes(0);
    const Bytes content = pattern(kBytes, 5);
    CHECK(read(static_cast<std::byte*>(takes[0].destination), kBytes) == content);
    CHECK(read(static_cast<std::byte*>(takes[1].destination), kBytes) == Bytes(kBytes, kUntouched));
}

TEST_CASE("more messages than one operation may have are refused") {
    if (!is_emulated())
        return; // CUDA's kernels are launched by what keeps to it
    const Direction there(Lengths(device::kMostMet + 1, 8));
    const Stream stream;
    CHECK(subject().channels()->channel_exchange(there.puts(0), {}, kBlocks, stream).error().status ==
          base::Status::kArgument);
    CHECK(subject().channels()->channel_exchange({}, there.takes(0), kBlocks, stream).error().status ==
          base::Status::kArgument);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::channel_exchanges
