#include "base/algorithms.hpp"

#include "base/format.hpp"
#include "base/read_number.hpp"

namespace gpurun::base {

namespace {

std::string names_of(unsigned algorithms) {
    std::string names = "auto";
    for (size_t i = 0; i < kAlgorithmNames.size(); ++i)
        if ((algorithms >> i & 1) != 0)
            names += std::string(", ") + kAlgorithmNames[i];
    return names;
}

// 1 + an Algorithm; 0: auto.
std::optional<uint64_t> number_of(std::string_view name, unsigned allowed) {
    if (name == "auto")
        return 0;
    for (size_t i = 0; i < kAlgorithmNames.size(); ++i)
        if (name == kAlgorithmNames[i] && (allowed >> i & 1) != 0)
            return 1 + i;
    return std::nullopt;
}

} // namespace

Result<AlgorithmRules> AlgorithmRules::read(std::string_view text, unsigned allowed) {
    const auto refuse = [&] {
        return error(Status::kSetting,
                     "must be one of {}, or up to {} of them, each but the last with the largest size that it is for, "
                     "as in direct:64K,pieces (above the size of the last, if it has one, it is auto)",
                     names_of(allowed), kMost);
    };
    AlgorithmRules rules;
    uint64_t begin = 0; // the first size that no rule is for
    for (Rule& rule : rules.rules_) {
        const std::string_view part = text.substr(0, text.find(','));
        const size_t colon = part.find(':');
        const auto number = number_of(part.substr(0, colon), allowed);
        size_t largest = SIZE_MAX - 1;
        if (!number ||
            (colon != part.npos && !read_bytes(std::string(part.substr(colon + 1)), begin, largest, largest)))
            return refuse();
        rule = {largest + 1, *number};
        begin = rule.end;
        if (part.size() == text.size())
            return rules;
        if (colon == part.npos) // nothing is left for what follows
            return refuse();
        text.remove_prefix(part.size() + 1);
    }
    return refuse();
}

} // namespace gpurun::base
