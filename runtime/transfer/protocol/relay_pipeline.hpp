// The pipeline of the relay paths: a message crosses in chunks through a window of buffers, at least three in flight.
//
// A window's buffers are used in turn: chunk n (counted over all messages that have used the window) uses buffer
// n % kRelayBuffers, whose slot's value is the number of times that it has been used. The source fills a buffer once
// its last chunk was drained (edge backward) and signals forward; the target drains it after that and signals backward.
// On streams nobody waits: each side enqueues its part as soon as the other side is known to have enqueued what it
// waits for (the totals relay_filled, relay_drained), so the two calls walk through the message hand in hand.
//
// Between two copies in one stream an engine stands still, for the signal of the one and the wait of the other. So each
// side of a bounced message enqueues its chunks in kRelayStreams streams alternately: the engine copies one piece while
// the edges of another are under way. (Copies to host memory take so long that two at once only delay each other. And
// ranks that share a device share its queues, in which the waits of more streams delay all: 4 MiB of pinned memory took
// 580 us so, and 230 in one stream.) The operand's own stream has the last chunk, and that chunk's signal comes behind
// all the others: the message ends there as if there were no other stream, and whatever the others wait for is noted as
// that stream's. They are internal streams that start behind the operand's, borrowed until the last chunk is enqueued.
// Copies to and from host memory have one such stream beside them, for their signals but the last: the engine goes on
// with the next chunk.
//
// In which stream a buffer's slot is signalled changes from message to message. The edges alone order its uses: a chunk
// is enqueued once the other side has enqueued its part of the buffer's last one, and runs behind that. So each value
// is signalled behind the one before, in whichever streams, and the latest record of an event is the one that is
// awaited. Poison ends waits early, but then nobody is left who awaits what follows; and within a message a slot keeps
// to one stream.
//
// One message at a time moves through a window, in the order of the grants (relay.hpp).
#pragma once

#include "transfer/fence/completion_point.hpp"
#include "transfer/message_trace.hpp"
#include "transfer/peer.hpp"

#include <array>
#include <memory>
#include <optional>

namespace gpurun::transfer {

class RelayPart;

constexpr size_t kRelayStreams = 2; // of a side, that its chunks take alternately
static_assert(platform::kRelayBuffers % kRelayStreams == 0, "within a message, each buffer has one stream");
// Less is not worth the events that part streams and join them.
constexpr uint64_t kLeastChunksInStreams = 4;

// Where the buffers lie: pinned memory that the channel gives (staged, host, self), or memory on the source's device
// which the target maps (bounce).
enum class RelayPool : uint32_t { kHost = 0, kDevice = 1 };

struct RelayPlan {
    RelayPool pool = RelayPool::kHost;
    uint32_t window = 0;
    uint64_t bytes = 0; // that move: less than the envelope's when the receive is shorter
    uint64_t chunk_bytes = 1;
    uint64_t chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
};

// Who copies a message's chunks into the buffers and out of them, from which follows how large these are best.
enum class Copiers : uint8_t {
    kCpus,         // a chunk should stay in the cache on its way from one CPU to the other
    kCpuAndStream, // the stream has copied a chunk long before the CPU has
    kStreams,      // a chunk costs either side's host some 10 us, in which a stream copies half a megabyte over the bus
    kWithinDevice, // the source copies within its device, in next to no time: one chunk, while it fits a buffer
};
RelayPlan plan_relay(RelayPool pool, Copiers copiers, uint64_t bytes, uint64_t largest_chunk);
// The same between nodes; behind another message, or alone.
RelayPlan plan_far_relay(uint64_t bytes, uint64_t largest_chunk, bool is_behind);

// Either half of one message. step() enqueues or moves what can be, and says whether all has been.
class RelayPipeline {
  public:
    enum class Role { kFill, kDrain };

    // `times`, if anybody wants to know, of the whole: from its first chunk to its last.
    RelayPipeline(Resources& resources, Peer& peer, Role role, const RelayPlan& plan, device::Times* times)
        : resources_(resources), peer_(peer), role_(role), plan_(plan), times_(times) {}

    // REQUIRES: this is the first message of the window on its side; operand.by_cpu() or operand.stream is set.
    base::Result<bool> step(const Operand& operand);
    // Why the operand could not be copied, if so: step() says false, and enqueues nothing more until it is to go on.
    const base::Error* copy_error() const { return copy_error_.get(); }
    // The rest goes as if it were copied, so that both sides stay in step.
    void go_on_without_copies() { copies_ = false; }
    // Its message has failed, and nothing more is enqueued. What is ends in operand.stream.
    void give_up(const Operand& operand);

    // The slot of its last chunk, whose edge says that this side's copies are done: all of them.
    const Slot& last_slot() const { return last_slot_; }
    Edge own_edge() const { return role_ == Role::kFill ? Edge::kForward : Edge::kBackward; }
    Direction direction() const { return role_ == Role::kFill ? Direction::kOut : Direction::kIn; }
    // While a CPU waits for the other side's stream: the edge that it waits for.
    const std::optional<CompletionPoint>& blocked_on() const { return blocked_on_; }
    const RelayPlan& plan() const { return plan_; }
    uint64_t moved() const { return moved_; } // of plan().chunks()

  private:
    struct Chunk {
        uint64_t number; // of the window
        uint32_t buffer;
        Slot slot;
        uint64_t offset; // in the message
        uint64_t bytes;
        bool is_first;
        bool is_last;
    };
    // What has to come before a chunk's copy: the other side's last use of the buffer, if there was one.
    struct Before {
        Edge edge;
        Slot slot;
    };
    RelayPart& part() const;
    Chunk next_chunk() const;
    std::optional<Before> before(const Chunk& chunk) const;
    base::Result<bool> step_one(const Operand& operand, Fence& fence);
    // Whether this side's copy of the chunk can be ordered behind that now.
    base::Result<bool> may_enter(const Operand& operand, Fence& fence, const Chunk& chunk);
    base::Result<bool> enter(const Operand& operand, Fence& fence, const Chunk& chunk);
    base::Result<void> enter_stream(const Operand& operand, Fence& fence, const Chunk& chunk, device::Stream stream);
    base::Result<void> follow_last_use(Fence& fence, const Chunk& chunk, device::Stream stream);
    base::Result<bool> move(const Operand& operand, Fence& fence, const Chunk& chunk, device::Stream stream);
    base::Result<void> copy(const Operand& operand, const Chunk& chunk, device::Stream stream);
    base::Result<void> signal(const Operand& operand, Fence& fence, const Chunk& chunk, device::Stream stream);
    void note_enqueued(const Chunk& chunk);

    base::Result<void> take_streams(const Operand& operand);
    base::Result<void> part_streams(const Operand& operand);
    base::Result<device::Stream> stream_of_signal(device::Stream copies, bool is_last);
    device::Stream stream_of_next(device::Stream own) const;
    base::Result<void> join_streams(device::Stream own);
    void give_streams_back(InternalStreams::State state, const StreamEnd& end);

    Resources& resources_;
    Peer& peer_;
    Role role_;
    RelayPlan plan_;
    device::Times* times_; // or null
    uint64_t moved_ = 0;   // chunks of this message
    Slot last_slot_{};
    std::optional<CompletionPoint> blocked_on_;
    std::array<device::Stream, kRelayStreams - 1> borrowed_;
    size_t parted_ = 0;                     // of them
    std::optional<device::Stream> signals_; // beside the operand's own
    std::unique_ptr<const base::Error> copy_error_;
    bool copies_ = true;
    bool entered_ = false; // the next chunk
};

} // namespace gpurun::transfer
