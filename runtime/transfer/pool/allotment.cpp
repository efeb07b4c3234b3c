#include "transfer/pool/allotment.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::transfer {

namespace {

constexpr size_t in_units(size_t bytes) { return (bytes + Allotment::kUnit - 1) / Allotment::kUnit * Allotment::kUnit; }

} // namespace

std::optional<size_t> Allotment::take(size_t bytes) {
    const size_t needed = in_units(bytes);
    const auto fits = std::find_if(free_.begin(), free_.end(), [&](const auto& part) { return part.second >= needed; });
    if (fits == free_.end())
        return std::nullopt;
    const auto [offset, size] = *fits;
    free_.erase(fits);
    if (size > needed)
        free_.emplace(offset + needed, size - needed);
    left_ -= needed;
    return offset;
}

void Allotment::give_back(size_t offset, size_t bytes) {
    left_ += in_units(bytes);
    auto part = free_.emplace(offset, in_units(bytes)).first;
    if (const auto next = std::next(part); next != free_.end() && part->first + part->second == next->first) {
        part->second += next->second;
        free_.erase(next);
    }
    if (part == free_.begin())
        return;
    if (const auto before = std::prev(part); before->first + before->second == part->first) {
        before->second += part->second;
        free_.erase(part);
    }
}

} // namespace gpurun::transfer
