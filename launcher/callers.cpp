#include "callers.hpp"

#include "platform/meeting_place.hpp"
#include "platform/wire.hpp"

#include <array>

namespace gpurun::launcher {

namespace wire = platform::wire;

namespace {
// More than a job has ranks. Who calls while so many say nothing is refused.
constexpr size_t kMostCallers = 512;
} // namespace

void refuse(platform::MessageSocket& socket, base::Status status, const std::string& text) {
    static_cast<void>(socket.try_send(bytes_of(wire::refusal_for(status, text))));
}

Callers::Callers(platform::EventLoop& loop, int listener, Handler heard)
    : loop_(loop), listener_(listener), heard_(std::move(heard)), watch_(loop, listener, [this] { on_call(); }) {
    watch_.wait_for(platform::Ready::kReadable);
}

void Callers::on_call() {
    auto socket = platform::accept_caller(listener_);
    if (!socket || !*socket)
        return;
    auto other = platform::counterpart(socket->fd());
    const int id = next_++;
    if (!other || !other->same_user) {
        refuse(*socket, base::Status::kLauncher, "this job belongs to another user: choose another name");
        return;
    }
    if (callers_.size() >= kMostCallers) {
        refuse(*socket, base::Status::kLauncher, "too many processes call this job at once");
        return;
    }
    Caller& caller = callers_[id];
    caller.socket = std::move(*socket);
    caller.watch = platform::Watch(loop_, caller.socket.fd(), [this, id] { hear(id); });
    caller.watch.wait_for(platform::Ready::kReadable);
}

void Callers::hear(int id) {
    alignas(8) std::array<std::byte, platform::MessageSocket::kLargestMessage> bytes;
    auto received = callers_[id].socket.try_receive(bytes);
    if (received && !received->has_value())
        return;
    Caller caller = std::move(callers_[id]);
    caller.watch.stop();
    callers_.erase(id);
    if (received && (*received)->bytes > 0)
        heard_(std::span<const std::byte>(bytes).first((*received)->bytes), std::move(caller.socket),
               std::move((*received)->fd));
}

void Callers::say_to_all(std::span<const std::byte> message) {
    while (true) {
        auto late = platform::accept_caller(listener_);
        if (!late || !*late)
            break;
        static_cast<void>(late->try_send(message));
    }
    for (auto& [id, caller] : callers_)
        static_cast<void>(caller.socket.try_send(message));
}

} // namespace gpurun::launcher
