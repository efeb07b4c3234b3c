// What a rank keeps of loans with one peer: the slots of its signals, and the loans that it gives back once a stream
// has come to that.
//
// A loan is given back by an edge that the borrower's stream signals and the lender's stream awaits. If streams that
// are behind have all slots, the loan waits for its marker instead, and comes back without an edge.
#pragma once

#include "transfer/borrowing.hpp"
#include "transfer/protocol/loan_slots.hpp"
#include "transfer/protocol_table.hpp"

#include <algorithm>
#include <vector>

namespace gpurun::transfer {

// What a borrower tells its lender's send.
struct LoanAnswer {
    enum class What : uint32_t {
        kBorrowed,  // a rank has it mapped
        kGivenBack, // once `edge`, the forward edge of a message the other way, has come; without one, now
        kWithdrawn, // it was cancelled before anybody had received it
        kLentOn,    // it lends some of `allocation_id` on, to a rank that maps it from its owner
    };
    What what{};
    Slot edge{};
    uint64_t allocation_id = 0;
};

// A notice of this protocol.
struct LoanNotice {
    enum class What : uint32_t {
        kWithdraw, // the lender wants the loan back, if nobody has received it. The answer is kWithdrawn, or the
                   // receiver's
        kForget,   // it has come back and was not borrowed: nobody will want its description
        kWhoHas,   // a borrower has died: does the peer have anything of what that rank has lent on? `serial` is the
                   // number of the question; `origin` is of the loan to the dead
        kHasNone,  // the answer, once that is so
    };
    What what;
    uint64_t serial; // of the lender's send, or a question
    LoanOrigin origin{};
};

class LoanPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = kLoanProtocol;

    LoanPart(Resources& resources, Peer& peer) : resources_(resources), peer_(peer) {}

    // For the forward edge of a signal to the peer, in the stream with this name; 0: of the CPU.
    base::Result<std::optional<Slot>> take_slot(Fence& fence, uint64_t stream) { return slots_.take(fence, stream); }

    // ---- of a borrower, at the owner's part
    // Whether map() has to be called later: the memory is at the address of other memory, which the owner has freed,
    // and which streams of this rank still use.
    bool waits_to_map(const RemoteBuffer& lent);
    // Where the lent memory lies here, until unmap() or give_back(). An error says why this rank cannot reach it.
    base::Result<const std::byte*> map(const RemoteBuffer& lent);
    void unmap(uint64_t allocation_id, const std::optional<CompletionPoint>& end);
    bool in_use_by_streams(uint64_t allocation_id);

    // ---- of a borrower, at the lender's part
    void tell(uint64_t serial, const LoanAnswer& answer);
    // In the order of a stream, or, without one, now. Unmaps what it has mapped. A lender that is lost, but has not
    // ended, learns of it, too.
    base::Result<void> give_back(const Borrowing& loan, std::optional<device::Stream> stream);
    // Whether a stream has yet to come to where it gives such a loan back.
    template <typename Condition>
    bool any_returning(const Condition& condition) const {
        return std::any_of(returning_.begin(), returning_.end(),
                           [&](const Returning& each) { return condition(each.loan); });
    }

    bool quiet() const override { return returning_.empty(); }
    bool needs_hand() const override { return !returning_.empty(); }
    bool progress() override;

  private:
    struct Returning {
        Borrowing loan;
        std::optional<Marker> marker;
    };
    base::Result<void> return_behind(const Borrowing& loan, device::Stream stream);
    void end(const Borrowing& loan, const Slot& edge, const std::optional<CompletionPoint>& end);

    Resources& resources_;
    Peer& peer_;
    LoanSlots slots_;
    std::vector<Returning> returning_;
};

} // namespace gpurun::transfer
