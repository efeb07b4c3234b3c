// Where the work of an operation is enqueued: in the stream of its order domain, or in an internal stream.
//
// A blocking call works in the program's stream. A request sets a marker there, and works in an internal stream that
// starts behind the marker, so that the program's stream goes on. An operation in the host's order works in an internal
// stream that starts at once. From then on the internal stream is the operand's.
//
// Part of an operation; used under the engine lock.
#pragma once

#include "transfer/fence/completion_point.hpp"
#include "transfer/operand.hpp"
#include "transfer/resources.hpp"

#include <optional>

namespace gpurun::transfer {

class StreamUse {
  public:
    StreamUse(Resources& resources, Operand& operand) : resources_(resources), operand_(operand) {}

    // Sets a marker in the program's stream, unless there is one.
    base::Result<void> set_marker();
    bool has_marker() const { return marker_.has_value(); }
    // The name of the operand's stream, 0 in the host's order. A marker has it: its stream may be captured by now, and
    // a captured stream's name must not be asked for.
    base::Result<uint64_t> stream_name();
    // Whether everything before the marker is over; false without a marker. May be false although it is over.
    base::Result<bool> is_marker_passed();
    base::Result<bool> is_marker_passed_for_send();
    // Enqueue: what follows in `stream` comes after the marker. REQUIRES has_marker().
    base::Result<void> await_marker(device::Stream stream);
    // The marker is not needed any more.
    void give_marker_back() { resources_.pools.markers.give_back(marker_); }
    // The marker as a completion point. REQUIRES has_marker().
    CompletionPoint marker_point() const { return CompletionPoint::at(marker_->event); }

    bool is_internal() const { return internal_.has_value(); }
    // Takes an internal stream that starts behind the marker, or where the operand's stream is now, unless it has one.
    base::Result<void> take(bool waits_for_peer);
    // `stream`, of the program's, waits for everything in the internal one.
    base::Result<void> note_joined(device::Stream stream);
    // Takes one for an operation in the host's order that can do without. False where streams are scarce.
    base::Result<bool> take_spare();
    // Takes one that starts behind the edge.
    base::Result<void> take_behind(Fence& fence, Edge edge, const Slot& slot);
    // Takes one that starts where the operand's own stream is now; that waits for it in the end (rejoin()).
    base::Result<void> take_beside();
    base::Result<void> rejoin();
    bool rejoins() const { return rejoined_.has_value(); }
    device::Stream rejoined() const { return *rejoined_; } // REQUIRES rejoins()
    // Takes two for a large copy that waits for nobody (InternalStreams::bulk()); the copy's end is signalled in
    // signals().
    base::Result<void> take_bulk();
    device::Stream signals() const { return signals_.value_or(operand_.stream); }
    // What follows in signals() comes after what is in the operand's stream now.
    base::Result<void> order_signals();

    // An event behind everything that is enqueued in internal streams. REQUIRES is_internal().
    base::Result<EventLease> record_end();
    // Waits for it. REQUIRES is_internal().
    void synchronize();
    device::Stream internal() const { return *internal_; }
    // Gives back the streams and the marker.
    void finish(InternalStreams::State state, const StreamEnd& end);

  private:
    base::Result<device::Stream> take_for_message(bool waits_for_peer);

    Resources& resources_;
    Operand& operand_;
    std::optional<Marker> marker_;           // in the operand's stream
    std::optional<device::Stream> internal_; // which is the operand's, too
    std::optional<device::Stream> signals_;  // beside a bulk copy
    std::optional<device::Stream> rejoined_; // the program's, which waits for the internal one in the end
};

// Enqueue: what follows in a stream of the program's starts once the other side's edge has come. By a kernel that
// spins, if one may, which sees the edge sooner. REQUIRES: the edge's signal is known to be enqueued.
base::Result<void> await_in_stream(Resources& resources, Fence& fence, Edge edge, const Slot& slot,
                                   device::Stream stream);

// Enqueue: what follows in a stream of the program's starts once an operation that is completed there has ended; at
// once with others, if many are.
base::Result<void> await_beside(Resources& resources, const CompletionPoint& end, device::Stream stream);

// Enqueue: copies between the operand's memory and memory of the runtime's own, which is pinned, or a slab on the
// device where the operand's memory is the device's.
base::Result<void> copy_in_stream(Resources& resources, const Operand& operand, void* destination, const void* source,
                                  size_t bytes, device::Stream stream);

} // namespace gpurun::transfer
