// Segments without names.
#include "platform/shared_memory.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace gpurun::platform;
using gpurun::test::must;

TEST_SUITE_BEGIN("shared memory");

TEST_CASE("two mappings of a segment are the same memory, which starts as zeros") {
    const UniqueFd segment = must(create_segment("test", 2 * page_size()));
    CHECK(must(segment_size(segment.get())) == 2 * page_size());
    const Mapping one = must(Mapping::map(segment.get(), 0, 2 * page_size()));
    const Mapping second_page = must(Mapping::map(segment.get(), page_size(), page_size()));
    CHECK(one.data()[page_size()] == std::byte{0});
    one.data()[page_size()] = std::byte{9};
    CHECK(second_page.data()[0] == std::byte{9});
}

TEST_CASE("the size of a segment is sealed") {
    const UniqueFd segment = must(create_segment("test", page_size()));
    CHECK(::ftruncate(segment.get(), 0) != 0);
    CHECK(::ftruncate(segment.get(), 1 << 20) != 0);
}

TEST_CASE("a segment that is larger than this process may make files is an error, and no signal") {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    rlimit small = before;
    small.rlim_cur = page_size();
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const auto refused = create_segment("test", 2 * page_size());
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail.find("ulimit -f") != std::string::npos);
}

TEST_CASE("a hole reads as zeros") {
    const UniqueFd segment = must(create_segment("test", 2 * page_size()));
    const Mapping all = must(Mapping::map(segment.get(), 0, 2 * page_size()));
    std::memset(all.data(), 1, all.size());
    REQUIRE_OK(punch_hole(segment.get(), page_size(), page_size()));
    CHECK(all.data()[0] == std::byte{1});
    CHECK(all.data()[page_size()] == std::byte{0});
}

TEST_CASE("a mapping that is moved from no longer has the memory") {
    const UniqueFd segment = must(create_segment("test", page_size()));
    Mapping one = must(Mapping::map(segment.get(), 0, page_size()));
    const Mapping other = std::move(one);
    CHECK(one.data() == nullptr);
    other.data()[0] = std::byte{3};
    one = Mapping();
    CHECK(other.data()[0] == std::byte{3});
}

TEST_SUITE_END();
