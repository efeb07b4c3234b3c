// Fused reductions: one operation puts mails and combines what has come in others, without a copy of them; or it
// combines what lies in the memory of peers, between the edges that say when it may be read, and when it has been.
// Needs Mails and Reduce.
#pragma once

#include "base/reduction.hpp"
#include "device/capability/mails.hpp"

namespace gpurun::device {

constexpr size_t kReducedBytesOfBlock = 8192; // where no operand is a mail

struct FusedReduction {
    // A buffer, which may be a peer's; or a mail, of which the first bytes are read.
    struct Operand {
        const void* buffer = nullptr;
        Mail mail; // if it has words
        // ---- of a peer's buffer
        Counter* ready = nullptr; // it is read once this reads `value`; null: at once
        Counter* read = nullptr;  // reads `value` once the buffer has been read, and the result stands in `answer`
        uint64_t value = 0;
        void* answer = nullptr;     // where the peer wants the result, too; null: nowhere
        uint32_t* ticket = nullptr; // as in Mail
        uint64_t* gate = nullptr;   // as in FencedCopy
        Times* times = nullptr;     // as in Mail

        bool is_mail() const { return mail.words != nullptr; }
        bool is_peers() const { return read != nullptr; }
    };

    base::Reduction reduction;
    size_t count = 0; // not 0
    void* result = nullptr;
    std::span<const Operand> operands; // one of them is a mail, or a peer's; of several tickets and gates, one is used
    uint32_t blocks = kMostSharedMailBlocks; // at most
    std::span<const CounterValue> signals;   // that it writes as it begins, up to kMostExchanged
    std::span<const CounterValue> awaits;    // that it waits for in the end, up to kMostExchanged

    size_t bytes() const { return count * base::size_of_type(static_cast<int>(reduction.type)); }
};

class FusedReduce {
  public:
    // Enqueues, as Mails::exchange() and Reduce::reduce_elements() do. What is put, up to kMostExchanged mails,
    // is put at once; its end is told together with that of the reduction. The result may be an operand, and the source
    // of mails that are put; an answer may lie where its peer's operand does; otherwise they do not overlap. If a mail,
    // or a peer's buffer, never comes, the result is undefined.
    virtual base::Result<void> put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                              Stream stream) = 0;

  protected:
    ~FusedReduce() = default; // it is a part of a Device
};

} // namespace gpurun::device
