#include "transfer/protocol/exchanged_sends.hpp"

#include "transfer/send.hpp"

namespace gpurun::transfer {

namespace {

bool suits_exchange(const Send& send) {
    const Resources& resources = send.resources();
    return !send.lends() && resources.fenced_copies != nullptr && resources.exchanges.has_mails() &&
           send.target().channel().shares_memory();
}

} // namespace

bool joins_exchange(const Send& send) { return send.ends_together() && suits_exchange(send); }

bool signals_in_exchange(const Send& send) {
    const bool is_collected = send.is_of_part() && send.resources().exchanges.collects();
    return (send.ends_together() || is_collected) && suits_exchange(send);
}

bool may_be_reduced(const Send& send) {
    const Operand& operand = send.operand();
    const bool has_bytes = operand.bytes != 0;
    return send.contributes() && joins_exchange(send) && send.resources().exchanges.can_reduce() &&
           (has_bytes ? operand.is_mappable() : send.place_of_answer().has_value());
}

} // namespace gpurun::transfer
