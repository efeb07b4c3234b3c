#include "transfer/protocol/mail_exchanges.hpp"

#include "base/log.hpp"
#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using device::IncomingMail;
using device::OutgoingMail;

MailExchanges::Exchange& MailExchanges::in(device::Stream stream) {
    for (size_t i = 0; i < open_; ++i)
        if (exchanges_[i].stream == stream)
            return exchanges_[i];
    if (open_ == exchanges_.size())
        exchanges_.emplace_back();
    exchanges_[open_].stream = stream;
    return exchanges_[open_++];
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
    }
    exchange.puts.clear();
    exchange.takes.clear();
}

// Where no kernel may spin, the stream waits for all that is taken first: behind what is put, which waits for nobody.
Result<void> MailExchanges::enqueue(Exchange& exchange) {
    const auto& [stream, puts, takes] = exchange;
    if (puts.empty() && takes.empty())
        return {};
    if (may_spin(exchange))
        return mails_->exchange_mails(puts, takes, stream);
    if (!puts.empty())
        GPURUN_TRY(mails_->exchange_mails(puts, {}, stream));
    for (const IncomingMail& each : takes)
        GPURUN_TRY(counters_->await_counter(stream, each.mail.sent, each.mail.value));
    return mails_->exchange_mails({}, takes, stream);
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
