// One thread, one event loop. First ranks come, and each says which it is (wire::Join). Once all are there, the job has
// its segment, and Assembly does for them what it does for ranks that gpurun started. A rank that ends is marked dead,
// and the others go on: who started them decides whether to end them. The supervisor ends when no rank is left, and not
// by a signal that can be ignored: pkill gpurun is not meant for it, and there is nobody to print a hang table for.
#include "supervisor.hpp"

#include "assembly.hpp"
#include "base/format.hpp"
#include "callers.hpp"
#include "deadlock.hpp"
#include "inquiry.hpp"
#include "listing.hpp"
#include "platform/clock.hpp"
#include "platform/event_loop.hpp"
#include "platform/foreign_process.hpp"
#include "platform/job_session.hpp"
#include "platform/meeting_place.hpp"
#include "platform/orphan_guard.hpp"
#include "platform/process.hpp"
#include "platform/process_state.hpp"
#include "platform/signals.hpp"
#include "rank_look.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace gpurun::launcher {

namespace wire = platform::wire;

namespace {

constexpr int kFirstCallMs = 10'000; // who has started the supervisor calls at once
constexpr int kGraceMs = 5000;       // between SIGTERM and SIGKILL, after gpurun_abort()

class Supervisor : private Assembly::Observer {
  public:
    struct Resources {
        std::unique_ptr<platform::EventLoop> loop;
        platform::OrphanGuard guard;
        platform::Timer timer;
        std::string path;
        std::string job;
    };
    explicit Supervisor(Resources resources)
        : has_(std::move(resources)), callers_(*has_.loop, wire::kListener,
                                               [this](std::span<const std::byte> message, platform::MessageSocket who) {
                                                   hear(message, std::move(who));
                                               }),
          timer_(*has_.loop, has_.timer.fd(), [this] { on_time(); }),
          listing_([this](const WaitReports& reports) { return describe(reports); }) {
        timer_.wait_for(platform::Ready::kReadable);
        has_.timer.start(kFirstCallMs);
    }

    void run() {
        while (!over_) {
            if (!has_.loop->run_once())
                break;
            over_ = over_ || (live() == 0 && has_begun());
        }
        end();
    }

  private:
    struct Member {
        platform::MessageSocket socket; // until Assembly has it
        platform::Watch watch;
        platform::ForeignProcess process;
        std::string program;
        bool live = false;
    };

    size_t live() const {
        return static_cast<size_t>(
            std::count_if(members_.begin(), members_.end(), [](const Member& each) { return each.live; }));
    }
    // Some rank has come; or whoever has called is gone. Who has not said anything by then is told to call again.
    bool has_begun() const { return !members_.empty() || (callers_.ever() && callers_.empty()); }
    bool gathers() const { return assembly_ == nullptr; }
    // gpurun_finalize() returns in a rank once all that live have called it. Who comes from then on is of the next job.
    bool is_ending() const {
        for (uint32_t rank = 0; !gathers() && rank < members_.size(); ++rank)
            if (segment_->has_finalized(rank))
                return true;
        return false;
    }

    void hear(std::span<const std::byte> message, platform::MessageSocket socket) {
        const wire::Header header = wire::header_of(message);
        if (header.magic == wire::kMagic && header.kind == wire::Kind::kQuery)
            take_query(message, std::move(socket));
        else
            take_join(message, std::move(socket));
    }

    void take_join(std::span<const std::byte> message, platform::MessageSocket socket) {
        wire::Join join;
        join.header = {};
        std::memcpy(&join, message.data(), std::min(message.size(), sizeof join));
        if (join.header.magic != wire::kMagic || join.header.kind != wire::Kind::kJoin ||
            join.protocol != wire::kProtocol || message.size() != sizeof join)
            refuse(socket, base::Status::kVersion,
                   base::format("the gpurun that watches over job {} speaks protocol {}, and this library another one: "
                                "run all ranks with the same version",
                                has_.job, wire::kProtocol));
        else if (is_ending())
            early_.push_back(std::move(socket));
        else if (auto fits = check(join); !fits)
            refuse(socket, fits.error().status, fits.error().detail);
        else
            admit(join, std::move(socket));
    }

    void take_query(std::span<const std::byte> message, platform::MessageSocket socket) {
        if (const auto wrong = wrong_protocol(message)) {
            refuse(socket, base::Status::kVersion, *wrong);
            return;
        }
        listing_.add(std::move(socket));
        if (gathers())
            listing_.answer(WaitReports(members_.size()));
        else if (!inquiry_->under_way())
            inquiry_->start(1);
    }

