#include "assembly.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"

#include <algorithm>
#include <cstring>
#include <gpurun/version.h>

namespace gpurun::launcher {

namespace wire = platform::wire;

namespace {

constexpr uint32_t kVersion = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;
// Handled of one rank at a time: more than a socket holds, so a rank that keeps sending cannot keep others waiting.
constexpr int kMostMessages = 1024;
// Magic, kind, protocol and version: what every protocol's hello begins with.
constexpr size_t kHelloFixedBytes = offsetof(wire::Hello, layout);

std::string version_text(uint32_t version) {
    return base::format("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
}

} // namespace

Assembly::Assembly(platform::EventLoop& loop, const platform::JobSegment& segment, Observer& observer,
                   std::vector<uint32_t> ranks)
    : loop_(loop), segment_(segment), observer_(observer), ranks_(std::move(ranks)), peers_(ranks_.size()) {}

void Assembly::connect(uint32_t rank, platform::MessageSocket socket, int trace_fd) {
    Peer& peer = peers_[rank];
    peer.trace_fd = trace_fd;
    peer.socket = std::move(socket);
    peer.watch = platform::Watch(loop_, peer.socket.fd(), [this, rank] {
        hear(rank);
        introduce(rank);
    });
    peer.watch.wait_for(platform::Ready::kReadable);
}

bool Assembly::anyone_waits() const {
    return !gathered_ && std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
        return peer.stage == Stage::kWelcomed || peer.stage == Stage::kReady;
    });
}

void Assembly::hear(uint32_t rank) {
    alignas(8) std::array<std::byte, platform::MessageSocket::kLargestMessage> buffer;
    for (int i = 0; i < kMostMessages && peers_[rank].socket; ++i) {
        auto received = peers_[rank].socket.try_receive(buffer);
        if (!received) {
            misbehaved(rank, received.error().detail);
            return;
        }
        if (!received->has_value())
            return;
        platform::MessageSocket::Received& message = **received;
        if (message.bytes == 0) {
            close(rank);
            return;
        }
        take(rank, std::span(buffer).first(message.bytes), std::move(message.fd));
    }
}

void Assembly::take(uint32_t rank, std::span<const std::byte> message, platform::UniqueFd fd) {
    const wire::Header header = wire::header_of(message);
    if (header.magic != wire::kMagic) {
        misbehaved(rank, base::format("{} bytes that are not a message", message.size()));
    } else if (header.kind == wire::Kind::kHello && message.size() >= kHelloFixedBytes) {
        take_hello(rank, message);
    } else if (header.kind == wire::Kind::kReady && message.size() == sizeof(wire::Ready)) {
        take_ready(rank, message, std::move(fd));
    } else if (header.kind == wire::Kind::kAbort && message.size() == sizeof(wire::Abort)) {
        wire::Abort abort;
        std::memcpy(&abort, message.data(), sizeof abort);
        observer_.rank_aborted(rank, abort.code);
    } else if (header.kind == wire::Kind::kLeaving && message.size() == sizeof(wire::Leaving)) {
        wire::Leaving leaving;
        std::memcpy(&leaving, message.data(), sizeof leaving);
        observer_.rank_leaves(rank, leaving.steps);
    } else if (header.kind == wire::Kind::kAnswer && message.size() == sizeof(wire::Answer)) {
        wire::Answer answer;
        std::memcpy(&answer, message.data(), sizeof answer);
        if (peers_[rank].stage != Stage::kGone || !observer_.rank_answered(rank, answer))
            misbehaved(rank, "an invalid answer");
    } else if (header.kind == wire::Kind::kAnswered && message.size() == sizeof(wire::Answered)) {
        wire::Answered answered;
        std::memcpy(&answered, message.data(), sizeof answered);
        if (peers_[rank].stage != Stage::kGone || !observer_.rank_answered_all(rank, answered))
            misbehaved(rank, "an invalid end of an answer");
    } else {
        misbehaved(rank, base::format("a message of kind {} with {} bytes", static_cast<uint32_t>(header.kind),
                                      message.size()));
    }
}

