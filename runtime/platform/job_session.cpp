#include "platform/job_session.hpp"

#include "base/format.hpp"
#include "platform/joining.hpp"
#include "platform/meeting_place.hpp"
#include "platform/process_state.hpp"
#include "platform/system_error.hpp"
#include "platform/wake.hpp"
#include "platform/wire.hpp"

#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

template <typename Message>
Result<void> say(MessageSocket& socket, const Message& message, int fd = -1) {
    return socket.send(wire::bytes_of(message), fd);
}

struct Heard {
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
    size_t size = 0;
    UniqueFd fd;
    wire::Kind kind{};
};

// The next message, whichever it is. A refusal becomes the error that it carries.
Result<void> hear(MessageSocket& socket, Heard& heard) {
    GPURUN_ASSIGN(MessageSocket::Received received, socket.receive(heard.bytes));
    if (received.bytes == 0)
        return base::error(Status::kLauncher, "gpurun ended while the job was starting; its message says why");
    const auto message = std::span<const std::byte>(heard.bytes).first(received.bytes);
    const wire::Header header = wire::header_of(message);
    if (header.magic != wire::kMagic)
        return base::error(Status::kVersion,
                           "gpurun speaks another protocol than this library ({}): start the "
                           "program with the gpurun that belongs to its library",
                           wire::kProtocol);
    if (auto refused = wire::refused_by(message))
        return *std::move(refused);
    heard.size = received.bytes;
    heard.fd = std::move(received.fd);
    heard.kind = header.kind;
    return {};
}

template <typename Message>
Result<Message> as(const Heard& heard, wire::Kind kind) {
    if (heard.kind != kind || heard.size != sizeof(Message))
        return base::error(Status::kLauncher, "gpurun sent message {} of {} bytes, which does not belong there",
                           static_cast<uint32_t>(heard.kind), heard.size);
    Message message;
    std::memcpy(&message, heard.bytes.data(), sizeof message);
    return message;
}

} // namespace

// The socket to gpurun, inherited from it or of the job's supervisor; an invalid one for a job of one rank.
static Result<JoinedJob> control_socket(const base::Settings& settings) {
    if (settings.control_fd < 0 && !settings.job.empty())
        return join_job(settings);
    if (settings.control_fd < 0 && settings.size != 1)
        return base::error(
            Status::kSetting,
            "GPURUN_SIZE={}, but no job is named: start the program with gpurun -n {}, or set GPURUN_JOB "
            "to a name that all its ranks share",
            settings.size, settings.size);
    if (settings.control_fd < 0)
        return JoinedJob();
    // The number may have become that of another file, which stays the program's.
    if (!MessageSocket::is_one(settings.control_fd) || ::fcntl(settings.control_fd, F_SETFD, FD_CLOEXEC) != 0)
        return base::error(Status::kLauncher,
                           "GPURUN_CONTROL_FD={} is not gpurun's socket: a program between gpurun and this one has "
                           "closed it, or gpurun_init() has failed here before",
                           settings.control_fd);
    return JoinedJob{MessageSocket(UniqueFd(settings.control_fd)), {}};
}

uint32_t usable_processors() {
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) == 0)
        return static_cast<uint32_t>(CPU_COUNT(&set));
    return static_cast<uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
}

