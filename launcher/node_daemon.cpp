// One thread, one event loop, which is the Job's, too, once there is one. First the head's address is read, and called;
// then it says what is to be run; then the Job runs, and the handlers of the link tell it what the head says.
#include "node_daemon.hpp"

#include "base/format.hpp"
#include "job.hpp"
#include "machine_report.hpp"
#include "node_environment.hpp"
#include "node_link.hpp"
#include "node_outputs.hpp"
#include "node_traces.hpp"
#include "node_wire.hpp"
#include "options.hpp"
#include "placement_report.hpp"
#include "planning.hpp"
#include "platform/byte_stream.hpp"
#include "platform/clock.hpp"
#include "platform/tcp.hpp"
#include "report_json.hpp"
#include "report_wire.hpp"
#include "summary.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gpurun/version.h>
#include <nlohmann/json.hpp>

namespace gpurun::launcher {

namespace {

using nlohmann::json;
using node_wire::Kind;

constexpr int kNodeFailed = 1;
constexpr int kBadOptions = 2;
constexpr size_t kMostEarly = 1024;
constexpr size_t kLongestCall = 64 * 1024; // what the standard input has
constexpr int64_t kOneCallMs = 3000;       // to one of the head's addresses
constexpr int64_t kWithoutHeadMs = 1000;   // between SIGTERM and SIGKILL, once the head has gone
constexpr int64_t kFarewellMs = 3000;      // that the head may take to hang up, once all is done

struct Call {
    std::vector<std::string> addresses;
    uint16_t port = 0;
    node_wire::Hello hello;
};

// Throws what json does: it is read in one place.
Call parse_call(const std::string& text) {
    const json call = json::parse(text);
    Call parsed;
    parsed.addresses = call.at("addresses").get<std::vector<std::string>>();
    parsed.port = call.at("port").get<uint16_t>();
    parsed.hello.node = call.at("node").get<uint32_t>();
    const auto key = call.at("key").get<std::vector<uint8_t>>();
    if (key.size() == parsed.hello.key.size())
        std::memcpy(parsed.hello.key.data(), key.data(), key.size());
    return parsed;
}

class NodeDaemon : private NodeLink::Observer, private Uplink {
  public:
    NodeDaemon(std::unique_ptr<platform::EventLoop> loop, platform::Timer timer, const char* const* environment)
        : inherited_(environment), own_loop_(std::move(loop)), loop_(*own_loop_), timer_(std::move(timer)),
          timer_watch_(loop_, timer_.fd(), [this] {
              timer_.acknowledge();
              on_time();
          }) {
        timer_watch_.wait_for(platform::Ready::kReadable);
    }

    int run() {
        if (!hear_whom_to_call())
            return kNodeFailed;
        if (!call_head()) {
            platform::write_all(platform::kStandardError, complaint_);
            return kNodeFailed;
        }
        while (!placed_ && !over_)
            if (!loop_.run_once())
                return kNodeFailed;
        if (!over_ && count_ > 0)
            run_job();
        if (!over_ && job_ != nullptr && job_->tracing() != nullptr && started_)
            pass_traces();
        if (!over_) {
            send(Kind::kDone, {});
            job_done_ = true;
            timer_.start(kFarewellMs);
        }
        while (!over_)
            if (!loop_.run_once())
                break;
        return 0;
    }

  private:
    // ---- whom to call

    bool hear_whom_to_call() {
        std::string text;
        bool closed = false;
        platform::Watch readable(loop_, platform::kStandardInput, [&] {
            std::array<char, 4096> chunk;
            const platform::Transfer got = platform::read_now(platform::kStandardInput, chunk);
            text.append(chunk.data(), got.bytes);
            closed = got.state == platform::StreamState::kClosed;
        });
        if (!readable.wait_for(platform::Ready::kReadable))
            return false;
        while (!closed && text.find('\n') == std::string::npos && text.size() < kLongestCall)
            if (!loop_.run_once())
                return false;
        readable.stop();
        try {
            call_ = parse_call(text.substr(0, text.find('\n')));
        } catch (const json::exception&) {
            platform::write_all(platform::kStandardError, "gpurun --node-daemon is started by gpurun --hosts\n");
            return false;
        }
        return true;
    }

