// A series: requests that one thread starts in one stream, each directly after the one before, and may complete there
// directly after the last. They are messages, or collectives of one communicator: since all ranks call these in the
// same order, they may follow each other in a stream.
//
// Directly means that the program can have put nothing into the stream in between: the thread has made no other call of
// gpurun, and less time has passed than the shortest call takes that enqueues a kernel or a copy
// (Info::shortest_enqueue_ns). So what is started there is in its place in the stream, too, if it is enqueued when it
// is completed. (A thread that uses the same stream at the same moment has no order with these calls. A memset, a host
// function or a wait for an event may be faster: what was started before it then comes behind it.)
//
// Programs do the same again and again. So a series is *held* if those before it were completed directly: nothing of it
// is enqueued before that, but for parts of a long one (Batch). If the thread pauses in the middle of a long one, what
// follows is a series of its own: it may be held, and completed directly, whatever became of the first part.
//
// Used under the engine lock, but for leave().
#pragma once

#include "base/current_call.hpp"
#include "device/capability/mails.hpp"
#include "transfer/operand.hpp"

namespace gpurun::comm {

class Communicator;

class Series {
  public:
    // So many that are completed directly are needed before one is held; 0: each one is.
    explicit Series(int64_t shortest_enqueue_ns, uint32_t needed = kFirstNeeded)
        : shortest_enqueue_ns_(shortest_enqueue_ns), first_needed_(needed), needed_(needed) {}

    // A request in the order of a stream is started, in a call that was entered then (0: that is not known). False: it
    // does not belong to the series, which is broken by that. `may_hold`: a series that begins now. `of`: whose
    // collective it is; null: a message.
    bool add(const transfer::Operand& operand, int64_t entered_ns, bool may_hold, const Communicator* of = nullptr);
    // Whether such a request, if it is started now, goes on with one that is open.
    bool goes_on(const transfer::Operand& operand, int64_t entered_ns, const Communicator* of) const;
    // Whether a request that is started now goes on with it, but not directly, or after it was broken off or is full.
    // It then begins a series of its own: end_part().
    bool is_interrupted(const transfer::Operand& operand, int64_t entered_ns) const;
    void end_part();
    // A request of nobody is started: as if the thread had made no call.
    void pass(int64_t entered_ns);
    // The call that has started one of its requests ends. In that call's thread.
    static void leave();
    // Whether a call that completes so many of its requests into `stream` does so directly.
    bool is_completed(device::Stream stream, int64_t entered_ns, size_t members) const;
    // It is over, completed directly or not.
    void end(bool directly);
    // It will not be completed directly, nor what is started before its end.
    void break_off();

    bool is_begun() const { return state_ != State::kNone; }
    bool is_open() const { return state_ == State::kOpen; }
    bool is_held() const { return is_open() && held_; }
    bool is_of_collectives() const { return is_begun() && of_ != nullptr; }
    device::Stream stream() const { return stream_; }
    uint64_t number() const { return number_; } // of the newest one

    // Of those that were held.
    struct Count {
        uint64_t together = 0; // completed directly
        uint64_t mistakes = 0; // not
    };
    const Count& count() const { return ended_; }

    static constexpr uint32_t kFirstNeeded = 2; // completed directly in a row before the next is held
    static constexpr uint32_t kMostNeeded = 64; // after several mistakes
    static constexpr uint32_t kForgiven = 4;    // so many more in a row, and a mistake does not count
    static constexpr uint32_t kForgotten = 16;  // so many more, and earlier ones do not count any more
    static constexpr size_t kMost = 512;
    static constexpr size_t kLong = 8; // so many tell that a program does not pause after each

  private:
    enum class State : uint8_t { kNone, kOpen, kBroken };

    bool follows(int64_t entered_ns) const;
    void note_call();

    const int64_t shortest_enqueue_ns_;
    const uint32_t first_needed_;
    State state_ = State::kNone;
    bool held_ = false;
    device::Stream stream_;
    const Communicator* of_ = nullptr; // whose collectives; null: messages
    size_t count_ = 0;
    uint64_t number_ = 0;
    const base::CurrentCall* thread_ = nullptr; // and its call that started the last one
    uint64_t call_ = 0;
    Count ended_;
    uint32_t in_a_row_ = 0;
    uint32_t needed_;
};

} // namespace gpurun::comm
