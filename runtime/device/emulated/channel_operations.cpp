// What a stream runs of a channel: runs are counted in device memory, and waited for as words are.
#include "device/emulated/stream_queue.hpp"

#include "platform/clock.hpp"
#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

#include <array>

namespace gpurun::device::emulated {

namespace {

std::atomic<uint64_t>& word_at(void* address) { return *static_cast<std::atomic<uint64_t>*>(address); }

std::byte* place_of(const Channel& channel, uint64_t turn) {
    return channel.places + turn % kChannelPlaces * channel_place_bytes(channel.bytes);
}

int64_t clock_for(const Channel& channel) { return channel.log != nullptr ? platform::now_ns() : 0; }

} // namespace

// Whoever is to write the word may die, and can then no longer; release_dead() ends the wait.
StreamQueue::Wait StreamQueue::await_run(const Channel& channel, std::atomic<uint64_t>& word, uint64_t value) {
    {
        const std::lock_guard lock(mutex_);
        mortal_word_ = &word;
        mortal_alive_ = channel.alive;
        if (platform::is_poisoned(channel.alive->load(std::memory_order_acquire)))
            word.fetch_or(kMortalGone, std::memory_order_release);
    }
    const bool waits = channel.wait != nullptr && platform::load_published(word) < value;
    if (waits) {
        channel.wait->since_ns.store(static_cast<uint64_t>(platform::now_ns()), std::memory_order_relaxed);
        channel.wait->runs.store(value, std::memory_order_release); // with the time: pairs with who looks
    }
    const bool awaited = await(word, value);
    if (waits)
        channel.wait->runs.store(0, std::memory_order_relaxed);
    {
        const std::lock_guard lock(mutex_);
        mortal_word_ = nullptr;
    }
    if (!awaited)
        return Wait::kAbandoned;
    if ((platform::load_published(word) & ~kMortalGone) >= value)
        return Wait::kCame;
    channel.cut->store(1, std::memory_order_release);
    return Wait::kDead;
}

bool StreamQueue::put(const ChannelPut& operation) {
    const Channel& channel = operation.channel;
    const int64_t began_ns = clock_for(channel);
    const uint64_t turn = *channel.turns;
    const uint64_t taken = turn < kChannelPlaces ? 0 : turn + 1 - kChannelPlaces;
    const Wait room = await_run(channel, word_at(channel.taken), taken);
    if (room == Wait::kAbandoned)
        return false;
    const int64_t moving_ns = clock_for(channel);
    if (room == Wait::kCame) {
        std::byte* const place = place_of(channel, turn);
        if (channel.bytes != 0)
            pace_.copy(place + sizeof(uint64_t), operation.source, channel.bytes);
        pace_.linger();
        platform::store_and_wake(word_at(place), turn + 1);
    }
    *channel.turns = turn + 1;
    log_run(channel, turn, began_ns, moving_ns);
    return true;
}

bool StreamQueue::take(const ChannelTake& operation) {
    const Channel& channel = operation.channel;
    const int64_t began_ns = clock_for(channel);
    const uint64_t turn = *channel.turns;
    std::byte* const place = place_of(channel, turn);
    const Wait put = await_run(channel, word_at(place), turn + 1);
    if (put == Wait::kAbandoned)
        return false;
    const int64_t moving_ns = clock_for(channel);
    if (put == Wait::kCame && operation.bytes != 0)
        pace_.copy(operation.destination, operation.source != nullptr ? operation.source : place + sizeof(uint64_t),
                   operation.bytes);
    if (operation.ends)
        tell_taken(channel);
    log_run(channel, turn, began_ns, moving_ns);
    return true;
}

bool StreamQueue::reduce_channels(const ReduceChannels::Arguments& all) {
    std::array<const void*, kMostMet> operands;
    std::array<int64_t, 2> times_ns{}; // when it began, and when it moved
    bool came = true;
    size_t given = 0;
    for (const auto& [channel, own] : all.operands)
        if (channel)
            tell(*channel, *channel->turns); // of the run before
    for (const auto& [channel, own] : all.operands) {
        operands[given++] = own;
        if (!channel)
            continue;
        times_ns[0] = times_ns[0] == 0 ? clock_for(*channel) : times_ns[0];
        std::byte* const place = place_of(*channel, *channel->turns);
        operands[given - 1] = place + sizeof(uint64_t);
        const Wait put = await_run(*channel, word_at(place), *channel->turns + 1);
        if (put == Wait::kAbandoned)
            return false;
        came = came && put == Wait::kCame;
        times_ns[1] = clock_for(*channel);
    }
    if (came)
        base::reduce(all.reduction, all.count, all.result, std::span(operands).first(given));
    for (const auto& [channel, own] : all.operands)
        if (channel) {
            const uint64_t turn = (*channel->turns)++;
            log_run(*channel, turn, times_ns[0], times_ns[1]);
        }
    return true;
}

bool StreamQueue::await_taken(const ChannelAwaitTaken& operation) {
    const Channel& channel = operation.channel;
    const int64_t began_ns = clock_for(channel);
    if (await_run(channel, word_at(channel.taken), *channel.turns) == Wait::kAbandoned)
        return false;
    log_run(channel, *channel.turns, began_ns, clock_for(channel));
    return true;
}

void StreamQueue::tell(const ChannelTellTaken& operation) {
    tell_taken(operation.channel);
    log_run(operation.channel, *operation.channel.turns, 0, 0);
}

void StreamQueue::tell_taken(const Channel& channel) { tell(channel, ++*channel.turns); }

void StreamQueue::tell(const Channel& channel, uint64_t taken) {
    if (!platform::is_poisoned(channel.alive->load(std::memory_order_acquire)))
        platform::store_and_wake(word_at(channel.taken), taken);
}

// `run` is told by the first operation alone.
void StreamQueue::log_run(const Channel& channel, uint64_t run, int64_t began_ns, int64_t moving_ns) {
    if (channel.log == nullptr)
        return;
    const RunLog& log = *channel.log;
    if (channel.first_of_run) {
        *channel.log_place = word_at(log.taken).fetch_add(1, std::memory_order_relaxed);
        if (*channel.log_place >= log.room)
            log.lost->store(*channel.log_place + 1 - log.room, std::memory_order_relaxed);
    }
    if (*channel.log_place >= log.room)
        return;
    platform::RunTimes& place = log.places[*channel.log_place];
    if (channel.first_of_run) {
        place.times.began.store(began_ns, std::memory_order_relaxed);
        place.times.moving.store(moving_ns, std::memory_order_relaxed);
        place.run.store(run, std::memory_order_relaxed);
        place.name.store(channel.log_name, std::memory_order_relaxed);
    }
    if (channel.last_of_run)
        place.times.done.store(platform::now_ns(), std::memory_order_relaxed);
}

} // namespace gpurun::device::emulated
