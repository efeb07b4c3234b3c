// Ranks as the command line names them.
#include "rank_set.hpp"
#include "support/unit.hpp"

#include <string>

namespace gpurun::test::rank_set {

using namespace launcher;
using gpurun::base::Status;

namespace {

std::string members(const std::string& text) {
    const RankSet set = must(RankSet::parse(text, "--filter"));
    std::string found;
    for (uint32_t rank = 0; rank < 12; ++rank)
        if (set.has(rank))
            found += std::to_string(rank) + " ";
    return found;
}

} // namespace

TEST_SUITE_BEGIN("rank set");

TEST_CASE("ranks are numbers and ranges, in any order, or all, or none") {
    CHECK(members("3") == "3 ");
    CHECK(members("0,2-5") == "0 2 3 4 5 ");
    CHECK(members("9,1,9-10") == "1 9 10 ");
    CHECK(members("all") == "0 1 2 3 4 5 6 7 8 9 10 11 ");
    CHECK(members("none").empty());
    CHECK(must(RankSet::parse("255", "--filter")).has(255));
}

TEST_CASE("what names no ranks is an error that says what does") {
    for (const char* text :
         {"", ",", "1,", ",1", "-1", "1-", "5-2", "x", "1.5", "10000", "0x1", "1 2", "99999999999"}) {
        CAPTURE(text);
        const auto parsed = RankSet::parse(text, "--filter");
        CHECK_STATUS(parsed, Status::kArgument);
        CHECK(detail_of(parsed).find("--filter") != std::string::npos);
        CHECK(detail_of(parsed).find("0,2-5") != std::string::npos);
    }
}

TEST_CASE("a rank that the job does not have is named") {
    CHECK_STATUS(must(RankSet::parse("0,2-4", "--filter")).check(4, "--filter"), Status::kArgument);
    CHECK(detail_of(must(RankSet::parse("7", "--filter")).check(4, "--filter")).find("0 to 3") != std::string::npos);
    CHECK(must(RankSet::parse("0,2-3", "--filter")).check(4, "--filter"));
    CHECK(RankSet::all().check(1, "--filter"));
    CHECK(RankSet::none().check(1, "--filter"));
}

TEST_SUITE_END();

} // namespace gpurun::test::rank_set
