// Loans whose borrower is lost while somebody may still use the memory: they do not end with the borrower, but later,
// with kPeerLost.
//
// The borrower itself may use it as long as its process has not ended: it may be ending, or have lost its supervisor
// only. Then it can still give the loan back, too.
//
// If it has lent the loan on, others may use it. The lender asks every rank, and waits until all have answered that
// they have nothing of it. A rank answers when what it has borrowed has been given back, and its device has done with
// it.
//
// Who is asked knows of the death before it answers, and borrows nothing of the dead rank's any more that was lent on;
// so an answer stays true. Used under the engine lock.
#pragma once

#include "comm/core.hpp"
#include "transfer/protocol/loan_part.hpp"

#include <functional>

namespace gpurun::comm {

class OrphanedLoans {
  public:
    explicit OrphanedLoans(Core& core) : core_(core) {}

    // Whether this rank has anything that was lent on from a loan: of the same origin, and deeper.
    using Has = std::function<bool(const transfer::LoanOrigin& loan)>;
    void on_ask(Has has) { has_ = std::move(has); }

    // The borrower is lost. True: the loan does not fail yet, but here, once nobody has anything of it.
    bool keep(transfer::Send& loan) GPURUN_REQUIRES(engine_lock);
    // This rank will not answer any more.
    void lose(WorldRank rank) GPURUN_REQUIRES(engine_lock);
    void heed(transfer::Peer& peer, const transfer::LoanNotice& notice) GPURUN_REQUIRES(engine_lock);
    // Answers what can be answered now, and ends what has ended. True if there was anything.
    bool progress() GPURUN_REQUIRES(engine_lock);

  private:
    struct Question {
        uint64_t number;
        transfer::Peer* borrower;
        uint64_t serial;           // of the send to it
        std::vector<bool> awaited; // by rank
        size_t left;
    };
    struct Asked {
        transfer::Peer* by;
        transfer::LoanNotice notice;
    };
    // It has answered, or never will.
    void settle(Question& question, WorldRank rank) GPURUN_REQUIRES(engine_lock);
    bool may_be_used(const Question& question, const transfer::Send& loan) GPURUN_REQUIRES(engine_lock);
    bool end_settled() GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Has has_ = [](const transfer::LoanOrigin&) { return false; };
    std::vector<Question> questions_;
    std::vector<Asked> asked_;
    uint64_t last_number_ = 0;
    int64_t next_look_ns_ = 0; // at whether processes have ended
};

} // namespace gpurun::comm
