#include "trace_writer.hpp"
#include "device_times.hpp"
#include "platform/process.hpp"
#include "support/unit.hpp"
#include "trace_file.hpp"
#include "trace_rows.hpp"

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <gpurun/version.h>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace gpurun::test::trace_writer {

using namespace launcher;
using namespace platform;
using gpurun::base::Result;
namespace flags = gpurun::platform::trace_flags;

namespace {

constexpr int64_t kOrigin = 1'000'000'000'000;

// Of a process, which has one as long as it lives.
TraceBuffer& new_buffer() {
    static std::deque<TraceBuffer> all;
    TraceBuffer& buffer = all.emplace_back(must(TraceBuffer::create(64, 16, 8)));
    buffer.time_messages();
    return buffer;
}

struct Recorded {
    TraceBuffer& buffer = new_buffer();

    Recorded() {
        std::strcpy(buffer.header().paths[2].data(), "direct");
        std::strcpy(buffer.header().reasons[5].data(), "peer \"access\"");
        std::strcpy(buffer.header().calls[7].data(), "gpurun_send");
        buffer.header().collective_contexts = 1;
        buffer.header().world = 1;
    }
    // Times are nanoseconds after the origin; 0: never.
    TraceEvent& add(TraceKind kind, int64_t begin, int64_t matched, int64_t end) {
        TraceEvent* event = buffer.begin();
        REQUIRE(event != nullptr);
        event->begin_ns = kOrigin + begin;
        event->matched_ns = matched == 0 ? 0 : kOrigin + matched;
        event->end_ns = end == 0 ? 0 : kOrigin + end;
        event->context = 2;
        TraceBuffer::publish(*event, kind);
        return *event;
    }
    TraceEvent& add_message(TraceKind kind, int peer, uint64_t ordinal, int64_t begin, int64_t matched, int64_t end) {
        TraceEvent& event = add(kind, begin, matched, end);
        event.peer = peer;
        event.tag = 7;
        event.bytes = 65536;
        event.ordinal = ordinal;
        event.how = 2 | 5 << 8 | flags::kHasPath | flags::kHasOrdinal;
        return event;
    }
    // By the clock of a device that began to count with the trace, at the CPU's speed.
    void time(const TraceEvent& event, int64_t began, int64_t moving, int64_t done) {
        buffer.header().clocks[0] = {1, kOrigin + 1, 0};
        OperationTimes* const times = buffer.take_times(event);
        REQUIRE(times != nullptr);
        times->began = began;
        times->moving = moving;
        times->done = done;
    }
    void run(const TraceEvent& event, uint64_t run, int64_t began, int64_t moving, int64_t done) {
        buffer.header().clocks[0] = {1, kOrigin + 1, 0};
        RunTimes& times = buffer.runs_of_rank().first[runs++];
        times.times.began = began;
        times.times.moving = moving;
        times.times.done = done;
        times.run = run;
        times.name = buffer.name_of_runs(event);
    }
    size_t runs = 0;
    TracedRank traced(int pid) const {
        return {&buffer, pid, "emulated device 0", kOrigin + 1'000'000, static_cast<uint32_t>(pid)};
    }
};

std::string text_of(const std::vector<TracedRank>& ranks) {
    std::string text;
    must(write_trace(ranks, kOrigin, UINT64_MAX, [&](std::string_view piece) -> Result<void> {
        text += piece;
        return {};
    }));
    return text;
}

// Without what each has: the lines of processes, threads and rows.
std::vector<nlohmann::json> events_of(const std::vector<TracedRank>& ranks) {
    std::vector<nlohmann::json> events;
    const auto whole = nlohmann::json::parse(text_of(ranks));
    for (const auto& event : whole["traceEvents"])
        if (event["ph"] != "M")
            events.push_back(event);
    return events;
}

} // namespace

TEST_SUITE_BEGIN("trace writer");

TEST_CASE("a message of another communicator than that of all ranks tells its name, or its number") {
    Recorded source;
    std::strcpy(source.buffer.header().communicators[1].name.data(), "rows \"1\"");
    source.buffer.header().communicators[1].id = 20;
    for (const uint32_t context : {2u, 40u, 41u, 44u, 0u})
        source.add_message(TraceKind::kSend, 0, context + 1, 1000 + 10 * context, 0, 0).context = context;
    std::vector<nlohmann::json> names;
    for (const auto& event : events_of({source.traced(41)}))
        if (event.contains("args") && event["args"].contains("peer"))
            names.push_back(event["args"].value("communicator", nlohmann::json()));
    std::sort(names.begin(), names.end());
    CHECK(names == std::vector<nlohmann::json>{nullptr, nullptr, 22, "rows \"1\"", "rows \"1\""});
}

TEST_CASE("a message is a slice on each side with its parts, and an arrow between them") {
    Recorded source;
    Recorded target;
    source.add_message(TraceKind::kSend, 1, 3, 1000, 2500, 4001).posted_after_ns = 250;
    target.add_message(TraceKind::kReceive, 0, 3, 500, 2000, 3000).how |= flags::kOnStream | flags::kEnqueuedOnly;
    const std::string text = text_of({source.traced(41), target.traced(42)});
    const std::string events = text.substr(text.find('\n') + 1);
    std::string slices;
    std::istringstream lines(events);
    for (std::string line; std::getline(lines, line);)
        if (line.find(R"("ph":"M")") == std::string::npos)
            slices += line + "\n";
    CHECK(slices == R"({"ph":"X","pid":41,"tid":100000,"ts":1.000,"dur":3.001,"cat":"message","name":"send to 1",)"
                    R"("args":{"peer":1,"tag":7,"bytes":65536,"order":"host","path":"direct",)"
                    R"("why":"peer \"access\"","number":3}},
{"ph":"X","pid":41,"tid":100000,"ts":1.250,"dur":1.250,"cat":"waiting","name":"waiting for the receiver"},
{"ph":"X","pid":41,"tid":100000,"ts":2.500,"dur":1.501,"cat":"moving","name":"moving"},
{"ph":"s","pid":41,"tid":100000,"ts":1.250,"cat":"arrow","name":"message","id":137438953475},
{"ph":"X","pid":42,"tid":200000,"ts":0.500,"dur":2.500,"cat":"message","name":"receive from 0",)"
                    R"("args":{"peer":0,"tag":7,"bytes":65536,"order":"stream","path":"direct",)"
                    R"("why":"peer \"access\"","number":3}},
{"ph":"X","pid":42,"tid":200000,"ts":0.500,"dur":1.500,"cat":"waiting","name":"waiting for the message"},
{"ph":"X","pid":42,"tid":200000,"ts":2.000,"dur":1.000,"cat":"moving","name":"enqueue"},
{"ph":"f","pid":42,"tid":200000,"ts":2.000,"cat":"arrow","name":"message","id":137438953475,"bp":"e"},
],"left_out_events":0}
)");
    CHECK(text.starts_with(R"({"displayTimeUnit":"ns","otherData":{"program":"gpurun )" GPURUN_VERSION R"(")"));
}

