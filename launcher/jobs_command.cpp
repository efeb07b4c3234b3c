// Every socket in the user's folder is called at once, and all have the same few seconds to answer: a job whose gpurun
// is stopped, or that is no job, costs the others nothing. One thread, one event loop.
#include "jobs_command.hpp"

#include "base/format.hpp"
#include "job_table.hpp"
#include "option_reader.hpp"
#include "option_values.hpp"
#include "own_lines.hpp"
#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"
#include "platform/meeting_place.hpp"
#include "platform/process_state.hpp"
#include "platform/sealed_text.hpp"
#include "platform/wire.hpp"

#include <array>
#include <memory>

namespace gpurun::launcher {

namespace wire = platform::wire;

namespace {

// A job has a second for its ranks, and another one if a hang table is on its way.
constexpr int64_t kJobAnswerMs = 3000;
constexpr int64_t kWatchPauseMs = 1000; // of --watch
constexpr size_t kLongestListing = 16 << 20;
constexpr int kUsage = 2;
constexpr const char* kHelp = R"(Usage: gpurun jobs [--json] [--watch]

List the jobs of this user on this machine: those that gpurun has started, and those whose ranks have joined by a name.
To run a program called jobs, write gpurun ./jobs.

  --json    print JSON: an array with an object for each job
  --watch   print it again every second, until it is interrupted
  -h, --help
            print this

See gpurun(1).
)";

struct Choice {
    bool json = false;
    bool watch = false;
};

// One look at all jobs.
class Round {
  public:
    Round(platform::EventLoop& loop, platform::Timer& timer) : loop_(loop), timer_(timer) {}

    base::Result<void> ask(const std::vector<std::string>& paths) {
        late_ = false;
        platform::Watch time(loop_, timer_.fd(), [this] {
            timer_.acknowledge();
            late_ = true;
        });
        time.wait_for(platform::Ready::kReadable);
        timer_.start(kJobAnswerMs);
        for (const std::string& path : paths)
            call(path);
        while (unanswered_ > 0 && !late_)
            GPURUN_TRY(loop_.run_once());
        timer_.stop();
        for (const auto& each : asked_)
            finish(*each);
        return {};
    }
    std::string text(const Choice& choice) const {
        return choice.json ? jobs_as_json(jobs_, silent_) : format_jobs(jobs_, silent_);
    }

  private:
    struct Asked {
        std::string name;
        std::string path;
        platform::MessageSocket socket;
        platform::Watch watch;
        int pid = 0;
        bool answered = false;
        std::string why; // there is no listing
    };

    void call(const std::string& path) {
        Asked& job = *asked_.emplace_back(std::make_unique<Asked>());
        job.name = path.substr(path.rfind('/') + 1);
        job.path = path;
        auto socket = platform::call_now(path);
        if (!socket) {
            job.why = socket.error().status == base::Status::kTimeout ? "" : socket.error().detail;
            job.answered = !job.why.empty();
            return;
        }
        if (!*socket) {
            job.answered = true;
            if (platform::sweep_now(path)) // else it has just ended
                job.why = "nobody watches over it any more: its gpurun was killed; its socket is removed";
            return;
        }
        if (auto other = platform::counterpart(socket->fd()))
            job.pid = other->pid;
        job.socket = std::move(*socket);
        auto sent = job.socket.try_send(bytes_of(wire::Query{}));
        if (!sent || !*sent)
            return;
        ++unanswered_;
        job.watch = platform::Watch(loop_, job.socket.fd(), [this, &job] { hear(job); });
        job.watch.wait_for(platform::Ready::kReadable);
    }