    RankReport look(uint32_t rank) const {
        return look_at(*assembly_, *segment_, {rank, rank, members_[rank].live, members_[rank].process.pid()});
    }

    ListedJob describe(const WaitReports& reports) const {
        ListedJob job;
        job.name = has_.job;
        job.started_by = "its ranks";
        job.pid = platform::own_pid();
        job.size = static_cast<uint32_t>(members_.size());
        for (uint32_t index = 0; index < members_.size(); ++index) {
            const Member& member = members_[index];
            ListedRank& rank = job.ranks.emplace_back(listed(reports[index], platform::now_ns()));
            rank.rank = index;
            rank.pid = member.process.pid();
            rank.program = member.program;
            if (gathers())
                rank.state = member.live ? "waits for others to join" : "has not come";
            else
                rank.device = assembly_->device(index);
        }
        return job;
    }

    base::Result<void> check(const wire::Join& join) {
        const auto size = static_cast<int32_t>(members_.size());
        if (join.size < 1 || join.size > static_cast<int32_t>(platform::kMaxRanks) || join.rank < 0 ||
            join.rank >= join.size)
            return base::error(base::Status::kRank, "rank {} of {} cannot join job {}: ranks are 0 to size - 1",
                               join.rank, join.size, has_.job);
        if (size != 0 && size != join.size)
            return base::error(base::Status::kLauncher,
                               "rank {} says that job {} has {} ranks, and those that came before say {}: give all "
                               "ranks the same size, or another job another name",
                               join.rank, has_.job, join.size, size);
        const int pid = size == 0 ? 0 : members_[static_cast<size_t>(join.rank)].process.pid();
        if (pid != 0)
            return base::error(base::Status::kLauncher,
                               "job {} has a rank {} already (pid {}): give each process a rank of its own, or another "
                               "job another name",
                               has_.job, join.rank, pid);
        return {};
    }

    void admit(const wire::Join& join, platform::MessageSocket socket) {
        if (members_.empty()) {
            members_.resize(static_cast<size_t>(join.size));
            timeout_ms_ = join.timeout_ms;
            has_.timer.start(timeout_ms_);
        }
        const auto rank = static_cast<uint32_t>(join.rank);
        auto other = platform::counterpart(socket.fd());
        auto process = platform::ForeignProcess::watch(other ? other->pid : 0);
        if (!process) {
            refuse(socket, process.error().status, process.error().detail);
            return;
        }
        Member& member = members_[rank];
        member = Member{};
        member.socket = std::move(socket);
        member.process = std::move(*process);
        member.program = platform::command_line(member.process.pid());
        member.live = true;
        member.watch = platform::Watch(*has_.loop, member.socket.fd(), [this, rank] { leave_early(rank); });
        member.watch.wait_for(platform::Ready::kReadable);
        if (live() == members_.size())
            begin();
    }

    // It says nothing while ranks gather: its socket has closed. The place is free again.
    void leave_early(uint32_t rank) {
        members_[rank].watch.stop();
        members_[rank] = Member{};
    }

    void refuse_all(base::Status status, const std::string& text) {
        for (Member& member : members_)
            if (member.live && member.socket)
                refuse(member.socket, status, text);
        over_ = true;
    }

    void begin() {
        has_.timer.stop();
        auto segment =
            platform::JobSegment::create(static_cast<uint32_t>(members_.size()), platform::usable_processors());
        if (!segment) {
            refuse_all(segment.error().status, segment.error().detail);
            return;
        }
        segment_ = std::make_unique<platform::JobSegment>(std::move(*segment));
        Assembly::Observer& self = *this;
        assembly_ = std::make_unique<Assembly>(*has_.loop, *segment_, self);
        auto inquiry = Inquiry::create({*has_.loop, *assembly_, [this](uint32_t rank) { return look(rank); },
                                        [this](const WaitReports& reports) { listing_.answer(reports); }},
                                       segment_->size(), segment_->size());
        if (!inquiry) {
            refuse_all(inquiry.error().status, inquiry.error().detail);
            return;
        }
        inquiry_ = std::move(*inquiry);
        for (uint32_t rank = 0; rank < members_.size(); ++rank) {
            Member& member = members_[rank];
            static_cast<void>(member.socket.try_send(bytes_of(wire::Joined{})));
            member.watch = platform::Watch(*has_.loop, member.process.pidfd(), [this, rank] { lose(rank); });
            member.watch.wait_for(platform::Ready::kReadable);
            assembly_->connect(rank, std::move(member.socket));
        }
    }

