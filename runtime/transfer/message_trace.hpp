// What an operation tells the trace (platform/trace_buffer.hpp).
//
// Without --trace it is a null pointer. Both sides of a message name it by its number in the pair, which each side
// counts: records arrive in the order in which they were posted, so nothing has to be sent for that. The host only
// knows when copies were enqueued; when they ran, the device says, in the memory that times() gives: kernels that move
// messages do it themselves, and write_time() does it before and after copy engines and host functions.
//
// Used under the engine lock, but for begin().
#pragma once

#include "base/world_rank.hpp"
#include "device/capability/channels.hpp"
#include "device/capability/clock.hpp"
#include "device/device.hpp"
#include "platform/trace_buffer.hpp"
#include "transfer/operand.hpp"
#include "transfer/route.hpp"

namespace gpurun::transfer {

class MessageTrace {
  public:
    struct Begin {
        platform::TraceKind kind;
        int peer;
        uint32_t marks = 0;
        platform::TraceEvent* call = nullptr; // of the call that is this message and nothing else
    };
    // `buffer` is null where nobody traces.
    void begin(platform::TraceBuffer* buffer, const Begin& what, const Envelope& envelope, const Operand& operand,
               Ending ending) {
        if (buffer != nullptr) [[unlikely]]
            start(*buffer, what, envelope, operand, ending);
    }
    // False where nobody traces, or there was no room.
    bool records() const { return event_ != nullptr; }
    // A small message that needed no operation: it began at `begin_ns`, and is over. `call` as in Begin.
    [[gnu::noinline]] static void sent_at_once(platform::TraceBuffer& buffer, platform::TraceEvent* call,
                                               base::WorldRank peer, const Envelope& envelope, Route route,
                                               uint64_t ordinal, int64_t begin_ns);
    // Of a send: there was no room for its record at first.
    void held_up() { set(platform::trace_flags::kHeldUp); }
    // Its record is to be published now, if there is room. The time is of before: later would be after its match.
    void posting() {
        if (event_ != nullptr) [[unlikely]]
            note_posting();
    }
    // The same of one that waits for no answer. If it is its call, and was not held up, it was posted when it began.
    void posting_small() {
        namespace flags = platform::trace_flags;
        constexpr uint32_t kEither = flags::kIsCall | flags::kHeldUp;
        if (event_ != nullptr && (event_->how.load(std::memory_order_relaxed) & kEither) != flags::kIsCall) [[unlikely]]
            note_posting();
    }
    // It was, as the message `ordinal` of its pair.
    void posted(uint64_t ordinal) {
        if (event_ != nullptr) [[unlikely]] {
            event_->ordinal = ordinal;
            set(platform::trace_flags::kHasOrdinal);
        }
    }
    // Of a receive.
    void matched(base::WorldRank source, const Envelope& envelope, uint64_t ordinal, size_t room) {
        if (event_ != nullptr) [[unlikely]]
            note_matched(source, envelope, ordinal, room);
    }
    // Of a send: the target has matched it. Only the first call counts.
    void matched() {
        if (event_ != nullptr && event_->matched_ns.load(std::memory_order_relaxed) == 0) [[unlikely]]
            event_->matched_ns.store(platform::now_ns(), std::memory_order_relaxed);
    }
    void chosen(Route route) {
        if (event_ != nullptr) [[unlikely]]
            set(bits_of(route));
    }
    // Where the device writes the times of the message, which is enqueued next. `buffer` is that of begin().
    device::Times* times(platform::TraceBuffer* buffer) const {
        return event_ == nullptr ? nullptr : buffer->take_times(*event_);
    }
    // For a message of a graph, by what its runs are named in the log of them; 0: they are not in it.
    uint32_t name_of_runs(platform::TraceBuffer* buffer) const {
        return event_ == nullptr ? 0 : buffer->name_of_runs(*event_);
    }
    // What is enqueued has not been seen to end.
    void enqueued_only() { set(platform::trace_flags::kEnqueuedOnly); }
    void read_by_peer() { set(platform::trace_flags::kReadByPeer); }
    void failed() { set(platform::trace_flags::kFailed); }
    void ended() {
        if (event_ != nullptr) [[unlikely]]
            note_end();
    }

  private:
    // Apart, so that they stay out of the code of those who do not trace; but not cold, since the page of another
    // function would have to be fetched for each.
    [[gnu::noinline]] void start(platform::TraceBuffer& buffer, const Begin& what, const Envelope& envelope,
                                 const Operand& operand, Ending ending);
    [[gnu::noinline]] void note_posting();
    [[gnu::noinline]] void note_matched(base::WorldRank source, const Envelope& envelope, uint64_t ordinal,
                                        size_t room);
    void note_end() { // the call's is the message's
        if ((event_->how.load(std::memory_order_relaxed) & platform::trace_flags::kIsCall) == 0)
            event_->end_ns.store(platform::now_ns(), std::memory_order_relaxed);
    }
    void set(uint32_t bits) {
        if (event_ != nullptr) [[unlikely]] // relaxed: only the holder of the engine lock writes it
            event_->how.store(event_->how.load(std::memory_order_relaxed) | bits, std::memory_order_relaxed);
    }

    // The header has the texts of a route's path and reason at its number.
    static uint32_t bits_of(Route route) {
        const auto number = static_cast<uint32_t>(route.number());
        return number | number << 8 | platform::trace_flags::kHasPath;
    }

    platform::TraceEvent* event_ = nullptr;
};

// The device says when what has been enqueued in the stream so far is over. Nothing where `times` is null,
// as it is where the device has no clock.
inline base::Result<void> write_time(device::Device& device, device::Stream stream, device::Times* times,
                                     std::atomic<int64_t> device::Times::*which) {
    return times == nullptr ? base::Result<void>() : device.clock()->write_time(stream, &(times->*which));
}

// The device says when messages ran there, from here on, and where those of graphs say it. Warns and goes without where
// it cannot.
device::RunLog time_messages(platform::TraceBuffer& buffer, device::Device& device);
// Nothing more runs: how far its clock has strayed, and how many runs found no room.
void note_last_times(platform::TraceBuffer& buffer, device::Device& device, const device::RunLog& runs);

} // namespace gpurun::transfer
