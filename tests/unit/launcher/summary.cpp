// What is said of a rank that failed.
#include "summary.hpp"
#include "support/unit.hpp"

namespace gpurun::test::summary {

using namespace launcher;

TEST_SUITE_BEGIN("summary");

TEST_CASE("a device has a name for people") {
    CHECK(describe_device({"cuda:GPU-1234", "0000:41:00.0", "GPU-1234"}) == "GPU 0000:41:00.0");
    CHECK(describe_device({"cuda:MIG-12", "0000:41:00.0", "MIG-12", 3, "GPU-1234"}) == "MIG-12 of GPU 0000:41:00.0");
    CHECK(describe_device({"emulated:3/16", "", ""}) == "emulated device 3");
}

TEST_CASE("a summary says who, where, what, what became of the others, and what it said last") {
    const FailedRank quiet{2, 123, "GPU 0000:41:00.0", "exited with status 3", ""};
    CHECK(summarize(quiet, Others::kNone) == "rank 2 (pid 123, GPU 0000:41:00.0) exited with status 3");
    CHECK(summarize(quiet, Others::kEnded).ends_with("status 3; the other ranks were ended"));
    const FailedRank spoke{0, 9, "emulated device 0", "was killed by signal 6 (Aborted)", "assertion failed"};
    CHECK(summarize(spoke, Others::kGoOn) ==
          "rank 0 (pid 9, emulated device 0) was killed by signal 6 (Aborted); the other ranks go on; the last line of "
          "its stderr: assertion failed");
}

TEST_CASE("a line of libgpurun's own is said again only where it was not shown") {
    const std::string line = "gpurun: rank 1: error: gpurun_send: GPURUN_ERR_RANK: ...";
    OutputOptions output;
    CHECK(worth_repeating(1, line, output) == "");
    CHECK(worth_repeating(1, "no memory left", output) == "no memory left");
    output.shown = RankSet::one(0);
    CHECK(worth_repeating(1, line, output) == line);
    output.shown = RankSet::all();
    output.folder = "logs";
    CHECK(worth_repeating(1, line, output) == line);
}

TEST_SUITE_END();

} // namespace gpurun::test::summary
