// Reading the environment: every row of the table, and values that cannot be used.
#include "base/settings.hpp"
#include "support/unit.hpp"

#include <map>
#include <string>

using namespace gpurun::base;
using gpurun::test::must;

namespace {

Result<Settings> read(const std::map<std::string, std::string>& environment) {
    return read_settings([&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    });
}

} // namespace

TEST_SUITE_BEGIN("settings");

TEST_CASE("an empty environment is a job of one rank") {
    const Settings settings = must(read({}));
    CHECK(settings.rank == 0);
    CHECK(settings.size == 1);
    CHECK(settings.control_fd == -1);
    CHECK_FALSE(settings.spin_us.has_value());
}

TEST_CASE("the documented default of every setting reads as what is used without it") {
    std::map<std::string, std::string> defaults;
    for (const SettingInfo& info : settings_table())
        if (*info.fallback != '\0')
            defaults[info.name] = info.fallback;
    const Settings written = must(read(defaults));
    const Settings unset = must(read({}));
    CHECK(written.errors == unset.errors);
    CHECK(written.log_level == unset.log_level);
    CHECK(written.report.paths == unset.report.paths);
    CHECK(written.report.loans == unset.report.loans);
    CHECK(written.fence == unset.fence);
    CHECK(written.path == unset.path);
    CHECK(written.single_copy == unset.single_copy);
    CHECK(written.progress_thread == unset.progress_thread);
    CHECK(written.eager_bytes == unset.eager_bytes);
    CHECK(written.device_eager_bytes == unset.device_eager_bytes);
    CHECK(written.relay_chunk_bytes == unset.relay_chunk_bytes);
    CHECK(written.emulated_memory_bytes == unset.emulated_memory_bytes);
    CHECK(written.emulated_delay_us == unset.emulated_delay_us);
    CHECK(written.device == unset.device);
    CHECK(written.mps == unset.mps);
}

TEST_CASE("sizes take K, M and G, and keep to their bounds") {
    CHECK(must(read({{"GPURUN_DEVICE_EAGER_BYTES", "8K"}})).device_eager_bytes == 8192);
    CHECK(must(read({{"GPURUN_EMULATED_MEMORY", "2G"}})).emulated_memory_bytes == size_t{2} << 30);
    for (const char* bad : {"64K", "-1", "K", "8k", "8KB", "99999999999999999999"})
        CHECK_MESSAGE(gpurun::test::status_of(read({{"GPURUN_DEVICE_EAGER_BYTES", bad}})) ==
                          static_cast<int>(Status::kSetting),
                      bad);
}

TEST_CASE("a value that cannot be used is named, with what is allowed") {
    const auto wrong = read({{"GPURUN_FENCE", "mutex"}});
    REQUIRE_FALSE(static_cast<bool>(wrong));
    CHECK(wrong.error().detail == "GPURUN_FENCE=mutex: must be one of auto, counter, event");
}

TEST_CASE("algorithms go by the size of the buffer, and what no rule is for is left to the table") {
    const auto allreduce = [](const char* text) {
        return must(read({{"GPURUN_ALLREDUCE", text}})).algorithms.allreduce;
    };
    CHECK(allreduce("auto").at(8) == std::nullopt);
    CHECK(allreduce("pieces").at(0) == Algorithm::kPieces);
    CHECK(allreduce("pieces").at(SIZE_MAX - 1) == Algorithm::kPieces);
    const AlgorithmRules rules = allreduce("direct:64K,auto:1M,doubling:2M");
    CHECK(rules.at(65536) == Algorithm::kDirect);
    CHECK(rules.at(65537) == std::nullopt);
    CHECK(rules.at((1 << 20) + 1) == Algorithm::kDoubling);
    CHECK(rules.at((2 << 20) + 1) == std::nullopt);
    CHECK(must(read({{"GPURUN_BCAST", "tree:7"}})).algorithms.bcast.at(7) == Algorithm::kTree);
    CHECK(must(read({})).algorithms == AlgorithmsAskedFor{});

    const char* const eight = "auto:1,direct:2,auto:3,direct:4,auto:5,direct:6,auto:7,direct";
    CHECK(allreduce(eight).at(8) == Algorithm::kDirect);
    for (const char* bad :
         {"", "tree", "direct:", "direct,pieces", "direct:64K,", "direct:64K,pieces:64K", ",direct", "direct:-1",
          "Direct", "direct:64K:1M", "auto:1,direct:2,auto:3,direct:4,auto:5,direct:6,auto:7,direct:8,auto"})
        CHECK_MESSAGE((gpurun::test::status_of(read({{"GPURUN_ALLREDUCE", bad}})) ==
                       static_cast<int>(Status::kSetting)) == (*bad != '\0'),
                      bad);
    const auto wrong = read({{"GPURUN_REDUCE", "tree"}});
    REQUIRE_FALSE(static_cast<bool>(wrong));
    CHECK(wrong.error().detail.starts_with(
        "GPURUN_REDUCE=tree: must be one of auto, direct, pieces, or up to 8 of them"));
}

TEST_CASE("what can be used of an environment is read, whatever else it has") {
    const Settings settings = usable_settings([](const char* name) -> const char* {
        const std::string asked = name;
        return asked == "GPURUN_FENCE" ? "mutex" : asked == "GPURUN_ERRORS" ? "abort" : nullptr;
    });
    CHECK(settings.errors == ErrorMode::kAbort);
    CHECK(settings.fence == FenceKind::kAuto);
}

TEST_CASE("whether there is MPS is 0 or 1") {
    CHECK(must(read({{"GPURUN_MPS", "1"}})).mps);
    CHECK_FALSE(must(read({{"GPURUN_MPS", "0"}})).mps);
    CHECK(gpurun::test::detail_of(read({{"GPURUN_MPS", "yes"}})) == "GPURUN_MPS=yes: must be one of 0, 1");
}

TEST_CASE("a rank is below the size") {
    CHECK(gpurun::test::status_of(read({{"GPURUN_RANK", "2"}, {"GPURUN_SIZE", "2"}})) ==
          static_cast<int>(Status::kSetting));
}

TEST_SUITE_END();
