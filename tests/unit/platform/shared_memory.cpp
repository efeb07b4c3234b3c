// Segments without names.
#include "platform/shared_memory.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

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

TEST_CASE("a process that has too few addresses is told of the limit") {
    constexpr size_t kMoreThanThereAre = size_t{1} << 47;
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
    rlimit large = before;
    large.rlim_cur = kMoreThanThereAre; // enough for all else
    REQUIRE(::setrlimit(RLIMIT_AS, &large) == 0);
    const auto refused = Mapping::map_own(kMoreThanThereAre);
    REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().status == gpurun::base::Status::kMemory);
    CHECK(refused.error().detail.find("137438953472 KiB of addresses here, used or not: raise that (ulimit -v)") !=
          std::string::npos);
}

TEST_CASE("a hole reads as zeros") {
    const UniqueFd segment = must(create_segment("test", 2 * page_size()));
    const Mapping all = must(Mapping::map(segment.get(), 0, 2 * page_size()));
    std::memset(all.data(), 1, all.size());
    REQUIRE_OK(punch_hole(segment.get(), page_size(), page_size()));
    CHECK(all.data()[0] == std::byte{1});
    CHECK(all.data()[page_size()] == std::byte{0});
}

TEST_CASE("zeros are written to exactly the bytes that are named, and whole pages of many go back to the system") {
    constexpr size_t kAll = size_t{4} << 20;
    const UniqueFd segment = must(create_segment("test", kAll));
    const Mapping all = must(Mapping::map(segment.get(), 0, kAll));
    const Mapping other = must(Mapping::map(segment.get(), 0, kAll)); // as a peer has it
    const auto pages = [&] {
        struct stat status {};
        REQUIRE(::fstat(segment.get(), &status) == 0);
        return static_cast<size_t>(status.st_blocks) * 512 / page_size();
    };
    constexpr std::pair<size_t, size_t> kRanges[] = {
        {5, 100}, {3, size_t{2} << 20}, {4096, size_t{3} << 20}, {4095, (size_t{3} << 20) + 2}, {0, kAll}};
    for (const auto& [first, bytes] : kRanges) {
        std::memset(all.data(), 1, kAll);
        write_zeros(all.data() + first, bytes);
        CHECK((pages() < kAll / page_size() / 2 + 2) == (bytes > size_t{1} << 20)); // and reading makes none
        size_t wrong = 0;
        for (size_t i = 0; i < kAll; ++i)
            wrong += (other.data()[i] == std::byte{0}) != (i >= first && i < first + bytes) ? 1 : 0;
        CHECK(wrong == 0);
    }
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