    // The process has ended, or has closed its socket: at its end, or in gpurun_finalize().
    void lose(uint32_t rank) {
        Member& member = members_[rank];
        if (!member.live)
            return;
        member.live = false;
        member.watch.stop();
        inquiry_->rank_ended(rank);
        if (segment_->has_finalized(rank))
            return;
        static_cast<void>(segment_->mark_dead(rank));
        assembly_->refuse(base::Status::kPeerLost, base::format("rank {} (pid {}) ended before every rank had joined",
                                                                rank, member.process.pid()));
    }

    void on_time() {
        if (!has_.timer.acknowledge())
            return;
        if (!gathers()) { // after gpurun_abort()
            signal_all(SIGKILL);
            return;
        }
        std::vector<uint32_t> missing;
        for (uint32_t rank = 0; rank < members_.size(); ++rank)
            if (!members_[rank].live)
                missing.push_back(rank);
        refuse_all(base::Status::kLauncher,
                   base::format("{} {} of {} did not join job {} within {} s: start all with the same GPURUN_JOB and "
                                "size, or give them more time (GPURUN_JOIN_TIMEOUT)",
                                missing.size() == 1 ? "rank" : "ranks", format_ranks(missing), members_.size(),
                                has_.job, timeout_ms_ / 1000));
    }

    void signal_all(int signal, std::optional<uint32_t> except = std::nullopt) const {
        for (uint32_t rank = 0; rank < members_.size(); ++rank)
            if (members_[rank].live && rank != except)
                members_[rank].process.signal(signal);
    }

    // Who has connected meanwhile is told to call again: it starts the next job.
    void end() {
        auto place = platform::MeetingPlace::lock_of(has_.path);
        if (place)
            place->remove(has_.path);
        callers_.say_to_all(bytes_of(wire::Again{}));
        for (platform::MessageSocket& each : early_)
            static_cast<void>(each.try_send(bytes_of(wire::Again{})));
    }

    // ---- told by Assembly
    void rank_said_hello(uint32_t) override {}
    void rank_misbehaved(uint32_t rank, const std::string&) override { lose(rank); }
    void versions_differ(uint32_t, const std::string& what) override {
        assembly_->refuse(base::Status::kVersion, what);
    }
    void rank_left_early(uint32_t) override {}
    void rank_closed(uint32_t rank) override { lose(rank); }
    void rank_aborted(uint32_t rank, int) override {
        signal_all(SIGTERM, rank); // before they learn that it is lost: an abort ends them all
        lose(rank);
        has_.timer.start(kGraceMs);
    }
    bool rank_answered(uint32_t rank, const wire::Answer& answer) override { return inquiry_->take(rank, answer); }
    bool rank_answered_all(uint32_t rank, const wire::Answered& answered) override {
        return inquiry_->finish(rank, answered);
    }

    Resources has_;
    Callers callers_;
    platform::Watch timer_;
    Listing listing_;
    std::vector<platform::MessageSocket> early_; // ranks of the next job of that name, until this one has ended
    bool over_ = false;
    int timeout_ms_ = kFirstCallMs;
    std::vector<Member> members_; // by rank; empty until the first one has said how many there are
    std::unique_ptr<platform::JobSegment> segment_;
    std::unique_ptr<Assembly> assembly_; // null while ranks gather
    std::unique_ptr<Inquiry> inquiry_;   // likewise
};

base::Result<void> watch_over(const std::string& job, std::string path) {
    platform::listen_again(wire::kListener); // who calls from now on sees this process
    GPURUN_ASSIGN(platform::OrphanGuard guard, platform::OrphanGuard::create());
    GPURUN_TRY(guard.watch_socket(path));
    GPURUN_ASSIGN(auto loop, platform::EventLoop::create());
    GPURUN_ASSIGN(platform::Timer timer, platform::Timer::create());
    Supervisor({std::move(loop), std::move(guard), std::move(timer), std::move(path), job}).run();
    return {};
}

} // namespace

int supervise(const std::string& job) {
    auto path = platform::path_of_listener(wire::kListener);
    if (!path)
        return 2;
    auto in_background = platform::go_into_background(wire::kListener);
    if (!in_background)
        return 1;
    if (!*in_background)
        return 0;
    return watch_over(job, std::move(*path)) ? 0 : 1;
}

} // namespace gpurun::launcher
