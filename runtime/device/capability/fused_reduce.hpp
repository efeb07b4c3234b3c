// Fused reductions: one operation puts mails and combines what has come in others, without a copy of them; or it
// combines what lies in the memory of peers, between the edges that say when it may be read, and when it has been. The
// result may be written into the memory of peers, too. The same for messages of graphs, which come in channels, where
// the device has those. Needs Mails and Reduce.
#pragma once

#include "base/reduction.hpp"
#include "device/capability/channels.hpp"

namespace gpurun::device {

constexpr size_t kReducedBytesOfBlock = 8192; // where no operand is a mail

struct FusedReduction {
    // A buffer, which may be a peer's; or a mail, of which the first bytes are read. Neither: nothing is combined, but
    // the rest is done. Those are the last.
    struct Operand {
        const void* buffer = nullptr;
        Mail mail;              // if it has words
        void* answer = nullptr; // where the buffer's owner wants the result, too; null: nowhere
        // ---- of a peer's buffer, if this operation waits for it, or tells of it
        Counter* ready = nullptr; // it is read once this reads `value`; null: at once
        Counter* read = nullptr;  // reads `value` once the buffer has been read, and the result stands in `answer`
        uint64_t value = 0;
        uint32_t* ticket = nullptr; // as in Mail
        uint64_t* gate = nullptr;   // as in FencedCopy
        Times* times = nullptr;     // as in Mail

        bool is_mail() const { return mail.words != nullptr; }
        bool is_combined() const { return buffer != nullptr || is_mail(); }
        bool is_peers() const { return read != nullptr; }
    };

    base::Reduction reduction;
    size_t count = 0; // not 0
    void* result = nullptr;
    std::span<const Operand> operands;       // of several tickets and gates, one is used
    uint32_t blocks = kMostSharedMailBlocks; // at most
    std::span<const CounterValue> signals;   // that it writes as it begins, up to kMostExchanged
    std::span<const CounterValue> awaits;    // that it waits for in the end, up to kMostExchanged

    size_t bytes() const { return count * base::size_of_type(static_cast<int>(reduction.type)); }
};

// What one run of a graph puts in channels, and combines of what comes in others, and takes with that.
struct GraphReduction {
    struct Operand {
        const Channel* channel = nullptr; // which brings as many bytes as the result has; null: the own one
        const void* buffer = nullptr;     // that one
    };

    base::Reduction reduction;
    size_t count = 0; // not 0
    void* result = nullptr;
    std::span<const ChannelPut> puts;  // up to kMostMet, no signals
    std::span<const Operand> operands; // the same; at most one is its own
    uint32_t blocks = 1;               // at most, of which each may wait

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
    // Enqueues, made to be captured: the next run of each channel, as Channels has them. All is put before anything is
    // awaited. That a run was taken may be told with the next one, so a source may wait for that with one run less
    // ahead. The result may be the own operand, and what is put, or a part of that from its beginning on.
    virtual base::Result<void> reduce_in_graph(const GraphReduction& reduction, Stream stream) = 0;

  protected:
    ~FusedReduce() = default; // it is a part of a Device
};

} // namespace gpurun::device
