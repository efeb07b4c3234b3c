#include "device/emulated/stream_queue.hpp"

#include "base/format.hpp"
#include "device/emulated/memory.hpp"
#include "platform/job_segment.hpp"
#include "platform/wake.hpp"

#include <chrono>

namespace gpurun::device::emulated {

namespace {

// Well under a microsecond: enough for a peer that is about to write, nothing to a machine with more ranks than cores.
constexpr int kSpins = 200;
constexpr auto kAbandonPeriod = std::chrono::milliseconds(1);

} // namespace

StreamQueue::StreamQueue(std::atomic<uint64_t>& progress, uint32_t slot, Slots& slots, Pace pace)
    : progress_(progress), slot_(slot), slots_(slots), pace_(pace), ring_(kMostOperations),
      // The slot's former stream left all its marks behind it: events that name them stay complete.
      marks_(progress.load(std::memory_order_relaxed)), worker_([this] { work(); }) {}

StreamQueue::~StreamQueue() {
    bool busy = false;
    {
        const std::lock_guard lock(mutex_);
        abandoned_ = true;
        busy = head_ != tail_;
    }
    enqueued_.notify_all();
    // A wake between the worker's look at abandoned_ and its sleep would be lost, hence again and again.
    while (busy && !ended_.load(std::memory_order_acquire)) {
        if (auto* word = awaited_.load(std::memory_order_acquire))
            platform::wake_all(*word);
        std::this_thread::sleep_for(kAbandonPeriod);
    }
    worker_.join();
    if (head_ == tail_) {
        slots_.release(slot_);
    } else { // whoever waits for an abandoned mark, here or in a peer, must not wait for ever; the slot is spent
        progress_.fetch_or(kReleased, std::memory_order_release);
        platform::wake_all(progress_);
    }
}

base::Result<std::unique_lock<std::mutex>> StreamQueue::lock_with_room() {
    if (std::this_thread::get_id() == worker_.get_id())
        return base::error(base::Status::kUnsupported,
                           "a function that a stream runs on the host must not use the device");
    std::unique_lock lock(mutex_);
    ++sleepers_;
    executed_.wait(lock, [this] { return tail_ - head_ < ring_.size(); });
    --sleepers_;
    return lock;
}

void StreamQueue::push(const Operation& operation) {
    ring_[tail_ % ring_.size()] = operation;
    ++tail_;
    if (tail_ - head_ == 1)
        enqueued_.notify_one();
}

base::Result<void> StreamQueue::enqueue(const Operation& operation) {
    GPURUN_ASSIGN(const std::unique_lock lock, lock_with_room());
    push(operation);
    return {};
}

base::Result<Record> StreamQueue::mark() {
    GPURUN_ASSIGN(const std::unique_lock lock, lock_with_room());
    push(WriteWord{&progress_, marks_ += kMarkStep});
    return Record{slot_, marks_};
}

base::Result<void> StreamQueue::wait() {
    if (std::this_thread::get_id() == worker_.get_id())
        return base::error(base::Status::kUnsupported,
                           "a function that a stream runs on the host must not wait for it");
    std::unique_lock lock(mutex_);
    const uint64_t target = tail_;
    ++sleepers_;
    executed_.wait(lock, [&] { return head_ >= target; });
    --sleepers_;
    return {};
}

bool StreamQueue::idle() {
    const std::lock_guard lock(mutex_);
    return head_ == tail_;
}

void StreamQueue::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        enqueued_.wait(lock, [this] { return abandoned_ || head_ != tail_; });
        if (abandoned_)
            break;
        Operation& operation = ring_[head_ % ring_.size()];
        lock.unlock();
        pace_.linger();
        execute(operation);
        pace_.linger(); // done, but nobody can tell yet
        lock.lock();
        if (abandoned_ && std::holds_alternative<AwaitWord>(operation))
            break; // it may have been cut short: what follows must not run
        ++head_;
        if (sleepers_ > 0)
            executed_.notify_all();
    }
    lock.unlock();
    // Pairs with the destructor's acquire.
    ended_.store(true, std::memory_order_release);
}

void StreamQueue::execute(Operation& operation) {
    if (auto* copy = std::get_if<Copy>(&operation))
        pace_.copy(copy->destination, copy->source, copy->bytes);
    else if (auto* guarded = std::get_if<CopyIfCame>(&operation))
        copy_if_came(*guarded);
    else if (auto* fill = std::get_if<Fill>(&operation))
        pace_.fill(fill->destination, fill->value, fill->bytes);
    else if (auto* call = std::get_if<CallHost>(&operation))
        call->function(call->argument);
    else if (auto* write = std::get_if<WriteWord>(&operation))
        platform::store_and_wake(*write->word, write->value);
    else if (auto* wait = std::get_if<AwaitWord>(&operation))
        await(*wait->word, wait->value);
    else if (auto* reclaim = std::get_if<Reclaim>(&operation))
        reclaim->memory->reclaim_ordered(reclaim->retired);
}

void StreamQueue::copy_if_came(const CopyIfCame& operation) {
    if (platform::reached_value(platform::load_published(*operation.word)) >= operation.value)
        pace_.copy(operation.copy.destination, operation.copy.source, operation.copy.bytes);
}

void StreamQueue::await(std::atomic<uint64_t>& word, uint64_t value) {
    for (int spin = 0; spin < kSpins; ++spin)
        if (platform::load_published(word) >= value)
            return;
    awaited_.store(&word, std::memory_order_release);
    for (;;) {
        const uint64_t seen = platform::load_published(word);
        if (seen >= value || abandoned_)
            break;
        platform::sleep_while(word, seen, platform::kForever);
    }
    awaited_.store(nullptr, std::memory_order_release);
}

} // namespace gpurun::device::emulated
