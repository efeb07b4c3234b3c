// Who calls at a job's socket: ranks that want to join, and gpurun jobs. Each says one thing.
//
// Nothing that a caller does, or leaves undone, makes the job wait. Runs on the event loop's thread.
#pragma once

#include "platform/event_loop.hpp"
#include "platform/message_socket.hpp"

#include <functional>
#include <map>
#include <span>
#include <string>

namespace gpurun::launcher {

class Callers {
  public:
    // What a caller of this user has said, and what it has sent with that. The socket is the handler's.
    using Handler = std::function<void(std::span<const std::byte> message, platform::MessageSocket socket,
                                       platform::UniqueFd sent)>;

    // `listener` accepts without waiting.
    Callers(platform::EventLoop& loop, int listener, Handler heard);

    // Who has called, and has said nothing yet.
    bool empty() const { return callers_.empty(); }
    bool ever() const { return next_ > 0; }
    // To them, and to those who are waiting to be accepted.
    void say_to_all(std::span<const std::byte> message);

  private:
    struct Caller {
        platform::MessageSocket socket;
        platform::Watch watch;
    };

    void on_call();
    void hear(int id);

    platform::EventLoop& loop_;
    int listener_;
    Handler heard_;
    platform::Watch watch_;
    std::map<int, Caller> callers_;
    int next_ = 0;
};

void refuse(platform::MessageSocket& socket, base::Status status, const std::string& text);

} // namespace gpurun::launcher
