#include "device/emulated/reach.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace gpurun::device::emulated {

namespace {

std::optional<uint32_t> read_ordinal(std::string_view text) {
    uint32_t ordinal = 0;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
    if (failed != std::errc{} || stop != text.data() + text.size())
        return std::nullopt;
    return ordinal;
}

} // namespace

base::Result<Reach> Reach::parse(const std::string& text, uint32_t count) {
    Reach reach;
    reach.all_ = text == "all";
    if (reach.all_ || text == "none")
        return reach;
    std::string_view rest = text;
    for (bool more = true; more;) {
        const size_t comma = rest.find(',');
        const std::string_view pair = rest.substr(0, comma);
        more = comma != std::string_view::npos;
        rest.remove_prefix(more ? comma + 1 : rest.size());

        const size_t dash = pair.find('-');
        const auto first = read_ordinal(pair.substr(0, dash));
        const auto second = dash == std::string_view::npos ? std::nullopt : read_ordinal(pair.substr(dash + 1));
        if (!first || !second)
            return base::error(base::Status::kSetting,
                               "GPURUN_EMULATED_PEER_ACCESS={}: must be all, none, or pairs of device ordinals such "
                               "as 0-1,2-3",
                               text);
        if (*first >= count || *second >= count)
            return base::error(base::Status::kSetting,
                               "GPURUN_EMULATED_PEER_ACCESS={}: there is no device {}, the ordinals are 0 to {}", text,
                               std::max(*first, *second), count - 1);
        reach.pairs_.insert(std::minmax(*first, *second));
    }
    return reach;
}

bool Reach::reaches(uint32_t from, uint32_t to) const {
    return all_ || from == to || pairs_.contains({std::min(from, to), std::max(from, to)});
}

} // namespace gpurun::device::emulated
