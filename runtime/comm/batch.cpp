#include "comm/batch.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/mailbox.hpp"

#include <utility>

namespace gpurun::comm {

// With a seed, tests try what may come between: then each is held.
Batch::Batch(Core& core)
    : core_(core), series_(core.device().info().shortest_enqueue_ns,
                           core.resources().settings.emulated_seed != 0 ? 0 : Series::kFirstNeeded) {}

void Batch::defer() {
    if (is_deferring() && !series_.is_held())
        return;
    const bool begins = !is_deferring();
    const int64_t now_ns = platform::now_ns();
    deferred_until_ns_.store(now_ns + kLongestDelayNs, std::memory_order_relaxed);
    last_deferred_ns_.store(now_ns, std::memory_order_relaxed);
    if (begins)
        begin_();
}

// ------------------------------------------------------------------------------------------------------- series

void Batch::note_series() {
    core_.resources().leaves_series = series_.is_held() && !series_.is_of_collectives();
    series_open_.store(series_.is_open(), std::memory_order_relaxed);
}

uint64_t Batch::add_to_series(const transfer::Operand& operand, int64_t entered_ns, const Communicator* of) {
    const transfer::Resources& resources = core_.resources();
    const bool may_hold = allowed_ && resources.kernels_spin && resources.exchanges.has_mails();
    end_interrupted(operand, entered_ns);
    const bool was_held = series_.is_held();
    const bool belongs = series_.add(operand, entered_ns, may_hold, of);
    note_series();
    if (was_held && !belongs)
        flush();
    return belongs ? series_.number() : 0;
}

void Batch::end_interrupted(const transfer::Operand& operand, int64_t entered_ns) {
    if (!series_.is_interrupted(operand, entered_ns))
        return;
    if (series_.is_held())
        flush();
    series_.end_part();
}

void Batch::make_way(const transfer::Operand& operand, std::optional<int64_t> entered_ns, const Communicator* of) {
    if (entered_ns && series_.goes_on(operand, *entered_ns, of))
        return;
    if (entered_ns)
        end_interrupted(operand, *entered_ns);
    end();
    begin_held(); // also of a series that another thread completes
}

void Batch::leave_series() const {
    if (series_open_.load(std::memory_order_relaxed))
        Series::leave();
}

void Batch::end_series(bool directly) {
    series_.end(directly);
    note_series();
}

int64_t Batch::entry_time() const { return series_open_.load(std::memory_order_relaxed) ? platform::now_ns() : 0; }

void Batch::end_directly() {
    const bool was_held = series_.is_held();
    end_series(true);
    if (!was_held) {
        end();
        return;
    }
    core_.resources().pools.markers.end_batch();
    starts_ = 0;
    deferred_until_ns_.store(0, std::memory_order_relaxed);
    post();
}

// ------------------------------------------------------------------------------------------------------- deferring

// defers_send() counts the sends of a batch, so it is asked for each in a stream, also for those that are not deferred.
bool Batch::shares_kernel(const transfer::Send& send) {
    if (!send.is_request() || !transfer::may_be_fused(send))
        return false;
    transfer::Resources& resources = core_.resources();
    return !send.operand().on_stream() || (!resources.exchanges.collects() && resources.pools.markers.defers_send());
}

void Batch::start_send(transfer::Send& send) {
    transfer::Peer& target = send.target();
    if (series_.is_held()) {
        send.defer(series_.number());
        ++held_sends_;
        defer();
        return;
    }
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

void Batch::count_posted() {
    last_start_ns_ = platform::now_ns();
    if (completes_directly_)
        ++starts_;
}

void Batch::go_on() {
    if (starts_ == 0 && expects_more() && platform::now_ns() - last_start_ns_ < kDirectNs)
        ++starts_;
}

void Batch::note_start() {
    if (last_start_ns_ != 0)
        last_start_ns_ = platform::now_ns();
}

bool Batch::after_start(bool defers) {
    launch_exchanges(); // of another thread's call, whose send had waited for room
    if (!defers)
        launch();
    else if (!core_.resources().fused.empty() || is_deferring() || series_.is_held())
        defer();
    return is_deferring();
}

void Batch::end(Launch launch) {
    if (last_start_ns_ != 0)
        completes_directly_ = platform::now_ns() - std::exchange(last_start_ns_, 0) < kDirectNs;
    core_.resources().pools.markers.end_batch();
    end_series(false);
    flush(launch);
}

// Of a series that goes on. What is put goes into its stream by one kernel, and waits for nobody there.
// The newest marker is asked whether what has come may begin, so that comes before the sends give theirs back.
void Batch::begin_part() {
    core_.resources().left.for_each([&](transfer::Operation& each) {
        if (each.is_left_briefly() && each.operand().stream == series_.stream())
            each.begin_left();
    });
    transfer::Exchanges& exchanges = core_.resources().exchanges;
    const bool collects = exchanges.collects();
    held_sends_ = 0;
    exchanges.collect(true);
    for (const auto& each : core_.peers())
        transfer::post_in_stream(*each, series_.number());
    exchanges.collect(collects);
    if (!collects)
        launch();
}

void Batch::post() {
    held_sends_ = 0;
    for (const auto& each : core_.peers())
        (void)transfer::post_waiting(*each);
}

void Batch::flush(Launch when) {
    starts_ = 0;
    if (!is_deferring())
        return;
    deferred_until_ns_.store(0, std::memory_order_relaxed);
    series_.break_off();
    note_series();
    post();
    enqueue_left();
    if (when == Launch::kNow)
        launch();
    begin_held();
}

void Batch::enqueue_left() {
    core_.resources().left.for_each([](transfer::Operation& each) {
        if (each.is_left_briefly())
            each.enqueue_left();
    });
}

void Batch::launch_or_defer() {
    if (starts_ == 0 || !allowed_ || !expects_more() || core_.resources().fused.empty())
        return launch();
    launch_exchanges();
    defer();
}

void Batch::launch_exchanges() {
    if (!core_.resources().exchanges.collects())
        core_.resources().exchanges.launch();
}

// A launch that fails poisons the edges of its mails, which tells whoever waits for them.
void Batch::launch() {
    transfer::Resources& resources = core_.resources();
    resources.pools.markers.look_again();
    launch_exchanges();
    if (resources.fused.empty())
        return;
    if (auto launched = resources.fused.launch(); !launched)
        base::log(base::LogLevel::kWarn, "small messages could not be enqueued: {}", launched.error().detail);
}

} // namespace gpurun::comm
