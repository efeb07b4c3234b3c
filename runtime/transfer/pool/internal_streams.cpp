#include "transfer/pool/internal_streams.hpp"

#include "platform/wake.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gpurun::transfer {

using base::Result;

StreamLimits stream_limits(uint32_t hardware_queues) {
    const size_t queues = hardware_queues;
    const size_t eighth = std::clamp<size_t>(queues / 8, 1, 4); // for takers, for alarms, and left to the program
    return StreamLimits{.messages = queues < 3 * eighth + 2 ? 2 : std::min<size_t>(queues - 3 * eighth, 20),
                        .takers = eighth,
                        .captured = std::clamp<size_t>(queues / 2, 2, 16),
                        .alarms = eighth};
}

// Takers and alarms of engines that were there before keep theirs, so those that come take less than an equal part.
StreamLimits stream_limits(uint32_t hardware_queues, uint32_t engines) {
    StreamLimits limits = stream_limits(hardware_queues / engines);
    if (engines > 1)
        limits.messages = std::max<size_t>(limits.messages * 3 / 4, 1);
    return limits;
}

InternalStreams::~InternalStreams() {
    for (const Entry& entry : all_)
        (void)device_.destroy_stream(entry.stream); // a failed device keeps them; nothing to do
    for (const Bulk& bulk : bulk_) {
        (void)device_.destroy_stream(bulk.copies);
        (void)device_.destroy_stream(bulk.signals);
    }
    for (const device::Stream each : own_)
        (void)device_.destroy_stream(each);
}

InternalStreams::Entry* InternalStreams::find(device::Stream stream) {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Entry& each) { return each.stream == stream; });
    return found == all_.end() ? nullptr : &*found;
}

size_t InternalStreams::most_for_messages() const {
    const uint32_t engines = engines_.load(std::memory_order_relaxed);
    return engines == 1 ? limits_.messages
                        : std::min(limits_.messages, stream_limits(hardware_queues_, engines).messages);
}

size_t InternalStreams::usable() const { return std::min(all_.size(), most_for_messages()); }

// Whether half of the streams are taken, or have work that waits.
Result<bool> InternalStreams::are_scarce() {
    const auto taken = [&] {
        return static_cast<size_t>(
            std::count_if(all_.begin(), all_.end(), [](const Entry& each) { return each.users != 0 || each.waits; }));
    };
    const size_t half = most_for_messages() / 2;
    if (taken() < half)
        return false;
    for (Entry& each : all_)
        if (each.users == 0 && each.waits) {
            GPURUN_ASSIGN(each.waits, still_waits(each));
        }
    return taken() >= half;
}

Result<bool> InternalStreams::still_waits(const Entry& entry) {
    if (!entry.waits)
        return false;
    if (entry.end.counter != nullptr)
        return platform::load_published(*entry.end.counter) < entry.end.value;
    GPURUN_ASSIGN(const bool idle, device_.query(entry.stream));
    return !idle;
}

