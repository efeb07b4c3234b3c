// Internal streams: the runtime's own streams on the rank's device, in which messages move that must not hold up the
// program's streams.
//
// A GPU has a bounded number of hardware queues, which its ranks share. When as many streams of a rank wait as it has
// queues, nothing else of it runs, of whatever priority. So those of our streams that may wait are fewer than the
// queues (StreamLimits); when all are taken, or wait, messages share them. All are created when a rank starts, since
// creating one later may wait for the whole device. Used under the engine lock.
#pragma once

#include "device/device.hpp"
#include "transfer/pool/process_share.hpp"

#include <optional>
#include <vector>

namespace gpurun::transfer {

// How many streams a rank has, by use. Follows from the number of its hardware queues.
struct StreamLimits {
    size_t messages; // for messages, which may wait for their peer
    size_t takers;   // for fused receives (protocol/fused_messages.hpp)
    size_t captured; // for receives of graphs; more in one capture take new ones. Nothing runs in them
    size_t alarms;   // for threads that sleep (comm/alarms.hpp)
    static constexpr size_t kBrief = 4; // for work that waits for nobody
    static constexpr size_t kBulk = 2;  // for large copies: with 1 windows are slower, and with more no faster

    size_t all() const { return messages + takers + captured + alarms + kBrief + 2 * kBulk; }
};
StreamLimits stream_limits(uint32_t hardware_queues);
// The same for each of several engines of a rank, which are fewer than its queues.
StreamLimits stream_limits(uint32_t hardware_queues, uint32_t engines);

// The counter that reads `value` once nothing in a stream waits for a peer any more; null if none tells.
struct StreamEnd {
    const device::Counter* counter = nullptr;
    uint64_t value = 0;
};

class InternalStreams {
  public:
    static constexpr size_t kMostShared = 128; // messages in a stream that was taken for one: some 1000 operations

    // `engines` that come later take their part of the streams for messages.
    InternalStreams(device::Device& device, const StreamLimits& limits, uint32_t hardware_queues = 0,
                    const EngineCount& engines = kOneEngine)
        : device_(device), limits_(limits), hardware_queues_(hardware_queues), engines_(engines) {}
    ~InternalStreams();

    const StreamLimits& limits() const { return limits_; }

    // For one message. Other work may be in it; but none that waits for a peer, as long as there are streams enough.
    base::Result<device::Stream> take();
    // The same, for work that starts where a stream of the program with this name (Device::name) is now: best in a
    // stream for whose end that one waits already.
    base::Result<device::Stream> take_again(uint64_t name);
    // For one that waits for nobody.
    base::Result<device::Stream> take_ready();
    // For work that waits for a marker, in the program's stream with this name (Device::name), and for nothing else.
    // Markers of one stream are passed in the order of their numbers. So, when streams are scarce, work behind a later
    // marker goes into the stream of work behind an earlier one.
    base::Result<device::Stream> take_behind(uint64_t name, uint64_t number);
    // For an operation that can do without: none when streams are scarce.
    base::Result<std::optional<device::Stream>> take_spare();
    enum class State {
        kIdle,    // everything enqueued has run: the best to take next, since the device has it at hand
        kRunning, // what is enqueued waits for no peer
        kWaiting, // what is enqueued may wait for a peer
        kStuck,   // may be blocked for ever: never used or waited for again
    };
    void give_back(device::Stream stream, State state, const StreamEnd& end = {});
    // The stream with this name waits for everything that is in it. Before it is given back.
    void note_joined(device::Stream stream, uint64_t name);
    size_t lent() const; // how often one was taken and not given back yet

    // For work that waits for nobody, in the order in which it is enqueued. Not given back.
    base::Result<device::Stream> brief();
    // For a large copy that has nothing to wait for. Copies share these streams: a few at a time move as many bytes as
    // many at a time do, and they end one after the other, so that whoever waits for a window has little left to do at
    // its end. The signal that a copy has ended goes into `signals`: in the stream of the copies it would keep the copy
    // engine idle. Never stuck, and not given back.
    struct Bulk {
        device::Stream copies;
        device::Stream signals;
    };
    base::Result<Bulk> bulk();
    // One for the caller alone. Not given back.
    base::Result<device::Stream> own();

  private:
    struct Entry {
        device::Stream stream;
        uint32_t users = 0;
        uint64_t behind = 0; // the name of the stream that all in it waits for; 0: of none
        uint64_t number = 0; // with `behind`: of the last of their markers
        uint32_t shared = 0; // with `behind`: how many messages that is
        uint64_t joined = 0; // the name of a stream that waits for all in it; 0: none is known
        bool alone = false;  // the last who took it has shared it with nobody
        bool waits = false;  // perhaps: something that was given back does
        StreamEnd end;
    };
    Entry* find(device::Stream stream);
    size_t most_for_messages() const; // now
    size_t usable() const;            // of all_, from the first on
    base::Result<bool> are_scarce();
    Entry* find_behind(uint64_t name, uint64_t number);
    base::Result<Entry*> find_free(); // null if there is none
    base::Result<Entry*> find_or_make();
    device::Stream give(Entry& entry);
    base::Result<bool> still_waits(const Entry& entry);

    device::Device& device_;
    const StreamLimits limits_;
    const uint32_t hardware_queues_; // of all engines of this rank
    const EngineCount& engines_;
    std::vector<Entry> all_;
    std::optional<device::Stream> idle_;
    size_t next_ = 0; // in turn: the one given back longest ago has the least left to do
    std::vector<Bulk> bulk_;
    size_t next_bulk_ = 0;
    std::vector<device::Stream> brief_; // of own_
    size_t next_brief_ = 0;
    std::vector<device::Stream> own_;
};

} // namespace gpurun::transfer
