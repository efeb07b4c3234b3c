#include "inquiry.hpp"

#include <utility>

namespace gpurun::launcher {

namespace {
constexpr int64_t kLongestAnswerMs = 1000;
constexpr int64_t kBetweenLooksMs = 50; // more than a message needs that is on its way
} // namespace

base::Result<std::unique_ptr<Inquiry>> Inquiry::create(Surroundings there, uint32_t ranks, uint32_t job_size) {
    GPURUN_ASSIGN(platform::Timer timer, platform::Timer::create());
    return std::unique_ptr<Inquiry>(new Inquiry(std::move(there), ranks, job_size, std::move(timer)));
}

Inquiry::Inquiry(Surroundings there, uint32_t ranks, uint32_t job_size, platform::Timer timer)
    : there_(std::move(there)), job_size_(job_size), timer_(std::move(timer)),
      timer_watch_(there_.loop, timer_.fd(), [this] { on_time(); }), asked_(ranks), now_(ranks) {
    timer_watch_.wait_for(platform::Ready::kReadable);
}

void Inquiry::start(int looks) {
    GPURUN_ASSERT(!under_way());
    looks_left_ = looks;
    before_.clear();
    look();
}

void Inquiry::look() {
    ++number_;
    pausing_ = false;
    unanswered_ = 0;
    for (uint32_t rank = 0; rank < now_.size(); ++rank) {
        now_[rank] = there_.look(rank);
        // A rank that did not answer the first time is not waited for the second time.
        const bool silent = !before_.empty() && !before_[rank].answered();
        asked_[rank] = !silent && !now_[rank].stopped && there_.assembly.ask(rank, number_);
        unanswered_ += asked_[rank] ? 1 : 0;
    }
    if (unanswered_ == 0)
        end_look();
    else
        timer_.start(kLongestAnswerMs);
}

void Inquiry::on_time() {
    if (!timer_.acknowledge())
        return;
    if (pausing_) {
        look();
        return;
    }
    if (!under_way())
        return;
    for (uint32_t rank = 0; rank < now_.size(); ++rank)
        if (asked_[rank])
            give_up(rank);
    end_look();
}

// Part of its answer may have come: that is dropped.
void Inquiry::give_up(uint32_t rank) {
    asked_[rank] = false;
    --unanswered_;
    now_[rank] = there_.look(rank);
}

void Inquiry::end_look() {
    for (size_t rank = 0; rank < before_.size(); ++rank)
        settle(now_[rank], before_[rank]);
    if (--looks_left_ > 0) {
        before_ = now_;
        pausing_ = true;
        timer_.start(kBetweenLooksMs);
        return;
    }
    const WaitReports seen = now_; // another inquiry may start in there
    there_.done(seen);
}

bool Inquiry::is_current(uint32_t rank, uint32_t number) const {
    return under_way() && !pausing_ && number == number_ && asked_[rank];
}

bool Inquiry::take(uint32_t rank, const platform::wire::Answer& answer) {
    if (!is_current(rank, answer.number))
        return answer.number <= number_;
    return launcher::take(now_[rank], answer.entry, job_size_);
}

bool Inquiry::finish(uint32_t rank, const platform::wire::Answered& answered) {
    if (!is_current(rank, answered.number))
        return answered.number <= number_;
    if (!launcher::finish(now_[rank], answered.end))
        return false;
    asked_[rank] = false;
    if (--unanswered_ == 0)
        end_look();
    return true;
}

void Inquiry::rank_ended(uint32_t rank) {
    if (!under_way() || pausing_ || !asked_[rank])
        return;
    give_up(rank);
    if (unanswered_ == 0)
        end_look();
}

} // namespace gpurun::launcher
