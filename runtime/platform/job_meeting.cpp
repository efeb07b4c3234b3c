#include "platform/job_meeting.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "platform/job_name.hpp"
#include "platform/meeting_place.hpp"
#include "platform/private_folder.hpp"
#include "platform/system_error.hpp"
#include "platform/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <list>
#include <poll.h>
#include <sys/stat.h>
#include <vector>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

constexpr size_t kLongestFront = 40; // of a joint job's name; what follows is unique

class Deadline {
  public:
    explicit Deadline(int64_t timeout_ms)
        : at_ns_(timeout_ms < 0 ? INT64_MAX : now_ns() + std::min(timeout_ms, kLongestMs) * 1'000'000) {}

    bool passed() const { return at_ns_ != INT64_MAX && now_ns() >= at_ns_; }
    // For poll(): -1 is for ever.
    int left_ms() const {
        if (at_ns_ == INT64_MAX)
            return -1;
        const int64_t left_ms = (at_ns_ - now_ns() + 999'999) / 1'000'000;
        return static_cast<int>(std::clamp<int64_t>(left_ms, 0, INT_MAX));
    }

  private:
    static constexpr int64_t kLongestMs = int64_t{1} << 40;
    int64_t at_ns_;
};

// Until one of them is readable; at the latest at the deadline.
Result<void> wait_for(std::vector<pollfd>& watched, const Deadline& deadline) {
    if (::poll(watched.data(), watched.size(), deadline.left_ms()) < 0 && errno != EINTR)
        return system_error("waiting for another job");
    return {};
}

std::string within(const Party& self) {
    return base::format("within {} s", static_cast<double>(self.timeout_ms) / 1000);
}

std::string name_of_joint(const std::string& name) { return name.substr(0, kLongestFront) + "-" + new_job_name(); }

// Why they cannot meet; "" if they can.
std::string refusal_of(const wire::Meet& caller, size_t bytes, const Party& self) {
    if (caller.header.magic != wire::kMagic || caller.header.kind != wire::Kind::kMeet ||
        caller.protocol != wire::kProtocol || bytes != sizeof caller)
        return base::format("the job that accepts speaks protocol {}, and this one another: run both with the same "
                            "version of gpurun",
                            wire::kProtocol);
    if (caller.job[0] == self.job[0] && caller.job[1] == self.job[1])
        return "a job cannot connect to itself: gpurun_comm_split() makes communicators of its ranks";
    if (caller.ranks < 1 || caller.ranks > kMaxRanks || caller.ranks + self.ranks > kMaxRanks)
        return base::format("the two would have {} ranks together, and at most {} can meet",
                            uint64_t{caller.ranks} + self.ranks, kMaxRanks);
    return "";
}

// Listens, and hears whoever has called until one of them fits.
class Acceptance {
  public:
    Acceptance(const std::string& name, const Party& self, OwnSocket listener)
        : name_(name), self_(self), listener_(std::move(listener)) {}

    Result<JointJob> run() {
        const Deadline deadline(self_.timeout_ms);
        while (!found_) {
            std::vector<pollfd> watched{{listener_.fd(), POLLIN, 0}};
            for (const MessageSocket& each : callers_)
                watched.push_back({each.fd(), POLLIN, 0});
            GPURUN_TRY(wait_for(watched, deadline));
            if (deadline.passed())
                return base::error(Status::kTimeout, "no job has connected to '{}' {}", name_, within(self_));
            if (watched[0].revents != 0)
                GPURUN_TRY(admit());
            size_t place = 1;
            for (auto each = callers_.begin(); each != callers_.end() && place < watched.size() && !found_; ++place)
                each = watched[place].revents != 0 && !is_to_stay(*each) ? callers_.erase(each) : std::next(each);
        }
        return *found_;
    }

  private:
    Result<void> admit() {
        GPURUN_ASSIGN(MessageSocket socket, accept_caller(listener_.fd()));
        if (!socket)
            return {};
        auto other = counterpart(socket.fd());
        if (other && other->same_user && callers_.size() < kMaxRanks)
            callers_.push_back(std::move(socket));
        return {};
    }

    // False: it has said what it had to say, or has gone.
    bool is_to_stay(MessageSocket& caller) {
        alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
        auto received = caller.try_receive(bytes);
        if (received && !received->has_value())
            return true;
        if (!received || (*received)->bytes == 0)
            return false;
        wire::Meet meet;
        meet.header = {};
        std::memcpy(&meet, bytes.data(), std::min((*received)->bytes, sizeof meet));
        if (const std::string why = refusal_of(meet, (*received)->bytes, self_); !why.empty()) {
            static_cast<void>(caller.try_send(bytes_of(wire::refusal_for(Status::kLauncher, why))));
            return false;
        }
        const JointJob joint{name_of_joint(name_), 0, self_.ranks + meet.ranks, self_.mps && meet.mps != 0};
        wire::Met answer;
        answer.ranks = self_.ranks;
        answer.mps = joint.mps ? 1 : 0;
        joint.name.copy(answer.name, sizeof answer.name - 1);
        auto sent = caller.try_send(bytes_of(answer));
        if (sent && *sent) // else it has just gone
            found_ = joint;
        return false;
    }

