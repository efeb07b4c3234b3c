#include "transfer/mailbox.hpp"

#include "base/log.hpp"
#include "transfer/probe.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr size_t kPlaceBytes = device::mail_words_bytes(kMailBytes);
constexpr size_t kAllPlacesBytes = kMailSlots * kPlaceBytes;

// New device memory that reads 0. The stream is of its own: others may wait for peers.
Result<std::byte*> cleared_memory(device::Device& device, size_t bytes) {
    GPURUN_ASSIGN(void* memory, device.allocate(bytes));
    auto clear = [&]() -> Result<void> {
        GPURUN_ASSIGN(const device::Stream stream, device.create_stream());
        auto filled = device.fill(memory, 0, bytes, stream);
        auto done = device.synchronize(stream);
        GPURUN_TRY(device.destroy_stream(stream));
        GPURUN_TRY(std::move(filled));
        return done;
    };
    if (auto cleared = clear(); !cleared) {
        (void)device.free(memory); // the first error counts
        return std::move(cleared).error();
    }
    return static_cast<std::byte*>(memory);
}

template <typename Word>
Result<void> free_memory(device::Device& device, Word*& memory) {
    return memory == nullptr ? Result<void>() : device.free(std::exchange(memory, nullptr));
}

} // namespace

device::Mail mail_at(std::byte* words, Fence& fence, const SlotValue& slot, size_t bytes) {
    device::Mail mail;
    mail.words = words + (slot.slot - kMailSlot) * kPlaceBytes;
    mail.bytes = bytes;
    mail.mark = static_cast<uint32_t>(slot.value / kStep % UINT32_MAX) + 1;
    mail.sent = &fence.counter(Edge::kForward, slot.slot);
    mail.taken = &fence.counter(Edge::kBackward, slot.slot);
    mail.value = slot.value;
    return mail;
}

// Whether mailboxes for all peers would take no more than a small part of what the ranks on the device
// have of it.
bool Inbox::affordable() const {
    constexpr size_t kPart = 64;
    const size_t of_rank = kAllPlacesBytes * context_.job.size();
    return of_rank * context_.ranks_on_device <= context_.device.info().memory_bytes / kPart;
}

Result<std::optional<device::MemoryHandle>> Inbox::offer() {
    if (!context_.kernels_wait || !affordable())
        return std::optional<device::MemoryHandle>();
    if (words_ == nullptr) {
        GPURUN_ASSIGN(words_, cleared_memory(context_.device, kAllPlacesBytes));
    }
    GPURUN_ASSIGN(const device::Buffer buffer, context_.device.describe(words_, 1));
    if (!buffer.exportable)
        return std::optional<device::MemoryHandle>();
    GPURUN_ASSIGN(const device::MemoryHandle handle, context_.device.export_memory(buffer));
    return std::optional(handle);
}

Result<void> Inbox::close() { return free_memory(context_.device, words_); }

bool Outbox::asks() {
    if (asked_)
        return false;
    asked_ = true;
    return context_.settings.mail_bytes != 0 && !context_.uses_event_fence();
}

std::byte* Outbox::words() {
    if (!handle_)
        return words_;
    const device::MemoryHandle handle = *std::exchange(handle_, std::nullopt);
    auto opened = [&]() -> Result<void> {
        GPURUN_ASSIGN(void* imported, context_.device.import_memory(static_cast<int>(peer_), handle));
        auto tried = can_write(context_, static_cast<std::byte*>(imported));
        if (tried && *tried) {
            words_ = static_cast<std::byte*>(imported);
            return {};
        }
        GPURUN_TRY(context_.device.close_memory(imported));
        if (!tried)
            return std::move(tried).error();
        return base::Error{base::Status::kDevice, "what was written there came back changed"};
    }();
    if (!opened)
        base::log(base::LogLevel::kWarn, "rank {}'s mailbox cannot be used ({}): messages take other paths", peer_,
                  opened.error().detail);
    return words_;
}

Result<void> Outbox::close() {
    handle_.reset();
    return words_ == nullptr ? Result<void>() : context_.device.close_memory(std::exchange(words_, nullptr));
}

Result<Scratch::Words*> Scratch::words() {
    if (words_ == nullptr) {
        GPURUN_ASSIGN(std::byte * memory, cleared_memory(context_.device, sizeof(Words)));
        words_ = reinterpret_cast<Words*>(memory);
    }
    return words_;
}

Result<uint32_t*> Scratch::ticket(Role role, uint32_t slot) {
    GPURUN_ASSIGN(Words * all, words());
    return &all->tickets[role == Role::kSource ? 0 : 1][slot];
}

Result<uint64_t*> Scratch::gate(uint32_t slot) {
    GPURUN_ASSIGN(Words * all, words());
    return &all->gates[slot];
}

Result<void> Scratch::close() { return free_memory(context_.device, words_); }

} // namespace gpurun::transfer
