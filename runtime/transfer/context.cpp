#include "transfer/context.hpp"

#include "platform/wake.hpp"

#include "transfer/mailbox.hpp"
#include "transfer/record_ring.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::transfer {

using base::Result;

Result<void> HostCopies::enqueue(device::Device& device, device::Stream stream, void* destination, const void* source,
                                 size_t bytes) {
    HostCopy* copy = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) {
            idle_.reserve(all_.size() + 1); // so that run() never allocates
            idle_.push_back(&all_.emplace_back());
        }
        copy = idle_.back();
        idle_.pop_back();
    }
    *copy = HostCopy{destination, source, bytes, this};
    auto enqueued = device.call_host(stream, run, copy);
    if (!enqueued) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(copy);
    }
    return enqueued;
}

void HostCopies::run(void* argument) {
    auto* copy = static_cast<HostCopy*>(argument);
    std::memcpy(copy->destination, copy->source, copy->bytes);
    HostCopies* home = copy->home;
    const std::lock_guard lock(home->mutex_);
    home->idle_.push_back(copy);
}

Streams::~Streams() {
    for (const Entry& entry : all_)
        (void)device_.destroy_stream(entry.stream); // a failed device keeps them; nothing to do
    for (const Lane& lane : lanes_) {
        (void)device_.destroy_stream(lane.copies);
        (void)device_.destroy_stream(lane.signals);
    }
    for (const device::Stream each : own_)
        (void)device_.destroy_stream(each);
}

Streams::Entry* Streams::find(device::Stream stream) {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Entry& each) { return each.stream == stream; });
    return found == all_.end() ? nullptr : &*found;
}

Result<bool> Streams::is_scarce() {
    const auto taken = [&] {
        return static_cast<size_t>(
            std::count_if(all_.begin(), all_.end(), [](const Entry& each) { return each.users != 0 || each.waits; }));
    };
    if (taken() < kMostWithSpare)
        return false;
    for (Entry& each : all_)
        if (each.users == 0 && each.waits) {
            GPURUN_ASSIGN(each.waits, still_waits(each));
        }
    return taken() >= kMostWithSpare;
}

Result<bool> Streams::still_waits(const Entry& entry) {
    if (!entry.waits)
        return false;
    if (entry.end.counter != nullptr)
        return platform::load_published(*entry.end.counter) < entry.end.value;
    GPURUN_ASSIGN(const bool idle, device_.query(entry.stream));
    return !idle;
}

Result<Streams::Entry*> Streams::find_free() {
    if (const auto known = std::exchange(idle_, std::nullopt)) {
        Entry* const entry = find(*known);
        if (entry != nullptr && entry->users == 0)
            return entry;
    }
    for (size_t i = 0; i < all_.size(); ++i) {
        Entry& entry = all_[(next_ + i) % all_.size()];
        if (entry.users != 0)
            continue;
        GPURUN_ASSIGN(const bool waits, still_waits(entry));
        if (!waits) {
            entry.waits = false;
            return &entry;
        }
    }
    return nullptr;
}

Result<Streams::Entry*> Streams::find_or_make() {
    GPURUN_ASSIGN(Entry * entry, find_free());
    if (entry == nullptr && all_.size() < kMost) {
        GPURUN_ASSIGN(const device::Stream stream, device_.take_reserved_stream());
        entry = &all_.emplace_back(Entry{stream});
    }
    return entry;
}

device::Stream Streams::give(Entry& entry) {
    next_ = static_cast<size_t>(&entry - all_.data()) + 1;
    ++entry.users;
    entry.behind = 0;
    return entry.stream;
}

Result<std::optional<device::Stream>> Streams::take_spare() {
    GPURUN_ASSIGN(const bool scarce, is_scarce());
    if (scarce)
        return std::optional<device::Stream>();
    GPURUN_ASSIGN(Entry * entry, find_or_make());
    return entry == nullptr ? std::nullopt : std::optional(give(*entry));
}

