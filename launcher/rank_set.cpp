#include "rank_set.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>
#include <limits>

namespace gpurun::launcher {

namespace {

constexpr int kLast = std::numeric_limits<int>::max();

bool is_rank(int number) { return static_cast<uint32_t>(number) < platform::kMaxJobRanks; }

} // namespace

RankSet RankSet::all() {
    RankSet set;
    set.ranges_.push_back({0, kLast});
    return set;
}

RankSet RankSet::one(uint32_t rank) {
    RankSet set;
    set.ranges_.push_back({static_cast<int>(rank), static_cast<int>(rank)});
    return set;
}

base::Result<RankSet> RankSet::parse(const std::string& text, const std::string& option) {
    if (text == "all")
        return all();
    RankSet set;
    if (text == "none")
        return set;
    const auto ranges = parse_ranges(text, ',');
    if (!ranges || !std::all_of(ranges->begin(), ranges->end(), [](const Range& range) { return is_rank(range.last); }))
        return base::error(base::Status::kArgument, "{} takes ranks, such as 0,2-5, or all, or none; not '{}'", option,
                           text);
    set.ranges_ = *ranges;
    return set;
}

bool RankSet::has(uint32_t rank) const {
    const auto number = static_cast<int>(rank);
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [number](const Range& range) { return range.first <= number && number <= range.last; });
}

base::Result<void> RankSet::check(uint32_t ranks, const std::string& option) const {
    for (const auto& [first, last] : ranges_)
        if (last != kLast && static_cast<uint32_t>(last) >= ranks)
            return base::error(base::Status::kArgument, "{} names rank {}, but the job's ranks are 0 to {}", option,
                               last, ranks - 1);
    return {};
}

} // namespace gpurun::launcher
