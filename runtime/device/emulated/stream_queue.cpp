#include "device/emulated/stream_queue.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "device/emulated/memory.hpp"
#include "platform/clock.hpp"
#include "platform/job_segment.hpp"
#include "platform/shared_memory.hpp"
#include "platform/wake.hpp"

#include <chrono>
#include <thread>

namespace gpurun::device::emulated {

namespace {

// Well under a microsecond: enough for a peer that is about to write, nothing to a machine with more ranks than cores.
constexpr int kSpins = 200;
constexpr auto kAbandonPeriod = std::chrono::milliseconds(1);

} // namespace

StreamQueue::StreamQueue(uint64_t name, std::atomic<uint64_t>& progress, uint32_t slot, Slots& slots,
                         std::mutex& host_functions, Pace pace)
    : name_(name), progress_(progress), slot_(slot), slots_(slots), host_functions_(host_functions), pace_(pace),
      ring_(kMostOperations),
      // The slot's former stream left all its marks behind it: events that name them stay complete.
      marks_(progress.load(std::memory_order_relaxed)) {}

base::Result<void> StreamQueue::start() {
    const auto run = [](void* queue) -> void* {
        static_cast<StreamQueue*>(queue)->work();
        return nullptr;
    };
    // It calls the program's functions, so its stack is a usual one.
    GPURUN_ASSIGN(worker_,
                  platform::start_quiet_thread(run, this, "the thread of an emulated stream", platform::kUsualStack));
    return {};
}

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
    if (worker_)
        platform::join_quiet_thread(*worker_);
    if (head_ == tail_) {
        slots_.release(slot_);
    } else { // whoever waits for an abandoned mark, here or in a peer, must not wait for ever; the slot is spent
        progress_.fetch_or(kReleased, std::memory_order_release);
        platform::wake_all(progress_);
    }
}

