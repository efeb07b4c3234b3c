#include "platform/descriptor_server.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "platform/meeting_place.hpp"
#include "platform/random_number.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace gpurun::platform {

using base::Result;

namespace {

constexpr int kLongestAnswerMs = 5000; // a server whose process is stopped does not answer
constexpr size_t kMostClients = 1024;
constexpr int kFullMs = 50; // until it tries again to accept, where the process has no descriptors left

struct Question {
    uint64_t key;
    uint64_t number;
};

struct Answer {
    std::array<uint64_t, 3> facts{};
    base::Status status{};
    char why[200] = {}; // unless the status is kOk
};

// Of the abstract namespace: nothing is left of it anywhere.
struct SocketName {
    explicit SocketName(uint64_t name) {
        const std::string text = base::format("gpurun-{:016x}", name);
        text.copy(address.sun_path + 1, sizeof address.sun_path - 1);
        bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    socklen_t bytes = 0;
};

Result<UniqueFd> new_socket(int flags) {
    UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
    if (!made)
        return system_error("creating a socket for descriptors");
    return made;
}

// False: there is none for long. A signal of the program's does not end the wait.
bool await_answer(int fd) {
    const int64_t end_ns = now_ns() + int64_t{kLongestAnswerMs} * 1'000'000;
    for (int64_t left_ns = end_ns - now_ns(); left_ns > 0; left_ns = end_ns - now_ns()) {
        pollfd answered{fd, POLLIN, 0};
        if (::poll(&answered, 1, static_cast<int>(left_ns / 1'000'000) + 1) > 0)
            return true;
    }
    return false;
}

} // namespace

// ------------------------------------------------------------------------------------------------------- server

Result<std::unique_ptr<DescriptorServer>> DescriptorServer::start(Serve serve) {
    GPURUN_ASSIGN(UniqueFd listener, new_socket(SOCK_NONBLOCK));
    const DescriptorAddress address{random_number(), random_number()};
    const SocketName name(address.name);
    if (::bind(listener.get(), name.get(), name.bytes) != 0 || ::listen(listener.get(), SOMAXCONN) != 0)
        return system_error("listening for who asks for descriptors");
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop)
        return system_error("creating an event");
    std::unique_ptr<DescriptorServer> server(
        new DescriptorServer(address, std::move(listener), std::move(stop), std::move(serve)));
    const auto run = [](void* self) -> void* {
        static_cast<DescriptorServer*>(self)->run();
        return nullptr;
    };
    GPURUN_ASSIGN(server->thread_,
                  start_quiet_thread(run, server.get(), "the thread that gives descriptors of memory", kUsualStack));
    server->running_ = true;
    return server;
}

DescriptorServer::~DescriptorServer() {
    if (!running_)
        return;
    ::eventfd_write(stop_.get(), 1);
    join_quiet_thread(thread_);
}

void DescriptorServer::run() {
    std::vector<pollfd> awaited;
    while (true) {
        awaited.assign({{stop_.get(), POLLIN, 0}, {is_full_ ? -1 : listener_.get(), POLLIN, 0}});
        for (const MessageSocket& each : clients_)
            awaited.push_back({each.fd(), POLLIN, 0});
        if (::poll(awaited.data(), awaited.size(), is_full_ ? kFullMs : -1) < 0 && errno != EINTR)
            return;
        is_full_ = false;
        if (awaited[0].revents != 0)
            return;
        for (size_t i = clients_.size(); i-- > 0;)
            if (awaited[i + 2].revents != 0 && !answer(clients_[i]))
                clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(i));
        if (awaited[1].revents != 0)
            accept();
    }
}

void DescriptorServer::accept() {
    auto caller = accept_caller(listener_.get());
    is_full_ = !caller;
    if (!caller || !*caller)
        return;
    auto who = counterpart(caller->fd());
    if (who && who->same_user && clients_.size() < kMostClients)
        clients_.push_back(std::move(*caller));
}

// An answer that a client does not take is its own loss.
bool DescriptorServer::answer(MessageSocket& client) {
    Question question{};
    auto asked = client.try_receive(std::as_writable_bytes(std::span(&question, 1)));
    if (asked && !*asked)
        return true;
    if (!asked || (*asked)->bytes != sizeof question || question.key != address_.key)
        return false;
    auto offered = serve_(question.number);
    Answer answer;
    if (offered)
        answer.facts = offered->facts;
    else
        std::snprintf(answer.why, sizeof answer.why, "%s", offered.error().detail.c_str());
    answer.status = offered ? base::Status::kOk : offered.error().status;
    auto sent = client.try_send(std::as_bytes(std::span(&answer, 1)), offered ? offered->fd.get() : -1);
    return sent && *sent;
}

// ------------------------------------------------------------------------------------------------------- client

Result<DescriptorClient> DescriptorClient::connect(const DescriptorAddress& address) {
    GPURUN_ASSIGN(UniqueFd made, new_socket(SOCK_NONBLOCK));
    const SocketName name(address.name);
    if (::connect(made.get(), name.get(), name.bytes) != 0)
        return errno == ECONNREFUSED
                   ? base::error(base::Status::kSystem, "its process has ended, or is in another network namespace")
                   : system_error("asking for a descriptor");
    GPURUN_ASSIGN(const Counterpart other, counterpart(made.get()));
    if (!other.same_user)
        return base::error(base::Status::kSystem, "who answers is another user's process, {}", other.pid);
    return DescriptorClient(address.key, MessageSocket(std::move(made)));
}

Result<OfferedDescriptor> DescriptorClient::ask(uint64_t number) {
    const Question question{key_, number};
    GPURUN_ASSIGN(const bool sent, server_.try_send(std::as_bytes(std::span(&question, 1))));
    if (!sent || !await_answer(server_.fd()))
        return base::error(base::Status::kTimeout, "its process has not answered for {} ms: is it stopped?",
                           kLongestAnswerMs);
    Answer answer;
    GPURUN_ASSIGN(auto received, server_.try_receive(std::as_writable_bytes(std::span(&answer, 1))));
    if (!received)
        return base::error(base::Status::kSystem, "its process has not been heard");
    if (received->bytes != sizeof answer)
        return base::error(base::Status::kSystem, "its process has refused to answer");
    answer.why[sizeof answer.why - 1] = 0;
    if (answer.status != base::Status::kOk)
        return base::Error{answer.status, answer.why};
    if (!received->fd)
        return base::error(base::Status::kSystem, "its process has given no descriptor");
    return OfferedDescriptor{std::move(received->fd), answer.facts};
}

} // namespace gpurun::platform
