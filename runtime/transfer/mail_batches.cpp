#include "transfer/mail_batches.hpp"

#include "platform/job_segment.hpp"
#include "platform/wake.hpp"
#include "transfer/context.hpp"

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

Result<void> take_together(Context& context, std::span<const IncomingMail> mails) {
    GPURUN_ASSIGN(const device::Stream stream, context.streams.take());
    const device::Mail& last = mails.back().mail; // about the last to come
    if (!context.waits.admits(stream, device::kMailsWait, *last.taken, last.value)) {
        context.streams.take_back(stream, Streams::State::kRunning); // nothing was enqueued there
        return take_apart(context, mails);
    }
    auto taken = context.device.take_mails(mails, stream);
    context.streams.take_back(stream, Streams::State::kWaiting);
    return taken;
}

Result<void> put_together(Context& context, std::span<const OutgoingMail> mails) {
    GPURUN_ASSIGN(const device::Stream stream, context.streams.take());
    auto put = context.device.put_mails(mails, stream);
    context.streams.take_back(stream, Streams::State::kRunning);
    return put;
}

} // namespace

Result<void> MailBatches::put(Context& context, const OutgoingMail& mail) {
    puts_.mails[puts_.count++] = mail;
    return puts_.count == device::kMostMails ? launch_puts(context) : Result<void>();
}

Result<void> MailBatches::take(Context& context, const IncomingMail& mail) {
    takes_.mails[takes_.count++] = mail;
    return takes_.count == device::kMostMails ? launch_takes(context) : Result<void>();
}

// A launch that fails means that the device has, and with it this rank. Nobody must wait for the mails, peers neither.
Result<void> MailBatches::launch_puts(Context& context) {
    if (puts_.count == 0)
        return {};
    auto put = put_together(context, puts_.all());
    if (!put)
        for (const OutgoingMail& each : puts_.all())
            platform::store_and_wake(*each.mail.sent, platform::kPoison);
    puts_.count = 0;
    return put;
}

Result<void> MailBatches::launch_takes(Context& context) {
    if (takes_.count == 0)
        return {};
    auto taken = take_together(context, takes_.all());
    if (!taken)
        for (const IncomingMail& each : takes_.all())
            platform::store_and_wake(*each.mail.taken, platform::kPoison);
    takes_.count = 0;
    return taken;
}

Result<void> MailBatches::launch(Context& context) {
    auto put = launch_puts(context);
    auto taken = launch_takes(context);
    return put ? std::move(taken) : std::move(put);
}

} // namespace gpurun::transfer
