#include "options.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>

namespace gpurun::bench {

namespace {

constexpr const char* kDefaultSizes = "8:256M";

const std::map<std::string, Memory> kMemories{
    {"device", Memory::kDevice}, {"host", Memory::kHost}, {"pinned", Memory::kPinned}, {"async", Memory::kAsync}};
const std::map<std::string, std::vector<Order>> kOrders{
    {"stream", {Order::kStream}}, {"host", {Order::kHost}}, {"both", {Order::kStream, Order::kHost}}};

std::optional<size_t> parse_size(const std::string& text) {
    uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, number);
    if (failed != std::errc() || number == 0 || number >> 40 != 0)
        return std::nullopt;
    const std::string unit(stop, end);
    const std::map<std::string, int> shifts{{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}};
    const auto shift = shifts.find(unit);
    if (shift == shifts.end())
        return std::nullopt;
    return static_cast<size_t>(number << shift->second);
}

} // namespace

size_t Options::largest() const { return *std::max_element(sizes.begin(), sizes.end()); }

const char* name(Memory memory) {
    for (const auto& [text, value] : kMemories)
        if (value == memory)
            return text.c_str();
    return "?";
}

const char* name(Order order) { return order == Order::kStream ? "stream" : "host"; }

std::optional<std::vector<size_t>> parse_sizes(const std::string& text) {
    std::vector<size_t> sizes;
    if (const size_t colon = text.find(':'); colon != std::string::npos) {
        const auto low = parse_size(text.substr(0, colon));
        const auto high = parse_size(text.substr(colon + 1));
        if (!low || !high || *low > *high)
            return std::nullopt;
        sizes.push_back(*low);
        for (size_t size = 1; size < *high; size *= 4)
            if (size > *low)
                sizes.push_back(size);
        if (*high > *low)
            sizes.push_back(*high);
        return sizes;
    }
    std::istringstream list(text);
    for (std::string item; std::getline(list, item, ',');) {
        const auto size = parse_size(item);
        if (!size)
            return std::nullopt;
        sizes.push_back(*size);
    }
    if (sizes.empty())
        return std::nullopt;
    return sizes;
}

Options parse_options(int argc, char** argv) {
    Options options;
    std::string sizes = kDefaultSizes;
    std::string order = "both";
    std::string memory = "device";
    CLI::App app("Latency and bandwidth between two ranks: gpurun -n 2 latency_bandwidth");
    app.add_option("--sizes", sizes, "message sizes: LOW:HIGH, or a list with commas")->capture_default_str();
    app.add_option("--iterations", options.iterations, "ping-pongs of a small size")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--order", order, "order domain: stream, host or both")
        ->check(CLI::IsMember({"stream", "host", "both"}))
        ->capture_default_str();
    app.add_option("--memory", memory, "what is sent: device, host, pinned or async (cudaMallocAsync)")
        ->check(CLI::IsMember({"device", "host", "pinned", "async"}))
        ->capture_default_str();
    app.add_flag("--raw", options.raw, "also measure the same copy without gpurun, interleaved");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::exit(app.exit(error));
    }
    const auto parsed = parse_sizes(sizes);
    if (!parsed)
        std::exit(app.exit(CLI::ValidationError("--sizes", "cannot read '" + sizes + "'")));
    options.sizes = *parsed;
    options.orders = kOrders.at(order);
    options.memory = kMemories.at(memory);
    return options;
}

} // namespace gpurun::bench
