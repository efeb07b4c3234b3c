#include "comm/orphaned_loans.hpp"

#include "comm/absent_ranks.hpp"
#include "platform/clock.hpp"

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
    if (!loan.lends() || loan.enqueued() || (!loan.was_lent_on() && loan.target().channel().has_ended()))
        return false;
    Question question{++last_number_, &loan.target(), loan.serial(), std::vector<bool>(core_.size()), 0};
    for (const auto& each : core_.peers()) {
        if (!loan.was_lent_on() || each->lost() || !each->channel().shares_memory())
            continue;
        question.awaited[each->rank().value] = true;
        ++question.left;
        tell(*each, LoanNotice::What::kWhoHas, question.number, loan.origin());
    }
    questions_.push_back(std::move(question));
    ++core_.resources().ending;
    return true;
}

void OrphanedLoans::settle(Question& question, WorldRank rank) {
    if (!question.awaited[rank.value])
        return;
    question.awaited[rank.value] = false;
    --question.left;
}

// Of those who cannot be asked: the borrower, and if it has lent the loan on, all that are lost.
bool OrphanedLoans::may_be_used(const Question& question, const transfer::Send& loan) {
    const auto may_use = [&](const Peer& each) {
        return (&each == question.borrower || loan.was_lent_on()) && each.lost() && each.channel().shares_memory() &&
               !each.channel().has_ended();
    };
    return question.left != 0 || core_.any_peer(may_use);
}

// A loan that is not there any more has come back.
bool OrphanedLoans::end_settled() {
    return std::erase_if(questions_, [&](const Question& each) {
               assume_engine_lock();
               transfer::Send* const loan = each.borrower->sends.find(each.serial);
               if (loan != nullptr && may_be_used(each, *loan))
                   return false;
               if (loan != nullptr)
                   loan->fail(lost(*each.borrower));
               --core_.resources().ending;
               return true;
           }) != 0;
}

void OrphanedLoans::lose(WorldRank rank) {
    std::erase_if(asked_, [&](const Asked& each) { return each.by->rank() == rank; });
    for (Question& each : questions_)
        settle(each, rank);
    (void)end_settled();
}

void OrphanedLoans::heed(Peer& peer, const LoanNotice& notice) {
    if (notice.what == LoanNotice::What::kWhoHas) {
        asked_.push_back({&peer, notice});
        return;
    }
    for (Question& each : questions_)
        if (each.number == notice.serial)
            settle(each, peer.rank());
    (void)end_settled();
}

bool OrphanedLoans::progress() {
    if (asked_.empty() && questions_.empty()) [[likely]]
        return false;
    const size_t answered = std::erase_if(asked_, [&](const Asked& each) {
        if (has_(each.notice.origin))
            return false;
        tell(*each.by, LoanNotice::What::kHasNone, each.notice.serial, each.notice.origin);
        return true;
    });
    constexpr int64_t kLookNs = 200'000;
    const int64_t now_ns = platform::now_ns();
    if (questions_.empty() || now_ns < next_look_ns_)
        return answered != 0;
    next_look_ns_ = now_ns + kLookNs;
    return end_settled() || answered != 0;
}

} // namespace gpurun::comm
