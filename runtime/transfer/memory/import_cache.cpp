#include "transfer/memory/import_cache.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <numeric>

namespace gpurun::transfer {

using base::Result;

ImportCache::~ImportCache() {
    if (auto closed = close_all(); !closed)
        base::log(base::LogLevel::kWarn, "closing imported memory: {}", closed.error().detail);
}

Result<ImportCache::Iterator> ImportCache::find(const RemoteBuffer& source) {
    auto found = by_id_.find(source.allocation_id);
    if (found == by_id_.end()) {
        GPURUN_TRY(close_overlapping(source));
        if (mappings_.size() >= kLimit)
            GPURUN_TRY(close_oldest());
        GPURUN_ASSIGN(void* base, device_.import_memory(peer_, source.handle));
        mappings_.push_front(
            Mapping{source.allocation_id, source.allocation_base, source.allocation_bytes, base, {}, false, 0, 0});
        found = by_id_.emplace(source.allocation_id, mappings_.begin()).first;
    }
    mappings_.splice(mappings_.begin(), mappings_, found->second);
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
    return static_cast<const std::byte*>(mapping->base) + source.offset;
}

void ImportCache::release(uint64_t allocation_id) {
    const auto found = by_id_.find(allocation_id);
    if (found == by_id_.end())
        return; // it was freed before, and its address used again
    GPURUN_ASSERT(found->second->holders != 0);
    --found->second->holders;
}

Result<const std::byte*> ImportCache::borrow(const RemoteBuffer& source) {
    GPURUN_ASSIGN(const Iterator mapping, find(source));
    ++mapping->borrowers;
    return static_cast<const std::byte*>(mapping->base) + source.offset;
}

void ImportCache::give_back(uint64_t allocation_id, const std::optional<CompletionPoint>& end) {
    const auto found = by_id_.find(allocation_id);
    GPURUN_ASSERT(found != by_id_.end() && found->second->borrowers != 0);
    --found->second->borrowers;
    if (end)
        add_use(*found->second, *end);
}

// If none can be closed, the cache has more than kLimit.
Result<void> ImportCache::close_oldest() {
    const Quiescence quiet = quiescence_();
    for (auto mapping = mappings_.end(); quiet && mapping != mappings_.begin();)
        if ((--mapping)->holders == 0 && !is_used(*mapping))
            return close(mapping);
    return {};
}

void ImportCache::revoke(uint64_t allocation_id) {
    const auto found = by_id_.find(allocation_id);
    if (found == by_id_.end() || found->second->revoked)
        return;
    found->second->revoked = true;
    ++revoked_;
}

Result<void> ImportCache::sweep() {
    if (revoked_ == 0)
        return {};
    const Quiescence quiet = quiescence_();
    for (auto mapping = mappings_.begin(); quiet && mapping != mappings_.end();) {
        const auto next = std::next(mapping);
        if (mapping->revoked && mapping->holders == 0 && !is_used(*mapping))
            GPURUN_TRY(close(mapping));
        mapping = next;
    }
    return {};
}

uint64_t ImportCache::bytes() const {
    return std::accumulate(mappings_.begin(), mappings_.end(), uint64_t{0},
                           [](uint64_t sum, const Mapping& each) { return sum + each.bytes; });
}

Result<void> ImportCache::close_all() {
    while (!mappings_.empty())
        GPURUN_TRY(close(mappings_.begin()));
    return {};
}

bool ImportCache::overlaps(const Mapping& mapping, const RemoteBuffer& source) const {
    return mapping.exporter_base < source.allocation_base + source.allocation_bytes &&
           source.allocation_base < mapping.exporter_base + mapping.bytes;
}

bool ImportCache::can_open(const RemoteBuffer& source) {
    bool in_the_way = false;
    if (has(source.allocation_id))
        return true;
    for (const Mapping& each : mappings_) {
        if (!overlaps(each, source))
            continue;
        in_the_way = true;
        if (is_used(each))
            return false;
    }
    return !in_the_way || quiescence_().has_value();
}

bool ImportCache::can_open_later(const RemoteBuffer& source) const {
    return std::none_of(mappings_.begin(), mappings_.end(),
                        [&](const Mapping& each) { return each.borrowers != 0 && overlaps(each, source); });
}

Result<void> ImportCache::close_overlapping(const RemoteBuffer& source) {
    Quiescence quiet;
    for (auto mapping = mappings_.begin(); mapping != mappings_.end();) {
        const auto next = std::next(mapping);
        if (overlaps(*mapping, source)) {
            if (!quiet)
                quiet = quiescence_();
            if (!quiet || is_used(*mapping))
                return base::error(base::Status::kDevice,
                                   "memory of another rank is at the address of memory that it has freed and that "
                                   "streams of this rank may still read: wait for them first");
            GPURUN_TRY(close(mapping));
        }
        mapping = next;
    }
    return {};
}

bool ImportCache::is_over(const CompletionPoint& use) const {
    auto done = use.on_event() ? device_.query(use.event) : use.fence->reached(use.edge, use.slot);
    return !done || *done; // what fails never comes
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
    by_id_.erase(mapping->id);
    mappings_.erase(mapping);
    return closed;
}

} // namespace gpurun::transfer
