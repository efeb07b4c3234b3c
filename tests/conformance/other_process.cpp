#include "other_process.hpp"

#include <csignal>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpurun::conformance {

namespace {

int next_peer() {
    static int peer = 0;
    return ++peer;
}

} // namespace

OtherProcess::OtherProcess(const std::string& selector) : OtherProcess(selector, next_peer()) {}

OtherProcess::OtherProcess(const std::string& selector, int peer) : peer_(peer) {
    start(selector);
    try {
        meet();
    } catch (...) { // doctest's REQUIRE; the destructor does not run for a constructor that failed
        kill_it();
        throw;
    }
}

OtherProcess::~OtherProcess() {
    socket_ = {}; // it ends when the socket closes, unless a stream of it is blocked
    if (pid_ >= 0 && std::uncaught_exceptions() > 0)
        ::kill(pid_, SIGKILL);
    if (pid_ >= 0)
        ::waitpid(pid_, nullptr, 0);
}

void OtherProcess::start(const std::string& selector) {
    auto ends = must(platform::MessageSocket::pair());
    socket_ = std::move(ends[0]);
    posix_spawn_file_actions_t actions;
    REQUIRE(::posix_spawn_file_actions_init(&actions) == 0);
    // Its end becomes its standard input: the one descriptor whose number it knows, open across exec.
    ::posix_spawn_file_actions_adddup2(&actions, ends[1].fd(), STDIN_FILENO);
    std::string program = "/proc/self/exe";
    std::string argument = kServeArgument;
    std::string device = selector;
    char* argv[] = {program.data(), argument.data(), device.data(), nullptr};
    const int failed = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    REQUIRE(failed == 0);
}

void OtherProcess::meet() {
    Request request{Command::kMeet};
    const device::Identity own = subject().info().identity;
    std::memcpy(request.bytes.data(), &own, sizeof own);
    // A message carries one descriptor: first the counters, then this device.
    call(request, counter_segment());
    const Reply reply = call(request, subject().shareable_fd());
    std::memcpy(&identity_, reply.bytes.data(), sizeof identity_);
    REQUIRE_OK(subject().add_peer(peer_, identity_, received_.release()));
}

void OtherProcess::kill_it() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

Request OtherProcess::about_pattern(Command command, uint32_t memory, size_t offset, size_t bytes, unsigned variant) {
    Request request{command, memory, offset, bytes};
    std::memcpy(request.bytes.data(), &variant, sizeof variant);
    return request;
}

Reply OtherProcess::call(const Request& request, int fd) {
    REQUIRE_OK(socket_.send(std::as_bytes(std::span(&request, 1)), fd));
    Reply reply;
    platform::MessageSocket::Received received = must(socket_.receive(std::as_writable_bytes(std::span(&reply, 1))));
    REQUIRE_MESSAGE(received.bytes == sizeof reply, "the other process has ended");
    REQUIRE_MESSAGE(reply.status == test::kOk, "the other process: ", std::string(reply.detail));
    received_ = std::move(received.fd);
    return reply;
}

} // namespace gpurun::conformance
