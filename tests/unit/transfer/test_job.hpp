// Two ranks of a job, or one, in this process: each has an emulated device, resources, and a peer for each rank of the
// job, reached by a channel that does what the test says (intercepted_channel.hpp).
#pragma once

#include "intercepted_channel.hpp"
#include "scripted_device.hpp"

#include "device/device.hpp"
#include "platform/job_segment.hpp"
#include "support/unit.hpp"
#include "transfer/protocols.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::test {

struct Setting {
    base::Settings settings{};
    bool one_device = false; // of both
    bool mps = true;         // with one device
    std::string peer_access = "all";
    bool core_for_each_rank = true;
    platform::TraceBuffer* trace = nullptr;
};

inline Setting with_fence(base::FenceKind fence) {
    Setting setting;
    setting.settings.fence = fence;
    return setting;
}

class TestRank {
  public:
    TestRank(const platform::JobSegment& job, uint32_t self, const Setting& setting);
    // When all have published themselves.
    void connect(const std::vector<TestRank*>& all);
    ~TestRank();

    transfer::Peer& peer(uint32_t rank) { return *peers_[rank]; }
    InterceptedChannel& channel(uint32_t rank) { return static_cast<InterceptedChannel&>(peer(rank).channel()); }
    transfer::Resources& resources() { return *resources_; }
    transfer::Pools& pools() { return resources_->pools; }

    // Buffers of `bytes`, in the host's order until they are put on a stream. They live as long as the rank.
    transfer::Operand pageable(size_t bytes);
    transfer::Operand pinned(size_t bytes);
    transfer::Operand on_device(size_t bytes);
    transfer::Operand ordered(size_t bytes); // memory that cannot be exported
    // The same buffer, in the order of a new stream, or of that one.
    transfer::Operand on_stream(transfer::Operand operand);
    static transfer::Operand on_stream(transfer::Operand operand, device::Stream stream);

    // Writes the pattern with this number, and reads what is there; both at once, by a stream of their own.
    void fill(const transfer::Operand& operand, int pattern);
    std::vector<std::byte> contents(const transfer::Operand& operand);
    static std::vector<std::byte> pattern(size_t bytes, int pattern);
    // The same in the operand's order.
    void fill_in_order(const transfer::Operand& operand, int pattern);
    std::vector<std::byte> contents_in_order(const transfer::Operand& operand);

    // Takes a message that has arrived, or says false: then it is kept.
    using Match = std::function<bool(transfer::Peer& source, const InterceptedChannel::Posted& message)>;
    Match match;
    std::deque<InterceptedChannel::Posted> kept; // of any source
    // What has come is dispatched, and whatever can move moves. True if anything has changed.
    bool progress();
    // Of that, what has come is dispatched, and nothing launched.
    void poll_all() {
        for (const auto& each : peers_)
            (void)poll(*each);
    }
    // The peer has died, and the job segment says so: what waits for it fails.
    void lose(uint32_t rank);
    // Streams of this rank in which a message was cut short by a death, whatever its call has said.
    std::vector<device::Stream> lost_streams;
    // Nothing that this rank's device signals is seen by others from now on, as if it had been taken apart; what others
    // signal is not seen here. Then all waits end.
    void isolate();
    void release();
    // What is still out, or under way: nothing, if all messages have ended.
    std::string left();

    // The internal stream that is given next.
    device::Stream next_internal();
    bool idle(device::Stream stream) { return must(device->real().query(stream)); }

  private:
    std::deque<std::vector<std::byte>> pageable_; // longer than streams that write there

  public:
    const platform::JobSegment& job;
    const uint32_t self;
    const Setting setting;
    std::unique_ptr<ScriptedDevice> device;

  private:
    bool poll(transfer::Peer& peer);
    bool advance_moving();
    void note_lost_streams(transfer::Peer& peer, const transfer::DependentStreams& streams, transfer::Edge edge,
                           transfer::Direction direction);
    size_t told() const;
    void copy_at_once(void* destination, const void* source, size_t bytes);

    device::Stream copies_; // of the test's
    device::RunLog runs_;
    std::optional<transfer::Probe> probe_;
    std::optional<transfer::Workspace> workspace_;
    transfer::ProcessShare process_;
    std::unique_ptr<transfer::Resources> resources_;
    std::vector<std::unique_ptr<transfer::Peer>> peers_;
};

class TestJob {
  public:
    TestJob(uint32_t ranks, const Setting& setting);
    TestRank& rank(uint32_t rank) { return *ranks_[rank]; }
    // The oldest record that `from` has posted arrives at `to`. False if there is none.
    bool deliver(uint32_t from, uint32_t to);

    platform::JobSegment segment;

  private:
    std::vector<std::unique_ptr<TestRank>> ranks_;
};

// Keeps a stream from going on, and no host function.
class HeldStream {
  public:
    HeldStream(device::Device& device, device::Stream stream);
    ~HeldStream();
    HeldStream(const HeldStream&) = delete;
    HeldStream& operator=(const HeldStream&) = delete;
    void open();

  private:
    device::Device& device_;
    device::Stream stream_;
    device::Counter* opened_;
};

// What must come, within a time that is far longer than it takes.
template <typename Condition>
bool comes_true(const Condition& condition, int64_t within_ns = 10'000'000'000);

} // namespace gpurun::test

#include "platform/clock.hpp"

#include <thread>

template <typename Condition>
bool gpurun::test::comes_true(const Condition& condition, int64_t within_ns) {
    const int64_t end_ns = platform::now_ns() + within_ns;
    while (!condition()) {
        if (platform::now_ns() > end_ns)
            return false;
        std::this_thread::yield();
    }
    return true;
}
