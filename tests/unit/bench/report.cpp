// The three forms of a report: text, JSON and SVG.
#include "report.hpp"
#include "plot.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace gpurun::bench;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t count(const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

Report sample() {
    Report report;
    report.options.tests = {Test::kLatency};
    report.options.against = {Reference::kCopy, Reference::kNccl};
    report.machine.ranks = {{0, true, "a <fine> \"device\" & more", ""}, {1, true, "another", ""}};
    report.references = {{"copy", "by hand"}};
    report.left_out = {{"nccl", "not here"}};
    for (size_t bytes : {size_t{8}, size_t{1} << 20})
        report.rows.push_back(
            {Task{.test = Test::kLatency, .bytes = bytes}, {Reference::kCopy}, {{10, 9, 12, 8e5}, {5, 4, 6, 16e5}}});
    return report;
}

} // namespace

TEST_SUITE_BEGIN("report");

TEST_CASE("a table has its columns once, and a ratio for each reference") {
    const Report report = sample();
    const std::string first = text_row(report.rows[0], nullptr);
    CHECK(has(first, "# latency, order domain: stream"));
    CHECK(has(first, "copy median us"));
    CHECK(has(first, "ratio"));
    const std::string second = text_row(report.rows[1], &report.rows[0]);
    CHECK_FALSE(has(second, "#"));
    CHECK(has(second, "1048576"));
    CHECK(has(second, "0.50\n"));
    CHECK(has(second, " 800.00 kB/s "));
}

TEST_CASE("a rate has the unit that suits it, and a ratio two digits") {
    Report report = sample();
    report.rows[0] = {Task{.test = Test::kBandwidth, .window = 10}, {Reference::kCopy}, {{10, 8e6}, {1, 123.456e9}}};
    const std::string row = text_row(report.rows[0], nullptr);
    CHECK(has(row, " 8.00 MB/s "));
    CHECK(has(row, " 123.46 GB/s "));
    CHECK(has(row, "bandwidth"));
    report.rows[0].figures = {{700, 1434}, {1, 1e6}}; // one byte on a busy machine
    CHECK(has(text_row(report.rows[0], nullptr), " 1.43 kB/s "));
}

TEST_CASE("each collective has a table and a panel of its own") {
    Report report = sample();
    report.options.tests = {Test::kCollective};
    report.options.collectives = {Collective::kReduceScatter, Collective::kBarrier};
    Task task{.test = Test::kCollective, .bytes = 64, .batch = 20};
    task.collective = Collective::kReduceScatter;
    task.in_place = true;
    report.rows = {{task, {Reference::kNccl}, {{10, 11, 4, 6.4e6, 3.2e6}, {5, 6, 3, 12.8e6, 6.4e6}}}};
    task.collective = Collective::kBarrier;
    task.in_place = false;
    task.bytes = 0;
    report.rows.push_back({task, {Reference::kNccl}, {{7, 8, 1, 0, 0}, {14, 15, 1, 0, 0}}});
    const std::string first = text_row(report.rows[0], nullptr);
    CHECK(has(first, "# collective (reduce_scatter, in place), order domain: stream\n       bytes  batch "));
    CHECK(has(first, "          64     20 "));
    CHECK(has(first, " 6.40 MB/s    3.20 MB/s "));
    CHECK(has(first, " 0.50\n"));
    const std::string second = text_row(report.rows[1], &report.rows[0]);
    CHECK(has(second, "# collective (barrier), order domain: stream\n"));
    CHECK(has(second, " 2.00\n"));
    report.machine.ranks.push_back({2, true, "third", ""});
    CHECK(has(text_head(report), "# collectives of 3 ranks: the slowest one counts\n"));
    CHECK_FALSE(has(text_head(report), "no partner"));
    const auto read = nlohmann::json::parse(json(report));
    CHECK(read["rows"][0]["collective"] == "reduce_scatter");
    CHECK(read["rows"][0]["in_place"] == true);
    CHECK(read["rows"][0]["bus_bytes_per_second"] == 3.2e6);
    CHECK(has(svg(report), ">reduce_scatter: Collective by all ranks, median of the slowest<"));
    CHECK(has(svg(report), ">barrier: Collective by all ranks, median of the slowest<"));
}

