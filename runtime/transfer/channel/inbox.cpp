#include "transfer/channel/inbox.hpp"

#include <cstring>

namespace gpurun::transfer {

namespace {

// In front of each record.
struct EntryHead {
    uint32_t bytes = 0; // of the record and its payload; 0: the rest of the ring up to its end is not used
    uint32_t reserved = 0;
};
static_assert(sizeof(EntryHead) % alignof(Record) == 0);

constexpr uint64_t kTold = kInboxBytes / 4; // so much is taken out before the sender is told

constexpr uint64_t entry_bytes(uint64_t bytes) {
    constexpr uint64_t kAlign = alignof(Record);
    return sizeof(EntryHead) + (bytes + kAlign - 1) / kAlign * kAlign;
}
static_assert(2 * kMostInboxEntry + kTold <= kInboxBytes, "whoever finds no room is told of some");

constexpr uint64_t left_in_ring(uint64_t position) { return kInboxBytes - position % kInboxBytes; }
// Entries are not cut.
constexpr uint64_t place_of(uint64_t position, uint64_t bytes) {
    return entry_bytes(bytes) <= left_in_ring(position) ? position : position + left_in_ring(position);
}

} // namespace

bool InboxRoom::take(size_t bytes) {
    const uint64_t end = place_of(filled_, bytes) + entry_bytes(bytes);
    if (end - emptied_ > kInboxBytes)
        return false;
    filled_ = end;
    return true;
}

bool InboxRoom::give_back(uint64_t emptied) {
    if (emptied > filled_ || emptied < emptied_)
        return false;
    emptied_ = emptied;
    return true;
}

// False: no sender that counts would send it.
bool Inbox::begin(uint64_t all) {
    if (all < Record::kBareBytes || entry_bytes(all) > kMostInboxEntry)
        return false;
    const uint64_t before = filled_.load(std::memory_order_relaxed);
    next_ = place_of(before, all);
    if (next_ + entry_bytes(all) - told_ > kInboxBytes)
        return false;
    if (!ring_)
        ring_ = std::make_unique<std::byte[]>(kInboxBytes);
    if (next_ != before) {
        const EntryHead skip;
        std::memcpy(at(before), &skip, sizeof skip);
    }
    const EntryHead head{static_cast<uint32_t>(all), 0};
    std::memcpy(at(next_), &head, sizeof head);
    return true;
}

Inbox::Added Inbox::add(std::span<const std::byte> part, uint64_t all) {
    if (got_ == 0 && !begin(all))
        return Added::kDamaged;
    EntryHead head;
    std::memcpy(&head, at(next_), sizeof head);
    if (head.bytes != all || part.empty() || part.size() > all - got_)
        return Added::kDamaged;
    std::byte* const record = at(next_) + sizeof head;
    std::memcpy(record + got_, part.data(), part.size());
    got_ += part.size();
    if (got_ < all)
        return Added::kPart;
    got_ = 0;
    uint16_t used = 0;
    std::memcpy(&used, record + offsetof(Record, head_bytes), sizeof used);
    if (used < Record::kBareBytes || used > sizeof(Record) || used > all)
        return Added::kDamaged;
    filled_.store(next_ + entry_bytes(all), std::memory_order_release);
    return Added::kWhole;
}

const Record* Inbox::front(std::span<const std::byte>& ret_payload) {
    if (empty())
        return nullptr;
    EntryHead head;
    std::memcpy(&head, at(emptied_), sizeof head);
    if (head.bytes == 0) {
        emptied_ += left_in_ring(emptied_);
        std::memcpy(&head, at(emptied_), sizeof head);
    }
    const auto* const record = reinterpret_cast<const Record*>(at(emptied_) + sizeof head);
    ret_payload = {reinterpret_cast<const std::byte*>(record) + record->head_bytes, head.bytes - record->head_bytes};
    after_front_ = emptied_ + entry_bytes(head.bytes);
    return record;
}

std::optional<uint64_t> Inbox::pop() {
    emptied_ = after_front_;
    if (emptied_ - tells_at_ < kTold)
        return std::nullopt;
    tells_at_ = emptied_;
    return emptied_;
}

} // namespace gpurun::transfer
