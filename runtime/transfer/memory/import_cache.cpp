#include "transfer/memory/import_cache.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::transfer {

using base::Result;

ImportCache::~ImportCache() {
    if (auto closed = close_all(); !closed)
        base::log(base::LogLevel::kWarn, "closing imported memory: {}", closed.error().detail);
}

// To the front of the list where it belongs now.
void ImportCache::place(Iterator mapping) {
    Mappings& list = mapping->holders != 0 || mapping->borrowers != 0 ? in_use_ : mapping->revoked ? leaving_ : idle_;
    list.splice(list.begin(), *std::exchange(mapping->in, &list), mapping);
}

Result<ImportCache::Iterator> ImportCache::find(const RemoteBuffer& source) {
    auto found = by_id_.find(source.allocation_id);
    if (found == by_id_.end()) {
        if (!source.in_pieces)
            GPURUN_TRY(close_overlapping(source));
        if (idle_.size() >= kLimit)
            GPURUN_TRY(close_idle(kLimit - 1));
        GPURUN_ASSIGN(void* base, device_.import_memory(peer_, source.handle));
        idle_.push_front(
            Mapping{source.allocation_id, source.allocation_base, source.allocation_bytes, base, &idle_, {}});
        idle_.front().in_pieces = source.in_pieces;
        bytes_ += source.allocation_bytes;
        if (!source.in_pieces)
            by_address_.emplace(source.allocation_base, idle_.begin());
        found = by_id_.emplace(source.allocation_id, idle_.begin()).first;
        if (source.in_pieces)
            revoke_stale();
        if (revokes_all_)
            revoke(found->second);
    }
    place(found->second);
    return found->second;
}

Result<void> ImportCache::open(const RemoteBuffer& source) {
    auto found = find(source);
    return found ? Result<void>() : Result<void>(std::move(found).error());
}

Result<const std::byte*> ImportCache::address(const RemoteBuffer& source, const Slot& slot) {
    GPURUN_ASSIGN(const Iterator mapping, find(source));
    add_use(*mapping, CompletionPoint::at(fence_, Edge::kBackward, slot));
    return static_cast<const std::byte*>(mapping->base) + source.offset;
}

Result<const std::byte*> ImportCache::hold(const RemoteBuffer& source) {
    GPURUN_ASSIGN(const Iterator mapping, find(source));
    ++mapping->holders;
    place(mapping);
    return static_cast<const std::byte*>(mapping->base) + source.offset;
}

void ImportCache::release(uint64_t allocation_id) {
    const auto found = by_id_.find(allocation_id);
    if (found == by_id_.end())
        return; // it was freed before, and its address used again
    GPURUN_ASSERT(found->second->holders != 0);
    --found->second->holders;
    place(found->second);
}

Result<const std::byte*> ImportCache::borrow(const RemoteBuffer& source) {
    GPURUN_ASSIGN(const Iterator mapping, find(source));
    ++mapping->borrowers;
    place(mapping);
    return static_cast<const std::byte*>(mapping->base) + source.offset;
}

void ImportCache::give_back(uint64_t allocation_id, const std::optional<CompletionPoint>& end) {
    const auto found = by_id_.find(allocation_id);
    GPURUN_ASSERT(found != by_id_.end() && found->second->borrowers != 0);
    --found->second->borrowers;
    if (end)
        add_use(*found->second, *end);
    place(found->second);
}

// The oldest first, until so many are left. If too few can be closed, the cache has more than kLimit.
Result<bool> ImportCache::close_idle(size_t kept) {
    Quiescence quiet;
    bool any = false;
    auto mapping = idle_.end();
    for (size_t looks = 0; looks < kMostAtOnce && idle_.size() > kept && mapping != idle_.begin(); ++looks) {
        const auto oldest = std::prev(mapping);
        mapping = oldest;
        if (!are_uses_over(*oldest))
            continue;
        if (!quiet && !(quiet = quiescence_()))
            break;
        ++mapping;
        GPURUN_TRY(close(oldest));
        any = true;
    }
    return any;
}

Result<bool> ImportCache::close_leaving() {
    Quiescence quiet;
    bool any = false;
    for (size_t looks = std::min(leaving_.size(), kMostAtOnce); looks > 0; --looks) {
        const auto mapping = std::prev(leaving_.end());
        if (!are_uses_over(*mapping)) { // the others' turn
            leaving_.splice(leaving_.begin(), leaving_, mapping);
            continue;
        }
        if (!quiet && !(quiet = quiescence_()))
            break;
        GPURUN_TRY(close(mapping));
        any = true;
    }
    return any;
}

