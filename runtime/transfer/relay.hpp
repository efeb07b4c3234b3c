// The pipeline of the relay paths: a message crosses in chunks through a pool of buffers, at least three in flight.
//
// A pool's buffers are used in turn: chunk n (counted over all messages of the pair) uses buffer n % kRelayBuffers,
// whose slot's value is the number of times that it has been used. The source fills a buffer once its last chunk was
// drained (edge backward) and signals forward; the target drains it after that and signals backward. On streams
// nobody waits: each side enqueues its part as soon as the other side is known to have enqueued what it waits for
// (relay_filled, relay_drained), so the two calls walk through the message hand in hand.
//
// Between two copies in one stream an engine stands still, for the signal of the one and the wait of the other. So each
// side of a bounced message enqueues its chunks in kRelayStreams streams by turns: the engine copies one piece while
// the edges of another are under way. (Copies to host memory take so long that two at once only delay each other.) The
// operand's own stream has the last chunk, and that chunk's signal comes behind all the others: the message ends there
// as if there were no other stream, and whatever the others wait for is noted as that stream's
// (Link::awaiting_forward). They are internal streams that start behind the operand's, borrowed until the last chunk is
// enqueued. Copies to and from host memory have one such stream beside them, for their signals but the last: the engine
// goes on with the next chunk.
//
// In which stream a buffer's slot is signalled changes from message to message. The edges alone order its uses: a chunk
// is enqueued once the other side has enqueued its part of the buffer's last one, and runs behind that. So each value
// is signalled behind the one before, in whichever streams, and the latest record of an event is the one that is
// awaited. Poison ends waits early, but then nobody is left who awaits what follows; and within a message a slot keeps
// to one stream.
//
// One message at a time moves through a pair's pools in each direction, in the order of the grants.
//
// Pools: kHost, pinned memory in the job segment (staged, shm, self); kSlab, memory on the source's device which the
// target maps (bounce).
#pragma once

#include "transfer/awaited.hpp"
#include "transfer/link.hpp"
#include "transfer/operand.hpp"

#include <array>
#include <optional>

namespace gpurun::transfer {

constexpr size_t kRelayStreams = 2; // of a side, that its chunks take by turns
static_assert(platform::kRelayBuffers % kRelayStreams == 0, "within a message, each buffer has one stream");
// Less is not worth the events that part streams and join them.
constexpr uint64_t kLeastChunksByTurns = 4;

struct RelayPlan {
    Pool pool = Pool::kHost;
    uint64_t bytes = 0;
    uint64_t chunk_bytes = 1;
    bool by_turns = pool == Pool::kSlab; // in several streams, if there are chunks enough
    uint64_t chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
};

// Large enough to be fast, small enough that a message fills the pipeline.
RelayPlan plan_relay(Pool pool, uint64_t bytes, uint64_t largest_chunk);

// Either half of one message. step() enqueues or moves what can be, and says whether all has been.
class Relay {
  public:
    enum class Side { kFill, kDrain };

    // `times`, if anybody wants to know, of the whole: from its first chunk to its last.
    Relay(Context& context, Link& link, Side side, const RelayPlan& plan, device::Times* times)
        : context_(context), link_(link), side_(side), plan_(plan), times_(times) {}

    // REQUIRES: this relay is the first of the link's queue of its side; operand.by_cpu() or operand.stream is set.
    base::Result<bool> step(const Operand& operand);
    // Its message has failed, and nothing more is enqueued. What is ends in operand.stream.
    void give_up(const Operand& operand);

    // The edge that says that this side's copies are done: all of them.
    Awaited last() const;
    // While a CPU waits for the other side's stream: the edge that it waits for.
    const std::optional<Awaited>& blocked_on() const { return blocked_on_; }
    uint64_t moved() const { return moved_; } // of chunks()
    uint64_t chunks() const { return plan_.chunks(); }

  private:
    struct Chunk {
        uint64_t number;
        uint32_t buffer;
        uint32_t slot;
        uint64_t value;
    };
    // What has to come before a chunk's copy: the other side's last use of the buffer, if there was one.
    struct Before {
        Edge edge;
        uint64_t value;
    };
    Chunk chunk(uint64_t number) const;
    std::optional<Before> before(const Chunk& chunk) const;
    base::Result<bool> step_one(const Operand& operand, Fence& fence);
    // Whether this side's copy of the chunk can be ordered behind that now.
    base::Result<bool> may_enter(const Operand& operand, Fence& fence, const Chunk& chunk);
    base::Result<void> enter(const Operand& operand, Fence& fence, const Chunk& chunk, device::Stream stream);
    base::Result<void> copy(const Operand& operand, const Chunk& chunk, uint64_t offset, uint64_t bytes);

    base::Result<void> take_streams(const Operand& operand);
    base::Result<void> part_streams(const Operand& operand);
    base::Result<void> take_beside();
    base::Result<device::Stream> stream_of_signal(device::Stream copies, bool is_last);
    device::Stream stream_of_next(device::Stream own) const;
    base::Result<void> join_streams(device::Stream own);
    void give_streams_back(Streams::State state, const StreamEnd& end);

    Context& context_;
    Link& link_;
    Side side_;
    RelayPlan plan_;
    device::Times* times_; // or null
    uint64_t moved_ = 0;   // chunks of this message
    uint64_t last_number_ = 0;
    std::optional<Awaited> blocked_on_;
    std::array<device::Stream, kRelayStreams - 1> borrowed_;
    size_t parted_ = 0;                     // of them
    std::optional<device::Stream> signals_; // beside the operand's own
};

} // namespace gpurun::transfer
