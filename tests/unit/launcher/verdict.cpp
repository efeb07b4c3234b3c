// What the end of a rank means.
#include "verdict.hpp"
#include "support/unit.hpp"

namespace gpurun::test::verdict {

using namespace launcher;

namespace {

constexpr gpurun::platform::ProcessEnd kWell{false, 0};

} // namespace

TEST_SUITE_BEGIN("verdict");

TEST_CASE("a rank that leaves properly, or never came, ended well") {
    CHECK_FALSE(judge({kWell, true, true, false}).has_value());
    CHECK_FALSE(judge({kWell, false, false, false}).has_value());
}

TEST_CASE("a status or a signal is a failure with it, also after finalize") {
    const auto status = judge({{false, 3}, true, true, false});
    REQUIRE(status.has_value());
    CHECK(status->exit_status == 3);
    CHECK(status->what == "exited with status 3");
    const auto signal = judge({{true, 11}, false, false, false});
    REQUIRE(signal.has_value());
    CHECK(signal->exit_status == 139);
    CHECK(signal->what == "was killed by signal 11 (Segmentation fault)");
}

TEST_CASE("a rank that joined and did not finalize failed, whatever its status") {
    const auto failure = judge({kWell, true, false, false});
    REQUIRE(failure.has_value());
    CHECK(failure->exit_status == 1);
    CHECK(failure->what == "exited without gpurun_finalize()");
}

TEST_CASE("only an error of the command line gives its status") {
    CHECK(exit_status_of({base::Status::kArgument, "--hosts"}) == 2);
    CHECK(exit_status_of({base::Status::kSystem, "creating a pipe"}) == 1);
}

TEST_CASE("a rank that ends well while others wait for it to join failed") {
    const auto failure = judge({kWell, false, false, true});
    REQUIRE(failure.has_value());
    CHECK(failure->exit_status == 1);
}

TEST_SUITE_END();

} // namespace gpurun::test::verdict
