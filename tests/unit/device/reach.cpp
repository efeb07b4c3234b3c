// Which emulated devices reach each other.
#include "device/emulated/reach.hpp"

#include "support/unit.hpp"

using gpurun::base::Status;
using gpurun::device::emulated::Reach;
using gpurun::test::must;

TEST_CASE("all devices reach each other, or none but themselves") {
    const Reach all = must(Reach::parse("all", 4));
    const Reach none = must(Reach::parse("none", 4));
    for (uint32_t from = 0; from < 4; ++from)
        for (uint32_t to = 0; to < 4; ++to) {
            CHECK(all.reaches(from, to));
            CHECK(none.reaches(from, to) == (from == to));
        }
}

TEST_CASE("a pair of ordinals holds in both directions and for no others") {
    const Reach reach = must(Reach::parse("0-1,3-2", 4));
    CHECK(reach.reaches(0, 1));
    CHECK(reach.reaches(1, 0));
    CHECK(reach.reaches(2, 3));
    CHECK(reach.reaches(3, 2));
    CHECK_FALSE(reach.reaches(1, 2));
    CHECK_FALSE(reach.reaches(0, 3));
}

TEST_CASE("peer access that cannot be read, or names no device, is an error that quotes it") {
    for (const char* text : {"", "0", "0-", "-1", "0-1,", "0-1-2", "a-b", "0-1;2-3", "99999999999-0", "0-4", "4-0"}) {
        const auto parsed = Reach::parse(text, 4);
        CHECK_STATUS(parsed, Status::kSetting);
        CHECK(gpurun::test::detail_of(parsed).find("GPURUN_EMULATED_PEER_ACCESS=" + std::string(text)) == 0);
    }
}
