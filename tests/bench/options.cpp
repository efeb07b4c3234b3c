#include "options.hpp"

#include "sizes.hpp"
#include "tuning.hpp"

#include <gpurun/version.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

namespace gpurun::bench {

namespace {

template <typename T>
struct Choice {
    const char* name;
    T value;
};

constexpr Choice<Test> kTests[] = {
    {"latency", Test::kLatency}, {"bandwidth", Test::kBandwidth}, {"bidirectional", Test::kBidirectional},
    {"rate", Test::kRate},       {"exchange", Test::kExchange},   {"collective", Test::kCollective},
    {"overlap", Test::kOverlap}, {"call", Test::kCall},           {"first", Test::kFirst},
    {"loan", Test::kLoan}};
constexpr Choice<Form> kForms[] = {{"blocking", Form::kBlocking},
                                   {"sendrecv", Form::kSendrecv},
                                   {"requests", Form::kRequests},
                                   {"startall", Form::kStartall},
                                   {"group", Form::kGroup}};
constexpr Choice<Memory> kMemories[] = {{"device", Memory::kDevice},
                                        {"device-async", Memory::kDeviceAsync},
                                        {"device-mapped", Memory::kDeviceMapped},
                                        {"pinned", Memory::kPinned},
                                        {"host", Memory::kHost}};
constexpr Choice<Order> kOrders[] = {{"stream", Order::kStream}, {"host", Order::kHost}, {"graph", Order::kGraph}};
constexpr Choice<Reference> kReferences[] = {
    {"copy", Reference::kCopy},         {"nccl", Reference::kNccl},     {"nccl-window", Reference::kNcclWindow},
    {"tcp", Reference::kTcp},           {"fabric", Reference::kFabric}, {"direct", Reference::kDirect},
    {"doubling", Reference::kDoubling}, {"pieces", Reference::kPieces}, {"tree", Reference::kTree},
};
constexpr Choice<Collective> kCollectives[] = {{"allreduce", Collective::kAllreduce},
                                               {"bcast", Collective::kBcast},
                                               {"allgather", Collective::kAllgather},
                                               {"alltoall", Collective::kAlltoall},
                                               {"reduce_scatter", Collective::kReduceScatter},
                                               {"reduce", Collective::kReduce},
                                               {"gather", Collective::kGather},
                                               {"scatter", Collective::kScatter},
                                               {"barrier", Collective::kBarrier}};

constexpr const char* kTune = "tune"; // no test: which algorithms are best

template <typename Table, typename T>
const char* name_in(const Table& table, T value) {
    for (const auto& entry : table)
        if (entry.value == value)
            return entry.name;
    return "?";
}

template <typename Table>
std::string choices(const Table& table) {
    std::string all;
    for (const auto& entry : table)
        all += (all.empty() ? "" : ", ") + std::string(entry.name);
    return all;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    for (char c : text) {
        if (c == separator)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

// The values of a list of names, each once; or what is wrong with it.
template <typename Table>
auto values(const Table& table, const std::vector<std::string>& names, const char* option) {
    using T = decltype(table[0].value);
    std::vector<T> found;
    for (const std::string& each : names) {
        const auto entry = std::find_if(std::begin(table), std::end(table),
                                        [&](const auto& candidate) { return candidate.name == each; });
        if (entry == std::end(table))
            return Or<std::vector<T>>(
                Refusal{2, fmt::format("{}: there is no '{}'; there are {}", option, each, choices(table))});
        if (std::find(found.begin(), found.end(), entry->value) == found.end())
            found.push_back(entry->value);
    }
    return Or<std::vector<T>>(found);
}

// The same, or all that there are.
template <typename Table>
auto values_or_all(const Table& table, std::vector<std::string> names, const char* option) {
    if (names == std::vector<std::string>{"all"}) {
        names.clear();
        for (const auto& entry : table)
            names.emplace_back(entry.name);
    }
    return values(table, names, option);
}

// Puts the value where it belongs, or gives the refusal.
template <typename T, typename U>
std::optional<Refusal> take(Or<T> outcome, U& into) {
    if (auto* refusal = std::get_if<Refusal>(&outcome))
        return std::move(*refusal);
    into = std::move(std::get<T>(outcome));
    return std::nullopt;
}

std::optional<Refusal> take_memory(const std::string& text, std::array<Memory, 2>& into) {
    std::vector<std::string> sides = split(text, ':');
    if (sides.size() == 1)
        sides.push_back(sides[0]);
    if (sides.size() != 2)
        return Refusal{2, fmt::format("--memory: cannot read '{}'; write one kind, or two as in device:host", text)};
    for (size_t side = 0; side < 2; ++side) {
        std::vector<Memory> found;
        if (auto refusal = take(values(kMemories, {sides[side]}, "--memory"), found))
            return refusal;
        into[side] = found[0];
    }
    return std::nullopt;
}

// Of the one order domain that was asked for, and the tests: by name, or all that there are in it.
std::optional<Refusal> check_order(const Options& options, bool all_tests) {
    const Order order = options.orders[0];
    for (Test test : options.tests)
        if (!all_tests && !measured_in(order, test))
            return order == Order::kHost
                       ? Refusal{2, "call measures calls on a stream; leave --order=host out, or name other tests"}
                       : Refusal{2,
                                 fmt::format(
                                     "{} is not measured in graphs: latency, bandwidth, bidirectional, "
                                     "rate, exchange and collective are; leave --order=graph out, or name one of these",
                                     name(test))};
    const auto& memory = options.memory;
    if (order == Order::kGraph && std::find(memory.begin(), memory.end(), Memory::kHost) != memory.end())
        return Refusal{2, "a graph's message cannot use pageable host memory; leave --order=graph out, or use "
                          "--memory=pinned in place of host"};
    return std::nullopt;
}

// For those of the tests that can have it.
std::optional<Refusal> take_form(const std::string& word, Options& options) {
    std::vector<Form> forms;
    if (auto refusal = take(values(kForms, {word}, "--form"), forms))
        return refusal;
    const Form form = forms[0];
    const auto measures = [&](Test test) {
        return std::find(options.tests.begin(), options.tests.end(), test) != options.tests.end();
    };
    const bool of_exchange = form != Form::kBlocking;
    const bool of_collective = form == Form::kBlocking || form == Form::kRequests || form == Form::kGroup;
    const bool in_graph =
        std::find(options.orders.begin(), options.orders.end(), Order::kGraph) != options.orders.end();
    if (measures(Test::kExchange) && !of_exchange)
        return Refusal{2, "--form: an exchange's calls are sendrecv, requests, startall or group"};
    if (measures(Test::kCollective) && !measures(Test::kExchange) && !of_collective)
        return Refusal{2, "--form: collectives are blocking, requests or group"};
    if (measures(Test::kCollective) && !measures(Test::kExchange) && in_graph && form != Form::kBlocking)
        return Refusal{2, "--form: collectives in graphs are blocking calls"};
    if (of_exchange)
        options.form = form;
    if (of_collective && !in_graph)
        options.collective_form = form;
    return std::nullopt;
}

// What the command line says in words, before it is understood.
struct Words {
    std::vector<std::string> tests;
    std::string sizes;
    std::string memory = "device";
    std::string order = "both";
    std::string form;       // empty: each test's own
    std::string collective; // empty: the tests' own
    std::string against;
};

// Says what is measured for that: the collectives for which there are several algorithms, in each of these.
std::optional<Refusal> understand_tune(const Words& words, Options& options) {
    if (words.tests.size() != 1)
        return Refusal{2, "tune measures collectives by each algorithm; leave the other tests out"};
    options.tune = true;
    options.tests = {Test::kCollective};
    if (words.collective.empty())
        options.collectives = {Collective::kAllreduce, Collective::kReduce, Collective::kBcast};
    for (const Collective each : options.collectives)
        if (algorithms_of(each).empty())
            return Refusal{
                2, fmt::format("tune: {} has one algorithm; allreduce, reduce and bcast have several", name(each))};
    for (const Collective each : options.collectives)
        for (const Reference algorithm : algorithms_of(each))
            if (std::find(options.against.begin(), options.against.end(), algorithm) == options.against.end())
                options.against.push_back(algorithm);
    return std::nullopt;
}

std::optional<Refusal> understand(const Words& words, Options& options) {
    const bool tune = std::find(words.tests.begin(), words.tests.end(), kTune) != words.tests.end();
    if (!words.tests.empty() && !tune)
        if (auto refusal = take(values_or_all(kTests, words.tests, "TEST"), options.tests))
            return refusal;
    if (!words.sizes.empty())
        if (auto refusal = take(parse_sizes(words.sizes), options.sizes))
            return refusal;
    if (auto refusal = take_memory(words.memory, options.memory))
        return refusal;
    if (words.order != "both")
        if (auto refusal = take(values(kOrders, {words.order}, "--order"), options.orders))
            return refusal;
    if (!words.form.empty())
        if (auto refusal = take_form(words.form, options))
            return refusal;
    if (!words.collective.empty())
        if (auto refusal =
                take(values_or_all(kCollectives, split(words.collective, ','), "--collective"), options.collectives))
            return refusal;
    if (!words.against.empty())
        if (auto refusal = take(values(kReferences, split(words.against, ','), "--against"), options.against))
            return refusal;
    if (tune)
        if (auto refusal = understand_tune(words, options))
            return refusal;

    const bool all = words.tests == std::vector<std::string>{"all"};
    if (options.memory[0] == Memory::kDeviceAsync || options.memory[0] == Memory::kHost) {
        if (const auto loan = std::find(options.tests.begin(), options.tests.end(), Test::kLoan);
            loan != options.tests.end()) {
            if (!all)
                return Refusal{2, "loan lends device, mapped or pinned memory: choose one of them with --memory, or "
                                  "name other tests"};
            options.tests.erase(loan);
        }
    }
    if (words.order != "both")
        if (auto refusal = check_order(options, all))
            return refusal;
    if (!options.plot.empty() && !options.plot.ends_with(".svg"))
        return Refusal{2,
                       fmt::format("--plot: '{}' does not end in .svg; an SVG is all that can be drawn", options.plot)};
    return std::nullopt;
}

void declare(CLI::App& app, Words& words, Options& options) {
    app.set_version_flag("--version", "gpurun-perf " GPURUN_VERSION);
    app.add_option("TEST", words.tests,
                   "all, or some of: " + choices(kTests) + " (default: latency bandwidth); or tune");
    app.add_option("--sizes", words.sizes, "bytes of a message: sizes and ranges with commas, as in 8,64K..4M");
    app.add_option("--memory", words.memory,
                   "one of " + choices(kMemories) + "; or two, of the even and the odd rank: device:host")
        ->capture_default_str();
    app.add_option("--order", words.order,
                   "order domain: stream, host or both; or graph, streams that are captured and run again")
        ->capture_default_str();
    app.add_option("--against", words.against, "also measure, in turns, and print ratios: " + choices(kReferences));
    app.add_option(
           "--window", options.window,
           "messages in flight (exchange: 2, and 32 at most); collectives that are requested or grouped together (1)")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--form", words.form,
                   "of an exchange's calls: sendrecv, requests, startall, group (default: group); of collectives: "
                   "blocking, requests, group (default: blocking)");
    app.add_option("--collective", words.collective,
                   "what collective measures: all, or some of " + choices(kCollectives) +
                       ", with commas (default: allreduce; tune: allreduce,reduce,bcast)");
    app.add_flag("--in-place", options.in_place, "collectives in one buffer, those that can be");
    app.add_option("--iterations", options.iterations, "samples of a small size; large sizes take fewer")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--warmup", options.warmup, "samples before those that count")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    app.add_flag("--validate", options.validate, "check every byte of every message (not inside of what is timed)");
    app.add_flag("--json", options.json, "print one JSON document in place of the tables");
    app.add_option("--plot", options.plot, "draw the results into this .svg file");
}

} // namespace

const char* name(Test test) { return name_in(kTests, test); }
const char* name(Memory memory) { return name_in(kMemories, memory); }
const char* name(Order order) { return name_in(kOrders, order); }
const char* name(Reference reference) { return name_in(kReferences, reference); }
const char* name(Form form) { return name_in(kForms, form); }
const char* name(Collective collective) { return name_in(kCollectives, collective); }

bool measured_in(Order order, Test test) {
    switch (test) {
    case Test::kLatency:
    case Test::kBandwidth:
    case Test::kBidirectional:
    case Test::kRate:
    case Test::kExchange:
    case Test::kCollective: return true;
    case Test::kOverlap:
    case Test::kLoan:
    case Test::kFirst: return order != Order::kGraph;
    case Test::kCall: return order == Order::kStream;
    }
    return false;
}

Or<Options> parse_options(int argc, const char* const* argv) {
    Options options;
    Words words;
    CLI::App app("How fast messages are between ranks: gpurun -n 2 gpurun-perf", "gpurun-perf");
    declare(app, words, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        const bool asked = app.exit(error, out, err) == 0; // --help, --version
        return asked ? Refusal{0, out.str()} : Refusal{2, error.what()};
    }
    options.window_asked = app.count("--window") != 0;
    if (auto refusal = understand(words, options))
        return *refusal;
    return options;
}

} // namespace gpurun::bench
