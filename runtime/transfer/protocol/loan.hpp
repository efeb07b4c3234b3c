// loan: a message whose bytes stay where they are. The lender publishes a ready-to-send, as rendezvous does, marked as
// a loan. A rank that borrows maps the memory, and its stream waits for the forward edge; later its stream signals
// another edge, and the loan's send ends there (LoanPart). A receive that meets a loan moves its bytes as those of a
// rendezvous, and the send ends with that.
//
// Neither side holds a slot of the fence while the loan is open. A lend without a slot, or in the host's order, is
// published without an edge. Whoever needs one asks for it, as for that of a rendezvous: a receive, and unless the
// memory is ready, a borrower.
//
// A borrower that lends on has told its own lender so before anybody can have the memory from it. So if it dies, its
// lender knows that others may have it (comm/orphaned_loans.hpp).
#pragma once

#include "transfer/protocol/loan_part.hpp"
#include "transfer/protocol/rendezvous.hpp"

namespace gpurun::transfer {

class LoanSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = kLoanProtocol;
    base::Result<Posted> post(Send& send) override;
    base::Result<void> on_record(Send& send, const Record& record) override; // LoanAnswer
    base::Result<bool> complete_into(Send& send, device::Stream stream) override;
    void describe(const Send& send, platform::wait_report::Entry& entry) const override;

  private:
    base::Result<void> prepare(Send& send);
    bool tell_lender(const Borrowing& borrowed);

    bool prepared_ = false;
    size_t told_ = 0; // of the parts of what it lends on
    ReadyToSend ready_;
    Slot back_{}; // whose forward edge the borrower signals
};

// Of a borrower: only order. The mapping is LoanPart's.
class LoanReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = kLoanProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    base::Result<void> on_record(Receive& receive, const Record& record) override; // the edge that was missing
    Activity activity(const Receive& receive) const override;
    base::Result<void> advance(Receive& receive) override;
    std::optional<CompletionPoint> blocked_on(const Receive& receive) const override;
    void describe(const Receive& receive, platform::wait_report::Entry& entry) const override;

  private:
    base::Result<void> await_lender(Receive& receive);

    Slot edge_{};
    bool wants_edge_ = false;
    bool waits_ = false; // in the host's order, for the edge
};

// The error of memory that the device does not export.
base::Error cannot_be_lent(const Peer& to);

constexpr Route kBorrowed{kLoanProtocol, 0};
constexpr std::array<RouteText, 1> kLoanRoutes = {{{"loan", "borrowed"}}};

} // namespace gpurun::transfer
