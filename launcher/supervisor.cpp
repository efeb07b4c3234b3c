// One thread, one event loop. First ranks come, and each says which it is (wire::Join). Once all are there, the job has
// its segment, and Assembly does for them what it does for ranks that gpurun started. A rank that ends is marked dead,
// and the others go on: who started them decides whether to end them. The supervisor ends when no rank is left, and not
// by a signal that can be ignored: pkill gpurun is not meant for it, and there is nobody to print a hang table for.
//
// Where another launcher has started the ranks on several nodes, each has a supervisor for its own. They tell each
// other what happens (other_nodes.hpp); that of rank 0 connects them (node_switch.hpp), and ends when the others have.
#include "supervisor.hpp"

#include "assembly.hpp"
#include "base/format.hpp"
#include "callers.hpp"
#include "deadlock.hpp"
#include "inquiry.hpp"
#include "listing.hpp"
#include "node_switch.hpp"
#include "other_nodes.hpp"
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

class Supervisor : private Assembly::Observer, private OtherNodes::Observer {
  public:
    struct Resources {
        std::unique_ptr<platform::EventLoop> loop;
        platform::OrphanGuard guard;
        platform::Timer timer;
        std::string path;
        std::string job;
    };
    explicit Supervisor(Resources resources)
        : has_(std::move(resources)),
          callers_(*has_.loop, wire::kListener,
                   [this](std::span<const std::byte> message, platform::MessageSocket who, platform::UniqueFd sent) {
                       hear(message, std::move(who), std::move(sent));
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
        nodes_.reset();
        while (switch_ && switch_->has_nodes() && has_.loop->run_once()) {
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
    bool all_here() const { return here_ == members_.size(); }
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

    void hear(std::span<const std::byte> message, platform::MessageSocket socket, platform::UniqueFd sent) {
        const wire::Header header = wire::header_of(message);
        if (header.magic == wire::kMagic && header.kind == wire::Kind::kQuery)
            take_query(message, std::move(socket));
        else
            take_join(message, std::move(socket), std::move(sent));
    }

    void take_join(std::span<const std::byte> message, platform::MessageSocket socket, platform::UniqueFd sent) {
        wire::Join join;
        join.header = {};
        std::memcpy(&join, message.data(), std::min(message.size(), sizeof join));
        join.meeting[sizeof join.meeting - 1] = '\0';
        if (join.header.magic != wire::kMagic || join.header.kind != wire::Kind::kJoin ||
            join.protocol != wire::kProtocol || message.size() != sizeof join)
            refuse(socket, base::Status::kVersion,
                   base::format("the gpurun that watches over job {} speaks protocol {}, and this library another one: "
                                "run all ranks with the same version",
                                has_.job, wire::kProtocol));
        else if (is_ending())
            early_.push_back(std::move(socket));
        else if (auto fits = check(join); !fits) {
            refuse(socket, fits.error().status, fits.error().detail);
            if (nodes_ && gathers())
                refuse_all(fits.error().status, fits.error().detail);
        } else
            admit(join, std::move(socket), std::move(sent));
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

    // Ranks of this node are numbered from 0 in Assembly and Inquiry; elsewhere a rank is its number in the job.
    RankReport look(uint32_t index) const {
        const Member& member = members_[ranks_[index]];
        return look_at(*assembly_, *segment_, {index, ranks_[index], member.live, member.process.pid()});
    }
    bool is_here(uint32_t rank) const { return std::binary_search(ranks_.begin(), ranks_.end(), rank); }
    uint32_t index_of(uint32_t rank) const {
        return static_cast<uint32_t>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
    }

    ListedJob describe(const WaitReports& reports) const {
        ListedJob job;
        job.name = has_.job;
        job.started_by = "its ranks";
        job.pid = platform::own_pid();
        job.size = static_cast<uint32_t>(members_.size());
        for (uint32_t number = 0; number < members_.size(); ++number) {
            const Member& member = members_[number];
            if (!all_here() && member.process.pid() == 0) // it is on another node, or may be
                continue;
            const uint32_t index = gathers() ? number : index_of(number);
            ListedRank& rank = job.ranks.emplace_back(listed(reports[index], platform::now_ns()));
            rank.rank = number;
            rank.pid = member.process.pid();
            rank.program = member.program;
            if (gathers()) {
                rank.state = member.live ? "waits for others to join" : "has not joined";
                continue;
            }
            rank.device = assembly_->device(index);
            rank.node = segment_->rank(number).node;
        }
        return job;
    }

    base::Result<void> check(const wire::Join& join) {
        const auto size = static_cast<int32_t>(members_.size());
        if (join.size < 1 || join.size > static_cast<int32_t>(platform::kMaxJobRanks) || join.rank < 0 ||
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
        const bool is_apart = join.meeting[0] != '\0';
        if (join.here < 1 || join.here > join.size || join.here > static_cast<int32_t>(platform::kMaxRanks) ||
            (join.here < join.size) != is_apart ||
            (size != 0 && (static_cast<uint32_t>(join.here) != here_ || join.meeting != meeting_)))
            return base::error(
                base::Status::kLauncher,
                "rank {} of job {} says that {} of its ranks are on this node, and that does not fit: start "
                "all ranks by one launcher",
                join.rank, has_.job, join.here);
        if (nodes_)
            return base::error(
                base::Status::kLauncher,
                "rank {} of job {} is one more than the launcher has on this node ({}): name each host once, "
                "with the number of its ranks",
                join.rank, has_.job, here_);
        if (is_apart && !platform::parse_meeting(join.meeting))
            return base::error(base::Status::kLauncher, "'{}' is not where nodes of a job meet", join.meeting);
        return {};
    }

    void admit(const wire::Join& join, platform::MessageSocket socket, platform::UniqueFd sent) {
        if (members_.empty()) {
            members_.resize(static_cast<size_t>(join.size));
            here_ = static_cast<size_t>(join.here);
            meeting_ = join.meeting;
            timeout_ms_ = join.timeout_ms;
            has_.timer.start(timeout_ms_);
        }
        if (sent && !switch_ && !all_here())
            switch_.emplace(*has_.loop, std::move(sent), platform::parse_meeting(meeting_)->key);
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
        if (live() < here_)
            return;
        for (uint32_t each = 0; each < members_.size(); ++each)
            if (members_[each].live)
                ranks_.push_back(each);
        if (all_here()) {
            begin({}, "");
            return;
        }
        OtherNodes::Observer& self = *this;
        nodes_.emplace(*has_.loop, *platform::parse_meeting(meeting_), static_cast<uint32_t>(members_.size()), ranks_,
                       self);
        nodes_->call();
    }

    // It says nothing while ranks gather: its socket has closed. The place is free again.
    void leave_early(uint32_t rank) {
        members_[rank].watch.stop();
        members_[rank] = Member{};
        if (nodes_) // the others have been told that it has come
            refuse_all(base::Status::kPeerLost, base::format("rank {} ended before every rank had joined", rank));
    }

    void refuse_all(base::Status status, const std::string& text) {
        if (nodes_)
            nodes_->tell_refusal(status, text);
        for (Member& member : members_)
            if (member.live && member.socket)
                refuse(member.socket, status, text);
        over_ = true;
    }

    // The node of each rank, and this one's address; nothing if all are here.
    void begin(const std::vector<uint32_t>& nodes, const std::string& address) {
        has_.timer.stop();
        const uint32_t cores = platform::usable_processors();
        auto segment = nodes.empty() ? platform::JobSegment::create(static_cast<uint32_t>(members_.size()), cores)
                                     : platform::JobSegment::create(nodes, nodes[ranks_.front()], cores);
        if (!segment) {
            refuse_all(segment.error().status, segment.error().detail);
            return;
        }
        segment_ = std::make_unique<platform::JobSegment>(std::move(*segment));
        Assembly::Observer& self = *this;
        assembly_ = std::make_unique<Assembly>(*has_.loop, *segment_, self, ranks_);
        auto inquiry = Inquiry::create({*has_.loop, *assembly_, [this](uint32_t rank) { return look(rank); },
                                        [this](const WaitReports& reports) { listing_.answer(reports); }},
                                       static_cast<uint32_t>(ranks_.size()), segment_->size());
        if (!inquiry) {
            refuse_all(inquiry.error().status, inquiry.error().detail);
            return;
        }
        inquiry_ = std::move(*inquiry);
        wire::Joined joined;
        address.copy(joined.address, sizeof joined.address - 1);
        for (uint32_t index = 0; index < ranks_.size(); ++index) {
            const uint32_t rank = ranks_[index];
            Member& member = members_[rank];
            static_cast<void>(member.socket.try_send(bytes_of(joined)));
            member.watch = platform::Watch(*has_.loop, member.process.pidfd(), [this, rank] { lose(rank); });
            member.watch.wait_for(platform::Ready::kReadable);
            assembly_->connect(index, std::move(member.socket));
        }
    }

    // The process has ended, or has closed its socket: at its end, or in gpurun_finalize().
    void lose(uint32_t rank) {
        Member& member = members_[rank];
        if (!member.live)
            return;
        member.live = false;
        member.watch.stop();
        inquiry_->rank_ended(index_of(rank));
        const bool finalized = segment_->has_finalized(rank);
        if (nodes_)
            nodes_->tell_end(rank, finalized);
        if (finalized)
            return;
        static_cast<void>(segment_->mark_dead(rank));
        refuse_those_who_wait(
            base::Status::kPeerLost,
            base::format("rank {} (pid {}) ended before every rank had joined", rank, member.process.pid()));
    }

    void refuse_those_who_wait(base::Status status, const std::string& why) {
        assembly_->refuse(status, why);
        if (nodes_)
            nodes_->tell_refusal(status, why);
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
                   base::format("{} {} of {} did not join job {}{} within {} s: start all with the same GPURUN_JOB and "
                                "size, or give them more time (GPURUN_JOIN_TIMEOUT)",
                                missing.size() == 1 ? "rank" : "ranks", format_ranks(missing), members_.size(),
                                has_.job, all_here() ? "" : ", or run on other nodes and did not come there,",
                                timeout_ms_ / 1000));
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
    void rank_misbehaved(uint32_t index, const std::string&) override { lose(ranks_[index]); }
    void versions_differ(uint32_t, const std::string& what) override {
        refuse_those_who_wait(base::Status::kVersion, what);
    }
    void rank_left_early(uint32_t) override {}
    bool all_ready() override {
        if (!nodes_)
            return true;
        std::string records;
        for (const uint32_t rank : ranks_)
            records.append(reinterpret_cast<const char*>(&segment_->rank(rank)), sizeof(platform::RankRecord));
        nodes_->tell_ready(records);
        return false;
    }
    void rank_closed(uint32_t index) override { lose(ranks_[index]); }
    void rank_aborted(uint32_t index, int) override {
        signal_all(SIGTERM, ranks_[index]); // before they learn that it is lost: an abort ends them all
        if (nodes_)
            nodes_->tell_abort();
        lose(ranks_[index]);
        has_.timer.start(kGraceMs);
    }
    void rank_leaves(uint32_t index, uint32_t steps) override {
        if (nodes_)
            nodes_->tell_steps(ranks_[index], steps);
    }
    bool rank_answered(uint32_t index, const wire::Answer& answer) override { return inquiry_->take(index, answer); }
    bool rank_answered_all(uint32_t index, const wire::Answered& answered) override {
        return inquiry_->finish(index, answered);
    }

    // ---- told by other nodes
    void nodes_known(const std::vector<uint32_t>& nodes, const std::string& address) override {
        if (gathers() && !over_)
            begin(nodes, address);
    }
    void all_nodes_ready(const std::vector<std::string_view>& records) override {
        for (uint32_t rank = 0; !gathers() && rank < records.size(); ++rank)
            if (!is_here(rank))
                std::memcpy(static_cast<void*>(&segment_->rank(rank)), records[rank].data(), records[rank].size());
        if (!gathers())
            assembly_->release();
    }
    void far_rank_leaves(uint32_t rank, uint32_t steps) override {
        if (!gathers() && !is_here(rank))
            segment_->tell_steps(rank, steps);
    }
    void far_rank_ended(uint32_t rank, bool finalized) override {
        if (gathers() || is_here(rank))
            return;
        if (finalized) {
            segment_->mark_finalized(rank);
            return;
        }
        static_cast<void>(segment_->mark_dead(rank));
        assembly_->refuse(base::Status::kPeerLost, base::format("rank {} ended before every rank had joined", rank));
    }
    void refused_by_nodes(base::Status status, const std::string& why) override {
        if (gathers())
            refuse_all(status, why);
        else
            assembly_->refuse(status, why);
    }
    void aborted_by_nodes() override {
        signal_all(SIGTERM);
        has_.timer.start(kGraceMs);
    }
    void nodes_lost(const std::string& why) override {
        if (gathers()) {
            refuse_all(base::Status::kLauncher, why);
            return;
        }
        for (uint32_t rank = 0; rank < segment_->size(); ++rank)
            if (!is_here(rank) && !segment_->has_finalized(rank))
                far_rank_ended(rank, false);
    }

    Resources has_;
    Callers callers_;
    platform::Watch timer_;
    Listing listing_;
    std::vector<platform::MessageSocket> early_; // ranks of the next job of that name, until this one has ended
    bool over_ = false;
    int timeout_ms_ = kFirstCallMs;
    std::vector<Member> members_; // by rank, those of other nodes too; empty until the first one has come
    size_t here_ = 0;             // how many of them are on this node
    std::string meeting_;         // of its nodes, if it has several
    std::vector<uint32_t> ranks_; // that are here, once all have come
    std::optional<NodeSwitch> switch_;
    std::optional<OtherNodes> nodes_;
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
