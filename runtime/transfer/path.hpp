// The paths that bytes can take, and why one was chosen: what GPURUN_REPORT=paths prints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpurun::transfer {

enum class Path : uint32_t { kSelf = 0, kShm, kDirect, kBounce, kStaged, kMailbox };
constexpr size_t kPaths = 6;

enum class Reason : uint32_t {
    kSameProcess = 0,
    kHostMemory,
    kHostAndDevice,
    kSmall,
    kSameDevice,
    kPeerAccess,
    kNotExportable,
    kNoPeerAccess,
    kProbeFailed,
    kForced,
    kForcedButNotExportable,
    kSingleCopy,
    kSingleCopyRefused,
    kNotYetMapped,
    kCaptured,
    kElsewhere,
    kNotMapped,
};
constexpr size_t kReasons = 17;

constexpr std::array<const char*, kPaths> kPathNames = {"self", "shm", "direct", "bounce", "staged", "mailbox"};
constexpr std::array<const char*, kReasons> kReasonTexts = {
    "same process",
    "host memory",
    "one buffer is host memory",
    "small: does not wait for its match",
    "same device",
    "peer access",
    "memory cannot be exported",
    "no peer access",
    "a test copy between the devices failed",
    "GPURUN_PATH",
    "GPURUN_PATH=direct, but the memory cannot be exported",
    "host memory, read from the sender",
    "host memory; the system refuses to read the sender's",
    "the first message of a large allocation",
    "captured into a graph, and counted once",
    "memory of another device than the rank's",
    "memory that the receiver's device refuses to map",
};

struct Choice {
    Path path;
    Reason reason;
};

// Messages and bytes in one direction of a pair, by path and reason.
class Tally {
  public:
    struct Entry {
        uint64_t messages = 0;
        uint64_t bytes = 0;
    };
    void count(Choice choice, uint64_t bytes) {
        Entry& entry = entries_[static_cast<size_t>(choice.path)][static_cast<size_t>(choice.reason)];
        ++entry.messages;
        entry.bytes += bytes;
    }
    const Entry& at(size_t path, size_t reason) const { return entries_[path][reason]; }

  private:
    std::array<std::array<Entry, kReasons>, kPaths> entries_{};
};

} // namespace gpurun::transfer