TEST_CASE("there is no ratio to what takes no time") {
    Report report = sample();
    report.rows[0].figures[1] = {0.004, 0.003, 0.01, 2e9};
    CHECK(has(text_row(report.rows[0], nullptr), " -\n"));
    report.rows[0] = {Task{.test = Test::kRate, .window = 64}, {Reference::kCopy}, {{10, 6.4e6}, {3, 21.3e6}}};
    CHECK(has(text_row(report.rows[0], nullptr), " -\n"));
    report.rows[0].figures[1] = {16, 4e6};
    CHECK(has(text_row(report.rows[0], nullptr), " 1.60\n"));
}

TEST_CASE("the head says what was left out, and which rank has no partner") {
    Report report = sample();
    CHECK(has(text_head(report), "# nccl is left out: not here\n"));
    CHECK_FALSE(has(text_head(report), "no partner"));
    report.machine.ranks.push_back({2, true, "third", ""});
    CHECK(has(text_head(report), "# rank 2 has no partner"));
}

TEST_CASE("the document has a row for each task, and null for a ratio that cannot be said") {
    Report report = sample();
    report.rows[1].figures[1][0] = 0;
    report.machine.settings = {{"GPURUN_PATH", "\xff no UTF-8"}};
    const auto read = nlohmann::json::parse(json(report));
    REQUIRE(read["rows"].size() == 2);
    CHECK(read["rows"][0]["bytes"] == 8);
    CHECK(read["rows"][0]["runs"] == 1);
    CHECK(read["rows"][0]["median_us"] == 10.0);
    CHECK(read["rows"][0]["against"][0]["name"] == "copy");
    CHECK(read["rows"][0]["against"][0]["ratio"] == 0.5);
    CHECK(read["rows"][1]["against"][0]["ratio"].is_null());
    CHECK(read["left_out"][0]["reason"] == "not here");
}

TEST_CASE("a drawing has a line and a label for each series, and dots for its points") {
    const std::string drawn = svg(sample());
    CHECK(count(drawn, "<polyline") == 2);
    CHECK(count(drawn, "<circle") == 4);
    CHECK(has(drawn, ">gpurun, stream order</text>"));
    CHECK(has(drawn, ">copy, stream order</text>"));
    CHECK(has(drawn, "a &lt;fine&gt; &quot;device&quot; &amp; more"));
    CHECK(has(drawn, ">rank 0 on a &lt;fine&gt; &quot;device&quot; &amp; more, rank 1 on another</text>"));
    CHECK(has(drawn, ">latency (us)</text>"));
    CHECK(has(drawn, ">message size (bytes)</text>"));
    CHECK(has(drawn, "prefers-color-scheme: dark"));
}

TEST_CASE("a drawing without points says so, and one with a single point is drawn") {
    CHECK(has(draw("t", {}, {Panel{"p", "y", Spacing::kDecades, {}}}), "nothing to show"));
    const Panel one{"p", "y", Spacing::kDecades, {{"s", 0, false, {{8, 100}}}}};
    CHECK(count(draw("t", {}, {one}), "<circle") == 1);
    Panel slow{"p", "bandwidth", Spacing::kDecades, {{"s", 0, false, {{8, 2e-5}, {16, 0.03}, {32, 4}}}}, true};
    CHECK(has(draw("t", {}, {slow}), ">10 kB/s<"));
    CHECK(has(draw("t", {}, {slow}), ">1 MB/s<"));
    CHECK(has(draw("t", {}, {slow}), ">10 GB/s<"));
    const Panel nothing{"p", "y", Spacing::kDecades, {{"s", 0, false, {{8, 0}, {16, 1}}}}};
    CHECK(count(draw("t", {}, {nothing}), "<circle") == 1);
}