Result<InternalStreams::Entry*> InternalStreams::find_free() {
    if (const auto known = std::exchange(idle_, std::nullopt)) {
        Entry* const entry = find(*known);
        if (entry != nullptr && entry->users == 0)
            return entry;
    }
    const size_t usable_now = usable();
    for (size_t i = 0; i < usable_now; ++i) {
        Entry& entry = all_[(next_ + i) % usable_now];
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

Result<InternalStreams::Entry*> InternalStreams::find_or_make() {
    GPURUN_ASSIGN(Entry * entry, find_free());
    if (entry == nullptr && all_.size() < most_for_messages()) {
        GPURUN_ASSIGN(const device::Stream stream, device_.take_reserved_stream());
        entry = &all_.emplace_back(Entry{stream});
    }
    return entry;
}

device::Stream InternalStreams::give(Entry& entry) {
    next_ = static_cast<size_t>(&entry - all_.data()) + 1;
    ++entry.users;
    entry.alone = entry.users == 1;
    entry.behind = 0;
    entry.joined = 0;
    return entry.stream;
}

void InternalStreams::note_joined(device::Stream stream, uint64_t name) {
    if (Entry* const entry = find(stream); entry != nullptr && entry->users == 1 && entry->alone)
        entry->joined = name;
}

Result<device::Stream> InternalStreams::take_again(uint64_t name) {
    for (size_t i = 0; i < usable(); ++i)
        if (all_[i].users == 0 && all_[i].joined == name)
            return give(all_[i]);
    return take();
}

Result<std::optional<device::Stream>> InternalStreams::take_spare() {
    GPURUN_ASSIGN(const bool scarce, are_scarce());
    if (scarce)
        return std::optional<device::Stream>();
    GPURUN_ASSIGN(Entry * entry, find_or_make());
    return entry == nullptr ? std::nullopt : std::optional(give(*entry));
}

Result<device::Stream> InternalStreams::take() {
    GPURUN_ASSIGN(Entry * best, find_or_make());
    const size_t usable_now = usable();
    if (best == nullptr) // in turn
        for (size_t i = 0; i < usable_now; ++i) {
            Entry& entry = all_[(next_ + i) % usable_now];
            if (best == nullptr || entry.users < best->users)
                best = &entry;
        }
    return give(*best);
}

Result<device::Stream> InternalStreams::take_ready() {
    GPURUN_ASSIGN(Entry * entry, find_or_make());
    return entry == nullptr ? brief() : give(*entry);
}

InternalStreams::Entry* InternalStreams::find_behind(uint64_t name, uint64_t number) {
    Entry* found = nullptr;
    for (Entry& each : all_) {
        const bool fits = (each.users != 0 || each.waits) && each.behind == name && each.number <= number;
        if (fits && each.shared < kMostShared && (found == nullptr || each.shared < found->shared))
            found = &each;
    }
    return found;
}

Result<device::Stream> InternalStreams::take_behind(uint64_t name, uint64_t number) {
    if (Entry* const same = find_behind(name, number); same != nullptr) {
        GPURUN_ASSIGN(const bool scarce, are_scarce());
        if (scarce) {
            ++same->users;
            same->alone = false;
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

void InternalStreams::give_back(device::Stream stream, State state, const StreamEnd& end) {
    Entry* const entry = find(stream);
    if (entry == nullptr)
        return; // one for bulk copies, or one that another user has found stuck
    if (state == State::kStuck) {
        all_.erase(all_.begin() + (entry - all_.data()));
        return;
    }
    --entry->users;
    if (state == State::kWaiting) {
        // If others use the stream, too, this end does not say that all of it has ended.
        entry->end = entry->users == 0 && !entry->waits ? end : StreamEnd{};
        entry->waits = true;
    } else if (state == State::kIdle && entry->users == 0 && !entry->waits) {
        idle_ = stream;
    }
}

size_t InternalStreams::lent() const {
    return std::accumulate(all_.begin(), all_.end(), size_t{0},
                           [](size_t lent, const Entry& each) { return lent + each.users; });
}

Result<device::Stream> InternalStreams::own() {
    GPURUN_ASSIGN(const device::Stream made, device_.take_reserved_stream());
    own_.push_back(made);
    return made;
}

Result<device::Stream> InternalStreams::brief() {
    if (brief_.size() < StreamLimits::kBrief) {
        GPURUN_ASSIGN(const device::Stream made, own());
        brief_.push_back(made);
        return made;
    }
    return brief_[next_brief_++ % brief_.size()];
}

Result<InternalStreams::Bulk> InternalStreams::bulk() {
    if (bulk_.size() < StreamLimits::kBulk) {
        Bulk made;
        GPURUN_ASSIGN(made.copies, device_.take_reserved_stream());
        GPURUN_ASSIGN(made.signals, device_.take_reserved_stream());
        bulk_.push_back(made);
        return made;
    }
    return bulk_[next_bulk_++ % bulk_.size()];
}

} // namespace gpurun::transfer
