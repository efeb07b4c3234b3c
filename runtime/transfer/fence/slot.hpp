// The slots of a fence, in classes by their use. A message that needs order between streams takes a slot of its
// protocol's class. A slot is used again and again, each time with a greater value.
#pragma once

#include "platform/job_segment.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpurun::transfer {

enum class SlotClass : uint8_t { kRendezvous, kLateEdge, kEager, kRelay, kLargeMail, kMail, kSmallMail, kLoan };

// When a slot may be used again.
enum class FreedBy : uint8_t {
    kLastEdge,   // once the edge that ends its use has been reached (SlotRing)
    kBothEdges,  // once both have been reached: a mail may be read before its sender's kernel has ended
    kPipelining, // its next use is enqueued behind the last one, by the protocol
};

struct SlotClassInfo {
    const char* name;
    uint32_t count;
    FreedBy freed_by;
    bool announced; // the peer is notified when a use has ended: it may sleep until one is free
};

constexpr uint32_t kRelayWindows = 8; // of a pair, in each direction

// In the order of SlotClass. A class's slots follow those of the class before it.
constexpr std::array<SlotClassInfo, 8> kSlotClasses = {{
    {"rendezvous", 96, FreedBy::kLastEdge, false},
    // For messages that were posted without a slot, once they are matched: unexpected messages cannot use these up.
    {"late edge", 24, FreedBy::kLastEdge, true},
    {"eager", platform::kEagerBuffers, FreedBy::kLastEdge, false},
    {"relay", kRelayWindows* platform::kRelayBuffers, FreedBy::kPipelining, true},
    {"large mail", 8, FreedBy::kBothEdges, false},
    {"mail", 24, FreedBy::kBothEdges, false},       // up to kMailBytes (memory/workspace.hpp)
    {"small mail", 96, FreedBy::kBothEdges, false}, // up to device::kSmallMailBytes
    // The forward edge alone: a loan there, or back from a borrower to its lender (protocol/loan_slots.hpp).
    {"loan", 8, FreedBy::kPipelining, false},
}};

constexpr const SlotClassInfo& info_of(SlotClass slots) { return kSlotClasses[static_cast<size_t>(slots)]; }

// Where each class begins, and behind the last one how many slots there are.
constexpr auto kFirstSlots = [] {
    std::array<uint32_t, kSlotClasses.size() + 1> first{};
    for (size_t each = 0; each < kSlotClasses.size(); ++each)
        first[each + 1] = first[each] + kSlotClasses[each].count;
    return first;
}();
constexpr uint32_t first_slot(SlotClass slots) { return kFirstSlots[static_cast<size_t>(slots)]; }
constexpr uint32_t kSlots = kFirstSlots.back();
static_assert(kSlots <= platform::kFenceSlots);

constexpr uint64_t kSlotStep = 2; // between two uses: values are even, since bit 0 belongs to poison

// One use of a slot. Travels in records.
struct Slot {
    SlotClass slots{};
    bool valid = false; // false: the message has none
    uint16_t index = 0; // in its class
    uint32_t reserved = 0;
    uint64_t value = 0;

    uint32_t number() const { return first_slot(slots) + index; } // among all slots of the fence
};
static_assert(sizeof(Slot) == 16);

} // namespace gpurun::transfer