    // The first address at which somebody answers as a head does.
    bool call_head() {
        complaint_ = "the gpurun that was started cannot be reached from here:";
        for (const std::string& address : call_.addresses) {
            complaint_ += base::format(" {} port {}", address, call_.port);
            auto calling = platform::call_tcp(address, call_.port);
            if (!calling)
                continue;
            late_ = false;
            timer_.start(kOneCallMs);
            bool decided = false;
            platform::Watch writable(loop_, calling->get(), [&] { decided = true; });
            writable.wait_for(platform::Ready::kWritable);
            while (!decided && !late_ && loop_.run_once()) {
            }
            writable.stop();
            if (!decided || !platform::is_connected(calling->get()))
                continue;
            NodeLink::Observer& self = *this;
            link_.emplace(loop_, std::move(*calling), self, NodeLink::kLargest);
            send(Kind::kHello, node_wire::text_of(call_.hello));
            timer_.start(kOneCallMs);
            late_ = false;
            while (!set_up_ && link_->open() && !late_ && loop_.run_once()) {
            }
            timer_.stop();
            if (set_up_)
                return true;
        }
        complaint_ += "; a firewall?\n";
        return false;
    }

    // ---- what the head says

    void send(Kind kind, std::string_view message) {
        if (link_)
            link_->send(static_cast<uint32_t>(kind), message);
    }
    void cannot(int exit_status, const std::string& why) {
        send(Kind::kCannot, node_wire::text_of(node_wire::Number{exit_status}, why));
    }

    bool heard(uint32_t kind, std::string_view message) override {
        try {
            switch (static_cast<Kind>(kind)) {
            case Kind::kSetup: return take_setup(json::from_cbor(message));
            case Kind::kPlace: return take_place(json::from_cbor(message));
            case Kind::kKill: return kill();
            case Kind::kPing: return answer_ping(message);
            case Kind::kInput: return placed_ && take_input(message);
            case Kind::kInputEnd:
                input_ends_ = true;
                pass_input();
                return placed_;
            default: break;
            }
        } catch (const json::exception&) {
            return false;
        }
        if (started_)
            return take_order(static_cast<Kind>(kind), message);
        if (static_cast<Kind>(kind) == Kind::kEnd && job_ != nullptr) // it has no rank yet that could tidy up
            return kill();
        // Of ranks that do not run yet.
        early_.emplace_back(static_cast<Kind>(kind), message);
        return placed_ && early_.size() <= kMostEarly;
    }

    bool take_order(Kind kind, std::string_view message) {
        std::string_view rest = message;
        const auto number = node_wire::take_front<node_wire::Number>(rest);
        const auto rank = node_wire::message_of<node_wire::OfRank>(message);
        const bool knows_rank = rank && rank->rank < job_->segment().size();
        switch (kind) {
        case Kind::kGo: return take_records(message);
        case Kind::kDead:
            if (knows_rank)
                job_->mark_dead(rank->rank);
            return knows_rank;
        case Kind::kLeaving: return take_steps(message);
        case Kind::kFinalized:
            if (knows_rank)
                job_->mark_finalized(rank->rank);
            return knows_rank;
        case Kind::kRefuse:
            if (number)
                job_->refuse(static_cast<base::Status>(number->value), std::string(rest));
            return number.has_value();
        case Kind::kEnd:
            if (number)
                job_->end(number->value);
            return number.has_value();
        case Kind::kSignal:
            if (number)
                job_->signal_each(number->value);
            return number.has_value();
        case Kind::kAsk:
            if (number)
                job_->tell_waits(static_cast<uint32_t>(number->value));
            return number.has_value();
        case Kind::kPartWanted: return traces_ && traces_->take_request(message);
        case Kind::kPartsTaken:
            if (traces_)
                traces_->finish();
            return traces_.has_value();
        case Kind::kStop: job_->stop(); return true;
        case Kind::kContinue: job_->go_on(); return true;
        case Kind::kOutputTaken: return outputs_->taken(message);
        case Kind::kOutputClosed: return outputs_->closed(message);
        default: return false;
        }
    }

    bool answer_ping(std::string_view message) {
        const auto asked = node_wire::message_of<node_wire::Time>(message);
        if (asked)
            send(Kind::kPong, node_wire::text_of(node_wire::Pong{*asked, {platform::now_ns()}}));
        return asked.has_value();
    }