TEST_CASE("what devices say of a message is a slice on each side, in rows of their own, and an arrow between them") {
    Recorded source;
    Recorded target;
    source.time(source.add_message(TraceKind::kSend, 1, 3, 1000, 0, 1100), 5000, 5000, 6000);
    target.time(target.add_message(TraceKind::kReceive, 0, 3, 500, 2000, 2100), 4000, 5500, 6500);
    std::vector<nlohmann::json> on_devices;
    for (const auto& event : events_of({source.traced(41), target.traced(42)}))
        if (event["tid"] >= 300'000)
            on_devices.push_back(event);
    using nlohmann::json;
    const json arguments = {{"tag", 7}, {"bytes", 65536}, {"number", 3}};
    const auto with_peer = [&](int peer) {
        json all = arguments;
        all["peer"] = peer;
        return all;
    };
    const auto slice = [](int pid, int row, double begin, double length, const char* kind, const char* name) {
        return json{{"ph", "X"},     {"pid", pid},  {"tid", row},  {"ts", begin},
                    {"dur", length}, {"cat", kind}, {"name", name}};
    };
    const auto arrow = [](const char* end, int pid, int row, double at) {
        return json{{"ph", end},      {"pid", pid},      {"tid", row},        {"ts", at},
                    {"cat", "arrow"}, {"name", "bytes"}, {"id", 137438953475}};
    };
    json out = slice(41, 300'000, 5.0, 1.0, "message", "to 1");
    out["args"] = with_peer(1);
    json in = slice(42, 400'000, 4.0, 2.5, "message", "from 0");
    in["args"] = with_peer(0);
    json end = arrow("f", 42, 400'000, 5.5);
    end["bp"] = "e";
    const std::vector<json> expected = {out,
                                        slice(41, 300'000, 5.0, 1.0, "moving", "moving"),
                                        arrow("s", 41, 300'000, 5.0),
                                        in,
                                        slice(42, 400'000, 4.0, 1.5, "waiting", "waiting for the bytes"),
                                        slice(42, 400'000, 5.5, 1.0, "moving", "moving"),
                                        end};
    REQUIRE(on_devices.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
        CHECK(on_devices[i] == expected[i]);
    const std::string text = text_of({source.traced(41), target.traced(42)});
    CHECK(text.find(R"("args":{"name":"device, messages out"})") != std::string::npos);
    CHECK(text.find(R"("args":{"name":"device, messages in"})") != std::string::npos);
}

TEST_CASE("where one device says nothing, no arrow leads to nowhere") {
    Recorded source;
    Recorded target;
    source.add_message(TraceKind::kSend, 1, 3, 1000, 0, 1100);
    target.time(target.add_message(TraceKind::kReceive, 0, 3, 500, 2000, 2100), 4000, 5500, 6500);
    for (const auto& event : events_of({source.traced(41), target.traced(42)}))
        CHECK(event["name"] != "bytes");
}

TEST_CASE("what had not run on its device is unfinished there, from when it was enqueued") {
    Recorded rank;
    rank.time(rank.add_message(TraceKind::kReceive, 0, 3, 500, 2000, 2100), 0, 0, 0);
    rank.time(rank.add_message(TraceKind::kReceive, 0, 4, 500, 2000, 2100), 3000, 0, 0);
    std::vector<nlohmann::json> slices;
    for (const auto& event : events_of({rank.traced(41)}))
        if (event["tid"] >= 400'000 && event["cat"] == "message")
            slices.push_back(event);
    REQUIRE(slices.size() == 2);
    for (const auto& [slice, begin] : {std::pair(slices[0], 3.0), std::pair(slices[1], 2.1)}) {
        CHECK(slice["ts"] == begin);
        CHECK(slice["ts"].get<double>() + slice["dur"].get<double>() == doctest::Approx(1000.0)); // with its rank
        CHECK(slice["args"]["unfinished"] == true);
    }
}

TEST_CASE("times that make no sense are kept within their message and their rank") {
    Recorded rank;
    rank.time(rank.add_message(TraceKind::kReceive, 0, 3, 500, 2000, 2100), -1'000'000, INT64_MAX, INT64_MIN);
    rank.time(rank.add_message(TraceKind::kReceive, 0, 4, 500, 2000, 2100), INT64_MIN, -5, 99'000'000'000);
    rank.time(rank.add(TraceKind::kCall, 10, 0, 20), 1, 2, 3); // of no message
    rank.buffer.take_times(*rank.buffer.begin());              // of what was never published
    for (const auto& event : events_of({rank.traced(41)})) {
        CHECK(event["ts"] >= 0.0);
        CHECK(event["ts"].get<double>() + event.value("dur", 0.0) <= 1000.001);
        CHECK((event["tid"] < 400'000 || event["ts"] >= 0.5));
    }
}

TEST_CASE("a device's clock goes by the line through its two readings, or by the first alone") {
    using Readings = std::array<ClockReading, 2>;
    const DeviceClock both(Readings{{{1000, 5'000'000, 0}, {2'001'000, 7'000'200, 0}}}); // a ten-thousandth slow
    CHECK(both.to_host_ns(1000) == 5'000'000);
    CHECK(both.to_host_ns(1'001'000) == 6'000'100);
    CHECK(both.to_host_ns(2'001'000) == 7'000'200);
    CHECK(both.to_host_ns(4'001'000) == 9'000'400);
    const DeviceClock one(Readings{{{1000, 5'000'000, 0}, {}}});
    CHECK(one.to_host_ns(1'001'000) == 6'000'000);
    const DeviceClock nonsense(Readings{{{1000, 5'000'000, 0}, {2000, 9'000'000, 0}}});
    CHECK(nonsense.to_host_ns(2000) == 5'001'000);
}

TEST_CASE("runs of a graph's messages are slices, with an arrow where both sides have had their end") {
    Recorded source;
    Recorded target;
    TraceEvent& send = source.add_message(TraceKind::kSend, 1, 2, 100, 0, 200);
    TraceEvent& receive = target.add_message(TraceKind::kReceive, 0, 2, 100, 150, 200);
    for (TraceEvent* each : {&send, &receive})
        each->how |= flags::kCaptured;
    source.run(send, 0, 1000, 1100, 0); // nobody waited for its end, and the next one came
    source.run(send, 1, 3000, 3000, 3500);
    source.run(send, 2, 5000, 5000, 0);
    target.run(receive, 1, 2000, 3100, 3600);
    target.run(receive, 0, 900, 1200, 1300);
    target.run(receive, 2, 4000, 0, 0);
    std::map<std::string, std::vector<nlohmann::json>> found;
    for (const auto& event : events_of({source.traced(41), target.traced(42)}))
        if (event["tid"] >= 300'000)
            found[event["ph"].get<std::string>() + event["name"].get<std::string>()].push_back(event);
    const auto& sent = found["Xto 1"];
    REQUIRE(sent.size() == 3);
    CHECK(sent[0]["args"] == nlohmann::json{{"peer", 1},
                                            {"tag", 7},
                                            {"bytes", 65536},
                                            {"number", 2},
                                            {"order", "graph"},
                                            {"run", 0},
                                            {"path", "direct"}});
    CHECK(sent[0]["ts"] == 1.0);
    CHECK(sent[1]["dur"] == 0.5);
    CHECK(sent[2]["args"]["unfinished"] == true);
    const auto& got = found["Xfrom 0"];
    REQUIRE(got.size() == 3);
    CHECK(got[0]["args"]["run"] == 0);
    CHECK(got[2]["args"]["unfinished"] == true);
    REQUIRE(found["srun"].size() == 2);
    REQUIRE(found["frun"].size() == 2);
    for (size_t i = 0; i < 2; ++i)
        CHECK(found["srun"][i]["id"] == found["frun"][i]["id"]);
    CHECK(found["srun"][0]["ts"] == 1.099); // in its slice, which ends there
    CHECK(found["frun"][1]["ts"] == 3.1);
}

TEST_CASE("the trace says how many runs found no room, and nonsense in their places misleads nobody") {
    Recorded rank;
    TraceEvent& event = rank.add_message(TraceKind::kReceive, 0, 2, 100, 150, 200);
    rank.run(event, UINT64_MAX, INT64_MIN, INT64_MAX, -1);
    rank.run(event, 0, 5, 4, 3);
    rank.buffer.runs_of_rank().first[rank.runs].name = UINT64_MAX;
    rank.buffer.runs_of_rank().header->lost = 12;
    const auto whole = nlohmann::json::parse(text_of({rank.traced(41)}));
    CHECK(whole["otherData"]["lost_runs"] == 12);
    for (const auto& each : whole["traceEvents"])
        CHECK((each["ph"] == "M" || each["ts"] >= 0.0));
}

TEST_CASE("the trace says how many messages found no room for their times, and how exact times are") {
    Recorded rank;
    for (int i = 0; i < 20; ++i)
        (void)rank.buffer.take_times(rank.add_message(TraceKind::kSend, 0, 1, 10, 0, 20));
    rank.buffer.header().clocks = {ClockReading{1, 2, 30}, ClockReading{3, 4, 70}};
    const auto whole = nlohmann::json::parse(text_of({rank.traced(41)}));
    CHECK(whole["otherData"]["without_device_times"] == 4);
    CHECK(whole["otherData"]["device_clocks_off_by_ns"] == 70);
}

TEST_CASE("ranks, threads and rows have names, in the ranks' order") {
    Recorded rank;
    rank.add_message(TraceKind::kSend, 0, 1, 10, 0, 20);
    const std::string text = text_of({rank.traced(41)});
    CHECK(text.find(R"x("pid":41,"name":"process_name","args":{"name":"rank 0 (emulated device 0, pid 41)"})x") !=
          std::string::npos);
    CHECK(text.find(R"("name":"process_sort_index","args":{"sort_index":0})") != std::string::npos);
    CHECK(text.find(R"("args":{"name":"messages out"})") != std::string::npos);
    CHECK(text.find(R"("args":{"name":"calls of thread )") != std::string::npos);
}

TEST_CASE("a call has the arguments that it was made with") {
    Recorded rank;
    TraceEvent& call = rank.add(TraceKind::kCall, 10, 0, 20);
    call.call = 7;
    call.peer = 1;
    call.tag = INT32_MIN;
    call.bytes = 99;
    call.how = flags::kHasBytes;
    const auto events = events_of({rank.traced(41)});
    REQUIRE(events.size() == 1);
    CHECK(events[0]["name"] == "gpurun_send");
    CHECK(events[0]["args"] == nlohmann::json{{"peer", 1}, {"bytes", 99}});
    CHECK(events[0]["tid"] == call.thread);
}

TEST_CASE("a message that is its call is a slice in the row of its thread, too") {
    Recorded rank;
    TraceEvent& receive = rank.add_message(TraceKind::kReceive, 1, 3, 1000, 1500, 2000);
    receive.call = 7;
    receive.how |= flags::kIsCall | flags::kAnySource;
    std::vector<nlohmann::json> calls;
    for (const auto& event : events_of({rank.traced(41)}))
        if (event["cat"] == "call")
            calls.push_back(event);
    REQUIRE(calls.size() == 1);
    CHECK(calls[0]["name"] == "gpurun_send");
    CHECK(calls[0]["tid"] == receive.thread);
    CHECK(calls[0]["ts"] == 1.0);
    CHECK(calls[0]["dur"] == 1.0);
    CHECK(calls[0]["args"] == nlohmann::json{{"peer", -1}, {"tag", 7}, {"bytes", 65536}}); // as it asked
}

TEST_CASE("what had not ended with its rank is a slice up to there, and says so") {
    Recorded rank;
    rank.add_message(TraceKind::kReceive, -1, 0, 1000, 0, 0).how = flags::kAnySource;
    const auto events = events_of({rank.traced(41)});
    REQUIRE(events.size() == 2); // with nothing that it came from
    CHECK(events[0]["name"] == "receive from any");
    CHECK(events[0]["dur"] == 999.0);
    CHECK(events[0]["args"]["unfinished"] == true);
    CHECK(events[0]["args"]["any_source"] == true);
    CHECK(events[1]["name"] == "waiting for the message");
    CHECK(events[1]["dur"] == 999.0);
}

TEST_CASE("messages at the same time are in rows of their own") {
    Recorded rank;
    rank.add_message(TraceKind::kSend, 0, 1, 10, 0, 100);
    rank.add_message(TraceKind::kSend, 0, 2, 20, 0, 50);
    rank.add_message(TraceKind::kSend, 0, 3, 60, 0, 70);
    std::vector<int> rows;
    for (const auto& event : events_of({rank.traced(41)}))
        if (event["ph"] == "X")
            rows.push_back(event["tid"]);
    CHECK(rows == std::vector<int>{100'000, 100'001, 100'001});
}

TEST_CASE("nonsense that a rank has written there is left out, or kept within bounds") {
    Recorded rank;
    rank.add(TraceKind::kSend, -5000, 0, 0);         // before the job
    rank.add(TraceKind::kSend, 2'000'000'000, 0, 0); // after it
    TraceEvent& wild = rank.add_message(TraceKind::kReceive, 12345, UINT64_MAX, 1000, -77777, 1'000'000'000'000);
    wild.how = UINT32_MAX;
    TraceEvent& call = rank.add(TraceKind::kCall, 10, 0, 20);
    call.call = 255;
    rank.buffer.header().paths[2].fill('x'); // without an end
    std::strcpy(rank.buffer.header().calls[7].data(), "\xff\x01\"\\");
    const auto events = events_of({rank.traced(41)});
    REQUIRE(!events.empty());
    for (const auto& event : events) {
        CHECK(event["ts"] >= 0.0);
        CHECK(event["ts"].get<double>() + event.value("dur", 0.0) <= 1000.001);
        CHECK(event["ph"] == "X"); // no arrow leads to a rank that is not there
    }
}

TEST_CASE("what does not fit is counted") {
    Recorded rank;
    for (int i = 0; i < 70; ++i)
        (void)rank.buffer.begin();
    const auto whole = nlohmann::json::parse(text_of({rank.traced(41)}));
    CHECK(whole["otherData"]["lost_events"] == 7); // with the event of the thread
}

TEST_CASE("an error of the sink ends it") {
    Recorded rank;
    int pieces = 0;
    const std::vector<TracedRank> ranks{rank.traced(41)};
    CHECK(!write_trace(ranks, kOrigin, UINT64_MAX, [&](std::string_view) -> Result<void> {
        ++pieces;
        return gpurun::base::Error{};
    }));
    CHECK(pieces == 1);
}

TEST_CASE("rows are taken again once what was in them has ended, and never overlap") {
    TraceRows rows;
    CHECK(rows.place(0, 10) == 0);
    CHECK(rows.place(5, 20) == 1);
    CHECK(rows.place(10, 12) == 0);
    CHECK(rows.place(11, 15) == 2);
    CHECK(rows.place(9, 11) == 3); // began before the last: row 0 was not free then
    CHECK(rows.place(20, 21) == 0);
    CHECK(rows.count() == 4);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("trace file");

namespace {

namespace fs = std::filesystem;

struct Folder {
    fs::path path = fs::temp_directory_path() / ("gpurun-trace-" + std::to_string(own_pid()));
    Folder() { fs::create_directory(path); }
    ~Folder() { fs::remove_all(path); }
    std::string at(const char* name) const { return path / name; }
    size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path), {})); }
};

std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("a file takes the place of an older one when it is complete, and not before") {
    const Folder folder;
    std::ofstream(folder.at("a.json")) << "old";
    {
        TraceFile file = must(TraceFile::create(folder.at("a.json")));
        REQUIRE_OK(file.write("ne"));
        REQUIRE_OK(file.write("w"));
        CHECK(contents(folder.at("a.json")) == "old");
        REQUIRE_OK(file.finish());
    }
    CHECK(contents(folder.at("a.json")) == "new");
    CHECK(folder.files() == 1);
}

TEST_CASE("a file that is given up leaves nothing, nor does the check before it") {
    const Folder folder;
    REQUIRE_OK(TraceFile::check(folder.at("a.json")));
    { REQUIRE_OK(must(TraceFile::create(folder.at("a.json"))).write("half")); }
    CHECK(folder.files() == 0);
}

TEST_CASE("a link stays one, and what it leads to is replaced") {
    const Folder folder;
    std::ofstream(folder.at("real.json")) << "old";
    fs::create_symlink("real.json", folder.at("link.json"));
    TraceFile file = must(TraceFile::create(folder.at("link.json")));
    REQUIRE_OK(file.write("new"));
    REQUIRE_OK(file.finish());
    CHECK(fs::is_symlink(folder.at("link.json")));
    CHECK(contents(folder.at("real.json")) == "new");
}

TEST_CASE("what cannot be replaced by a file is refused, and stays what it is") {
    const Folder folder;
    fs::create_directory(folder.at("folder"));
    for (const std::string& path : {folder.at("folder"), std::string("/dev/null"), folder.at("missing/a.json")}) {
        const auto checked = TraceFile::check(path);
        REQUIRE(!checked);
        CHECK(checked.error().detail.find(path) != std::string::npos);
    }
    CHECK(fs::is_character_file("/dev/null"));
}

} // namespace gpurun::test::trace_writer
