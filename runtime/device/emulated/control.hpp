// The page-aligned front of the shareable segment: what other processes need besides the memory itself.
//
//   ControlHeader
//   progress[kStreams]         of each stream: its latest mark that was reached
//   events[kSharedEvents]      of each shared event: its latest record
//   exports[kExports]          ids of the exported allocations that live
//
// A record names a mark of a stream, so it completes exactly when that stream gets there, whichever stream
// records the event next; this is also how GPUs do it. A record fits one word, so waiting needs no lock.
//
// The owner writes everything, with one exception: once it has died, survivors set kReleased in its progress
// words. A Control is one process's view, of its own segment or of a peer's, and may be used by any thread.
#pragma once

#include "base/status.hpp"
#include "platform/shared_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpurun::device::emulated {

constexpr uint32_t kStreams = 4096;
constexpr uint32_t kSharedEvents = 65536;
constexpr uint32_t kExports = 65536;

// What a record says: (stream << 48) | mark. 0: never recorded.
struct Record {
    uint32_t stream = 0;
    uint64_t mark = 0;

    static constexpr uint64_t kMarkBits = 48;
    static Record unpack(uint64_t word) {
        return {static_cast<uint32_t>(word >> kMarkBits), word & ((uint64_t{1} << kMarkBits) - 1)};
    }
    uint64_t packed() const { return (uint64_t{stream} << kMarkBits) | mark; }
};

// Marks are even and stay below 2^48. These bits in a progress word satisfy every wait, the lower one so that sleepers
// on the low half notice; what was truly reached can still be read beside them.
constexpr uint64_t kMarkStep = 2;
constexpr uint64_t kReleased = (uint64_t{1} << 62) | 1;

class Control {
  public:
    // The size of the control area, a multiple of the page size.
    static size_t bytes();
    // Lays out a new segment; `token` tells segments apart.
    static base::Result<Control> create(int fd, uint64_t token);
    // kVersion if the segment is not an emulated device of this layout.
    static base::Result<Control> attach(int fd);

    uint64_t token() const;
    // Null for numbers that are out of range (they may come from another process).
    std::atomic<uint64_t>* progress(uint32_t stream) const;
    std::atomic<uint64_t>* event(uint32_t index) const;
    std::atomic<uint64_t>* exported(uint32_t index) const;

    // The owner is gone: every wait on its streams ends, now and later.
    void release_all() const;
    // Owner: `stream` exists, or existed once.
    void note_stream(uint32_t stream) const;

  private:
    explicit Control(platform::Mapping mapping) : mapping_(std::move(mapping)) {}

    platform::Mapping mapping_;
};

// Owns the numbers 0 to limit - 1 of one of the tables. Numbers come back in no particular order.
class Slots {
  public:
    explicit Slots(uint32_t limit) : limit_(limit) {}
    // kMemory, naming `what`, if all are taken.
    base::Result<uint32_t> claim(const char* what);
    void release(uint32_t slot);

  private:
    std::mutex mutex_;
    uint32_t limit_;
    uint32_t used_ = 0; // slots ever handed out: all below
    std::vector<uint32_t> free_;
};

} // namespace gpurun::device::emulated
