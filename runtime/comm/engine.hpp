// The heart of a rank: its links, what it has under way, and the waiting.
//
// One lock guards everything below api/; it is held for short enqueues and for CPU copies, never while waiting. Any
// thread that waits in a call moves everybody's transfers (progress()). A waiting thread spins for settings.spin_us,
// then sleeps on the rank's doorbell, which peers ring after they have published something, streams ring when an
// alarm was set, and the launcher rings when a rank has died. Nothing else ever waits.
#pragma once

#include "base/function_ref.hpp"
#include "comm/matcher.hpp"
#include "transfer/outgoing.hpp"
#include "transfer/probe.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gpurun::comm {

class Engine {
  public:
    // `probe` is the rank's own, which peers may copy from until close().
    static base::Result<std::unique_ptr<Engine>> start(device::Device& device, const platform::JobSegment& job,
                                                       const base::Settings& settings, uint32_t rank,
                                                       transfer::Probe probe);
    ~Engine();

    transfer::Context& context() { return context_; }
    transfer::Link& link(int peer) { return *links_[static_cast<size_t>(peer)]; }
    uint32_t rank() const { return context_.rank; }
    uint32_t size() const { return context_.job.size(); }

    // Starts the sends in order, and the receive, and waits until all are complete for their caller. Returns the
    // first error; every other operation is complete or ended as well.
    base::Result<void> complete(std::span<transfer::Outgoing* const> sends, Receive* receive);

    // Waits for a stream or an event of the user's, moving transfers meanwhile.
    // kPeerLost if a message in the stream was cut short (said once a stream).
    base::Result<void> synchronize(device::Stream stream);
    base::Result<void> synchronize(device::Event event);

    // The allocation is about to be freed: tells the peers that may have it mapped.
    void forget(const device::Buffer& buffer);

    // Leaves the job together with all ranks that live: what was mapped is unmapped everywhere before anything is
    // freed. kPeerLost if some message was cut short.
    base::Result<void> close();
    // After close(): some stream is blocked for ever, and destroying the engine or its device would wait for it.
    bool stuck() const { return stuck_; }

    // What went where, one line a peer, direction, path and reason.
    std::string report() const;

  private:
    Engine(device::Device& device, const platform::JobSegment& job, const base::Settings& settings, uint32_t rank,
           transfer::Probe probe);

    using Lock = std::unique_lock<std::mutex>;

    // ---- engine.cpp: operations -----------------------------------------------------------------------------
    void begin(std::span<transfer::Outgoing* const> sends, Receive* receive);
    void end(std::span<transfer::Outgoing* const> sends, Receive* receive);

    // ---- progress.cpp ---------------------------------------------------------------------------------------
    // Moves what can be moved. True if anything has changed.
    bool progress();
    bool drain(transfer::Link& link);
    void dispatch(transfer::Link& link, const transfer::Record& record, std::span<const std::byte> payload);
    void answer(transfer::Link& link, const transfer::Record& record);
    bool post_waiting(transfer::Link& link);
    bool advance_active();
    void lose(transfer::Link& link);
    bool all_others_lost() const;
    // A peer is gone, and what that cuts short is not known yet: what poison may have released does not count.
    bool losing() const;
    static base::Error died(int source);

    // ---- waiting.cpp ----------------------------------------------------------------------------------------
    // Until `done`; before it sleeps, `arm` makes sure that whatever `done` waits for on a device will ring.
    base::Result<void> wait(Lock& lock, base::FunctionRef<bool()> done, base::FunctionRef<base::Result<void>()> arm);
    base::Result<void> arm(std::span<transfer::Outgoing* const> sends, Receive* receive);
    base::Result<void> set_alarm(const transfer::Awaited& awaited);
    void wait_for_all(Lock& lock, uint32_t step);

    std::mutex mutex_;
    transfer::Context context_;
    std::optional<transfer::Probe> probe_;
    std::vector<std::unique_ptr<transfer::Link>> links_;
    Matcher matcher_;
    std::vector<transfer::Outgoing*> sends_; // of all calls under way
    std::vector<Receive*> receives_;         // likewise
    std::vector<void*> lost_streams_;        // with a message that was cut short, not yet reported
    bool cut_short_ = false;
    bool stuck_ = false; // some stream stays blocked on a dead rank's event, and the device cannot be waited for
    int64_t spin_ns_ = 0;

    // A stream that waits for what a sleeping thread waits for, then rings. To be used again once it has rung.
    struct Alarm {
        Engine* engine;
        device::Stream stream;
        transfer::Awaited awaited{};
        std::atomic<bool> rung{true}; // by the stream's host thread, before it rings (release)

        static void go_off(void* alarm);
    };
    std::deque<Alarm> alarms_; // at most one for each thread that has ever slept at the same time
};

} // namespace gpurun::comm