base::Result<std::unique_lock<std::mutex>> StreamQueue::lock_with_room() {
    if (is_worker())
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

base::Result<Record> StreamQueue::mark() {
    GPURUN_ASSIGN(const std::unique_lock lock, lock_with_room());
    GPURUN_ASSERT(!captured_);
    marks_ += kMarkStep;
    if (head_ == tail_ && !pace_.on())                      // nothing stands before it, and nobody can wait for it yet
        progress_.store(marks_, std::memory_order_release); // publishes what the stream has done, to whoever asks
    else
        push(WriteWord{&progress_, marks_});
    return Record{slot_, marks_};
}

base::Result<void> StreamQueue::wait() {
    if (is_worker())
        return base::error(base::Status::kUnsupported,
                           "a function that a stream runs on the host must not wait for it");
    std::unique_lock lock(mutex_);
    if (captured_)
        return base::error(base::Status::kStream, "a stream that is captured cannot be waited for: nothing in it runs");
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

// A mark in the word is what ends the wait: a wake alone could come before the worker sleeps. Nobody uses the word any
// more, since whoever would write it is dead.
void StreamQueue::release_dead() {
    const std::lock_guard lock(mutex_);
    if (mortal_word_ == nullptr || !platform::is_poisoned(mortal_alive_->load(std::memory_order_acquire)))
        return;
    mortal_word_->fetch_or(kMortalGone, std::memory_order_release);
    platform::wake_all(*mortal_word_);
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
        const bool executed = execute(operation);
        pace_.linger(); // done, but nobody can tell yet
        lock.lock();
        if (!executed)
            break;
        ++head_;
        if (sleepers_ > 0)
            executed_.notify_all();
    }
    lock.unlock();
    // Pairs with the destructor's acquire.
    ended_.store(true, std::memory_order_release);
}

bool StreamQueue::execute(Operation& operation) {
    if (auto* copy = std::get_if<Copy>(&operation))
        pace_.copy(copy->destination, copy->source, copy->bytes);
    else if (auto* guarded = std::get_if<CopyIfCame>(&operation))
        copy_if_came(*guarded);
    else if (auto* fill = std::get_if<Fill>(&operation))
        run(*fill);
    else if (auto* call = std::get_if<CallHost>(&operation))
        return call_host(*call);
    else if (auto* write = std::get_if<WriteWord>(&operation))
        platform::store_and_wake(*write->word, write->value);
    else if (auto* wait = std::get_if<AwaitWord>(&operation))
        return await(*wait->word, wait->value);
    else if (auto* stamp = std::get_if<Stamp>(&operation))
        stamp->where->store(platform::now_ns(), std::memory_order_relaxed);
    else if (auto* mails = std::get_if<TakeMails>(&operation))
        return take_mails(*mails);
    else if (auto* reduce = std::get_if<ReduceElements>(&operation))
        run(*reduce->arguments);
    else if (auto* reclaim = std::get_if<Reclaim>(&operation))
        reclaim->memory->reclaim_ordered(reclaim->retired);
    else if (auto* put_run = std::get_if<ChannelPut>(&operation))
        return put(*put_run);
    else if (auto* take_run = std::get_if<ChannelTake>(&operation))
        return take(*take_run);
    else if (auto* taken = std::get_if<ChannelAwaitTaken>(&operation))
        return await_taken(*taken);
    else if (auto* told = std::get_if<ChannelTellTaken>(&operation))
        tell(*told);
    else if (auto* reduced = std::get_if<ReduceChannels>(&operation))
        return reduce_channels(*reduced->arguments);
    else if (auto* run = std::get_if<EndRun>(&operation))
        run->graph.reset();
    return true;
}

bool StreamQueue::call_host(const CallHost& call) {
    const std::lock_guard one_at_a_time(host_functions_);
    if (abandoned_) // while it waited for its turn
        return false;
    call.function(call.argument);
    return true;
}

void StreamQueue::copy_if_came(const CopyIfCame& operation) {
    if (platform::reached_value(platform::load_published(*operation.word)) >= operation.value)
        pace_.copy(operation.copy.destination, operation.copy.source, operation.copy.bytes);
}

void StreamQueue::run(const Fill& fill) {
    if (fill.value == 0 && fill.in_segment && !pace_.on())
        platform::write_zeros(fill.destination, fill.bytes);
    else
        pace_.fill(fill.destination, fill.value, fill.bytes);
}

void StreamQueue::run(const ReduceElements::Arguments& reduce) {
    base::reduce(reduce.reduction, reduce.count, reduce.result, reduce.operands);
}

// One word at a time can be slept on, so the others are looked at now and then.
bool StreamQueue::take_mails(TakeMails& operation) {
    constexpr int64_t kLookAgainNs = 200'000;
    std::vector<TakeMails::One>& left = *operation.mails;
    const int64_t began_ns = platform::now_ns();
    while (!left.empty() && !abandoned_) {
        const size_t before = left.size();
        for (size_t i = 0; i < left.size();) {
            const TakeMails::One& one = left[i];
            if (platform::load_published(*one.copy.word) < one.copy.value) {
                ++i;
                continue;
            }
            take_mail(one, began_ns);
            left.erase(left.begin() + static_cast<ptrdiff_t>(i));
        }
        if (left.size() != before || left.empty())
            continue;
        const CopyIfCame& first = left.front().copy;
        awaited_.store(first.word, std::memory_order_release);
        if (const uint64_t seen = platform::load_published(*first.word); seen < first.value && !abandoned_)
            platform::sleep_while(*first.word, seen, kLookAgainNs);
        awaited_.store(nullptr, std::memory_order_release);
    }
    return left.empty();
}

void StreamQueue::take_mail(const TakeMails::One& one, int64_t began_ns) {
    const int64_t moving_ns = one.times != nullptr ? platform::now_ns() : 0;
    copy_if_came(one.copy);
    if (one.times != nullptr) {
        one.times->began.store(began_ns, std::memory_order_relaxed);
        one.times->moving.store(moving_ns, std::memory_order_relaxed);
        one.times->done.store(platform::now_ns(), std::memory_order_relaxed);
    }
    platform::store_and_wake(*one.end.word, one.end.value);
}

bool StreamQueue::await(std::atomic<uint64_t>& word, uint64_t value) {
    for (int spin = 0; spin < kSpins; ++spin)
        if (platform::load_published(word) >= value)
            return true;
    awaited_.store(&word, std::memory_order_release);
    bool abandoned = false;
    for (;;) {
        const uint64_t seen = platform::load_published(word);
        abandoned = abandoned_;
        if (seen >= value || abandoned)
            break;
        platform::sleep_while(word, seen, platform::kForever);
    }
    awaited_.store(nullptr, std::memory_order_release);
    return !abandoned;
}

} // namespace gpurun::device::emulated
