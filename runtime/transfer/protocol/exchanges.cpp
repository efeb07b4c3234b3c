#include "transfer/protocol/exchanges.hpp"

#include "base/log.hpp"
#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

#include <algorithm>
#include <utility>

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

Exchanges::Exchange* Exchanges::find(device::Stream stream) {
    const auto end = exchanges_.begin() + static_cast<ptrdiff_t>(open_);
    const auto found =
        std::find_if(exchanges_.begin(), end, [&](const Exchange& each) { return each.stream == stream; });
    return found != end ? &*found : nullptr;
}

// Without a reduction: what comes behind one may need its result.
Exchanges::Exchange& Exchanges::in(device::Stream stream) {
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

void Exchanges::signal(const device::CounterValue& signal, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.signals.push_back(signal);
    if (exchange.signals.size() == device::kMostExchanged)
        launch(exchange);
}

void Exchanges::copy_out(const device::FencedCopy& copy, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.pulls.insert(exchange.pulls.begin() + static_cast<ptrdiff_t>(exchange.copied_out++), copy);
    if (exchange.pulls.size() == device::kMostPulled)
        launch(exchange);
}

void Exchanges::pull(const device::FencedCopy& pull, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.pulls.push_back(pull);
    if (exchange.pulls.size() == device::kMostPulled)
        launch(exchange);
}

bool Exchanges::await(const device::CounterValue& awaited, device::Stream stream) {
    Exchange* const exchange = find(stream);
    if (exchange == nullptr || exchange->is_empty() || exchange->awaits.size() == device::kMostExchanged)
        return false;
    exchange->awaits.push_back(awaited);
    return true;
}

bool Exchanges::await_at_once(const device::CounterValue& awaited, device::Stream stream) {
    constexpr size_t kByStream = 3; // takes the host as long as a launch
    if (!awaited_ || !has_mails() || ++*awaited_ <= kByStream)
        return false;
    Exchange& exchange = in(stream);
    exchange.awaits.push_back(awaited);
    if (exchange.awaits.size() == device::kMostExchanged)
        launch(exchange);
    return true;
}

bool Exchanges::signals() const {
    return std::any_of(exchanges_.begin(), exchanges_.begin() + static_cast<ptrdiff_t>(open_),
                       [](const Exchange& each) { return !each.signals.empty(); });
}

void Exchanges::put(const OutgoingMail& mail, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.puts.push_back(mail);
    if (exchange.puts.size() == device::kMostExchanged)
        launch(exchange);
}

size_t Exchanges::puts(device::Stream stream) {
    const Exchange* const exchange = find(stream);
    return exchange != nullptr ? exchange->puts.size() : 0;
}

void Exchanges::take(const IncomingMail& mail, device::Stream stream) {
    Exchange& exchange = in(stream);
    exchange.takes.push_back(mail);
    if (exchange.takes.size() == device::kMostExchanged)
        launch(exchange);
}

// What an exchange does has no order.
bool Exchanges::overlaps(const Exchange& exchange, const device::CopyBeside& copy) {
    const auto touches = [&](const void* written, size_t bytes) {
        return meet(written, bytes, copy.source, copy.bytes) || meet(written, bytes, copy.destination, copy.bytes);
    };
    return std::any_of(exchange.takes.begin(), exchange.takes.end(),
                       [&](const IncomingMail& each) { return touches(each.destination, each.bytes); }) ||
           std::any_of(exchange.copies.begin(), exchange.copies.end(),
                       [&](const device::CopyBeside& each) { return touches(each.destination, each.bytes); }) ||
           std::any_of(exchange.pulls.begin(), exchange.pulls.end(),
                       [&](const device::FencedCopy& each) { return touches(each.destination, each.bytes); }) ||
           std::any_of(exchange.puts.begin(), exchange.puts.end(),
                       [&](const OutgoingMail& each) {
                           return meet(each.source, each.mail.bytes, copy.destination, copy.bytes);
                       }) ||
           std::any_of(exchange.pulls.begin(), exchange.pulls.end(), [&](const device::FencedCopy& each) {
               return meet(each.source, each.bytes, copy.destination, copy.bytes);
           });
}

void Exchanges::copy(const device::CopyBeside& copy, device::Stream stream) {
    Exchange& exchange = in(stream);
    if (exchange.copies.size() == device::kMostCopiedBeside || overlaps(exchange, copy))
        launch(exchange);
    exchange.copies.push_back(copy);
}

void Exchanges::reduce(const FusedReduction& reduction, device::Stream stream) {
    Exchange& exchange = in(stream);
    const bool replaces = std::any_of(exchange.puts.begin(), exchange.puts.end(), [&](const OutgoingMail& each) {
        return each.source != reduction.result &&
               meet(each.source, each.mail.bytes, reduction.result, reduction.bytes());
    });
    if (!exchange.takes.empty() || !exchange.copies.empty() || !exchange.pulls.empty() || replaces)
        launch(exchange);
    exchange.operands.assign(reduction.operands.begin(), reduction.operands.end());
    exchange.reduction = reduction;
    exchange.reduction->operands = {};
}

void Exchanges::abandon(std::span<const FusedReduction::Operand> operands) {
    for (const FusedReduction::Operand& each : operands)
        if (device::Counter* const end = end_of(each).counter)
            platform::store_and_wake(*end, platform::kPoison);
}

void Exchanges::launch_all() {
    for (size_t i = 0; i < open_; ++i)
        launch(exchanges_[i]);
    open_ = 0;
}

void Exchanges::launch(Exchange& exchange) {
    if (auto enqueued = enqueue(exchange); !enqueued) {
        base::log(base::LogLevel::kWarn, "messages could not be enqueued: {}", enqueued.error().detail);
        const auto poison = [](device::Counter* end) { platform::store_and_wake(*end, platform::kPoison); };
        for (const OutgoingMail& each : exchange.puts)
            poison(each.mail.sent);
        for (const IncomingMail& each : exchange.takes)
            poison(each.mail.taken);
        for (const device::FencedCopy& each : exchange.pulls)
            poison(each.after);
        for (const device::CounterValue& each : exchange.signals)
            poison(each.counter);
        abandon(exchange.operands);
    }
    exchange.clear();
}

void Exchanges::Exchange::clear() {
    puts.clear();
    takes.clear();
    copies.clear();
    pulls.clear();
    copied_out = 0;
    signals.clear();
    reduction.reset();
    operands.clear();
    awaits.clear();
}

Result<void> Exchanges::enqueue(Exchange& exchange) {
    if (exchange.reduction)
        return enqueue_reduction(exchange);
    if (exchange.is_empty() && exchange.awaits.empty())
        return {};
    if (may_spin(exchange))
        return mails_->exchange(exchange.all(), exchange.stream);
    GPURUN_TRY(begin_without_waiting(exchange));
    for (const IncomingMail& each : exchange.takes)
        GPURUN_TRY(counters_->await_counter(exchange.stream, each.mail.sent, each.mail.value));
    for (device::FencedCopy& each : exchange.inward())
        if (each.before != nullptr)
            GPURUN_TRY(counters_->await_counter(exchange.stream, std::exchange(each.before, nullptr), each.value));
    if (!exchange.takes.empty() || !exchange.inward().empty())
        GPURUN_TRY(mails_->exchange({.takes = exchange.takes, .pulls = exchange.inward()}, exchange.stream));
    return await_in_stream(exchange.awaits, exchange.stream);
}

// Where no kernel may spin, the stream waits: behind what waits for nobody.
Result<void> Exchanges::begin_without_waiting(Exchange& exchange) {
    for (const device::CounterValue& each : exchange.signals)
        GPURUN_TRY(counters_->write_counter(exchange.stream, each.counter, each.value));
    if (exchange.puts.empty() && exchange.copies.empty() && exchange.outward().empty())
        return {};
    return mails_->exchange({.puts = exchange.puts, .copies = exchange.copies, .pulls = exchange.outward()},
                            exchange.stream);
}

Result<void> Exchanges::await_in_stream(std::span<const device::CounterValue> all, device::Stream stream) {
    for (const device::CounterValue& each : all)
        GPURUN_TRY(counters_->await_counter(stream, each.counter, each.value));
    return {};
}

uint32_t Exchanges::blocks_of(const Exchange& exchange) const {
    const uint32_t most = pools_.kernels.blocks();
    const size_t bytes = exchange.reduction->bytes();
    const bool has_mails = std::any_of(exchange.operands.begin(), exchange.operands.end(),
                                       [](const FusedReduction::Operand& each) { return each.is_mail(); });
    if (!has_mails)
        return device::blocks_for(bytes, device::kReducedBytesOfBlock, most);
    size_t largest = bytes;
    for (const OutgoingMail& each : exchange.puts)
        largest = std::max(largest, each.mail.bytes);
    return std::min(most, device::shared_mail_blocks(largest));
}

Result<void> Exchanges::enqueue_reduction(Exchange& exchange) {
    FusedReduction& reduction = *exchange.reduction;
    reduction.operands = exchange.operands;
    reduction.blocks = blocks_of(exchange);
    if (admits(exchange)) {
        reduction.signals = exchange.signals;
        reduction.awaits = exchange.awaits;
        return fused_reduce_->put_and_reduce(exchange.puts, reduction, exchange.stream);
    }
    GPURUN_TRY(begin_without_waiting(exchange));
    for (FusedReduction::Operand& each : exchange.operands) {
        if (const device::CounterValue start = start_of(each); start.counter != nullptr)
            GPURUN_TRY(counters_->await_counter(exchange.stream, start.counter, start.value));
        each.ready = nullptr;
    }
    GPURUN_TRY(fused_reduce_->put_and_reduce({}, reduction, exchange.stream));
    return await_in_stream(exchange.awaits, exchange.stream);
}

// Whether the kernel of a reduction may spin.
bool Exchanges::admits(const Exchange& exchange) {
    KernelBudget::Ends ends;
    for (const device::CounterValue& each : exchange.awaits)
        ends.add(*each.counter, each.value);
    for (const FusedReduction::Operand& each : exchange.operands)
        if (const device::CounterValue end = end_of(each); end.counter != nullptr)
            ends.add(*end.counter, end.value);
    return pools_.kernels.admits(exchange.stream, exchange.reduction->blocks, ends);
}

// Ranks that share a GPU have fewer blocks each, and what is taken or pulled shares those of this rank. The block that
// awaits the rest has none of its own: it keeps next to nothing busy.
bool Exchanges::may_spin(Exchange& exchange) {
    const std::span<device::FencedCopy> pulls = exchange.inward();
    if (exchange.takes.empty() && pulls.empty() && exchange.awaits.empty())
        return true;
    const auto parts = static_cast<uint32_t>(std::max<size_t>(exchange.takes.size() + pulls.size(), 1));
    const uint32_t most = std::max(pools_.kernels.blocks() / parts, 1U);
    uint32_t blocks = 0;
    KernelBudget::Ends ends;
    for (IncomingMail& each : exchange.takes) {
        each.blocks = std::min(most, device::shared_mail_blocks(each.bytes));
        blocks += each.blocks;
        ends.add(*each.mail.taken, each.mail.value);
    }
    for (device::FencedCopy& each : pulls) {
        each.blocks = std::min(most, device::copy_blocks(each.bytes));
        blocks += each.blocks;
        ends.add(*each.after, each.value);
    }
    for (const device::CounterValue& each : exchange.awaits)
        ends.add(*each.counter, each.value);
    return pools_.kernels.admits(exchange.stream, std::max(blocks, 1U), ends);
}

} // namespace gpurun::transfer
