// Asks all ranks for their wait reports, once or twice, and waits a bounded time for each answer.
//
// Runs on the event loop's thread. Ranks answer through Assembly; those that do not in time, or cannot, are described
// by what gpurun and the kernel know of them.
#pragma once

#include "assembly.hpp"
#include "platform/event_loop.hpp"
#include "wait_reports.hpp"

#include <functional>
#include <optional>

namespace gpurun::launcher {

class Inquiry {
  public:
    struct Surroundings {
        platform::EventLoop& loop;
        Assembly& assembly;
        std::function<RankReport(uint32_t)> look;     // what is known of a rank without asking it
        std::function<void(const WaitReports&)> done; // may start another one
    };
    static base::Result<std::unique_ptr<Inquiry>> create(Surroundings there, uint32_t ranks, uint32_t job_size);

    // Two looks tell what lasts from what was about to change. REQUIRES: no inquiry is under way.
    void start(int looks);
    bool under_way() const { return looks_left_ > 0; }

    // False: no rank of this job sends that. Late answers are dropped.
    bool take(uint32_t rank, const platform::wire::Answer& answer);
    bool finish(uint32_t rank, const platform::wire::Answered& answered);
    // It has ended, and will not answer.
    void rank_ended(uint32_t rank);

  private:
    Inquiry(Surroundings there, uint32_t ranks, uint32_t job_size, platform::Timer timer);

    bool is_current(uint32_t rank, uint32_t number) const;
    void look();
    void on_time();
    void give_up(uint32_t rank);
    void end_look();

    Surroundings there_;
    uint32_t job_size_; // ranks may wait for others than those that are asked
    platform::Timer timer_;
    platform::Watch timer_watch_;
    int looks_left_ = 0;
    bool pausing_ = false; // between two looks
    uint32_t number_ = 0;  // of the question
    size_t unanswered_ = 0;
    std::vector<bool> asked_; // and not answered
    WaitReports now_;
    WaitReports before_;
};

} // namespace gpurun::launcher