Result<JobSession> JobSession::connect(const base::Settings& settings, uint32_t version) {
    GPURUN_ASSIGN(JoinedJob joined, control_socket(settings));
    MessageSocket& socket = joined.socket;
    if (!socket) {
        GPURUN_ASSIGN(JobSegment segment, JobSegment::create(1, usable_processors()));
        return JobSession(MessageSocket(), std::move(segment), 0);
    }
    wire::Hello hello;
    hello.version = version;
    hello.layout = kLayout;
    hello.rank = settings.rank;
    hello.pid = ::getpid();
    GPURUN_TRY(say(socket, hello));
    Heard heard;
    GPURUN_TRY(hear(socket, heard));
    std::shared_ptr<TraceBuffer> trace;
    if (heard.kind == wire::Kind::kTrace) {
        GPURUN_TRY(as<wire::Trace>(heard, wire::Kind::kTrace));
        GPURUN_ASSIGN(TraceBuffer buffer, TraceBuffer::attach(std::move(heard.fd)));
        trace = std::make_shared<TraceBuffer>(std::move(buffer));
        GPURUN_TRY(hear(socket, heard));
    }
    GPURUN_TRY(as<wire::Welcome>(heard, wire::Kind::kWelcome));
    GPURUN_ASSIGN(JobSegment segment, JobSegment::attach(std::move(heard.fd)));
    if (segment.size() != static_cast<uint32_t>(settings.size))
        return base::error(Status::kLauncher, "the job has {} ranks but GPURUN_SIZE={}: leave it to gpurun",
                           segment.size(), settings.size);
    JobSession session(std::move(socket), std::move(segment), static_cast<uint32_t>(settings.rank));
    session.trace_ = std::move(trace);
    session.joined_ = settings.control_fd < 0 ? settings.job : std::string();
    session.node_address_ = std::move(joined.node_address);
    return session;
}

Result<std::vector<UniqueFd>> JobSession::ready(int device_fd, bool readable, const std::string& device) {
    std::vector<UniqueFd> peers(segment_.size());
    RankRecord& self = segment_.rank(rank_);
    self.pid = ::getpid();
    self.started = started_at(::getpid());
    self.heavy_fences = agree_to_heavy_fences() ? 1 : 0;
    if (alone())
        return peers;
    if (readable) { // else no token: peers do not even try
        self.token = own_token();
        allow_peer_reads();
    }
    wire::Ready message;
    message.call_device(device);
    GPURUN_TRY(say(socket_, message, device_fd));
    while (true) {
        Heard heard;
        GPURUN_TRY(hear(socket_, heard));
        if (heard.kind == wire::Kind::kGo) {
            GPURUN_TRY(as<wire::Go>(heard, wire::Kind::kGo));
            segment_.choose_bells();
            return peers;
        }
        GPURUN_ASSIGN(const wire::PeerDevice peer, as<wire::PeerDevice>(heard, wire::Kind::kPeerDevice));
        if (peer.rank < 0 || static_cast<uint32_t>(peer.rank) >= segment_.size() || !heard.fd)
            return base::error(Status::kLauncher, "gpurun sent the device of rank {}, which does not exist", peer.rank);
        peers[static_cast<uint32_t>(peer.rank)] = std::move(heard.fd);
    }
}

Result<std::unique_ptr<Reporter>> JobSession::listen(Reporter::Describe describe) {
    GPURUN_ASSERT(!alone());
    if (joined_.empty()) // gpurun's end ends this process
        return Reporter::start(socket_, std::move(describe));
    return Reporter::start(socket_, std::move(describe), [this] { lose_all_peers(); });
}

// Nobody would notice the death of a rank any more, nor remove the job's socket. The socket goes first: a program that
// learns of lost peers may end, and this thread with it.
void JobSession::lose_all_peers() const {
    sweep_after_death(path_in_meeting_place(joined_));
    for (uint32_t peer = 0; peer < segment_.size(); ++peer)
        if (peer != rank_)
            static_cast<void>(segment_.mark_unwatched(peer));
}

// If it cannot be said, gpurun has ended, or finds this rank's socket closed: then the others learn of that.
void JobSession::tell_steps(uint32_t steps) {
    if (alone() || segment_.here() == segment_.size())
        return;
    wire::Leaving message;
    message.steps = steps;
    static_cast<void>(say(socket_, message));
}

bool JobSession::abort_job(int code) {
    if (alone())
        return false;
    wire::Abort message;
    message.code = code;
    return static_cast<bool>(say(socket_, message));
}

} // namespace gpurun::platform
