// Brings the ranks together: the launcher's half of the wire (platform/wire.hpp).
//
// Each rank says hello, is welcomed with the job's segment, gets ready; when all are, each is told the others'
// devices, and goes. Nothing that a rank sends is trusted, and none can make gpurun wait: what a rank's socket does
// not take now is sent when it does. Runs on the event loop's thread; what it finds out is told through Observer.
#pragma once

#include "platform/event_loop.hpp"
#include "platform/job_segment.hpp"
#include "platform/message_socket.hpp"
#include "platform/wire.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpurun::launcher {

class Assembly {
  public:
    class Observer {
      public:
        virtual ~Observer() = default;
        virtual void rank_said_hello(uint32_t rank) = 0;
        virtual void rank_misbehaved(uint32_t rank, const std::string& what) = 0;
        virtual void versions_differ(uint32_t rank, const std::string& what) = 0;
        // It has closed its socket while others wait for it in gpurun_init(); it may be about to end.
        virtual void rank_left_early(uint32_t rank) = 0;
        // Every rank of this Assembly is ready. False: they go when release() is called, not now.
        virtual bool all_ready() { return true; }
        // It has closed its socket, at whatever stage.
        virtual void rank_closed(uint32_t) {}
        virtual void rank_aborted(uint32_t rank, int code) = 0;
        // In gpurun_finalize(), for ranks of other nodes.
        virtual void rank_leaves(uint32_t rank, uint32_t steps) = 0;
        // It has answered ask(). False: no rank of ours sends that.
        virtual bool rank_answered(uint32_t rank, const platform::wire::Answer& answer) = 0;
        virtual bool rank_answered_all(uint32_t rank, const platform::wire::Answered& answered) = 0;
    };

    // Of those ranks of the segment which are on this node, numbered here by their places in `ranks`.
    Assembly(platform::EventLoop& loop, const platform::JobSegment& segment, Observer& observer,
             std::vector<uint32_t> ranks);
    Assembly(const Assembly&) = delete;

    // `trace_fd` is where the rank is to record what it does; -1: nowhere.
    void connect(uint32_t rank, platform::MessageSocket socket, int trace_fd = -1);
    // Handles what the rank has sent so far, up to a bound: a rank may have sent something just before it ended.
    void hear(uint32_t rank);
    bool said_hello(uint32_t rank) const { return peers_[rank].stage != Stage::kSilent; }
    bool anyone_waits() const; // for ranks that have not come yet
    // REQUIRES: all_ready() has been called, and has returned false. The ranks go.
    void release();
    // Asks for its wait report. False if it cannot be asked, or its socket is full.
    bool ask(uint32_t rank, uint32_t number);
    enum class Stage { kSilent, kWelcomed, kReady, kGone, kRefused };
    Stage stage(uint32_t rank) const { return peers_[rank].stage; }
    int64_t stage_since_ns(uint32_t rank) const { return peers_[rank].since_ns; } // CLOCK_MONOTONIC
    // Its name for people; "" until it is ready.
    const std::string& device(uint32_t rank) const { return peers_[rank].device_name; }
    // From now on every rank that has come or comes is told that the job cannot start.
    void refuse(base::Status status, const std::string& text);

  private:
    struct Peer {
        platform::MessageSocket socket;
        platform::Watch watch;
        Stage stage = Stage::kSilent;
        int64_t since_ns = 0; // that it is welcome, or ready
        platform::UniqueFd device;
        std::string device_name;
        int trace_fd = -1;
        uint32_t next_introduction = 0; // the rank whose device is told next
    };

    void take(uint32_t rank, std::span<const std::byte> message, platform::UniqueFd fd);
    void take_hello(uint32_t rank, std::span<const std::byte> message);
    void take_ready(uint32_t rank, std::span<const std::byte> message, platform::UniqueFd device);
    void close(uint32_t rank);
    void send_refusal(uint32_t rank);
    void introduce(uint32_t rank);
    void misbehaved(uint32_t rank, const std::string& what);

    platform::EventLoop& loop_;
    const platform::JobSegment& segment_;
    Observer& observer_;
    std::vector<uint32_t> ranks_;
    std::vector<Peer> peers_;
    uint32_t ready_ = 0;
    bool gathered_ = false; // all are ready, and may go
    std::optional<platform::wire::Refusal> refusal_;
};

} // namespace gpurun::launcher
