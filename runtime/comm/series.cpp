#include "comm/series.hpp"

#include "platform/clock.hpp"

#include <algorithm>

namespace gpurun::comm {

bool Series::follows(int64_t entered_ns) const {
    const base::CurrentCall& here = base::this_call();
    const uint64_t call = here.number.load(std::memory_order_relaxed);
    if (&here != thread_)
        return false;
    const bool directly = entered_ns != 0 && entered_ns - here.left_ns < shortest_enqueue_ns_;
    return call == call_ || (call - call_ == 1 && directly);
}

bool Series::is_interrupted(const transfer::Operand& operand, int64_t entered_ns) const {
    const base::CurrentCall& here = base::this_call();
    const bool goes_on = is_begun() && &here == thread_ && operand.stream == stream_ && !operand.captured() &&
                         here.number.load(std::memory_order_relaxed) - call_ == 1;
    return goes_on && !(is_open() && count_ < kMost && follows(entered_ns));
}

// A long one says nothing about the next.
void Series::end_part() {
    if (count_ < kLong)
        end(false);
    held_ = false;
    state_ = State::kNone;
}

bool Series::goes_on(const transfer::Operand& operand, int64_t entered_ns, const Communicator* of) const {
    return is_open() && operand.stream == stream_ && of == of_ && count_ < kMost && follows(entered_ns);
}

bool Series::add(const transfer::Operand& operand, int64_t entered_ns, bool may_hold, const Communicator* of) {
    if (operand.captured()) {
        break_off();
        return false;
    }
    if (!is_begun()) {
        state_ = State::kOpen;
        held_ = may_hold && in_a_row_ >= needed_;
        stream_ = operand.stream;
        of_ = of;
        count_ = 0;
        ++number_;
    } else if (!goes_on(operand, entered_ns, of)) {
        break_off();
        return false;
    }
    ++count_;
    note_call();
    return true;
}

void Series::note_call() {
    thread_ = &base::this_call();
    call_ = thread_->number.load(std::memory_order_relaxed);
}

void Series::pass(int64_t entered_ns) {
    if (is_open() && follows(entered_ns))
        note_call();
}

void Series::leave() { base::this_call().left_ns = platform::now_ns(); }

bool Series::is_completed(device::Stream stream, int64_t entered_ns, size_t members) const {
    return is_open() && stream == stream_ && members == count_ && follows(entered_ns);
}

// After a mistake it takes longer until one is held again, unless mistakes are rare.
void Series::end(bool directly) {
    if (state_ == State::kNone)
        return;
    if (held_)
        ++(directly ? ended_.together : ended_.mistakes);
    if (directly) {
        if (++in_a_row_ >= needed_ + kForgotten)
            needed_ = first_needed_;
    } else if (in_a_row_ >= needed_ + kForgiven) {
        in_a_row_ = needed_;
    } else {
        if (held_)
            needed_ = std::min(needed_ * 2, kMostNeeded);
        in_a_row_ = 0;
    }
    held_ = false;
    state_ = State::kNone;
}

void Series::break_off() {
    if (is_begun())
        state_ = State::kBroken;
}

} // namespace gpurun::comm
