// Mailboxes: small messages go into the target device's own memory, one hop after they were sent, and wait for nobody.
//
// The mailbox of a direction of a pair lies in the target's device memory, which the source maps: a place for each mail
// slot of the fence. A source that has a small message asks for it once. Messages take other paths until the target has
// offered one, and always if it does not: where its kernels must not wait (turns.hpp), or its device has little memory
// for so many peers. Before a source uses a mailbox, it has tried whether what it writes there can be read back.
//
// Owned by the Link, used under the engine lock.
#pragma once

#include "transfer/context.hpp"
#include "transfer/fence.hpp"
#include "transfer/record.hpp"

#include <optional>

namespace gpurun::transfer {

constexpr size_t kMailBytes = 64 * 1024; // of the largest message

// The mail of `bytes` in `slot` of a mailbox that begins at `words`; without its ticket.
device::Mail mail_at(std::byte* words, Fence& fence, const SlotValue& slot, size_t bytes);

// The target's end.
class Inbox {
  public:
    explicit Inbox(Context& context) : context_(context) {}

    // What the source needs; made at the first call. None if this rank gives no mailbox.
    base::Result<std::optional<device::MemoryHandle>> offer();
    std::byte* words() const { return words_; } // null before offer()
    base::Result<void> close();

  private:
    bool affordable() const;

    Context& context_;
    std::byte* words_ = nullptr;
};

// The source's end.
class Outbox {
  public:
    Outbox(Context& context, uint32_t peer) : context_(context), peer_(peer) {}

    // True once: the peer is to be asked.
    bool asks();
    void offered(const device::MemoryHandle& handle) { handle_ = handle; }
    // Null: messages take other paths, for now or for good.
    std::byte* words();
    base::Result<void> close();

  private:
    Context& context_;
    const uint32_t peer_;
    bool asked_ = false;
    std::optional<device::MemoryHandle> handle_; // until it is mapped
    std::byte* words_ = nullptr;
};

// Device memory of this rank for each slot, by which the blocks of one kernel agree (device::Mail, device::FencedCopy).
class Scratch {
  public:
    explicit Scratch(Context& context) : context_(context) {}

    base::Result<uint32_t*> ticket(Role role, uint32_t slot); // kSource or kTarget
    base::Result<uint64_t*> gate(uint32_t slot);              // as target
    base::Result<void> close();

  private:
    struct Words {
        uint64_t gates[kSlotsUsed];
        uint32_t tickets[2][kSlotsUsed];
    };
    base::Result<Words*> words(); // in device memory
    Context& context_;
    Words* words_ = nullptr;
};

} // namespace gpurun::transfer