    void hear(Asked& job) {
        alignas(8) std::array<std::byte, platform::MessageSocket::kLargestMessage> bytes;
        auto received = job.socket.try_receive(bytes);
        if (received && !received->has_value())
            return;
        job.watch.stop();
        job.answered = true;
        --unanswered_;
        if (!received) {
            job.why = received.error().detail;
            return;
        }
        const auto message = std::span<const std::byte>(bytes).first((*received)->bytes);
        const wire::Header header = wire::header_of(message);
        if (message.empty() || (header.magic == wire::kMagic && header.kind == wire::Kind::kAgain))
            job.why = "it has just ended";
        else if (header.magic != wire::kMagic)
            job.why = "what answers there is not gpurun";
        else if (const auto refused = wire::refused_by(message))
            job.why = refused->detail;
        else if (header.kind != wire::Kind::kListing || !(*received)->fd)
            job.why = "it answers something else: ask with the gpurun that it runs with";
        else
            take(job, (*received)->fd.get());
    }

    void take(Asked& job, int fd) {
        auto text = platform::read_sealed_text(fd, kLongestListing);
        auto listed = text ? job_from_json(*text) : base::Result<ListedJob>(text.error());
        if (listed)
            jobs_.push_back(std::move(*listed));
        else
            job.why = listed.error().detail;
    }

    void finish(const Asked& job) {
        if (job.answered && job.why.empty())
            return;
        silent_.push_back({job.name, job.answered ? job.why : describe_silence(job)});
    }

    static std::string describe_silence(const Asked& job) {
        if (job.pid > 0 && platform::process_state(job.pid).stopped())
            return base::format("it does not answer: the gpurun that watches over it is stopped (kill -CONT {} lets it "
                                "go on)",
                                job.pid);
        if (job.pid > 0)
            return base::format("it does not answer within {} s: process {}, which watches over it, is busy or hangs",
                                kJobAnswerMs / 1000, job.pid);
        return "it does not answer: so many have called that nobody else can";
    }

    platform::EventLoop& loop_;
    platform::Timer& timer_;
    bool late_ = false;
    size_t unanswered_ = 0;
    std::vector<std::unique_ptr<Asked>> asked_;
    std::vector<ListedJob> jobs_;
    std::vector<SilentJob> silent_;
};

base::Result<Choice> understand(std::vector<std::string> words, bool& help) {
    Choice choice;
    OptionReader reader;
    reader.add_flag("-h,--help", help);
    reader.add_flag("--json", choice.json);
    reader.add_flag("--watch", choice.watch);
    GPURUN_TRY(reader.read(words));
    if (!words.empty())
        return base::error(
            base::Status::kArgument,
            "gpurun jobs lists jobs and takes --json and --watch, not '{}': to run a program called jobs, "
            "write gpurun ./jobs",
            words[0]);
    return choice;
}

// Clears a terminal before it, so that the last listing stays where it is.
std::string front(const Choice& choice, bool first) {
    if (!choice.watch || choice.json)
        return "";
    if (platform::is_terminal(platform::kStandardOutput))
        return "\033[H\033[J";
    return first ? "" : "\n";
}

base::Result<void> list(const Choice& choice) {
    GPURUN_ASSIGN(auto loop, platform::EventLoop::create());
    GPURUN_ASSIGN(platform::Timer timer, platform::Timer::create());
    for (bool first = true; first || choice.watch; first = false) {
        GPURUN_ASSIGN(const std::vector<std::string> paths, platform::jobs_that_meet());
        Round round(*loop, timer);
        GPURUN_TRY(round.ask(paths));
        GPURUN_TRY(platform::print(front(choice, first) + round.text(choice)));
        if (!choice.watch)
            break;
        bool over = false;
        platform::Watch time(*loop, timer.fd(), [&] { over = timer.acknowledge(); });
        time.wait_for(platform::Ready::kReadable);
        timer.start(kWatchPauseMs);
        while (!over)
            GPURUN_TRY(loop->run_once());
    }
    return {};
}

int complain(int exit_status, const base::Error& error) {
    platform::write_all(platform::kStandardError, as_own_lines(error.detail));
    return exit_status;
}

} // namespace

int list_jobs(std::vector<std::string> words) {
    bool help = false;
    auto choice = understand(std::move(words), help);
    if (!choice)
        return complain(kUsage, choice.error());
    auto listed = help ? platform::print(kHelp) : list(*choice);
    return listed ? 0 : complain(1, listed.error());
}

} // namespace gpurun::launcher
