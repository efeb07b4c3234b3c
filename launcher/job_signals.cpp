// What a job is told from outside: signals to gpurun, and that its time is over.
//
// Each signal means one thing for the whole job. What else is to be asked of gpurun by a signal gets a case of its own
// in Job::on_signal(), and its number in kListened (job_start.cpp).
#include "job.hpp"

#include "base/format.hpp"
#include "platform/adoption.hpp"

namespace gpurun::launcher {

namespace {
constexpr int kTimedOut = 124; // as timeout(1) has it
} // namespace

void Job::on_signal(int signal) {
    switch (signal) {
    case SIGCHLD:
        if (!ranks_.empty()) // before them, MPS alone has children
            platform::bury_adopted([this](int pid) { return is_own_child(pid); });
        look_for_stop();
        break;
    case SIGUSR1:
    case SIGUSR2: // to the ranks alone: what they have started need not know what it means
        for (const auto& rank : ranks_)
            rank->process.signal(signal);
        break;
    case SIGTSTP: suspend(); break;
    case SIGQUIT: ask_ranks("SIGQUIT"); break;
    case SIGWINCH: has_.outputs->fit_terminals(); break;
    case SIGCONT:
        lend_terminal();
        signal_everything(SIGCONT);
        if (input_ != nullptr)
            input_->look_again();
        break;
    default: on_end_request(signal); break;
    }
}

// Ranks are in groups of their own, to which ^Z of the terminal does not go. They are stopped by what none can ignore:
// a job that the user believes to be suspended must not compute.
void Job::suspend() {
    if (terminal_ != nullptr)
        terminal_->take_back();
    signal_everything(SIGSTOP);
    has_.signals.take_default(SIGTSTP); // does nothing where no shell could make gpurun go on
    lend_terminal();
    signal_everything(SIGCONT);
}

void Job::lend_terminal() {
    if (terminal_ != nullptr && plan_.debugger->rank < ranks_.size() && ranks_[plan_.debugger->rank]->live)
        terminal_->give_to(ranks_[plan_.debugger->rank]->process.pid());
}

// ^Z in the debugger that has the terminal suspends the job. So does what it reads after "bg".
void Job::look_for_stop() {
    if (terminal_ != nullptr && plan_.debugger->rank < ranks_.size() && ranks_[plan_.debugger->rank]->process.stopped())
        suspend();
}

void Job::on_end_request(int signal) {
    if (!exit_status_)
        exit_status_ = 128 + signal;
    if (ending_ >= Ending::kTerminated || live_ == 0) { // asked twice
        hurry();
        return;
    }
    const bool by_hand = signal == SIGINT && platform::is_terminal(platform::kStandardError);
    say(base::format("got signal {} ({}); all ranks were ended{}", signal, platform::describe_signal(signal),
                     by_hand && has_.uplink == nullptr && anyone_joined()
                         ? " (^\\ instead shows what each rank waits for, and the job goes on)"
                         : ""));
    end_ranks(signal);
}

bool Job::anyone_joined() const {
    for (uint32_t index = 0; index < ranks_.size(); ++index)
        if (ranks_[index]->live && assembly_.stage(index) != Assembly::Stage::kSilent)
            return true;
    return false;
}

double Job::timeout_s() const { return static_cast<double>(*plan_.ending.timeout_ms) / 1000; }

// A job that takes too long often hangs: what its ranks wait for is told first.
void Job::on_timeout() {
    has_.timeout.acknowledge();
    timed_out_ = true;
    if (ending_ >= Ending::kTerminated) { // its ranks are being ended, and what they have printed gets the grace, too
        if (live_ == 0 || ending_ == Ending::kKilled)
            has_.grace.start(plan_.ending.grace_ms);
        return;
    }
    if (!exit_status_)
        exit_status_ = kTimedOut;
    asked_for_timeout_ = !plan_.ending.hang_timeout_ms && has_.uplink == nullptr && anyone_joined();
    if (asked_for_timeout_)
        ask_ranks(base::format("--timeout={}", timeout_s())); // which goes on in on_wait_reports()
    else
        end_for_timeout();
}

void Job::end_for_timeout() {
    say(base::format("the time of --timeout={} is over; the job was ended", timeout_s()));
    if (live_ > 0)
        end_ranks(SIGTERM);
    else if (asked_for_timeout_) // they have ended since
        has_.grace.start(plan_.ending.grace_ms);
    else // MPS has not started yet, or nobody reads what ranks have printed
        hurry();
}

// Does not wait for anything any more.
void Job::hurry() {
    hurried_ = true;
    enter(Ending::kKilled);
    has_.outputs->close();
}

} // namespace gpurun::launcher