    const std::string& name_;
    const Party& self_;
    OwnSocket listener_;
    std::list<MessageSocket> callers_; // that have said nothing yet
    std::optional<JointJob> found_;
};

// What the acceptor answers. None: it has gone, and the next one is to be called.
Result<std::optional<JointJob>> hear(MessageSocket& socket, const Party& self, const Deadline& deadline) {
    std::vector<pollfd> watched{{socket.fd(), POLLIN, 0}};
    std::optional<MessageSocket::Received> received;
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
    while (!received) {
        GPURUN_TRY(wait_for(watched, deadline));
        auto heard = socket.try_receive(bytes);
        if (!heard)
            return std::optional<JointJob>();
        received = std::move(*heard);
        if (!received && deadline.passed())
            return std::optional<JointJob>();
    }
    const auto message = std::span<const std::byte>(bytes).first(received->bytes);
    if (message.empty())
        return std::optional<JointJob>();
    wire::Met met;
    if (auto refused = wire::refused_by(message))
        return *std::move(refused);
    if (wire::header_of(message).kind != wire::Kind::kMet || message.size() != sizeof met)
        return base::error(Status::kLauncher, "what accepts there is not gpurun, or another version of it");
    std::memcpy(&met, message.data(), sizeof met);
    met.name[sizeof met.name - 1] = '\0';
    if (met.ranks < 1 || met.ranks > kMaxRanks || met.ranks + self.ranks > kMaxRanks)
        return base::error(Status::kLauncher, "what accepts there says that it has {} ranks", met.ranks);
    return std::optional<JointJob>({met.name, met.ranks, met.ranks + self.ranks, met.mps != 0});
}

Result<FolderWatch> watch_meeting_place() {
    for (int i = 1;; ++i) {
        GPURUN_ASSIGN(const std::string folder, open_meeting_place());
        auto changes = FolderWatch::create(folder);
        if (changes || i == kMostFolderTries)
            return changes;
    }
}

class Calling {
  public:
    Calling(const std::string& name, const Party& self)
        : name_(name), self_(self), deadline_(self.timeout_ms), path_(path_in_meeting_place(name_of_acceptance(name))) {
    }
    ~Calling() { close_meeting_place(); }
    Calling(const Calling&) = delete;

    Result<JointJob> run() {
        while (true) {
            // Before it is looked for: what appears later makes this readable. So does the end of the folder.
            GPURUN_ASSIGN(const FolderWatch changes, watch_meeting_place());
            GPURUN_ASSIGN(std::optional<JointJob> joint, call());
            if (joint)
                return *joint;
            std::vector<pollfd> watched{{changes.fd(), POLLIN, 0}};
            GPURUN_TRY(wait_for(watched, deadline_));
            if (deadline_.passed())
                return base::error(Status::kTimeout, "no job has accepted under the name '{}' {}", name_,
                                   within(self_));
        }
    }

  private:
    Result<std::optional<JointJob>> call() {
        auto socket = call_now(path_);
        if (!socket)
            return std::move(socket).failure();
        if (!*socket) {
            sweep_now(path_); // if an acceptor was killed
            return std::optional<JointJob>();
        }
        wire::Meet meet;
        meet.ranks = self_.ranks;
        meet.mps = self_.mps ? 1 : 0;
        std::copy(std::begin(self_.job), std::end(self_.job), std::begin(meet.job));
        if (!socket->send(bytes_of(meet)))
            return std::optional<JointJob>();
        return hear(*socket, self_, deadline_);
    }

    const std::string& name_;
    const Party& self_;
    const Deadline deadline_;
    const std::string path_;
};

} // namespace

Result<Party> Party::of(const JobSegment& job, uint32_t ranks, int64_t timeout_ms) {
    struct stat status {};
    if (::fstat(job.fd(), &status) != 0)
        return system_error("looking at the job's segment");
    return Party{ranks, {status.st_dev, status.st_ino}, timeout_ms};
}

Result<JointJob> accept_job(const std::string& name, const Party& self) {
    GPURUN_TRY(check_meeting_name(name));
    auto listener = OwnSocket::claim(name_of_acceptance(name));
    if (!listener && listener.error().status == Status::kLauncher)
        return base::error(Status::kLauncher,
                           "another process accepts under the name '{}' already: wait until it has met a job, or "
                           "choose another name",
                           name);
    if (!listener)
        return std::move(listener).failure();
    return Acceptance(name, self, std::move(*listener)).run();
}

Result<JointJob> connect_job(const std::string& name, const Party& self) {
    GPURUN_TRY(check_meeting_name(name));
    return Calling(name, self).run();
}

base::Settings settings_in(const JointJob& joint, uint32_t index, const base::Settings& own) {
    base::Settings settings = own;
    settings.job = joint.name;
    settings.rank = static_cast<int>(joint.first + index);
    settings.size = static_cast<int>(joint.size);
    settings.control_fd = -1;
    settings.meeting.clear();
    settings.meeting_listener = -1;
    settings.mps = joint.mps;
    settings.local_rank = settings.rank;
    settings.local_size = settings.size;
    return settings;
}

} // namespace gpurun::platform
