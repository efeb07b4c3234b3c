// Records that have come from a peer and were not taken out yet, one behind the other in a ring. How much room there is
// its sender knows by the same arithmetic (InboxRoom), and from what it is told of records that were taken out: a
// record that is sent has room. None takes memory of its own.
//
// One thread at a time adds, under the channel's mutex; another takes out, under the engine lock.
#pragma once

#include "transfer/channel/record.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace gpurun::transfer {

constexpr size_t kInboxBytes = size_t{64} << 10;
// A bound on records with their payloads.
constexpr size_t kMostInboxEntry = size_t{20} << 10;

// Of the sender, who counts bytes as the inbox does.
class InboxRoom {
  public:
    // False: there is none now.
    bool take(size_t bytes);
    // So far the inbox has been emptied. False: it never was so full.
    bool give_back(uint64_t emptied);

  private:
    uint64_t filled_ = 0;
    uint64_t emptied_ = 0;
};

class Inbox {
  public:
    enum class Added { kPart, kWhole, kDamaged };
    // The next bytes of a record of `all` bytes with its payload, which may come in several parts.
    Added add(std::span<const std::byte> part, uint64_t all);

    // Who takes out: cheap.
    bool empty() const { return filled_.load(std::memory_order_acquire) == emptied_; }
    // The oldest record and its payload, until pop(); as much of it as is used (copy_record()). Null: there is none.
    const Record* front(std::span<const std::byte>& ret_payload);
    // REQUIRES front(). How far the inbox is emptied, if it is time to tell the sender; then told() is to follow, under
    // the mutex.
    std::optional<uint64_t> pop();
    void told(uint64_t emptied) { told_ = emptied; }

  private:
    std::byte* at(uint64_t position) const { return ring_.get() + position % kInboxBytes; }
    bool begin(uint64_t all);

    std::unique_ptr<std::byte[]> ring_; // made with the first record
    // Who adds:
    uint64_t next_ = 0; // where the record that comes in parts is
    size_t got_ = 0;    // of its bytes
    uint64_t told_ = 0;
    // Release by who adds: the entries before it are whole.
    std::atomic<uint64_t> filled_{0};
    // Who takes out:
    uint64_t emptied_ = 0;
    uint64_t tells_at_ = 0; // from there on
    uint64_t after_front_ = 0;
};

} // namespace gpurun::transfer
