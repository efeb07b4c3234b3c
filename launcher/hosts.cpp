#include "hosts.hpp"

#include "base/format.hpp"
#include "option_values.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>
#include <numeric>

namespace gpurun::launcher {

namespace {

constexpr const char* kHosts = "--hosts";
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kSlots = "slots=";

bool is_name(std::string_view name) {
    return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("-._:@%").find(c) != std::string_view::npos;
    });
}

base::Result<Host> named(std::string_view name, std::string_view slots, bool has_slots, const std::string& where) {
    if (!is_name(name))
        return base::error(base::Status::kArgument, "{}: '{}' is not the name of a host", where, name);
    Host host{std::string(name), std::nullopt};
    if (has_slots) {
        GPURUN_ASSIGN(host.slots, parse_count(std::string(slots), base::format("{}: the slots of {}", where, name)));
    }
    return host;
}

// NAME, NAME:SLOTS, [ADDRESS], [ADDRESS]:SLOTS
base::Result<Host> parse_host(std::string_view text, const std::string& where) {
    if (text.starts_with('[')) {
        const size_t end = text.find(']');
        const std::string_view rest = end == std::string_view::npos ? "" : text.substr(end + 1);
        if (end == std::string_view::npos || (!rest.empty() && rest.front() != ':'))
            return base::error(base::Status::kArgument, "{}: '{}' is not [ADDRESS] or [ADDRESS]:SLOTS", where, text);
        return named(text.substr(1, end - 1), rest.substr(std::min<size_t>(1, rest.size())), !rest.empty(), where);
    }
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos && text.find(':', colon + 1) != std::string_view::npos)
        return base::error(base::Status::kArgument, "{}: write an address of IPv6 in brackets: [{}]", where, text);
    const bool has_slots = colon != std::string_view::npos;
    return named(text.substr(0, colon), has_slots ? text.substr(colon + 1) : "", has_slots, where);
}

base::Result<void> add(std::vector<Host>& hosts, Host host, const std::string& where) {
    if (std::any_of(hosts.begin(), hosts.end(), [&](const Host& known) { return known.name == host.name; }))
        return base::error(base::Status::kArgument,
                           "{}: {} is named twice: name it once, with the number of its ranks ({}:RANKS)", where,
                           host.name, host.name);
    hosts.push_back(std::move(host));
    return {};
}

std::vector<std::string_view> split_words(std::string_view line) {
    std::vector<std::string_view> words;
    line = line.substr(0, line.find('#'));
    while (true) {
        line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
        if (line.empty())
            return words;
        const size_t end = std::min(line.find_first_of(kBlanks), line.size());
        words.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

base::Result<Host> parse_line(const std::vector<std::string_view>& words, const std::string& where) {
    GPURUN_ASSIGN(Host host, parse_host(words[0], where));
    for (size_t i = 1; i < words.size(); ++i) {
        if (!words[i].starts_with(kSlots) || host.slots)
            return base::error(base::Status::kArgument, "{}: '{}' is not understood: write HOST or HOST slots=RANKS",
                               where, words[i]);
        GPURUN_ASSIGN(host, named(host.name, words[i].substr(kSlots.size()), true, where));
    }
    return host;
}

} // namespace

base::Result<std::vector<Host>> parse_hosts(const std::string& text) {
    std::vector<Host> hosts;
    const std::string_view all = text;
    for (size_t begin = 0; begin <= all.size();) {
        const size_t end = std::min(all.find(',', begin), all.size());
        GPURUN_ASSIGN(Host host, parse_host(all.substr(begin, end - begin), kHosts));
        GPURUN_TRY(add(hosts, std::move(host), kHosts));
        begin = end + 1;
    }
    return hosts;
}

base::Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& file) {
    std::vector<Host> hosts;
    for (int number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::vector<std::string_view> words = split_words(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (words.empty())
            continue;
        const std::string where = base::format("{}:{}", file, number);
        GPURUN_ASSIGN(Host host, parse_line(words, where));
        GPURUN_TRY(add(hosts, std::move(host), where));
    }
    if (hosts.empty())
        return base::error(base::Status::kArgument, "{} names no host", file);
    return hosts;
}

base::Result<std::vector<uint32_t>> fill_hosts(const std::vector<uint32_t>& slots, std::optional<uint32_t> ranks,
                                               bool oversubscribe) {
    const uint64_t room = std::accumulate(slots.begin(), slots.end(), uint64_t{0});
    const uint64_t wanted = ranks.value_or(std::min<uint64_t>(room, UINT32_MAX));
    if (wanted > platform::kMaxJobRanks)
        return base::error(base::Status::kArgument, "{} ranks, but a job has at most {}", wanted,
                           platform::kMaxJobRanks);
    if (room == 0 || (wanted > room && !oversubscribe))
        return base::error(base::Status::kArgument,
                           "{} ranks, but the hosts take {}: start fewer with -n, name more hosts, or let ranks share "
                           "with --oversubscribe",
                           wanted, room);
    std::vector<uint32_t> filled(slots.size());
    for (uint64_t left = wanted; left > 0;)
        for (size_t host = 0; host < slots.size() && left > 0; ++host) {
            const auto taken = static_cast<uint32_t>(std::min<uint64_t>(left, slots[host]));
            filled[host] += taken;
            left -= taken;
        }
    const uint32_t most = *std::max_element(filled.begin(), filled.end());
    if (most > platform::kMaxRanks)
        return base::error(base::Status::kArgument, "{} ranks on one host, but a host has at most {}: name more hosts",
                           most, platform::kMaxRanks);
    return filled;
}

} // namespace gpurun::launcher
