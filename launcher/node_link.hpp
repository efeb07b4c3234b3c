// Messages over one TCP connection between the head of a job and one of its nodes.
//
// Each is a number (what it is, which the two ends agree on), and bytes. The other end is not trusted: what is longer
// than may be, or breaks off, ends the link. Sending never waits: what the connection does not take now is kept and
// sent when it does. So a caller that sends much asks for the other end's leave first. Runs on the event loop's thread.
#pragma once

#include "platform/event_loop.hpp"
#include "platform/node_meeting.hpp"
#include "platform/unique_fd.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace gpurun::launcher {

// Looks at all bytes, wherever the first difference is: how long it takes tells a stranger nothing.
bool same_key(const platform::NodeKey& a, const platform::NodeKey& b);

class NodeLink {
  public:
    static constexpr size_t kLargest = size_t{8} << 20;     // of one message: an environment fits
    static constexpr size_t kMostUnsent = size_t{64} << 20; // an end that reads nothing any more is given up then

    class Observer {
      public:
        virtual ~Observer() = default;
        // False: nobody of ours sends that, so the link ends. Must not destroy the link.
        virtual bool heard(uint32_t kind, std::string_view message) = 0;
        // Once; nothing is sent or heard from then on. `why` is "" if the other end has hung up in order. May destroy
        // the link.
        virtual void link_ended(const std::string& why) = 0;
    };

    // `most` is the longest message that is taken: raised once the other end has said who it is.
    NodeLink(platform::EventLoop& loop, platform::UniqueFd connected, Observer& observer, size_t most);
    NodeLink(const NodeLink&) = delete;

    void send(uint32_t kind, std::string_view message);
    void take_up_to(size_t most) { most_ = most; }
    bool open() const { return static_cast<bool>(fd_); }
    int fd() const { return fd_.get(); }

  private:
    void on_ready();
    bool write();
    bool read();
    bool take_messages();
    void end(const std::string& why);

    Observer& observer_;
    platform::UniqueFd fd_;
    size_t most_;
    std::string unsent_;
    std::string received_;
    platform::Watch watch_;
};

} // namespace gpurun::launcher
