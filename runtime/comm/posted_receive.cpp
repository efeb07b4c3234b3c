#include "comm/posted_receive.hpp"

namespace gpurun::comm {

transfer::Receive& PostedReceive::op() {
    if (op_ == nullptr)
        op_ = home_.make(resources_, operand_, ending_);
    if (borrows_)
        op_->set_borrows();
    return *op_;
}

void PostedReceive::tell_trace() {
    namespace flags = platform::trace_flags;
    const int peer = pattern.any_source ? kAnySource : static_cast<int>(pattern.source.value);
    const uint32_t wildcards = (pattern.any_source ? flags::kAnySource : 0) | (pattern.any_tag() ? flags::kAnyTag : 0);
    op().trace().begin(resources_.trace,
                       {.kind = platform::TraceKind::kReceive, .peer = peer, .marks = wildcards, .call = call_},
                       {pattern.context, pattern.tag, operand_.bytes}, operand_, ending_);
}

void PostedReceive::start_op(transfer::Peer& from, uint64_t ordinal, const transfer::Record& record,
                             std::span<const std::byte> payload) {
    op().trace().matched(source_, envelope_, ordinal, operand_.bytes);
    op().start(from, record, payload);
}

} // namespace gpurun::comm
