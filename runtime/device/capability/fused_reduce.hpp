// Fused reductions: one operation puts mails and combines what has come in others, without a copy of them. Needs Mails
// and Reduce.
#pragma once

#include "base/reduction.hpp"
#include "device/capability/mails.hpp"

namespace gpurun::device {

struct FusedReduction {
    // A buffer, or a mail, of which the first bytes are read.
    struct Operand {
        const void* buffer = nullptr;
        Mail mail; // if it has words; its ticket is of use in the first mail only
    };

    base::Reduction reduction;
    size_t count = 0; // not 0
    void* result = nullptr;
    std::span<const Operand> operands; // one of them is a mail, at least
    uint32_t blocks = kMostMailBlocks; // at most

    size_t bytes() const { return count * base::size_of_type(static_cast<int>(reduction.type)); }
};

class FusedReduce {
  public:
    // Enqueues, as Mails::exchange_mails() and Reduce::reduce_elements() do. What is put, up to kMostExchanged mails,
    // is put at once; its end is told together with that of the reduction. The result may be an operand, and the source
    // of mails that are put; otherwise they do not overlap. If a mail never comes, the result is undefined.
    virtual base::Result<void> put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                              Stream stream) = 0;

  protected:
    ~FusedReduce() = default; // it is a part of a Device
};

} // namespace gpurun::device
