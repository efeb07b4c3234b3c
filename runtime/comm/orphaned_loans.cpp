#include "comm/orphaned_loans.hpp"

#include "comm/absent_ranks.hpp"

namespace gpurun::comm {

using transfer::LoanNotice;
using transfer::Peer;
using transfer::Record;

namespace {

void tell(Peer& peer, LoanNotice::What what, uint64_t number, const transfer::LoanOrigin& origin) {
    peer.tell(
        Record(transfer::RecordKind::kNotice, transfer::LoanPart::kProtocol).with(LoanNotice{what, number, origin}));
}

} // namespace

bool OrphanedLoans::keep(transfer::Send& loan) {
    if (!loan.was_lent_on() || loan.enqueued())
        return false;
    Question question{++last_number_, &loan.target(), loan.serial(), std::vector<bool>(core_.size()), 0};
    for (const auto& each : core_.peers()) {
        if (each->lost() || !each->channel().shares_memory())
            continue;
        question.awaited[each->rank().value] = true;
        ++question.left;
        tell(*each, LoanNotice::What::kWhoHas, question.number, loan.origin());
    }
    questions_.push_back(std::move(question));
    return true;
}

void OrphanedLoans::settle(Question& question, WorldRank rank) {
    if (!question.awaited[rank.value])
        return;
    question.awaited[rank.value] = false;
    --question.left;
}

void OrphanedLoans::end_settled() {
    std::erase_if(questions_, [](const Question& each) {
        if (each.left != 0)
            return false;
        if (transfer::Send* const loan = each.borrower->sends.find(each.serial))
            loan->fail(died(*each.borrower));
        return true;
    });
}

void OrphanedLoans::lose(WorldRank rank) {
    std::erase_if(asked_, [&](const Asked& each) { return each.by->rank() == rank; });
    for (Question& each : questions_)
        settle(each, rank);
    end_settled();
}

void OrphanedLoans::heed(Peer& peer, const LoanNotice& notice) {
    if (notice.what == LoanNotice::What::kWhoHas) {
        asked_.push_back({&peer, notice});
        return;
    }
    for (Question& each : questions_)
        if (each.number == notice.serial)
            settle(each, peer.rank());
    end_settled();
}

bool OrphanedLoans::progress() {
    if (asked_.empty()) [[likely]]
        return false;
    return std::erase_if(asked_, [&](const Asked& each) {
               if (has_(each.notice.origin))
                   return false;
               tell(*each.by, LoanNotice::What::kHasNone, each.notice.serial, each.notice.origin);
               return true;
           }) != 0;
}

} // namespace gpurun::comm
