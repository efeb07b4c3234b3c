// What a job is told from outside: signals to gpurun, and that its time is over.
//
// Each signal means one thing for the whole job: a request to end, or (SIGCONT) that gpurun goes on. What is to be
// asked of gpurun by another signal gets its own case in Job::on_signal(), and its number in kListened.
#include "job.hpp"

#include "base/format.hpp"

namespace gpurun::launcher {

namespace {
constexpr int kTimedOut = 124; // as timeout(1) has it
} // namespace

void Job::on_signal(int signal) {
    switch (signal) {
    case SIGCONT:
        if (input_ != nullptr)
            input_->look_again();
        break;
    default: on_end_request(signal); break;
    }
}

void Job::on_end_request(int signal) {
    if (!exit_status_)
        exit_status_ = 128 + signal;
    if (ending_ >= Ending::kTerminated || live_ == 0) { // asked twice
        hurry();
        return;
    }
    say(base::format("got signal {} ({}); all ranks were ended", signal, platform::describe_signal(signal)));
    end_ranks(signal);
}

void Job::on_timeout() {
    has_.timeout.acknowledge();
    if (ending_ >= Ending::kTerminated)
        return;
    timed_out_ = true;
    if (!exit_status_)
        exit_status_ = kTimedOut;
    if (live_ == 0) { // only somebody who does not read its output keeps it
        hurry();
        return;
    }
    say(base::format("the time of --timeout={} is over; all ranks were ended",
                     static_cast<double>(*plan_.ending.timeout_ms) / 1000));
    end_ranks(SIGTERM);
}

// Does not wait for anything any more.
void Job::hurry() {
    hurried_ = true;
    enter(Ending::kKilled);
    has_.outputs->close();
}

} // namespace gpurun::launcher