    void pass_traces() {
        traces_.emplace(*job_->tracing(), first_, [this](Kind kind, std::string_view message) { send(kind, message); });
        while (!traces_->finished() && !over_ && loop_.run_once()) {
        }
    }

    bool kill() {
        if (traces_)
            traces_->finish();
        else if (job_ != nullptr)
            job_->kill();
        else
            over_ = true;
        return true;
    }

    bool take_setup(const json& setup) {
        if (set_up_)
            return false;
        set_up_ = true;
        const std::string folder = setup.at("folder");
        terminal_.size = {setup.at("columns").get<uint16_t>(), setup.at("rows").get<uint16_t>()};
        terminal_.only = setup.at("only_on_terminal");
        take_environment(setup.at("environment").get<std::vector<std::string>>());
        std::error_code failed;
        std::filesystem::current_path(folder, failed);
        if (failed) {
            cannot(kNodeFailed, base::format("the folder {} in which gpurun was started cannot be entered there: {}",
                                             folder, failed.message()));
            return true;
        }
        auto words = setup.at("words").get<std::vector<std::string>>();
        std::vector<const char*> argv;
        for (const std::string& word : words)
            argv.push_back(word.c_str());
        auto parsed = parse_options(static_cast<int>(argv.size()), argv.data());
        if (!parsed || parsed->options.programs.empty()) {
            cannot(kBadOptions, parsed ? "no program" : parsed.error().detail);
            return true;
        }
        options_ = std::move(parsed->options);
        if (options_.report.topology)
            tell_machine();
        else
            tell_capacity();
        return true;
    }

    void take_environment(std::vector<std::string> heads) {
        environment_ = merge_environments(std::move(heads), inherited_);
        pointers_.clear();
        ::clearenv();
        for (std::string& entry : environment_) {
            ::putenv(entry.data()); // for what looks for a variable of its own here
            pointers_.push_back(entry.c_str());
        }
        pointers_.push_back(nullptr);
    }

    void tell_machine() {
        auto facts = gather_facts(options_, pointers_.data());
        if (!facts) {
            cannot(kBadOptions, facts.error().detail);
            return;
        }
        send(Kind::kReport, options_.report.json ? machine_as_json(*facts) : machine_as_text(*facts));
        placed_ = true; // no rank
    }

    void tell_capacity() {
        auto there = look_around(options_, pointers_.data());
        if (!there) {
            cannot(kBadOptions, there.error().detail);
            return;
        }
        there_ = std::move(*there);
        auto slots = count_slots(options_, there_);
        if (!slots) {
            cannot(kBadOptions, slots.error().detail);
            return;
        }
        send(Kind::kCapacity, node_wire::text_of(node_wire::Capacity{*slots, there_.port}));
    }

    bool take_place(const json& place) {
        if (placed_ || !set_up_)
            return false;
        nodes_ = place.at("nodes").get<std::vector<uint32_t>>();
        first_ = place.at("first");
        count_ = place.at("count");
        if (nodes_.size() > platform::kMaxJobRanks || first_ > nodes_.size() || count_ > nodes_.size() - first_ ||
            count_ > platform::kMaxRanks)
            return false;
        there_.port = place.at("port");
        std::string address = place.at("address");
        if (address.empty())
            address = platform::own_address_of(link_->fd());
        there_.share =
            NodeShare{first_, count_, static_cast<uint32_t>(nodes_.size()), place.at("master"), std::move(address)};
        terminal_.host = place.at("host");
        placed_ = true;
        return true;
    }

    // ---- the job