void Assembly::take_hello(uint32_t rank, std::span<const std::byte> message) {
    Peer& peer = peers_[rank];
    wire::Hello hello;
    std::memcpy(&hello, message.data(), std::min(message.size(), sizeof hello));
    if (peer.stage != Stage::kSilent) {
        misbehaved(rank, "a second hello: only one process of a rank can call gpurun_init()");
        return;
    }
    if (refusal_) {
        send_refusal(rank);
        return;
    }
    const bool same_protocol = hello.protocol == wire::kProtocol;
    if (!same_protocol || hello.version != kVersion || hello.layout != platform::kLayout) {
        peer.stage = Stage::kWelcomed; // among those that are refused
        observer_.versions_differ(rank, base::format("its library is gpurun {} (protocol {}), this launcher is gpurun "
                                                     "{} (protocol {}): start the program with the gpurun that belongs "
                                                     "to its library",
                                                     version_text(hello.version), hello.protocol,
                                                     version_text(kVersion), wire::kProtocol));
        return;
    }
    if (message.size() != sizeof hello || hello.rank != static_cast<int32_t>(ranks_[rank])) {
        misbehaved(rank, base::format("a hello of {} bytes for rank {}", message.size(), hello.rank));
        return;
    }
    peer.stage = Stage::kWelcomed;
    peer.since_ns = platform::now_ns();
    if (peer.trace_fd >= 0)
        if (auto sent = peer.socket.try_send(bytes_of(wire::Trace{}), peer.trace_fd); !sent || !*sent)
            return;
    wire::Welcome welcome;
    welcome.size = segment_.size();
    welcome.cores = segment_.header().cores;
    if (auto sent = peer.socket.try_send(bytes_of(welcome), segment_.fd()); !sent || !*sent)
        return; // it is gone, or does not read; gpurun notices when it ends
    observer_.rank_said_hello(rank);
}

void Assembly::take_ready(uint32_t rank, std::span<const std::byte> message, platform::UniqueFd device) {
    Peer& peer = peers_[rank];
    if (peer.stage == Stage::kRefused) // its message and the refusal have crossed
        return;
    if (peer.stage != Stage::kWelcomed) {
        misbehaved(rank, "a message that it is ready, out of turn");
        return;
    }
    peer.stage = Stage::kReady;
    peer.since_ns = platform::now_ns();
    peer.device = std::move(device);
    wire::Ready ready;
    std::memcpy(&ready, message.data(), sizeof ready);
    ready.device[sizeof ready.device - 1] = '\0';
    peer.device_name = ready.device;
    if (++ready_ == peers_.size() && observer_.all_ready())
        release();
}

void Assembly::release() {
    GPURUN_ASSERT(ready_ == peers_.size());
    gathered_ = true;
    for (uint32_t other = 0; other < peers_.size(); ++other)
        introduce(other);
}

// Tells `rank` the devices of the others, then to go; as far as its socket takes it.
void Assembly::introduce(uint32_t rank) {
    Peer& peer = peers_[rank];
    if (!gathered_ || peer.stage != Stage::kReady || !peer.socket)
        return;
    for (; peer.next_introduction < peers_.size(); ++peer.next_introduction) {
        const platform::UniqueFd& device = peers_[peer.next_introduction].device;
        if (peer.next_introduction == rank || !device)
            continue;
        wire::PeerDevice introduction;
        introduction.rank = static_cast<int32_t>(ranks_[peer.next_introduction]);
        auto sent = peer.socket.try_send(bytes_of(introduction), device.get());
        if (!sent)
            return;
        if (!*sent) {
            peer.watch.wait_for(platform::Ready::kWritable);
            return;
        }
    }
    auto sent = peer.socket.try_send(bytes_of(wire::Go{}));
    if (sent && !*sent) {
        peer.watch.wait_for(platform::Ready::kWritable);
        return;
    }
    peer.stage = Stage::kGone;
    peer.watch.wait_for(platform::Ready::kReadable);
}

bool Assembly::ask(uint32_t rank, uint32_t number) {
    Peer& peer = peers_[rank];
    if (peer.stage != Stage::kGone || !peer.socket)
        return false;
    wire::Ask question;
    question.number = number;
    auto sent = peer.socket.try_send(bytes_of(question));
    return sent && *sent;
}

void Assembly::close(uint32_t rank) {
    Peer& peer = peers_[rank];
    peer.watch.stop();
    peer.socket = platform::MessageSocket();
    if (peer.stage == Stage::kWelcomed || (peer.stage == Stage::kReady && !gathered_))
        observer_.rank_left_early(rank);
    observer_.rank_closed(rank);
}

void Assembly::misbehaved(uint32_t rank, const std::string& what) {
    peers_[rank].watch.stop();
    peers_[rank].socket = platform::MessageSocket();
    observer_.rank_misbehaved(rank, what);
}

void Assembly::refuse(base::Status status, const std::string& text) {
    if (refusal_)
        return;
    refusal_ = wire::refusal_for(status, text);
    for (uint32_t rank = 0; rank < peers_.size(); ++rank)
        if (peers_[rank].stage == Stage::kWelcomed || peers_[rank].stage == Stage::kReady)
            send_refusal(rank);
}

void Assembly::send_refusal(uint32_t rank) {
    peers_[rank].stage = Stage::kRefused;
    // A rank that cannot be told is ended with the job.
    if (peers_[rank].socket)
        static_cast<void>(peers_[rank].socket.try_send(bytes_of(*refusal_)));
}

} // namespace gpurun::launcher
