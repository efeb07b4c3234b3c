#include "support/socket_channel.hpp"

#include "support/unit.hpp"

#include <cerrno>
#include <cstdlib>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace gpurun::test {

namespace {

constexpr size_t kLargestPacket = 128 * 1024; // of one item
constexpr int kNapMs = 1;                     // between two looks at edges that streams signal

} // namespace

std::pair<platform::UniqueFd, platform::UniqueFd> SocketChannel::make_sockets() {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    return {platform::UniqueFd(ends[0]), platform::UniqueFd(ends[1])};
}

SocketChannel::SocketChannel(device::Device& device, const platform::JobSegment& own_job, base::WorldRank self,
                             base::WorldRank peer, platform::UniqueFd socket)
    : CarriedChannel({device, own_job, self, peer, mutex_}, must(Pages::create(device)), {}),
      socket_(std::move(socket)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), packet_(kLargestPacket),
      carrier_([this] { work(); }) {}

SocketChannel::~SocketChannel() {
    {
        const std::lock_guard lock(mutex_);
        say_goodbye();
        leaves_ = true;
    }
    (void)::eventfd_write(bell_.get(), 1);
    carrier_.join();
}

void SocketChannel::cut() { ::shutdown(socket_.get(), SHUT_RDWR); }

void SocketChannel::carry_on() { (void)::eventfd_write(bell_.get(), 1); }

// ------------------------------------------------------------------------------------------------------ the carrier

bool SocketChannel::is_finished() {
    const std::lock_guard lock(mutex_);
    return leaves_ && ((!has_items() && !is_watching() && packet_bytes_ == 0) || ended_);
}

void SocketChannel::work() {
    while (!is_finished()) {
        bool has_packets = packet_bytes_ != 0;
        bool watches = false;
        {
            const std::lock_guard lock(mutex_);
            has_packets = has_packets || has_items();
            watches = is_watching();
        }
        // What has ended is readable for ever.
        pollfd polled[] = {{bell_.get(), POLLIN, 0},
                           {ended_ ? -1 : socket_.get(), static_cast<short>(POLLIN | (has_packets ? POLLOUT : 0)), 0}};
        if (::poll(polled, 2, watches ? kNapMs : -1) < 0)
            continue;
        eventfd_t rung = 0;
        (void)::eventfd_read(bell_.get(), &rung);
        read_some();
        write_some();
    }
}

void SocketChannel::write_some() {
    const std::lock_guard lock(mutex_);
    (void)carry_reached();
    while (packet_bytes_ != 0 || has_items()) {
        if (packet_bytes_ == 0)
            packet_bytes_ = write_item(packet_);
        if (::send(socket_.get(), packet_.data(), packet_bytes_, MSG_NOSIGNAL) < 0 &&
            (errno == EAGAIN || errno == EINTR))
            return;
        packet_bytes_ = 0; // sent, or there is nobody left to read it
    }
}

void SocketChannel::read_some() {
    std::vector<std::byte> buffer(kLargestPacket);
    while (!ended_) {
        const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) // the latter once; what came before can be read
            continue;
        if (got < 0)
            return;
        const std::lock_guard lock(mutex_);
        if (got == 0) {
            ended_ = true;
            if (!heard_goodbye())
                lose();
            return;
        }
        if (!read_item(std::span(buffer).first(static_cast<size_t>(got))))
            std::abort(); // nobody else writes there
    }
}

} // namespace gpurun::test
