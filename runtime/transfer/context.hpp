// What all transfers of a rank share: its device, the job, the settings, and pools of small things that the message
// path must not allocate: internal streams, pinned landing buffers, arguments of host copies.
//
// One a rank, owned by comm::Engine; used under its lock, except give_back() of host copies, which a stream's host
// thread calls.
#pragma once

#include "base/settings.hpp"
#include "device/device.hpp"
#include "platform/job_segment.hpp"
#include "platform/trace_buffer.hpp"
#include "transfer/export_cache.hpp"
#include "transfer/landing.hpp"
#include "transfer/mail_batches.hpp"
#include "transfer/places.hpp"
#include "transfer/still.hpp"
#include "transfer/turns.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gpurun::transfer {

class Workspace;

// One host-to-host copy that a stream runs, in stream order.
struct HostCopy {
    void* destination;
    const void* source;
    size_t bytes;
    class HostCopies* home;
};

class HostCopies {
  public:
    // Enqueues memcpy(destination, source, bytes) in `stream`.
    base::Result<void> enqueue(device::Device& device, device::Stream stream, void* destination, const void* source,
                               size_t bytes);

  private:
    static void run(void* argument); // on a host thread of the stream

    std::mutex mutex_;
    std::deque<HostCopy> all_;
    std::vector<HostCopy*> idle_;
};

// What reads `value` once nothing in an internal stream waits for anybody any more; null if nothing tells.
struct StreamEnd {
    const device::Counter* counter = nullptr;
    uint64_t value = 0;
};

// Internal streams. One that is given back may still have work. If that may wait for a peer, what is enqueued next
// would wait with it, so the stream is not given again before it has run. When kMost are taken or wait, transfers share
// them.
class Streams {
  public:
    static constexpr size_t kMost = 32; // as many as a GPU runs side by side (CUDA_DEVICE_MAX_CONNECTIONS)
    static constexpr size_t kMostWithSpare = kMost / 2;
    static constexpr size_t kMostShared = 128; // messages in a stream that was taken for one: some 1000 operations
    static constexpr size_t kBrief = 4;
    static constexpr size_t kLanes = 2; // measured: with 1 windows are slower, and with more no faster

    explicit Streams(device::Device& device) : device_(device) {}
    ~Streams();

    base::Result<device::Stream> take();
    // For what waits for its place in a stream of the user's, the one of this name, and for nobody else. Places come in
    // the order of their numbers, so what is behind later ones may go behind what is there, and does when others may
    // need the rest.
    base::Result<device::Stream> take_behind(uint64_t name, uint64_t number);
    // For what could do without: none when others may need it.
    base::Result<std::optional<device::Stream>> take_spare();
    enum class State {
        kIdle,    // all that was enqueued has run: the best to take next, since the device has it at hand
        kRunning, // what was enqueued waits for no peer
        kWaiting, // it may, or nobody knows
        kStuck,   // it may be blocked for ever, and is never used or waited for again
    };
    void take_back(device::Stream stream, State state, const StreamEnd& end = {});
    // For work that waits for nobody, and is waited for by an event: not given back.
    base::Result<device::Stream> brief();
    // For a large copy that waits for nobody any more, so that others may come behind it. A few copies at a time move
    // as much as many do, and end one after the other: what waits for all of them has little to look at in the end.
    // What tells that a copy has ended is enqueued beside it: an engine stands still for that between two copies.
    // Never stuck, and not given back.
    struct Lane {
        device::Stream copies;
        device::Stream signals;
    };
    base::Result<Lane> lane();
    // One that is given to nobody else.
    base::Result<device::Stream> own();

  private:
    struct Entry {
        device::Stream stream;
        uint32_t users = 0;
        uint64_t behind = 0; // the name of the stream that all in it waits for; 0: of none
        uint64_t number = 0; // with `behind`: of the last of their places
        uint32_t shared = 0; // with `behind`: how many messages that is
        bool waits = false;  // perhaps: something that was given back does
        StreamEnd end;
    };
    Entry* find(device::Stream stream);
    base::Result<bool> is_scarce();
    Entry* find_behind(uint64_t name, uint64_t number);
    base::Result<Entry*> find_free(); // null if there is none
    base::Result<Entry*> find_or_make();
    device::Stream give(Entry& entry);
    base::Result<bool> still_waits(const Entry& entry);

    device::Device& device_;
    std::vector<Entry> all_;
    std::optional<device::Stream> idle_;
    size_t next_ = 0; // in turn: the one given back longest ago has the least left to do
    std::vector<Lane> lanes_;
    size_t next_lane_ = 0;
    std::vector<device::Stream> brief_; // of own_
    size_t next_brief_ = 0;
    std::vector<device::Stream> own_;
};

// Events that mark a place in a stream for as long as a transfer needs it.
class Events {
  public:
    explicit Events(device::Device& device) : device_(device) {}
    ~Events();

    // Recorded in `stream`.
    base::Result<device::Event> mark(device::Stream stream);
    void give_back(device::Event event) { idle_.push_back(event); }

  private:
    device::Device& device_;
    std::vector<device::Event> all_;
    std::vector<device::Event> idle_;
};

// Orders two streams of this process: what follows in `second` starts after what is in `first` now.
class Joints {
  public:
    explicit Joints(device::Device& device) : device_(device) {}
    ~Joints();

    base::Result<void> order(device::Stream first, device::Stream second);

  private:
    static constexpr size_t kEvents = 16; // used in turn: a wait latches its record when it is made

    device::Device& device_;
    std::vector<device::Event> events_;
    size_t next_ = 0;
};