Result<device::Stream> Streams::take() {
    GPURUN_ASSIGN(Entry * best, find_or_make());
    if (best == nullptr) // in turn
        for (size_t i = 0; i < all_.size(); ++i) {
            Entry& entry = all_[(next_ + i) % all_.size()];
            if (best == nullptr || entry.users < best->users)
                best = &entry;
        }
    return give(*best);
}

Streams::Entry* Streams::find_behind(uint64_t name, uint64_t number) {
    Entry* found = nullptr;
    for (Entry& each : all_) {
        const bool fits = (each.users != 0 || each.waits) && each.behind == name && each.number <= number;
        if (fits && each.shared < kMostShared && (found == nullptr || each.shared < found->shared))
            found = &each;
    }
    return found;
}

Result<device::Stream> Streams::take_behind(uint64_t name, uint64_t number) {
    if (Entry* const same = find_behind(name, number); same != nullptr) {
        GPURUN_ASSIGN(const bool scarce, is_scarce());
        if (scarce) {
            ++same->users;
            ++same->shared;
            same->number = number;
            return same->stream;
        }
    }
    GPURUN_ASSIGN(const device::Stream taken, take());
    Entry* const entry = find(taken);
    if (entry->users == 1 && !entry->waits) {
        entry->behind = name;
        entry->number = number;
        entry->shared = 1;
    }
    return taken;
}

Result<device::Stream> Streams::own() {
    GPURUN_ASSIGN(const device::Stream made, device_.take_reserved_stream());
    own_.push_back(made);
    return made;
}

Result<device::Stream> Streams::brief() {
    if (brief_.size() < kBrief) {
        GPURUN_ASSIGN(const device::Stream made, own());
        brief_.push_back(made);
        return made;
    }
    return brief_[next_brief_++ % kBrief];
}

void Streams::take_back(device::Stream stream, State state, const StreamEnd& end) {
    Entry* const entry = find(stream);
    if (entry == nullptr)
        return; // a lane, or another of its users has found it stuck
    if (state == State::kStuck) {
        all_.erase(all_.begin() + (entry - all_.data()));
        return;
    }
    --entry->users;
    if (state == State::kWaiting) {
        // With others in the stream, this one's end is not all of it.
        entry->end = entry->users == 0 && !entry->waits ? end : StreamEnd{};
        entry->waits = true;
    } else if (state == State::kIdle && entry->users == 0 && !entry->waits) {
        idle_ = stream;
    }
}

Result<Streams::Lane> Streams::lane() {
    if (lanes_.size() < kLanes) {
        Lane made;
        GPURUN_ASSIGN(made.copies, device_.take_reserved_stream());
        GPURUN_ASSIGN(made.signals, device_.take_reserved_stream());
        lanes_.push_back(made);
        return made;
    }
    return lanes_[next_lane_++ % kLanes];
}

Events::~Events() {
    for (const device::Event event : all_)
        (void)device_.destroy_event(event); // a failed device keeps them; nothing to do
}

Result<device::Event> Events::mark(device::Stream stream) {
    if (idle_.empty()) {
        GPURUN_ASSIGN(const device::Event made, device_.create_event());
        all_.push_back(made);
        idle_.reserve(all_.size()); // so that give_back() never allocates
        idle_.push_back(made);
    }
    const device::Event event = idle_.back();
    GPURUN_TRY(device_.record(event, stream));
    idle_.pop_back();
    return event;
}

bool WaitingRoom::admits(device::Stream stream, uint32_t size, const device::Counter& done, uint64_t value) {
    Waiter* same = nullptr;
    uint32_t taken = 0;
    for (size_t i = 0; i < waiters_.size();) {
        Waiter& each = waiters_[i];
        if (each.done->load(std::memory_order_relaxed) >= each.value) {
            each = waiters_.back();
            waiters_.pop_back();
            continue;
        }
        if (each.stream == stream)
            same = &each;
        else
            taken += each.size;
        ++i;
    }
    if (taken + std::max(size, same == nullptr ? 0 : same->size) > room_)
        return false;
    if (same == nullptr)
        waiters_.push_back(Waiter{stream, size, &done, value});
    else
        *same = Waiter{stream, std::max(size, same->size), &done, value};
    return true;
}