    base::Result<void> create_job() {
        keep_share(options_.programs, first_, count_);
        std::vector<ProgramPlan> programs;
        for (const Program& program : options_.programs) {
            if (options_.report.dry_run)
                break;
            Located located = locate(program);
            if (located.exit_status != 0) {
                status_ = located.exit_status;
                return base::error(base::Status::kArgument, "{}", located.reason);
            }
            programs.push_back(std::move(located.plan));
        }
        status_ = kBadOptions;
        GPURUN_ASSIGN(Placement placement, place_job(options_, there_));
        GPURUN_ASSIGN(MpsPlan mps, mps_for(options_, placement));
        for (const std::string& notice : {placement.device_notice, mps.notice})
            if (!notice.empty())
                send(Kind::kSay, notice);
        if (says_core_notice(options_, placement))
            send(Kind::kSay, placement.core_notice);
        if (options_.report.bindings)
            send(Kind::kReport, options_.report.json ? bindings_as_json(placement, there_.machine, first_)
                                                     : bindings_as_table(options_, placement, there_.machine, first_));
        if (options_.report.dry_run)
            return {};
        status_ = kNodeFailed;
        JobPlan plan = plan_job(options_, std::move(placement), std::move(mps), std::move(programs), there_);
        for (const RankPlan& rank : plan.ranks)
            devices_.push_back(describe_device(rank.device));
        plan.trace = options_.trace;
        if (!plan.trace.empty()) {
            GPURUN_ASSIGN(plan.trace_limits, TraceLimits::from_settings());
        }
        plan.first_rank = first_;
        plan.nodes = nodes_;
        plan.ending.timeout_ms.reset(); // the head's
        plan.ending.hang_timeout_ms.reset();
        GPURUN_ASSIGN(platform::UniqueFd input, prepare_input());
        auto outputs = std::make_unique<NodeOutputs>(
            loop_, [this](Kind kind, std::string_view message) { send(kind, message); }, first_, plan.output,
            terminal_);
        outputs_ = outputs.get();
        GPURUN_ASSIGN(job_, Job::create(std::move(plan), {&loop_, std::move(outputs), std::move(input), this}));
        return {};
    }

    void run_job() {
        auto created = create_job();
        if (!created) {
            cannot(status_, created.error().detail);
            return;
        }
        if (job_ == nullptr) // a dry run
            return;
        if (auto ran = job_->run(); !ran)
            cannot(kNodeFailed, ran.error().detail);
    }

    // What ranks read from; none if none of them does.
    base::Result<platform::UniqueFd> prepare_input() {
        bool any = false;
        for (uint32_t rank = first_; rank < first_ + count_; ++rank)
            any = any || options_.output.readers.has(rank);
        if (!any)
            return platform::UniqueFd();
        GPURUN_ASSIGN(platform::Pipe pipe, platform::create_pipe());
        input_ = std::move(pipe.write_end);
        input_room_ = platform::Watch(loop_, input_.get(), [this] { pass_input(); });
        pass_input();
        return std::move(pipe.read_end);
    }

    // However many pieces it comes in, also before there is somebody to pass it to.
    bool take_input(std::string_view bytes) {
        if (unread_input_.size() + bytes.size() > node_wire::kInputWindow)
            return false;
        unread_input_ += bytes;
        pass_input();
        return true;
    }

    void pass_input() {
        if (!input_)
            return;
        const platform::Transfer written = platform::write_now(input_.get(), unread_input_);
        unread_input_.erase(0, written.bytes);
        if (written.bytes > 0)
            send(Kind::kInputTaken, node_wire::text_of(node_wire::Number{static_cast<int32_t>(written.bytes)}));
        const bool closed = written.state == platform::StreamState::kClosed;
        if (closed)
            send(Kind::kInputClosed, {});
        if (closed || (input_ends_ && unread_input_.empty())) {
            input_room_.stop();
            input_.reset();
            return;
        }
        input_room_.wait_for(unread_input_.empty() ? platform::Ready::kNothing : platform::Ready::kWritable);
    }

    bool take_steps(std::string_view message) {
        const auto leaving = node_wire::message_of<node_wire::Leaving>(message);
        const bool knows = leaving && leaving->rank < job_->segment().size();
        if (knows)
            job_->tell_steps(leaving->rank, leaving->steps);
        return knows;
    }

    bool take_records(std::string_view message) {
        const platform::JobSegment& segment = job_->segment();
        if (!ready_ || gone_ || message.size() != segment.size() * sizeof(platform::RankRecord))
            return false;
        gone_ = true;
        for (uint32_t rank = 0; rank < segment.size(); ++rank)
            if (nodes_[rank] != call_.hello.node)
                std::memcpy(static_cast<void*>(&segment.rank(rank)),
                            message.data() + rank * sizeof(platform::RankRecord), sizeof(platform::RankRecord));
        job_->release();
        return true;
    }

    void link_ended(const std::string& why) override {
        if (!set_up_)
            return;
        if (!why.empty() && !job_done_) // the agent brings it, if the head is still there
            platform::write_now(platform::kStandardError, base::format("lost the gpurun that was started: {}\n", why));
        over_ = true;
        if (job_ != nullptr && !job_done_)
            job_->lose_head(kWithoutHeadMs);
    }
    void on_time() {
        late_ = true;
        over_ = over_ || job_done_;
    }