// The same of two captured streams; `second` may join the capture by it. An event of theirs is not used again before
// the graph is gone: CUDA crashes where a thread records it elsewhere while another ends the capture
// (tests/device/capture_events.cu).
class CaptureJoints {
  public:
    explicit CaptureJoints(device::Device& device) : device_(device) {}
    ~CaptureJoints();

    base::Result<void> order(device::Stream first, device::Stream second);

  private:
    struct Entry {
        device::Event event;
        std::shared_ptr<std::atomic<bool>> unused; // released by whoever tells that the graph is gone
    };
    base::Result<Entry*> take();

    device::Device& device_;
    std::deque<Entry> all_;
    size_t next_ = 0; // where to look for an unused one: graphs mostly go in the order in which they came
};

// What waits in kernels of this rank, so that it leaves room on the device for what it waits for.
class WaitingRoom {
  public:
    explicit WaitingRoom(uint32_t room) : room_(room) {}

    // Whether an operation may wait in `stream` until `done` reads `value`, which it does when the operation has
    // ended. What waits in the same stream waits one after the other, and counts once.
    bool admits(device::Stream stream, uint32_t size, const device::Counter& done, uint64_t value);

  private:
    struct Waiter {
        device::Stream stream;
        uint32_t size;
        const device::Counter* done;
        uint64_t value;
    };
    const uint32_t room_;
    std::vector<Waiter> waiters_;
};

// Streams that join a capture, for messages that take their own time in a graph. One is used again once its capture has
// ended.
class CaptureStreams {
  public:
    static constexpr size_t kReserved = 16; // more receives that one capture has started, and not ended, take new ones

    explicit CaptureStreams(device::Device& device) : device_(device) {}
    ~CaptureStreams();

    base::Result<device::Stream> take();
    void give_back(device::Stream stream);

  private:
    struct Entry {
        device::Stream stream;
        bool used = false;
    };
    device::Device& device_;
    std::vector<Entry> all_;
};

// What a graph's message that was cut short leaves: a word for each peer, written by streams.
class CutMarks {
  public:
    explicit CutMarks(device::Device& device) : device_(device) {}
    ~CutMarks();

    base::Result<device::Counter*> mark(uint32_t peer, uint32_t ranks);
    // Whether some message of the peer's was, since the last time that this was asked.
    bool collect(uint32_t peer);

  private:
    device::Device& device_;
    device::Counter* marks_ = nullptr;
};

// Where messages of graphs say that they wait.
class ChannelWaits {
  public:
    explicit ChannelWaits(device::Device& device) : device_(device) {}
    ~ChannelWaits();

    base::Result<device::ChannelWait*> take(); // all 0
    // REQUIRES: no graph has it any more.
    void give_back(device::ChannelWait* wait) { idle_.push_back(wait); }

  private:
    static constexpr size_t kOfBlock = 128;

    device::Device& device_;
    std::vector<void*> blocks_;
    std::vector<device::ChannelWait*> idle_;
};

struct Context {
    Context(device::Device& device_, const platform::JobSegment& job_, const base::Settings& settings_, uint32_t rank_,
            const Workspace& workspace_, platform::TraceBuffer* trace_, const device::RunLog& runs_)
        : workspace(workspace_), device(device_), job(job_), settings(settings_), rank(rank_), trace(trace_),
          runs(runs_), ranks_on_device(transfer::ranks_on_device(job_, rank_)),
          kernels_wait(!uses_event_fence() && !takes_turns(job_, settings_, rank_)),
          waits(device_.info().waiting_room / ranks_on_device), exports(device_, job_.size()), landing(device_),
          streams(device_), events(device_), joints(device_), capture_streams(device_), capture_joints(device_),
          cut_marks(device_), channel_waits(device_),
          places({[this](device::Stream stream) { return events.mark(stream); },
                  [this](device::Event event) { events.give_back(event); },
                  [&device_](device::Stream stream) { return device_.name(stream); },
                  [&device_](device::Event event) { return device_.query(event); }}) {}

    // Which fence orders streams: what was asked for, or what the device can do best.
    bool uses_event_fence() const {
        return settings.fence == base::FenceKind::kEvent ||
               (settings.fence == base::FenceKind::kAuto && !device.info().counters);
    }
    // Whether a stream that waits for a rank is released when that rank dies.
    bool releases_streams() const { return !uses_event_fence() || device.info().releases_events; }

    const Workspace& workspace;
    device::Device& device;
    const platform::JobSegment& job;
    const base::Settings& settings;
    const uint32_t rank;
    platform::TraceBuffer* const trace; // null where nobody traces
    const device::RunLog& runs;         // of messages of graphs, for the trace; `taken` is null where there is none
    const uint32_t ranks_on_device;
    const bool kernels_wait;                                    // on counters; else streams do
    KeepStill keep_still = [] { return Still(std::in_place); }; // the engine's
    WaitingRoom waits;
    ExportCache exports;
    HostCopies host_copies;
    Landing landing;
    Streams streams;
    Events events;
    Joints joints;
    CaptureStreams capture_streams;
    CaptureJoints capture_joints;
    CutMarks cut_marks;
    ChannelWaits channel_waits;
    Places places;
    MailBatches mails;
    // To be reserved before there is work that making them could wait for.
    static constexpr size_t kReservedStreams =
        Streams::kMost + 2 * Streams::kLanes + Streams::kBrief + MailBatches::kTakers + CaptureStreams::kReserved;
    // Until then messages of graphs that were destroyed may yet say that they are gone: a thread of the driver's tells
    // them.
    std::atomic<int64_t> graphs_end_by_ns{0};
    static constexpr int64_t kGraphEndsWithinNs = 1'000'000'000;
    static constexpr int64_t kGraphsLeft = INT64_MAX; // some are to be destroyed by a later call
};

} // namespace gpurun::transfer
