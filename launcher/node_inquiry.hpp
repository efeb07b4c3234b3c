// Asks all nodes for the wait reports of their ranks, once or twice, and waits a bounded time for each answer: what
// Inquiry does with the ranks of one node.
//
// Every node has answered the first question before any is asked the second one. So what lasts from one to the other
// was the case everywhere at the same time, in between. Runs on the event loop's thread.
#pragma once

#include "platform/event_loop.hpp"
#include "wait_reports.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace gpurun::launcher {

class NodeInquiry {
  public:
    struct Surroundings {
        platform::EventLoop& loop;
        std::function<std::vector<bool>(uint32_t number)> ask; // all nodes; of which ranks answers will come
        std::function<RankReport(uint32_t)> look;              // what is known of a rank that does not answer
        std::function<void(const WaitReports&)> done;          // may start another one
    };
    static base::Result<std::unique_ptr<NodeInquiry>> create(Surroundings there, uint32_t ranks);

    // REQUIRES: none is under way.
    void start(int looks);
    bool under_way() const { return looks_left_ > 0; }
    // Late ones are dropped.
    void take(uint32_t rank, uint32_t number, RankReport report);
    // Its node is lost.
    void give_up(uint32_t rank);

  private:
    NodeInquiry(Surroundings there, uint32_t ranks, platform::Timer timer);

    void look();
    void on_time();
    void settle_for(uint32_t rank, RankReport report);
    bool nobody_awaited() const;
    void end_look();

    Surroundings there_;
    platform::Timer timer_;
    platform::Watch timer_watch_;
    int looks_left_ = 0;
    bool pausing_ = false;      // between two looks
    uint32_t number_ = 0;       // of the question
    std::vector<bool> awaited_; // of which ranks answers are to come
    std::vector<bool> silent_;  // did not come the first time: not waited for the second time
    WaitReports now_;
    WaitReports before_;
};

} // namespace gpurun::launcher
