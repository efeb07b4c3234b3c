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

// What is written once an operand has been read; null where nobody wants to know.
device::CounterValue end_of(const FusedReduction::Operand& operand) {
    return operand.is_mail() ? device::CounterValue{operand.mail.taken, operand.mail.value}
                             : device::CounterValue{operand.read, operand.value};
}

// When it may be read; null: at once.
device::CounterValue start_of(const FusedReduction::Operand& operand) {
    return operand.is_mail() ? device::CounterValue{operand.mail.sent, operand.mail.value}
                             : device::CounterValue{operand.ready, operand.value};
}

} // namespace

MailExchanges::Exchange* MailExchanges::find(device::Stream stream) {
    const auto end = exchanges_.begin() + static_cast<ptrdiff_t>(open_);
    const auto found =
        std::find_if(exchanges_.begin(), end, [&](const Exchange& each) { return each.stream == stream; });
    return found != end ? &*found : nullptr;
}

// Without a reduction: what comes behind one may need its result.
MailExchanges::Exchange& MailExchanges::in(device::Stream stream) {
    if (Exchange* const open = find(stream)) {
        if (open->reduction)
            launch(*open);
        return *open;
    }
    if (open_ == exchanges_.size())
        exchanges_.emplace_back();
    exchanges_[open_].stream = stream;
    return exchanges_[open_++];
}

bool MailExchanges::collects_in(device::Stream stream) const {
    return const_cast<MailExchanges*>(this)->find(stream) != nullptr;
}

void MailExchanges::signal(const device::CounterValue& signal, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.signals.push_back(signal);
    if (exchange.signals.size() == device::kMostExchanged)
        launch(exchange);
}

bool MailExchanges::await(const device::CounterValue& awaited, device::Stream stream) {
    Exchange* const exchange = find(stream);
    if (exchange == nullptr || !exchange->reduction || exchange->awaits.size() == device::kMostExchanged)
        return false;
    exchange->awaits.push_back(awaited);
    return true;
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

void MailExchanges::abandon(std::span<const FusedReduction::Operand> operands) {
    for (const FusedReduction::Operand& each : operands)
        if (device::Counter* const end = end_of(each).counter)
            platform::store_and_wake(*end, platform::kPoison);
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
        for (const device::CounterValue& each : exchange.signals)
            platform::store_and_wake(*each.counter, platform::kPoison);
        abandon(exchange.operands);
    }
    exchange.puts.clear();
    exchange.takes.clear();
    exchange.copies.clear();
    exchange.signals.clear();
    exchange.reduction.reset();
    exchange.operands.clear();
    exchange.awaits.clear();
}

Result<void> MailExchanges::enqueue(Exchange& exchange) {
    if (exchange.reduction)
        return enqueue_reduction(exchange);
    GPURUN_TRY(signal_first(exchange));
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

Result<void> MailExchanges::signal_first(const Exchange& exchange) {
    for (const device::CounterValue& each : exchange.signals)
        GPURUN_TRY(counters_->write_counter(exchange.stream, each.counter, each.value));
    return {};
}

uint32_t MailExchanges::blocks_of(const Exchange& exchange) const {
    const uint32_t most = pools_.kernels.blocks();
    const size_t bytes = exchange.reduction->bytes();
    const bool has_mails = std::any_of(exchange.operands.begin(), exchange.operands.end(),
                                       [](const FusedReduction::Operand& each) { return each.is_mail(); });
    if (!has_mails)
        return device::blocks_for(bytes, device::kReducedBytesOfBlock, most);
    size_t largest = bytes;
    for (const OutgoingMail& each : exchange.puts)
        largest = std::max(largest, each.mail.bytes);
    return std::min(most, device::mail_blocks(largest));
}

Result<void> MailExchanges::enqueue_reduction(Exchange& exchange) {
    FusedReduction& reduction = *exchange.reduction;
    reduction.operands = exchange.operands;
    reduction.blocks = blocks_of(exchange);
    if (admits(exchange)) {
        reduction.signals = exchange.signals;
        reduction.awaits = exchange.awaits;
        return fused_reduce_->put_and_reduce(exchange.puts, reduction, exchange.stream);
    }
    GPURUN_TRY(signal_first(exchange));
    GPURUN_TRY(put_first(exchange));
    for (FusedReduction::Operand& each : exchange.operands) {
        if (const device::CounterValue start = start_of(each); start.counter != nullptr)
            GPURUN_TRY(counters_->await_counter(exchange.stream, start.counter, start.value));
        each.ready = nullptr;
    }
    GPURUN_TRY(fused_reduce_->put_and_reduce({}, reduction, exchange.stream));
    for (const device::CounterValue& each : exchange.awaits)
        GPURUN_TRY(counters_->await_counter(exchange.stream, each.counter, each.value));
    return {};
}

// Whether the kernel of a reduction may spin.
bool MailExchanges::admits(const Exchange& exchange) {
    KernelBudget::Ends ends;
    const auto add = [&](const device::CounterValue& end) {
        if (end.counter != nullptr)
            ends.add(*end.counter, end.value);
    };
    // What it waits for in the end comes last.
    std::for_each(exchange.awaits.begin(), exchange.awaits.end(), add);
    if (exchange.awaits.empty())
        for (const FusedReduction::Operand& each : exchange.operands)
            add(end_of(each));
    return pools_.kernels.admits(exchange.stream, exchange.reduction->blocks, ends);
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