Joints::~Joints() {
    for (const device::Event event : events_)
        (void)device_.destroy_event(event); // a failed device keeps them; nothing to do
}

Result<void> Joints::order(device::Stream first, device::Stream second) {
    if (events_.size() < kEvents) {
        GPURUN_ASSIGN(const device::Event made, device_.create_event());
        events_.push_back(made);
    }
    const device::Event event = events_[next_];
    next_ = (next_ + 1) % kEvents;
    GPURUN_TRY(device_.record(event, first));
    return device_.await_event(second, event);
}

CaptureJoints::~CaptureJoints() {
    for (const Entry& each : all_)
        (void)device_.destroy_event(each.event); // as in Joints
}

Result<CaptureJoints::Entry*> CaptureJoints::take() {
    for (size_t looked_at = 0; looked_at < all_.size(); ++looked_at) {
        Entry& entry = all_[next_++ % all_.size()];
        if (entry.unused->exchange(false, std::memory_order_acquire))
            return &entry;
    }
    GPURUN_ASSIGN(const device::Event made, device_.create_event());
    return &all_.emplace_back(Entry{made, std::make_shared<std::atomic<bool>>(false)});
}

Result<void> CaptureJoints::order(device::Stream first, device::Stream second) {
    GPURUN_ASSIGN(const Entry* const entry, take());
    const auto gone = [](void* argument) {
        const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> unused(
            static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
        (*unused)->store(true, std::memory_order_release);
    };
    GPURUN_TRY(device_.at_graph_end(first, gone, new std::shared_ptr<std::atomic<bool>>(entry->unused)));
    GPURUN_TRY(device_.record(entry->event, first));
    return device_.await_event(second, entry->event);
}

CaptureStreams::~CaptureStreams() {
    for (const Entry& each : all_)
        (void)device_.destroy_stream(each.stream); // one that is still captured goes with the process
}

Result<device::Stream> CaptureStreams::take() {
    for (Entry& each : all_) {
        if (each.used)
            continue;
        GPURUN_ASSIGN(const bool captured, device_.is_captured(each.stream));
        if (captured)
            continue; // into a graph that is not ended yet
        each.used = true;
        return each.stream;
    }
    GPURUN_ASSIGN(const device::Stream stream,
                  all_.size() < kReserved ? device_.take_reserved_stream() : device_.create_urgent_stream());
    all_.push_back(Entry{stream, true});
    return stream;
}

void CaptureStreams::give_back(device::Stream stream) {
    for (Entry& each : all_)
        if (each.stream == stream)
            each.used = false;
}

CutMarks::~CutMarks() {
    if (marks_ != nullptr)
        (void)device_.free_pinned(marks_); // goes with the process otherwise
}

Result<device::Counter*> CutMarks::mark(uint32_t peer, uint32_t ranks) {
    if (marks_ == nullptr) {
        GPURUN_ASSIGN(void* memory, device_.allocate_pinned(ranks * sizeof(device::Counter)));
        std::memset(memory, 0, ranks * sizeof(device::Counter));
        marks_ = static_cast<device::Counter*>(memory);
    }
    return &marks_[peer];
}

bool CutMarks::collect(uint32_t peer) {
    return marks_ != nullptr && marks_[peer].load(std::memory_order_relaxed) != 0 &&
           marks_[peer].exchange(0, std::memory_order_acquire) != 0;
}

ChannelWaits::~ChannelWaits() {
    for (void* block : blocks_)
        (void)device_.free_pinned(block); // goes with the process otherwise
}

Result<device::ChannelWait*> ChannelWaits::take() {
    if (idle_.empty()) {
        GPURUN_ASSIGN(void* const block, device_.allocate_pinned(kOfBlock * sizeof(device::ChannelWait)));
        blocks_.push_back(block);
        for (size_t i = 0; i < kOfBlock; ++i)
            idle_.push_back(static_cast<device::ChannelWait*>(block) + i);
    }
    device::ChannelWait* const wait = idle_.back();
    idle_.pop_back();
    return new (wait) device::ChannelWait{};
}

} // namespace gpurun::transfer
