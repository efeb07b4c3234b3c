// What messages hold.
#include "pattern.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace gpurun::bench;

namespace {

std::vector<unsigned char> bytes(uint64_t seed, size_t offset, size_t count) {
    std::vector<unsigned char> made(count);
    fill(made, seed, offset);
    return made;
}

} // namespace

TEST_SUITE_BEGIN("pattern");

TEST_CASE("a piece of a message is the same as in the whole") {
    const auto whole = bytes(7, 0, 100);
    for (size_t offset : {0, 1, 7, 8, 9, 63})
        for (size_t count : {0, 1, 7, 8, 30}) {
            const auto piece = bytes(7, offset, count);
            CHECK(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<ptrdiff_t>(offset)));
        }
}

TEST_CASE("messages of other ranks and numbers have other seeds") {
    std::set<uint64_t> seeds;
    for (int rank = 0; rank < 16; ++rank)
        for (uint64_t number = 0; number < 256; ++number)
            seeds.insert(seed_of(rank, number));
    CHECK(seeds.size() == 16 * 256);
}

TEST_CASE("a message does not look like itself moved, nor like the next one") {
    const auto message = bytes(seed_of(0, 1), 0, 4096);
    for (size_t moved : {1, 8, 64, 1024}) {
        const auto other = bytes(seed_of(0, 1), moved, 4096);
        size_t equal = 0;
        for (size_t i = 0; i < message.size(); ++i)
            equal += message[i] == other[i];
        CHECK(equal < 64); // by chance it is 16
    }
    CHECK(message != bytes(seed_of(0, 2), 0, 4096));
    CHECK(message != bytes(seed_of(1, 1), 0, 4096));
}

TEST_CASE("the terms of a sum can be made in pieces, and their sum is exact in any order") {
    std::vector<float> whole(5000), pieces(5000), backwards(5000);
    for (int rank = 0; rank < 3; ++rank)
        add_terms(whole, seed_of(rank, 7), 0);
    for (int rank = 2; rank >= 0; --rank)
        add_terms(backwards, seed_of(rank, 7), 0);
    const std::span<float> all(pieces);
    for (int rank = 0; rank < 3; ++rank) {
        add_terms(all.first(1234), seed_of(rank, 7), 0);
        add_terms(all.subspan(1234), seed_of(rank, 7), 1234);
    }
    CHECK(whole == pieces);
    CHECK(whole == backwards);
    std::vector<float> other(5000);
    add_terms(other, seed_of(0, 8), 0);
    CHECK(other != std::vector<float>(5000, other[0]));
    for (float term : other)
        CHECK((term >= 256 && term <= 511));
}
