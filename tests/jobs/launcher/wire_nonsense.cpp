// Messages that are garbage, cut short, too long, out of turn, or right but for one field; with descriptors, many of
// them, or none; read, left unread, or with a half of the socket closed.
#include "wire_nonsense.hpp"

#include "platform/job_segment.hpp"
#include "platform/wire.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <gpurun/version.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

namespace wire = gpurun::platform::wire;

constexpr size_t kMostDescriptors = 253; // that the kernel passes at once

class Speaker {
  public:
    Speaker(int socket, int rank, unsigned seed) : socket_(socket), rank_(rank), random_(seed) {}

    int speak() {
        for (size_t messages = below(12); messages > 0; --messages)
            act();
        return end();
    }

  private:
    size_t below(size_t limit) { return random_() % limit; }
    bool one_in(size_t number) { return below(number) == 0; }
    // Numbers at which something may be out by one, or too large.
    uint32_t number() {
        constexpr uint32_t kSuspects[] = {0, 1, 2, 3, 255, 256, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
        return one_in(3) ? static_cast<uint32_t>(random_()) : kSuspects[below(std::size(kSuspects))];
    }

    std::vector<std::byte> hello() {
        wire::Hello message;
        message.version = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;
        message.layout = gpurun::platform::kLayout;
        message.rank = rank_;
        message.pid = ::getpid();
        return bytes_of(message);
    }
    template <typename Message>
    static std::vector<std::byte> bytes_of(const Message& message) {
        const auto bytes = std::as_bytes(std::span(&message, 1));
        return {bytes.begin(), bytes.end()};
    }
    std::vector<std::byte> garbage(size_t most) {
        std::vector<std::byte> bytes(below(most + 1));
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random_());
        return bytes;
    }

    wire::Answer answer() {
        wire::Answer message;
        message.number = number();
        message.entry.topic = static_cast<gpurun::platform::wait_report::Topic>(below(8));
        message.entry.peer = static_cast<int32_t>(number());
        message.entry.number = number();
        return message;
    }

    std::vector<std::byte> message() {
        switch (below(8)) {
        case 0: return garbage(64);
        case 1: return garbage(8192);
        case 2: return bytes_of(wire::Ready{});
        case 3: return bytes_of(wire::Abort{.code = static_cast<int32_t>(number())});
        case 4: { // any kind, any length
            std::vector<std::byte> bytes = bytes_of(wire::Header{wire::kMagic, static_cast<wire::Kind>(below(13))});
            const std::vector<std::byte> rest = garbage(one_in(2) ? 32 : 5000);
            bytes.insert(bytes.end(), rest.begin(), rest.end());
            return bytes;
        }
        case 5: return bytes_of(answer());
        case 6: return bytes_of(wire::Answered{.number = number(), .end = {.threads = number()}});
        default: return hello();
        }
    }

    void spoil(std::vector<std::byte>& bytes) {
        if (one_in(3) && bytes.size() >= sizeof(uint32_t)) {
            const uint32_t value = number();
            std::memcpy(bytes.data() + below(bytes.size() / sizeof value) * sizeof value, &value, sizeof value);
        }
        if (one_in(6))
            bytes.resize(below(bytes.size() + 1));
        if (one_in(6))
            bytes.resize(bytes.size() + below(40));
    }

    void send(const std::vector<std::byte>& bytes, size_t descriptors) {
        iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
        if (descriptors > 0) {
            header.msg_control = control;
            header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
            cmsghdr* rights = CMSG_FIRSTHDR(&header);
            rights->cmsg_level = SOL_SOCKET;
            rights->cmsg_type = SCM_RIGHTS;
            rights->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
            const std::vector<int> numbers(descriptors, one_in(2) ? socket_ : 0);
            std::memcpy(CMSG_DATA(rights), numbers.data(), descriptors * sizeof(int));
        }
        ::sendmsg(socket_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    }

    void act() {
        if (one_in(8)) {
            std::vector<std::byte> bytes(4096);
            ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
            return;
        }
        if (one_in(20)) {
            ::shutdown(socket_, one_in(2) ? SHUT_RD : SHUT_WR);
            return;
        }
        if (one_in(10))
            ::usleep(static_cast<useconds_t>(below(3000)));
        std::vector<std::byte> bytes = message();
        if (one_in(2))
            spoil(bytes);
        const size_t descriptors = one_in(4) ? below(3) : one_in(10) ? kMostDescriptors : 0;
        for (size_t times = one_in(10) ? 400 : 1; times > 0; --times)
            send(bytes, descriptors);
    }

    int end() {
        switch (below(4)) {
        case 0: ::raise(SIGKILL); [[fallthrough]];
        case 1: return static_cast<int>(below(256));
        case 2: ::shutdown(socket_, SHUT_RDWR); [[fallthrough]];
        default: return 0;
        }
    }

    int socket_;
    int rank_;
    std::mt19937 random_;
};

} // namespace

int speak_nonsense(const gpurun::base::Settings& settings, unsigned seed) {
    return Speaker(settings.control_fd, settings.rank, seed).speak();
}
