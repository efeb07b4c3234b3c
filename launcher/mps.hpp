// MPS for a job: NVIDIA's daemon, by which processes that share a GPU run on it at the same time. Without it they take
// turns, and each turn costs a message about 150 us.
//
// The daemon is the job's own: its pipes and logs lie in a private folder, and it runs in the foreground as a child
// of gpurun, from before the first rank to after the last. Or it is one that the user has started, which is used as
// it is and left alone. Everything runs on the event loop's thread, and what has to wait runs the loop meanwhile.
#pragma once

#include "devices.hpp"
#include "environment.hpp"
#include "options.hpp"
#include "platform/event_loop.hpp"
#include "platform/orphan_guard.hpp"
#include "platform/private_folder.hpp"
#include "platform/process.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct MpsPlan {
    std::vector<std::string> gpus; // that a daemon is to serve, by UUID; none: no daemon is wanted
    bool required = false;         // without one there is no job
    std::string notice;            // what the user should know, or ""
};

// A pure function: a daemon is wanted where ranks share a GPU, or if it is asked for. kArgument if it is asked for
// where there are no GPUs, or several MIG instances, of which a daemon serves one only, or if a GPU has more ranks than
// a daemon serves there.
base::Result<MpsPlan> plan_mps(MpsChoice choice, const std::vector<Device>& ranks);

// Which MPS this machine has, before any job.
struct MpsState {
    std::string program; // "" if it is not found
    std::string reason;  // why not
    std::string pipes;   // where a daemon of the user's answers, else ""
};
base::Result<MpsState> look_for_mps(const char* const* environment);

class Mps {
  public:
    // What it needs of the job, which outlives it.
    struct Host {
        platform::EventLoop& loop;
        const platform::OrphanGuard& guard;
        const char* const* environment;
        sigset_t signal_mask;
        size_t descriptor_limit;
        std::function<bool()> hurried; // gpurun is to end: nothing may be waited for
        std::function<void(const std::string&)> say;
    };

    // Returns once a daemon answers. The error says why there is none, and what to do.
    static base::Result<std::unique_ptr<Mps>> start(const MpsPlan& plan, const Host& host);
    Mps(const Mps&) = delete;
    ~Mps(); // kills the daemon, if it still runs, and removes its folder

    // What ranks need to find it.
    const std::vector<Variable>& variables() const { return variables_; }
    // Its children of this process.
    std::vector<int> processes() const;
    // Asks the daemon to end and waits a while. REQUIRES: every rank has ended.
    base::Result<void> finish();

  private:
    friend base::Result<MpsState> look_for_mps(const char* const* environment);
    struct Timers {
        platform::Timer limit;
        platform::Timer pause;
    };
    Mps(const Host& host, std::string program, Timers timers);

    base::Result<bool> user_has_one();
    base::Result<void> start_daemon(const MpsPlan& plan);
    base::Result<void> wait_until_ready(platform::FolderWatch& folder);
    base::Result<platform::ChildProcess> spawn(const char* argument, int in, int out,
                                               const platform::OrphanGuard* guard);
    base::Result<void> send(const std::string& command);
    std::optional<bool> answered();
    void limit_wait(int64_t limit_ms);
    bool may_wait() const { return !late_ && !host_.hurried(); }
    void on_daemon_end();
    base::Error failure(const std::string& what) const;

    Host host_;
    std::string program_;
    Timers timers_;
    std::vector<Variable> variables_;
    std::optional<platform::PrivateFolder> folder_; // these two: none, if the daemon is the user's
    std::optional<platform::ChildProcess> daemon_;
    std::optional<platform::ChildProcess> client_; // the program again, which brings one command to the daemon
    platform::Watch daemon_watch_;
    platform::Watch client_watch_;
    platform::Watch limit_watch_;
    platform::Watch pause_watch_;
    bool ready_ = false;     // and not yet asked to end
    bool late_ = false;      // the time limit of this wait has passed
    bool ask_again_ = false; // the daemon may have become ready
};

} // namespace gpurun::launcher
