#include "node_inquiry.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::launcher {

namespace {
constexpr int64_t kLongestAnswerMs = 2500; // a node gives its ranks a second
constexpr int64_t kBetweenLooksMs = 250;   // more than a message needs that is on its way between nodes
} // namespace

base::Result<std::unique_ptr<NodeInquiry>> NodeInquiry::create(Surroundings there, uint32_t ranks) {
    GPURUN_ASSIGN(platform::Timer timer, platform::Timer::create());
    return std::unique_ptr<NodeInquiry>(new NodeInquiry(std::move(there), ranks, std::move(timer)));
}

NodeInquiry::NodeInquiry(Surroundings there, uint32_t ranks, platform::Timer timer)
    : there_(std::move(there)), timer_(std::move(timer)), timer_watch_(there_.loop, timer_.fd(), [this] { on_time(); }),
      awaited_(ranks), now_(ranks) {
    timer_watch_.wait_for(platform::Ready::kReadable);
}

void NodeInquiry::start(int looks) {
    GPURUN_ASSERT(!under_way());
    looks_left_ = looks;
    before_.clear();
    silent_.assign(now_.size(), false);
    look();
}

void NodeInquiry::look() {
    ++number_;
    pausing_ = false;
    awaited_ = there_.ask(number_);
    for (uint32_t rank = 0; rank < now_.size(); ++rank) {
        now_[rank] = there_.look(rank);
        awaited_[rank] = awaited_[rank] && !silent_[rank];
    }
    if (nobody_awaited())
        end_look();
    else
        timer_.start(kLongestAnswerMs);
}

bool NodeInquiry::nobody_awaited() const { return std::find(awaited_.begin(), awaited_.end(), true) == awaited_.end(); }

void NodeInquiry::on_time() {
    if (!timer_.acknowledge() || !under_way())
        return;
    if (pausing_) {
        look();
        return;
    }
    silent_ = awaited_;
    end_look();
}

void NodeInquiry::take(uint32_t rank, uint32_t number, RankReport report) {
    if (number == number_)
        settle_for(rank, std::move(report));
}

void NodeInquiry::give_up(uint32_t rank) { settle_for(rank, there_.look(rank)); }

void NodeInquiry::settle_for(uint32_t rank, RankReport report) {
    if (!under_way() || pausing_ || !awaited_[rank])
        return;
    awaited_[rank] = false;
    now_[rank] = std::move(report);
    if (nobody_awaited())
        end_look();
}

void NodeInquiry::end_look() {
    timer_.stop();
    for (size_t rank = 0; rank < before_.size(); ++rank)
        settle(now_[rank], before_[rank]);
    if (--looks_left_ > 0) {
        before_ = now_;
        pausing_ = true;
        timer_.start(kBetweenLooksMs);
        return;
    }
    const WaitReports seen = now_; // another one may start in there
    there_.done(seen);
}

} // namespace gpurun::launcher
