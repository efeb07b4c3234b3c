#include "rank_set.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace gpurun::launcher {

namespace {

constexpr uint32_t kLast = std::numeric_limits<uint32_t>::max();

std::optional<uint32_t> parse_rank(std::string_view text) {
    uint32_t rank = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, rank);
    if (failed != std::errc{} || stop != end || rank >= platform::kMaxRanks)
        return std::nullopt;
    return rank;
}

} // namespace

RankSet RankSet::all() {
    RankSet set;
    set.ranges_.emplace_back(0, kLast);
    return set;
}

RankSet RankSet::one(uint32_t rank) {
    RankSet set;
    set.ranges_.emplace_back(rank, rank);
    return set;
}

base::Result<RankSet> RankSet::parse(const std::string& text, const std::string& option) {
    if (text == "all")
        return all();
    RankSet set;
    if (text == "none")
        return set;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view part = std::string_view(text).substr(begin, end - begin);
        const size_t dash = part.find('-');
        const auto first = parse_rank(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : parse_rank(part.substr(dash + 1));
        if (!first || !last || *first > *last)
            return base::error(base::Status::kArgument, "{} takes ranks, such as 0,2-5, or all, or none; not '{}'",
                               option, text);
        set.ranges_.emplace_back(*first, *last);
        begin = end + 1;
    }
    return set;
}

bool RankSet::has(uint32_t rank) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [rank](const auto& range) { return range.first <= rank && rank <= range.second; });
}

base::Result<void> RankSet::check(uint32_t ranks, const std::string& option) const {
    for (const auto& [first, last] : ranges_)
        if (last != kLast && last >= ranks)
            return base::error(base::Status::kArgument, "{} names rank {}, but the job's ranks are 0 to {}", option,
                               last, ranks - 1);
    return {};
}

} // namespace gpurun::launcher
