#include "transfer/mail_batches.hpp"

#include "platform/job_segment.hpp"
#include "platform/wake.hpp"
#include "transfer/awaited.hpp"

namespace gpurun::transfer {

using base::Result;
using device::IncomingMail;
using device::OutgoingMail;

namespace {

// One at a time, each in a stream that waits for it: what is not there must not hold up the others.
Result<void> take_apart(Context& context, std::span<const IncomingMail> mails) {
    for (const IncomingMail& each : mails) {
        GPURUN_ASSIGN(const device::Stream stream, context.streams.take());
        auto taken = context.device.await_counter(stream, each.mail.sent, each.mail.value);
        if (taken)
            taken = context.device.take_mails({&each, 1}, stream);
        context.streams.take_back(stream, Streams::State::kWaiting);
        GPURUN_TRY(std::move(taken));
    }
    return {};
}

} // namespace

template <typename Mail>
void MailBatches::add(Batch<Mail>& batch, const Mail& mail) {
    if (batch.count == 0)
        batch.launch = ++launches_;
    batch.mails[batch.count++] = mail;
}

Result<uint64_t> MailBatches::put(Context& context, const OutgoingMail& mail) {
    add(puts_, mail);
    if (puts_.count == device::kMostMails)
        GPURUN_TRY(launch_puts(context));
    return puts_.launch;
}

Result<uint64_t> MailBatches::take(Context& context, const IncomingMail& mail) {
    add(takes_, mail);
    if (takes_.count == device::kMostMails)
        GPURUN_TRY(launch_takes(context));
    return takes_.launch;
}

Result<void> MailBatches::put_together(Context& context) {
    GPURUN_ASSIGN(const device::Stream stream, context.streams.take());
    auto put = context.device.put_mails(puts_.all(), stream);
    if (put)
        mark_end(context, stream, puts_.launch, puts_.count);
    context.streams.take_back(stream, Streams::State::kRunning);
    return put;
}

bool MailBatches::Taker::waits() const {
    for (size_t i = mails; i-- > 0;) // the last ones come last
        if (platform::load_published(*taken[i]) < values[i])
            return true;
    return false;
}

void MailBatches::Taker::expect(std::span<const IncomingMail> launched) {
    mails = launched.size();
    for (size_t i = 0; i < mails; ++i) {
        taken[i] = launched[i].mail.taken;
        values[i] = launched[i].mail.value;
    }
}

// Null if all wait.
Result<MailBatches::Taker*> MailBatches::find_taker(Context& context) {
    for (Taker& each : takers_) {
        if (each.stream && each.waits())
            continue;
        if (!each.stream) {
            GPURUN_ASSIGN(each.stream, context.streams.own());
        }
        return &each;
    }
    return nullptr;
}

// Says how many launches it took.
Result<uint64_t> MailBatches::take_together(Context& context) {
    GPURUN_ASSIGN(Taker * taker, find_taker(context));
    const device::Mail& last = takes_.all().back().mail; // about the last to come
    if (taker == nullptr || !context.waits.admits(*taker->stream, device::kMailsWait, *last.taken, last.value)) {
        GPURUN_TRY(take_apart(context, takes_.all()));
        return takes_.count;
    }
    GPURUN_TRY(context.device.take_mails(takes_.all(), *taker->stream));
    taker->expect(takes_.all());
    mark_end(context, *taker->stream, takes_.launch, takes_.count);
    return 1;
}

// Without one the edges tell, and a device that has failed says so to whoever asks next.
void MailBatches::mark_end(Context& context, device::Stream stream, uint64_t launch, size_t mails) {
    if (mails < kFewestToMark)
        return;
    Mark& mark = marks_[next_mark_++ % marks_.size()];
    give_back(mark.event, context);
    mark = Mark{};
    if (auto event = context.events.mark(stream))
        mark = Mark{launch, mails, *event};
}

MailBatches::Mark* MailBatches::find(uint64_t launch) {
    for (Mark& mark : marks_)
        if (mark.event && mark.launch == launch)
            return &mark;
    return nullptr;
}

void MailBatches::begin_joins() {
    for (Mark& mark : marks_) {
        mark.expected = 0;
        mark.awaited_in.reset();
    }
}

void MailBatches::expect_join(uint64_t launch) {
    if (Mark* const mark = find(launch))
        ++mark->expected;
}

Result<void> MailBatches::await(Context& context, Mark& mark, device::Stream stream) {
    if (mark.awaited_in != stream)
        GPURUN_TRY(context.device.await_event(stream, *mark.event));
    mark.awaited_in = stream;
    return {};
}

Result<bool> MailBatches::await_put(Context& context, uint64_t launch, device::Stream stream) {
    Mark* const mark = find(launch);
    if (mark != nullptr)
        GPURUN_TRY(await(context, *mark, stream));
    return mark != nullptr;
}

Result<bool> MailBatches::await_take(Context& context, uint64_t launch, device::Stream stream) {
    Mark* const mark = find(launch);
    if (mark == nullptr || mark->expected != mark->mails)
        return false;
    GPURUN_TRY(await(context, *mark, stream));
    return true;
}

// A launch that fails means that the device has, and with it this rank. Nobody must wait for the mails, peers neither.
Result<void> MailBatches::launch_puts(Context& context) {
    if (puts_.count == 0)
        return {};
    auto put = put_together(context);
    sent_.mails += puts_.count;
    ++sent_.launches;
    if (!put)
        for (const OutgoingMail& each : puts_.all())
            platform::store_and_wake(*each.mail.sent, platform::kPoison);
    puts_.count = 0;
    return put;
}

Result<void> MailBatches::launch_takes(Context& context) {
    if (takes_.count == 0)
        return {};
    auto taken = take_together(context);
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

Result<void> MailBatches::launch(Context& context) {
    auto put = launch_puts(context);
    auto taken = launch_takes(context);
    return put ? std::move(taken) : std::move(put);
}

} // namespace gpurun::transfer
