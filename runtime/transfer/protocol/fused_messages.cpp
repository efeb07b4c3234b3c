#include "transfer/protocol/fused_messages.hpp"

#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

namespace gpurun::transfer {

using base::Result;
using device::IncomingMail;
using device::OutgoingMail;

template <typename Mail>
void FusedMessages::add(Batch<Mail>& batch, const Mail& mail) {
    if (batch.count == 0)
        batch.launch = ++launches_;
    batch.mails[batch.count++] = mail;
}

Result<uint64_t> FusedMessages::put(const OutgoingMail& mail) {
    add(puts_, mail);
    if (puts_.count == device::kMostMails)
        GPURUN_TRY(launch_outward());
    return puts_.launch;
}

// At the limit what is put goes first: a peer may wait for it before it puts what is taken.
Result<uint64_t> FusedMessages::take(const IncomingMail& mail) {
    add(takes_, mail);
    if (takes_.count == most_takes_) {
        GPURUN_TRY(launch_outward());
        GPURUN_TRY(launch_takes());
    }
    return takes_.launch;
}

Result<void> FusedMessages::pull(const device::FencedCopy& copy) {
    constexpr size_t kMostBytes = size_t{8} << 20; // some 25 us between two GPUs
    pulls_.push_back(copy);
    pulled_bytes_ += copy.bytes;
    const bool is_full = pulls_.size() == device::kMostPulled || pulled_bytes_ > kMostBytes;
    return is_full ? launch_outward() : Result<void>();
}

bool FusedMessages::are_long() const {
    constexpr size_t kLong = size_t{1} << 20; // in all
    return pulled_bytes_ > kLong;
}

// What is traced does not: a kernel can say when it ran.
bool FusedMessages::suit_engine() const {
    const auto is_traced = [](const device::FencedCopy& each) { return each.times != nullptr; };
    const size_t most = are_long() ? 2 : 1;
    return !pulls_.empty() && pulls_.size() <= most && !pools_.kernels.shares_device() &&
           std::none_of(pulls_.begin(), pulls_.end(), is_traced);
}

Result<void> FusedMessages::pull_by_engine() {
    for (const device::FencedCopy& each : pulls_) {
        GPURUN_ASSIGN(const device::Stream stream, take_outward({each.after, each.value}));
        GPURUN_TRY(device_.copy(each.destination, each.source, each.bytes, stream));
        GPURUN_TRY(counters_->write_counter(stream, each.after, each.value));
    }
    return {};
}

// Where they hold up no mail that is put behind them, or beside them and then the next.
Result<void> FusedMessages::launch_long_pulls() {
    if (!are_long())
        return {};
    auto launched = suit_engine() ? pull_by_engine() : pull_in_bulk();
    end_pulls(static_cast<bool>(launched));
    return launched;
}

Result<void> FusedMessages::pull_in_bulk() {
    GPURUN_ASSIGN(const InternalStreams::Bulk bulk, pools_.streams.bulk());
    return mails_->exchange({.pulls = pulls_}, bulk.copies);
}

// The last one again if it has run empty: the device has it at hand.
Result<device::Stream> FusedMessages::take_outward(const device::CounterValue& end) {
    if (!outward_ || platform::load_published(*outward_end_.counter) < outward_end_.value) {
        GPURUN_ASSIGN(outward_, pools_.streams.brief());
    }
    outward_end_ = end;
    return *outward_;
}

// Behind nothing that waits for a peer: since the records were posted, this rank may have enqueued takes of mails that
// its peers put behind the takes of these.
Result<void> FusedMessages::put_and_pull() {
    if (puts_.count == 0 && suit_engine())
        return pull_by_engine();
    const auto end = pulls_.empty() ? device::CounterValue{puts_.all().back().mail.sent, puts_.all().back().mail.value}
                                    : device::CounterValue{pulls_.back().after, pulls_.back().value};
    GPURUN_ASSIGN(const device::Stream stream, take_outward(end));
    const bool by_one = puts_.count <= device::kMostExchanged && !pulls_.empty();
    if (!by_one)
        GPURUN_TRY(mails_->put_mails(puts_.all(), stream));
    if (!pulls_.empty())
        GPURUN_TRY(mails_->exchange({.puts = by_one ? puts_.all() : std::span<const OutgoingMail>(), .pulls = pulls_},
                                    stream));
    record_end(stream, puts_.launch, puts_.count);
    return {};
}

bool FusedMessages::Taker::waits() const {
    for (size_t i = mails; i-- > 0;) // the last mails come last, so they tell soonest that something waits
        if (platform::load_published(*taken[i]) < values[i])
            return true;
    return false;
}

void FusedMessages::Taker::expect(std::span<const IncomingMail> launched) {
    mails = launched.size();
    for (size_t i = 0; i < mails; ++i) {
        taken[i] = launched[i].mail.taken;
        values[i] = launched[i].mail.value;
    }
}

Result<FusedMessages::Taker*> FusedMessages::find_taker() {
    for (Taker& each : takers_) {
        if (each.stream && each.waits())
            continue;
        if (!each.stream) {
            GPURUN_ASSIGN(each.stream, pools_.streams.own());
        }
        const device::Mail& last = takes_.all().back().mail; // about the last to come
        const auto blocks = static_cast<uint32_t>(takes_.count);
        return pools_.kernels.admits(*each.stream, blocks, {*last.taken, last.value}) ? &each : nullptr;
    }
    return nullptr;
}

// Returns how many launches it took.
Result<uint64_t> FusedMessages::take_together() {
    GPURUN_ASSIGN(Taker * taker, find_taker());
    if (taker == nullptr) {
        GPURUN_TRY(take_apart(takes_.all()));
        return takes_.count;
    }
    GPURUN_TRY(mails_->take_mails(takes_.all(), *taker->stream));
    taker->expect(takes_.all());
    record_end(*taker->stream, takes_.launch, takes_.count);
    return 1;
}

// One at a time, each that has not come in a stream of its own, in which it holds up no other.
Result<void> FusedMessages::take_apart(std::span<const IncomingMail> mails) {
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
void FusedMessages::record_end(device::Stream stream, uint64_t launch, size_t mails) {
    if (mails < kFewestToRecord)
        return;
    LaunchEnd& end = ends_[next_end_++ % ends_.size()];
    end = LaunchEnd{};
    if (auto event = pools_.events.record(stream))
        end = LaunchEnd{launch, mails, EventLease(pools_.events, *event), 0, std::nullopt};
}

FusedMessages::LaunchEnd* FusedMessages::find_end(uint64_t launch) {
    for (LaunchEnd& end : ends_)
        if (end.event && end.launch == launch)
            return &end;
    return nullptr;
}

void FusedMessages::begin_completion() {
    for (LaunchEnd& end : ends_) {
        end.expected = 0;
        end.awaited_in.reset();
    }
}

void FusedMessages::expect(uint64_t launch) {
    if (LaunchEnd* const end = find_end(launch))
        ++end->expected;
}

Result<void> FusedMessages::await(LaunchEnd& end, device::Stream stream) {
    if (end.awaited_in != stream)
        GPURUN_TRY(device_.await_event(stream, end.event.get()));
    end.awaited_in = stream;
    return {};
}

Result<bool> FusedMessages::await_put(uint64_t launch, device::Stream stream) {
    LaunchEnd* const end = find_end(launch);
    if (end != nullptr)
        GPURUN_TRY(await(*end, stream));
    return end != nullptr;
}

Result<bool> FusedMessages::await_take(uint64_t launch, device::Stream stream) {
    LaunchEnd* const end = find_end(launch);
    if (end == nullptr || end->expected != end->mails)
        return false;
    GPURUN_TRY(await(*end, stream));
    return true;
}

// A launch that fails means that the device has failed, and with it this rank. Neither this rank nor a peer may wait
// for its messages, so their edges are poisoned.
void FusedMessages::end_outward(bool launched) {
    sent_.mails += puts_.count;
    sent_.launches += puts_.count != 0 ? 1 : 0;
    if (!launched) {
        for (const OutgoingMail& each : puts_.all())
            platform::store_and_wake(*each.mail.sent, platform::kPoison);
    }
    puts_.count = 0;
    end_pulls(launched);
}

void FusedMessages::end_pulls(bool launched) {
    if (!launched)
        for (const device::FencedCopy& each : pulls_)
            platform::store_and_wake(*each.after, platform::kPoison);
    pulls_.clear();
    pulled_bytes_ = 0;
}

void FusedMessages::end_takes(bool launched, uint64_t launches) {
    received_.mails += takes_.count;
    received_.launches += launches;
    if (!launched)
        for (const IncomingMail& each : takes_.all())
            platform::store_and_wake(*each.mail.taken, platform::kPoison);
    takes_.count = 0;
}

Result<void> FusedMessages::launch_outward() {
    auto pulled = launch_long_pulls();
    if (puts_.count == 0 && pulls_.empty())
        return pulled;
    auto launched = put_and_pull();
    end_outward(static_cast<bool>(launched));
    return launched ? std::move(pulled) : std::move(launched);
}

Result<void> FusedMessages::launch_copies() {
    return puts_.count == 0 && takes_.count == 0 && suit_engine() ? launch_outward() : Result<void>();
}

Result<void> FusedMessages::launch_takes() {
    if (takes_.count == 0)
        return {};
    auto taken = take_together();
    end_takes(static_cast<bool>(taken), taken ? *taken : 0);
    return taken ? Result<void>() : std::move(taken).error();
}

bool FusedMessages::may_exchange() const {
    return takes_.count != 0 && takes_.count <= device::kMostExchanged && puts_.count <= device::kMostExchanged &&
           (puts_.count != 0 || !pulls_.empty());
}

// What is put and pulled waits for nothing in the kernel, whatever is taken beside it. A device that has no stream for
// it says so again where all are launched apart.
Result<bool> FusedMessages::try_exchange() {
    auto found = find_taker();
    if (!found || *found == nullptr)
        return false;
    Taker* const taker = *found;
    auto launched =
        mails_->exchange({.puts = puts_.all(), .takes = takes_.all(), .pulls = pulls_, .seen = true}, *taker->stream);
    if (launched) {
        taker->expect(takes_.all()); // no event for what is put: it would wait for what is taken, too
        record_end(*taker->stream, takes_.launch, takes_.count);
    }
    end_outward(static_cast<bool>(launched));
    end_takes(static_cast<bool>(launched), 1);
    GPURUN_TRY(std::move(launched));
    return true;
}

Result<void> FusedMessages::launch() {
    auto pulled = launch_long_pulls();
    auto exchanged = may_exchange() ? try_exchange() : Result<bool>(false);
    auto outward = launch_outward();
    auto taken = launch_takes();
    GPURUN_TRY(std::move(pulled));
    GPURUN_TRY(std::move(exchanged));
    GPURUN_TRY(std::move(outward));
    return taken;
}

} // namespace gpurun::transfer