    // ---- what the job tells

    void ranks_started() override {
        std::string text;
        for (uint32_t index = 0; index < count_; ++index) {
            node_wire::Started started;
            started.pid = job_->pid_of(index);
            devices_[index].copy(started.device, sizeof started.device - 1);
            text += node_wire::text_of(started);
        }
        send(Kind::kStarted, text);
        started_ = true;
        for (const auto& [kind, message] : std::exchange(early_, {}))
            take_order(kind, message);
    }
    void start_failed(int exit_status, const std::string& why) override { cannot(exit_status, why); }
    void rank_said_hello(uint32_t rank) override {
        send(Kind::kJoined, node_wire::text_of(node_wire::OfRank{first_ + rank}));
    }
    void ranks_ready() override {
        ready_ = true;
        std::string text;
        for (uint32_t rank = first_; rank < first_ + count_; ++rank)
            text.append(reinterpret_cast<const char*>(&job_->segment().rank(rank)), sizeof(platform::RankRecord));
        send(Kind::kReady, text);
    }
    void rank_leaves(uint32_t rank, uint32_t steps) override {
        send(Kind::kLeaving, node_wire::text_of(node_wire::Leaving{first_ + rank, steps}));
    }
    void rank_finalized(uint32_t rank) override {
        send(Kind::kFinalized, node_wire::text_of(node_wire::OfRank{first_ + rank}));
    }
    void rank_ended(uint32_t rank, const RankEnd& end, const std::string& last_words) override {
        const node_wire::Ended ended{first_ + rank, end.process.by_signal ? 1U : 0U, end.process.value,
                                     end.said_hello ? 1U : 0U, end.finalized ? 1U : 0U};
        send(Kind::kEnded, node_wire::text_of(ended, last_words));
    }
    void rank_failed(uint32_t rank, const Failure& failure, bool whole_job, const std::string& last_words) override {
        const node_wire::Failed failed{first_ + rank, failure.exit_status, whole_job ? 1U : 0U,
                                       static_cast<uint32_t>(failure.what.size())};
        send(Kind::kFailed, node_wire::text_of(failed, failure.what + last_words));
    }
    void versions_differ(uint32_t rank, const std::string& what) override {
        send(Kind::kVersions, node_wire::text_of(node_wire::OfRank{first_ + rank}, what));
    }
    void ranks_wait(uint32_t question, const WaitReports& reports) override {
        for (uint32_t index = 0; index < count_; ++index)
            send(Kind::kWaits, as_message({question, first_ + index, platform::now_ns(), reports[index]}));
    }

    const char* const* inherited_;
    std::unique_ptr<platform::EventLoop> own_loop_;
    platform::EventLoop& loop_;
    platform::Timer timer_;
    bool late_ = false;
    Call call_;
    std::string complaint_;

    bool set_up_ = false;
    bool placed_ = false;
    bool ready_ = false;
    bool gone_ = false;
    bool started_ = false;
    std::vector<std::pair<Kind, std::string>> early_;
    bool job_done_ = false;
    bool over_ = false; // without a head
    int status_ = kNodeFailed;
    std::vector<std::string> environment_;
    std::vector<const char*> pointers_;
    Options options_;
    Surroundings there_;
    NodeOutputs::Terminal terminal_;
    std::vector<uint32_t> nodes_; // of each rank
    uint32_t first_ = 0;
    uint32_t count_ = 0;
    std::vector<std::string> devices_;

    std::unique_ptr<Job> job_;
    std::optional<NodeTraces> traces_; // once its ranks have ended
    NodeOutputs* outputs_ = nullptr;
    platform::UniqueFd input_; // the pipe that is the standard input of ranks
    std::string unread_input_;
    bool input_ends_ = false;
    platform::Watch input_room_;
    std::optional<NodeLink> link_;
    platform::Watch timer_watch_;
};

} // namespace

int run_node_daemon(const char* const* environment) {
    auto loop = platform::EventLoop::create();
    auto timer = platform::Timer::create();
    if (!loop || !timer)
        return kNodeFailed;
    return NodeDaemon(std::move(*loop), std::move(*timer), environment).run();
}

} // namespace gpurun::launcher
