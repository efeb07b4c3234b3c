#include "network.hpp"

#include <gpurun/gpurun.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace gpurun::bench {

namespace {

constexpr int kPatienceMs = 5000; // for a connection

// Where the partner listens, as it tells by a message.
struct ListeningPlace {
    std::array<in_addr, 8> hosts{};
    uint32_t count = 0;
    in_port_t port = 0; // in the network's order
};

class Tcp final : public Network {
  public:
    Tcp(const Pair& pair, size_t bytes) : bytes_(std::max(bytes, size_t{64})) {
        ListeningPlace here;
        const int listening = listen_anywhere(here);
        ListeningPlace there;
        pair.exchange(&here, &there, sizeof here);
        if (listening >= 0 && there.port != 0)
            socket_ = pair.leads() ? connect_to(there) : accept_from(listening);
        if (listening >= 0)
            close(listening);
        const int one = 1;
        if (socket_ >= 0)
            (void)setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        char mine = socket_ >= 0 ? 1 : 0, theirs = 0;
        pair.exchange(&mine, &theirs, 1);
        if (mine == 0 || theirs == 0)
            why_not_ = "the ranks of a pair cannot connect to each other by TCP";
    }
    ~Tcp() override {
        if (socket_ >= 0)
            close(socket_);
    }

    std::string how() const override { return "send() and recv() of TCP, which spin"; }
    std::string why_not() const override { return why_not_; }

    void send(size_t bytes, int count) override {
        for (int i = 0; i < count; ++i)
            for (size_t done = 0; done < bytes;)
                done += moved(::send(socket_, bytes_.data() + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
    void receive(size_t bytes, int count) override {
        for (size_t left = bytes * static_cast<size_t>(count); left != 0;)
            left -= moved(::recv(socket_, bytes_.data(), std::min(left, std::max(bytes, kLeastRead)), MSG_DONTWAIT));
    }

  private:
    static constexpr size_t kLeastRead = 64; // small messages that came together are read together

    static size_t moved(ssize_t bytes) {
        if (bytes > 0)
            return static_cast<size_t>(bytes);
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        std::fprintf(stderr, "gpurun-perf: --against=tcp: the connection: %s\n",
                     bytes == 0 ? "it has ended" : std::strerror(errno));
        gpurun_abort(1);
        return 0;
    }

    // -1, and a port of 0: it is not possible.
    static int listen_anywhere(ListeningPlace& here) {
        const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in any{};
        any.sin_family = AF_INET;
        socklen_t size = sizeof any;
        auto* const address = reinterpret_cast<sockaddr*>(&any);
        if (made < 0 || bind(made, address, size) != 0 || listen(made, 1) != 0 ||
            getsockname(made, address, &size) != 0)
            return -1;
        here.port = any.sin_port;
        ifaddrs* all = nullptr;
        if (getifaddrs(&all) != 0)
            return made;
        for (const bool loopback : {false, true}) // that one last
            for (const ifaddrs* each = all; each != nullptr && here.count < here.hosts.size(); each = each->ifa_next)
                if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                    (each->ifa_flags & IFF_UP) != 0 && ((each->ifa_flags & IFF_LOOPBACK) != 0) == loopback)
                    here.hosts[here.count++] = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
        freeifaddrs(all);
        return made;
    }

    static bool becomes(int fd, short what) {
        pollfd polled{fd, what, 0};
        return poll(&polled, 1, kPatienceMs) == 1;
    }

    static int accept_from(int listening) {
        return becomes(listening, POLLIN) ? accept4(listening, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    }

    static int connect_to(const ListeningPlace& there) {
        for (uint32_t i = 0; i < there.count; ++i) {
            const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            sockaddr_in place{};
            place.sin_family = AF_INET;
            place.sin_port = there.port;
            place.sin_addr = there.hosts[i];
            int error = 0;
            socklen_t size = sizeof error;
            const bool begun = made >= 0 && (connect(made, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0 ||
                                             errno == EINPROGRESS);
            if (begun && becomes(made, POLLOUT) && getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                error == 0)
                return made;
            if (made >= 0)
                close(made);
        }
        return -1;
    }

    std::vector<char> bytes_;
    std::string why_not_;
    int socket_ = -1;
};

} // namespace

std::unique_ptr<Network> make_tcp(const Pair& pair, size_t bytes) { return std::make_unique<Tcp>(pair, bytes); }

} // namespace gpurun::bench
