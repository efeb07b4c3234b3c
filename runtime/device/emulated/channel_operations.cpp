// What a stream runs of a channel: runs are counted in device memory, and waited for as words are.
#include "device/emulated/stream_queue.hpp"

#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

namespace gpurun::device::emulated {

namespace {

std::atomic<uint64_t>& word_at(void* address) { return *static_cast<std::atomic<uint64_t>*>(address); }

std::byte* place_of(const Channel& channel, uint64_t turn) {
    return channel.places + turn % kChannelPlaces * channel_place_bytes(channel.bytes);
}

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
    const bool awaited = await(word, value);
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
    const uint64_t turn = *channel.turns;
    const uint64_t taken = turn < kChannelPlaces ? 0 : turn + 1 - kChannelPlaces;
    const Wait room = await_run(channel, word_at(channel.taken), taken);
    if (room == Wait::kAbandoned)
        return false;
    if (room == Wait::kCame) {
        std::byte* const place = place_of(channel, turn);
        if (channel.bytes != 0)
            pace_.copy(place + sizeof(uint64_t), operation.source, channel.bytes);
        pace_.linger();
        platform::store_and_wake(word_at(place), turn + 1);
    }
    *channel.turns = turn + 1;
    return true;
}

bool StreamQueue::take(const ChannelTake& operation) {
    const Channel& channel = operation.channel;
    const uint64_t turn = *channel.turns;
    std::byte* const place = place_of(channel, turn);
    const Wait put = await_run(channel, word_at(place), turn + 1);
    if (put == Wait::kAbandoned)
        return false;
    if (put == Wait::kCame && operation.bytes != 0)
        pace_.copy(operation.destination, operation.source != nullptr ? operation.source : place + sizeof(uint64_t),
                   operation.bytes);
    if (operation.ends)
        tell_taken(channel);
    return true;
}

bool StreamQueue::await_taken(const ChannelAwaitTaken& operation) {
    const Channel& channel = operation.channel;
    return await_run(channel, word_at(channel.taken), *channel.turns) != Wait::kAbandoned;
}

void StreamQueue::tell_taken(const Channel& channel) {
    const uint64_t turns = ++*channel.turns;
    auto& taken = word_at(channel.taken);
    if (!platform::is_poisoned(channel.alive->load(std::memory_order_acquire)))
        platform::store_and_wake(taken, turns);
}

} // namespace gpurun::device::emulated