void ImportCache::revoke(Iterator mapping) {
    if (mapping->revoked)
        return;
    mapping->revoked = true;
    ++revoked_;
    place(mapping);
}

// Kept, it would keep memory that the exporter has unmapped.
void ImportCache::revoke_stale() {
    for (const void* const stale : device_.take_stale_imports(peer_))
        for (const auto& [id, mapping] : by_id_)
            if (mapping->base == stale)
                revoke(mapping);
}

void ImportCache::revoke(uint64_t allocation_id) {
    if (const auto found = by_id_.find(allocation_id); found != by_id_.end())
        revoke(found->second);
}

void ImportCache::revoke_all() {
    revokes_all_ = true;
    for (const auto& [id, mapping] : by_id_)
        revoke(mapping);
}

Result<bool> ImportCache::sweep() {
    if (!has_to_close())
        return false;
    GPURUN_ASSIGN(const bool any_leaving, close_leaving());
    GPURUN_ASSIGN(const bool any_idle, close_idle(kLimit));
    return any_leaving || any_idle;
}

Result<void> ImportCache::close_all() {
    while (!by_id_.empty())
        GPURUN_TRY(close(by_id_.begin()->second));
    return {};
}

template <typename Visit>
void ImportCache::for_each_overlapping(const RemoteBuffer& source, const Visit& visit) const {
    auto next = by_address_.lower_bound(source.allocation_base + source.allocation_bytes);
    while (next != by_address_.begin()) {
        const Iterator mapping = std::prev(next)->second;
        if (mapping->exporter_base + mapping->bytes <= source.allocation_base)
            return;
        --next;
        visit(mapping);
    }
}

bool ImportCache::can_open(const RemoteBuffer& source) {
    if (has(source.allocation_id) || source.in_pieces)
        return true;
    bool in_the_way = false;
    bool used = false;
    for_each_overlapping(source, [&](Iterator each) {
        in_the_way = true;
        used = used || is_used(*each);
    });
    return !used && (!in_the_way || quiescence_().has_value());
}

bool ImportCache::can_open_later(const RemoteBuffer& source) const {
    bool borrowed = false;
    if (source.in_pieces)
        return true;
    for_each_overlapping(source, [&](Iterator each) { borrowed = borrowed || each->borrowers != 0; });
    return !borrowed;
}

Result<void> ImportCache::close_overlapping(const RemoteBuffer& source) {
    std::vector<Iterator> in_the_way;
    for_each_overlapping(source, [&](Iterator each) { in_the_way.push_back(each); });
    if (in_the_way.empty())
        return {};
    const Quiescence quiet = quiescence_();
    for (const Iterator each : in_the_way) {
        if (!quiet || is_used(*each))
            return base::error(base::Status::kDevice,
                               "memory of another rank is at the address of memory that it has freed and that streams "
                               "of this rank may still read: wait for them first");
        GPURUN_TRY(close(each));
    }
    return {};
}

// Signalled by this rank. If that is marked dead, as when nobody watches over the job, poison says nothing of its
// streams.
bool ImportCache::is_over(const CompletionPoint& use) const {
    auto done = use.on_event() ? device_.query(use.event) : use.fence->reached(use.edge, use.slot);
    if (!done)
        return true; // what fails never comes
    if (!*done || use.on_event())
        return *done;
    auto cut_short = use.fence->cut_short(use.edge, use.slot);
    return !cut_short || !*cut_short;
}

bool ImportCache::are_uses_over(const Mapping& mapping) const {
    return std::all_of(mapping.uses.begin(), mapping.uses.end(),
                       [&](const CompletionPoint& each) { return is_over(each); });
}

bool ImportCache::in_use_by_streams(uint64_t allocation_id) const {
    const auto found = by_id_.find(allocation_id);
    return found != by_id_.end() && !are_uses_over(*found->second);
}

void ImportCache::add_use(Mapping& mapping, const CompletionPoint& use) {
    std::erase_if(mapping.uses, [&](const CompletionPoint& each) { return is_over(each); });
    mapping.uses.push_back(use);
}

Result<void> ImportCache::close(Iterator mapping) {
    auto closed = device_.close_memory(mapping->base);
    revoked_ -= mapping->revoked ? 1 : 0;
    bytes_ -= mapping->bytes;
    by_id_.erase(mapping->id);
    if (!mapping->in_pieces)
        by_address_.erase(mapping->exporter_base);
    mapping->in->erase(mapping);
    return closed;
}

} // namespace gpurun::transfer
