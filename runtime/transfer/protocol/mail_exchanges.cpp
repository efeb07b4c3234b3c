#include "transfer/protocol/mail_exchanges.hpp"

#include "base/log.hpp"
#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using device::FusedReduction;
using device::IncomingMail;
using device::OutgoingMail;

namespace {

bool meet(const void* one, size_t one_bytes, const void* other, size_t other_bytes) {
    const auto* const a = static_cast<const std::byte*>(one);
    const auto* const b = static_cast<const std::byte*>(other);
    return a < b + other_bytes && b < a + one_bytes;
}

} // namespace

// Without a reduction: what comes behind one may need its result.
MailExchanges::Exchange& MailExchanges::in(device::Stream stream) {
    for (size_t i = 0; i < open_; ++i)
        if (exchanges_[i].stream == stream) {
            if (exchanges_[i].reduction)
                launch(exchanges_[i]);
            return exchanges_[i];
        }
    if (open_ == exchanges_.size())
        exchanges_.emplace_back();
    exchanges_[open_].stream = stream;
    return exchanges_[open_++];
}

bool MailExchanges::collects_in(device::Stream stream) const {
    return std::any_of(exchanges_.begin(), exchanges_.begin() + static_cast<ptrdiff_t>(open_),
                       [&](const Exchange& each) { return each.stream == stream; });
}

void MailExchanges::put(const OutgoingMail& mail, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.puts.push_back(mail);
    if (exchange.puts.size() == device::kMostExchanged)
        launch(exchange);
}

void MailExchanges::take(const IncomingMail& mail, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.takes.push_back(mail);
    if (exchange.takes.size() == device::kMostExchanged)
        launch(exchange);
}

// What an exchange does has no order.
bool MailExchanges::overlaps(const Exchange& exchange, const device::CopyBeside& copy) {
    const auto touches = [&](const void* written, size_t bytes) {
        return meet(written, bytes, copy.source, copy.bytes) || meet(written, bytes, copy.destination, copy.bytes);
    };
    return std::any_of(exchange.takes.begin(), exchange.takes.end(),
                       [&](const IncomingMail& each) { return touches(each.destination, each.bytes); }) ||
           std::any_of(exchange.copies.begin(), exchange.copies.end(),
                       [&](const device::CopyBeside& each) { return touches(each.destination, each.bytes); }) ||
           std::any_of(exchange.puts.begin(), exchange.puts.end(), [&](const OutgoingMail& each) {
               return meet(each.source, each.mail.bytes, copy.destination, copy.bytes);
           });
}

void MailExchanges::copy(const device::CopyBeside& copy, device::Stream stream) {
    Exchange& exchange = in(stream);
    if (exchange.copies.size() == device::kMostCopiedBeside || overlaps(exchange, copy))
        launch(exchange);
    exchange.copies.push_back(copy);
}

void MailExchanges::reduce(const FusedReduction& reduction, device::Stream stream) {
    Exchange& exchange = in(stream);
    const bool replaces = std::any_of(exchange.puts.begin(), exchange.puts.end(), [&](const OutgoingMail& each) {
        return each.source != reduction.result &&
               meet(each.source, each.mail.bytes, reduction.result, reduction.bytes());
    });
    if (!exchange.takes.empty() || !exchange.copies.empty() || replaces)
        launch(exchange);
    exchange.operands.assign(reduction.operands.begin(), reduction.operands.end());
    exchange.reduction = reduction;
    exchange.reduction->operands = {};
}

void MailExchanges::launch_all() {
    for (size_t i = 0; i < open_; ++i)
        launch(exchanges_[i]);
    open_ = 0;
}

void MailExchanges::launch(Exchange& exchange) {
    if (auto enqueued = enqueue(exchange); !enqueued) {
        base::log(base::LogLevel::kWarn, "small messages could not be enqueued: {}", enqueued.error().detail);
        for (const OutgoingMail& each : exchange.puts)
            platform::store_and_wake(*each.mail.sent, platform::kPoison);
        for (const IncomingMail& each : exchange.takes)
            platform::store_and_wake(*each.mail.taken, platform::kPoison);
        for (const FusedReduction::Operand& each : exchange.operands)
            if (each.mail.words != nullptr)
                platform::store_and_wake(*each.mail.taken, platform::kPoison);
    }
    exchange.puts.clear();
    exchange.takes.clear();
    exchange.copies.clear();
    exchange.reduction.reset();
    exchange.operands.clear();
}

Result<void> MailExchanges::enqueue(Exchange& exchange) {
    if (exchange.reduction)
        return enqueue_reduction(exchange);
    if (exchange.puts.empty() && exchange.takes.empty() && exchange.copies.empty())
        return {};
    if (may_spin(exchange))
        return mails_->exchange_mails(exchange.puts, exchange.takes, exchange.copies, exchange.stream);
    // The stream waits for all that is taken first: behind what is put, which waits for nobody.
    GPURUN_TRY(put_first(exchange));
    for (const IncomingMail& each : exchange.takes)
        GPURUN_TRY(counters_->await_counter(exchange.stream, each.mail.sent, each.mail.value));
    return mails_->exchange_mails({}, exchange.takes, {}, exchange.stream);
}

// Where no kernel may spin.
Result<void> MailExchanges::put_first(const Exchange& exchange) {
    if (exchange.puts.empty() && exchange.copies.empty())
        return {};
    return mails_->exchange_mails(exchange.puts, {}, exchange.copies, exchange.stream);
}

Result<void> MailExchanges::enqueue_reduction(Exchange& exchange) {
    FusedReduction& reduction = *exchange.reduction;
    size_t largest = reduction.bytes();
    for (const OutgoingMail& each : exchange.puts)
        largest = std::max(largest, each.mail.bytes);
    KernelBudget::Ends ends;
    for (const FusedReduction::Operand& each : exchange.operands)
        if (each.mail.words != nullptr)
            ends.add(*each.mail.taken, each.mail.value);
    reduction.operands = exchange.operands;
    reduction.blocks = std::min(pools_.kernels.blocks(), device::mail_blocks(largest));
    if (pools_.kernels.admits(exchange.stream, reduction.blocks, ends))
        return fused_reduce_->put_and_reduce(exchange.puts, reduction, exchange.stream);
    GPURUN_TRY(put_first(exchange));
    for (const FusedReduction::Operand& each : exchange.operands)
        if (each.mail.words != nullptr)
            GPURUN_TRY(counters_->await_counter(exchange.stream, each.mail.sent, each.mail.value));
    return fused_reduce_->put_and_reduce({}, reduction, exchange.stream);
}

// Ranks that share a GPU have fewer blocks each, and what is taken shares those of this rank.
bool MailExchanges::may_spin(Exchange& exchange) {
    std::vector<IncomingMail>& takes = exchange.takes;
    if (takes.empty())
        return true;
    const auto most = std::max(pools_.kernels.blocks() / static_cast<uint32_t>(takes.size()), 1U);
    uint32_t blocks = 0;
    KernelBudget::Ends ends;
    for (IncomingMail& each : takes) {
        each.blocks = std::min(most, device::mail_blocks(each.bytes));
        blocks += each.blocks;
        ends.add(*each.mail.taken, each.mail.value);
    }
    return pools_.kernels.admits(exchange.stream, blocks, ends);
}

} // namespace gpurun::transfer
