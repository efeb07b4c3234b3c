#include "transfer/protocol/fused_mails.hpp"

#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

namespace gpurun::transfer {

using base::Result;
using device::IncomingMail;
using device::OutgoingMail;

template <typename Mail>
void FusedMails::add(Batch<Mail>& batch, const Mail& mail) {
    if (batch.count == 0)
        batch.launch = ++launches_;
    batch.mails[batch.count++] = mail;
}

Result<uint64_t> FusedMails::put(const OutgoingMail& mail) {
    add(puts_, mail);
    if (puts_.count == device::kMostMails)
        GPURUN_TRY(launch_puts());
    return puts_.launch;
}

Result<uint64_t> FusedMails::take(const IncomingMail& mail) {
    add(takes_, mail);
    if (takes_.count == most_takes_)
        GPURUN_TRY(launch_takes());
    return takes_.launch;
}

// Behind nothing that waits for a peer: since the records were posted, this rank may have enqueued takes of mails that
// its peers put behind the takes of these.
Result<void> FusedMails::put_together() {
    GPURUN_ASSIGN(const device::Stream stream, pools_.streams.brief());
    GPURUN_TRY(mails_->put_mails(puts_.all(), stream));
    record_end(stream, puts_.launch, puts_.count);
    return {};
}

bool FusedMails::Taker::waits() const {
    for (size_t i = mails; i-- > 0;) // the last mails come last, so they tell soonest that something waits
        if (platform::load_published(*taken[i]) < values[i])
            return true;
    return false;
}

void FusedMails::Taker::expect(std::span<const IncomingMail> launched) {
    mails = launched.size();
    for (size_t i = 0; i < mails; ++i) {
        taken[i] = launched[i].mail.taken;
        values[i] = launched[i].mail.value;
    }
}

Result<FusedMails::Taker*> FusedMails::find_taker() {
    for (Taker& each : takers_) {
        if (each.stream && each.waits())
            continue;
        if (!each.stream) {
            GPURUN_ASSIGN(each.stream, pools_.streams.own());
        }
        return &each;
    }
    return nullptr;
}

// Returns how many launches it took.
Result<uint64_t> FusedMails::take_together() {
    GPURUN_ASSIGN(Taker * taker, find_taker());
    const device::Mail& last = takes_.all().back().mail; // about the last to come
    const auto blocks = static_cast<uint32_t>(takes_.count);
    if (taker == nullptr || !pools_.kernels.admits(*taker->stream, blocks, {*last.taken, last.value})) {
        GPURUN_TRY(take_apart(takes_.all()));
        return takes_.count;
    }
    GPURUN_TRY(mails_->take_mails(takes_.all(), *taker->stream));
    taker->expect(takes_.all());
    record_end(*taker->stream, takes_.launch, takes_.count);
    return 1;
}

// One at a time, each that has not come in a stream of its own, in which it holds up no other.
Result<void> FusedMails::take_apart(std::span<const IncomingMail> mails) {
    for (const IncomingMail& each : mails) {
        const bool come = platform::load_published(*each.mail.sent) >= each.mail.value;
        GPURUN_ASSIGN(const device::Stream stream, come ? pools_.streams.take_ready() : pools_.streams.take());
        auto taken = come ? Result<void>() : counters_->await_counter(stream, each.mail.sent, each.mail.value);
        if (taken)
            taken = mails_->take_mails({&each, 1}, stream);
        pools_.streams.give_back(stream, InternalStreams::State::kWaiting);
        GPURUN_TRY(std::move(taken));
    }
    return {};
}

// If it fails, the edges tell; a device that has failed says so with the next call.
void FusedMails::record_end(device::Stream stream, uint64_t launch, size_t mails) {
    if (mails < kFewestToRecord)
        return;
    LaunchEnd& end = ends_[next_end_++ % ends_.size()];
    end = LaunchEnd{};
    if (auto event = pools_.events.record(stream))
        end = LaunchEnd{launch, mails, EventLease(pools_.events, *event), 0, std::nullopt};
}

FusedMails::LaunchEnd* FusedMails::find_end(uint64_t launch) {
    for (LaunchEnd& end : ends_)
        if (end.event && end.launch == launch)
            return &end;
    return nullptr;
}

void FusedMails::begin_completion() {
    for (LaunchEnd& end : ends_) {
        end.expected = 0;
        end.awaited_in.reset();
    }
}

void FusedMails::expect(uint64_t launch) {
    if (LaunchEnd* const end = find_end(launch))
        ++end->expected;
}

Result<void> FusedMails::await(LaunchEnd& end, device::Stream stream) {
    if (end.awaited_in != stream)
        GPURUN_TRY(device_.await_event(stream, end.event.get()));
    end.awaited_in = stream;
    return {};
}

Result<bool> FusedMails::await_put(uint64_t launch, device::Stream stream) {
    LaunchEnd* const end = find_end(launch);
    if (end != nullptr)
        GPURUN_TRY(await(*end, stream));
    return end != nullptr;
}

Result<bool> FusedMails::await_take(uint64_t launch, device::Stream stream) {
    LaunchEnd* const end = find_end(launch);
    if (end == nullptr || end->expected != end->mails)
        return false;
    GPURUN_TRY(await(*end, stream));
    return true;
}

// A launch that fails means that the device has failed, and with it this rank. Neither this rank nor a peer may wait
// for its mails, so their edges are poisoned.
Result<void> FusedMails::launch_puts() {
    if (puts_.count == 0)
        return {};
    auto put = put_together();
    sent_.mails += puts_.count;
    ++sent_.launches;
    if (!put)
        for (const OutgoingMail& each : puts_.all())
            platform::store_and_wake(*each.mail.sent, platform::kPoison);
    puts_.count = 0;
    return put;
}

Result<void> FusedMails::launch_takes() {
    if (takes_.count == 0)
        return {};
    auto taken = take_together();
    received_.mails += takes_.count;
    received_.launches += taken ? *taken : 0;
    if (!taken)
        for (const IncomingMail& each : takes_.all())
            platform::store_and_wake(*each.mail.taken, platform::kPoison);
    takes_.count = 0;
    if (!taken)
        return std::move(taken).error();
    return {};
}

Result<void> FusedMails::launch() {
    auto put = launch_puts();
    auto taken = launch_takes();
    return put ? std::move(taken) : std::move(put);
}

} // namespace gpurun::transfer
