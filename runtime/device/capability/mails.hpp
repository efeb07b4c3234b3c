// Mails: small messages that cross in one hop. Needs Counters.
#pragma once

#include "device/capability/counters.hpp"
#include "device/capability/fenced_copies.hpp"

#include <span>

namespace gpurun::device {

// A small message that crosses in one hop: the source's stream writes it into words of the target's device memory that
// say of themselves when they have come, and the target's stream reads them there.
struct Mail {
    std::byte* words = nullptr; // mail_words_bytes() of the target's memory, as this process sees it, aligned to 16
    size_t bytes = 0;           // of the message, not 0
    uint32_t mark = 0;          // never 0; differs from that of all mails that were in the words before
    Counter* sent = nullptr;    // reads `value` once the words are written, and the source's buffer may be
    Counter* taken = nullptr;   // reads `value` once the target has read what it takes of the words
    uint64_t value = 0;         // the words are free for another mail once both counters read it
    uint32_t* ticket = nullptr; // device memory of this process for one operation at a time: 0 before and after
    Times* times = nullptr;     // of this side's operation; null: nobody wants to know
};
constexpr size_t mail_words_bytes(size_t bytes) { return (bytes + 7) / 8 * 16; }

constexpr size_t kMostMails = 32;        // in one operation
constexpr size_t kMostExchanged = 16;    // each way
constexpr size_t kMostCopiedBeside = 4;  // in an exchange
constexpr size_t kMostPulled = 8;        // in an exchange
constexpr size_t kSmallMailBytes = 4096; // the largest of them
constexpr size_t kMailBytesOfBlock = 4096;
// Of a mail that has a kernel to itself, and of one that shares it: what is put and taken there is beside it.
constexpr uint32_t kMostMailBlocks = 64;
constexpr uint32_t kMostSharedMailBlocks = 32;
constexpr uint32_t mail_blocks(size_t bytes) { return blocks_for(bytes, kMailBytesOfBlock, kMostMailBlocks); }
constexpr uint32_t shared_mail_blocks(size_t bytes) {
    return blocks_for(bytes, kMailBytesOfBlock, kMostSharedMailBlocks);
}

// Several mails in one operation; each has its own edges. Small ones need no ticket.
struct OutgoingMail {
    Mail mail;
    const void* source = nullptr;
};
struct IncomingMail {
    Mail mail;
    void* destination = nullptr;
    size_t bytes = 0;                        // that are taken
    uint32_t blocks = kMostSharedMailBlocks; // of an exchange, at most
};

// What an exchange copies on this device, beside its mails. Buffers as those of mails.
struct CopyBeside {
    void* destination = nullptr;
    const void* source = nullptr;
    size_t bytes = 0; // not 0
};

// What one operation moves at the same time. What is put is put at once, what is taken or pulled is moved as it comes,
// up to kMostExchanged mails each way; each has a ticket of its own. Up to kMostCopiedBeside copies wait for nobody.
struct Exchange { // of something
    std::span<const OutgoingMail> puts;
    std::span<const IncomingMail> takes;
    std::span<const CopyBeside> copies;
    std::span<const FencedCopy> pulls;     // up to kMostPulled; needs FencedCopies
    std::span<const CounterValue> signals; // that it writes as it begins, up to kMostExchanged
    std::span<const CounterValue> awaits;  // without which it does not end, up to kMostExchanged
    bool seen = false; // what is taken is written, for everybody, before its `taken` reads its value
};

class Mails {
  public:
    // Enqueue. What waits in these keeps a part of the device busy, as in Counters::watch_counter(). `source` and
    // `destination` are pinned, device or managed memory.
    virtual base::Result<void> put_mail(const Mail& mail, const void* source, Stream stream) = 0;
    // Waits for the words, takes the first `bytes` of the message. If `sent` is poisoned and had not come to its value,
    // it ends without them. `seen`: `destination` is written, for everybody, before `taken` reads its value.
    virtual base::Result<void> take_mail(const Mail& mail, void* destination, size_t bytes, bool seen,
                                         Stream stream) = 0;
    virtual base::Result<void> exchange(const Exchange& all, Stream stream) = 0;
    // Small ones, up to kMostMails. Those that are taken are seen, and taken as they come: none waits for another.
    virtual base::Result<void> put_mails(std::span<const OutgoingMail> mails, Stream stream) = 0;
    virtual base::Result<void> take_mails(std::span<const IncomingMail> mails, Stream stream) = 0;

  protected:
    ~Mails() = default; // it is a part of a Device
};

} // namespace gpurun::device
