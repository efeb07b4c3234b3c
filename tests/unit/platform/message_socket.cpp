// Messages with descriptors over a socket pair.
#include "platform/message_socket.hpp"
#include "open_descriptors.hpp"
#include "platform/byte_stream.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <sys/socket.h>

using namespace gpurun::platform;
using gpurun::base::Status;
using gpurun::test::must;

namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

} // namespace

TEST_SUITE_BEGIN("message socket");

TEST_CASE("messages keep their borders and bring a descriptor") {
    auto [one, other] = must(MessageSocket::pair());
    Pipe pipe = must(create_pipe());
    REQUIRE_OK(one.send(bytes("first"), pipe.write_end.get()));
    REQUIRE_OK(one.send(bytes("second")));
    std::array<std::byte, 64> buffer;
    MessageSocket::Received first = must(other.receive(buffer));
    CHECK(first.bytes == 5);
    REQUIRE(static_cast<bool>(first.fd));
    CHECK(same_file(first.fd.get(), pipe.read_end.get()));
    const MessageSocket::Received second = must(other.receive(buffer));
    CHECK(second.bytes == 6);
    CHECK_FALSE(static_cast<bool>(second.fd));
}

TEST_CASE("a closed end reads as no bytes, and sending to it is an error") {
    auto [one, other] = must(MessageSocket::pair());
    one = MessageSocket();
    std::array<std::byte, 64> buffer;
    CHECK(must(other.receive(buffer)).bytes == 0);
    CHECK_STATUS(other.send(bytes("x")), Status::kLauncher);
}

TEST_CASE("a message that is too long is an error") {
    auto [one, other] = must(MessageSocket::pair());
    REQUIRE_OK(one.send(bytes("0123456789")));
    std::array<std::byte, 4> buffer;
    CHECK_STATUS(other.receive(buffer), Status::kSystem);
}

TEST_CASE("nothing to receive and no room to send are told, not waited for") {
    auto [one, other] = must(MessageSocket::pair());
    std::array<std::byte, 64> buffer;
    CHECK_FALSE(must(other.try_receive(buffer)).has_value());
    size_t sent = 0;
    while (must(one.try_send(bytes("message"))))
        ++sent;
    CHECK(sent > 0);
    while (must(other.try_receive(buffer)).has_value())
        --sent;
    CHECK(sent == 0);
}

TEST_CASE("a second descriptor in a message is an error, and does not stay open") {
    auto [one, other] = must(MessageSocket::pair());
    const size_t before = open_descriptors();
    char text[] = "x";
    iovec part{text, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
    const int fds[2] = {0, 0};
    std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
    REQUIRE(::sendmsg(one.fd(), &header, 0) == 1);
    std::array<std::byte, 64> buffer;
    CHECK_STATUS(other.receive(buffer), Status::kSystem);
    CHECK(open_descriptors() == before);
}

TEST_CASE("what was sent before the other end closed is received, also if that has not read all") {
    auto [one, other] = must(MessageSocket::pair());
    const std::array<std::byte, 4> unread{};
    const std::array<std::byte, 8> answer{};
    REQUIRE_OK(one.send(unread));
    REQUIRE_OK(other.send(answer));
    other = MessageSocket();
    std::array<std::byte, 16> bytes{};
    CHECK(must(one.receive(bytes)).bytes == answer.size());
    CHECK(must(one.receive(bytes)).bytes == 0);
}

TEST_SUITE_END();
