#include "comm/batch.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/mailbox.hpp"

namespace gpurun::comm {

void Batch::defer() {
    if (deferred_until_ns_ != 0)
        return;
    deferred_until_ns_ = platform::now_ns() + kLongestDelayNs;
    begin_();
}

// defers_send() counts the sends of a batch, so it is asked for each in a stream, also for those that are not deferred.
bool Batch::shares_kernel(const transfer::Send& send) {
    if (!send.is_request() || !transfer::may_be_fused(send))
        return false;
    transfer::Resources& resources = core_.resources();
    return !send.operand().on_stream() || (!resources.exchanges.collects() && resources.pools.markers.defers_send());
}

void Batch::start_send(transfer::Send& send) {
    transfer::Peer& target = send.target();
    if (!shares_kernel(send) || !may_defer() || target.channel().is_gone()) {
        send.start();
        return;
    }
    send.defer();
    if (target.unposted.size() >= device::kMostMails)
        (void)transfer::post_waiting(target);
    if (!target.unposted.empty())
        defer();
}

bool Batch::after_start(bool defers) {
    if (!core_.resources().exchanges.collects())
        core_.resources().exchanges.launch(); // of another thread's call, whose send had waited for room
    if (!defers)
        launch();
    else if (!core_.resources().mails.empty() || deferred_until_ns_ != 0)
        defer();
    return deferred_until_ns_ != 0;
}

void Batch::end() {
    core_.resources().pools.markers.end_batch();
    flush();
}

void Batch::flush() {
    starts_ = 0;
    if (deferred_until_ns_ == 0)
        return;
    deferred_until_ns_ = 0;
    for (const auto& each : core_.peers())
        (void)transfer::post_waiting(*each);
    launch();
}

// A launch that fails poisons the edges of its mails, which tells whoever waits for them.
void Batch::launch() {
    transfer::Resources& resources = core_.resources();
    resources.pools.markers.look_again();
    if (!resources.exchanges.collects())
        resources.exchanges.launch();
    if (resources.mails.empty())
        return;
    if (auto launched = resources.mails.launch(); !launched)
        base::log(base::LogLevel::kWarn, "small messages could not be enqueued: {}", launched.error().detail);
}

} // namespace gpurun::comm
