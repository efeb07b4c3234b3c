// Who copies which piece of a message that both ranks copy.
#include "transfer/protocol/shared_copy.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

using namespace gpurun;
using transfer::kSharedUnitBytes;
using transfer::SharedCopy;

namespace {

constexpr uint64_t kOdd = 777;

// Both ends of one message.
struct CopyEnds {
    explicit CopyEnds(uint64_t bytes)
        : target(SharedCopy::begin(*claims, bytes)), source(*claims, bytes, target.number()) {}

    std::unique_ptr<platform::CopyClaims> claims = std::make_unique<platform::CopyClaims>();
    SharedCopy target;
    SharedCopy source;
};

} // namespace

TEST_SUITE_BEGIN("shared copy");

TEST_CASE("each takes half of what is left, the target from the front, the source from the back, until they meet") {
    CopyEnds ends(11 * kSharedUnitBytes + kOdd);
    const auto expect = [](const auto& piece, uint64_t first_unit, uint64_t bytes) {
        REQUIRE(piece);
        CHECK(piece->offset == first_unit * kSharedUnitBytes);
        CHECK(piece->bytes == bytes);
    };
    expect(ends.target.take_front(), 0, 6 * kSharedUnitBytes);
    expect(ends.source.take_back(), 9, 2 * kSharedUnitBytes + kOdd);
    expect(ends.target.take_front(), 6, kSharedUnitBytes);
    expect(ends.source.take_back(), 8, kSharedUnitBytes);
    expect(ends.source.take_back(), 7, kSharedUnitBytes);
    CHECK_FALSE(ends.target.take_front());
    CHECK_FALSE(ends.source.take_back());
    CHECK(ends.target.front_end() == 7 * kSharedUnitBytes);
}

TEST_CASE("no piece is so long that others wait long for the engine") {
    CopyEnds ends(1000 * kSharedUnitBytes);
    CHECK(ends.target.take_front()->bytes == transfer::kMostPieceUnits * kSharedUnitBytes);
    CHECK(ends.source.take_back()->bytes == transfer::kMostPieceUnits * kSharedUnitBytes);
}

TEST_CASE("a message that the source does not help with is the target's, and complete when it has taken all") {
    constexpr uint64_t kBytes = 4 * kSharedUnitBytes + 1;
    CopyEnds ends(kBytes);
    uint64_t bytes = 0;
    while (const auto piece = ends.target.take_front()) {
        CHECK(piece->offset == bytes);
        bytes += piece->bytes;
    }
    CHECK(bytes == kBytes);
    CHECK(ends.target.complete());
    CHECK_FALSE(ends.target.failed());
    CHECK(ends.target.front_end() == kBytes);
}

TEST_CASE("a message is complete once the source has written all that it took") {
    CopyEnds ends(3 * kSharedUnitBytes + kOdd);
    const auto first = ends.source.take_back(); // two units
    const auto second = ends.source.take_back();
    REQUIRE(second);
    ends.target.close();
    CHECK_FALSE(ends.target.complete());
    ends.source.written(*first, true);
    CHECK_FALSE(ends.target.complete());
    ends.source.written(*second, true);
    CHECK(ends.target.complete());
    CHECK_FALSE(ends.target.failed());
}

TEST_CASE("what the source cannot write is left to the target") {
    CopyEnds ends(4 * kSharedUnitBytes);
    const auto piece = ends.source.take_back();
    REQUIRE(piece);
    ends.source.written(*piece, false);
    ends.target.close();
    CHECK(ends.target.complete());
    CHECK(ends.target.failed());
    CHECK(ends.target.front_end() == 2 * kSharedUnitBytes);
}

TEST_CASE("a source that looks late takes nothing of the next message") {
    CopyEnds ends(4 * kSharedUnitBytes);
    ends.target.close();
    SharedCopy next = SharedCopy::begin(*ends.claims, 6 * kSharedUnitBytes);
    CHECK(next.number() != ends.target.number());
    CHECK_FALSE(ends.source.take_back());
    CHECK(next.take_front());
    CHECK_FALSE(ends.target.take_front());
}

TEST_CASE("each byte is taken once, however they race") {
    constexpr uint64_t kUnits = 1000;
    const auto note = [](std::vector<int>& taken, const SharedCopy::Piece& piece) {
        for (uint64_t at = piece.offset; at < piece.offset + piece.bytes; at += kSharedUnitBytes)
            ++taken[at / kSharedUnitBytes];
    };
    for (int round = 0; round < 100; round++) {
        CopyEnds ends(kUnits * kSharedUnitBytes);
        std::vector<int> ours(kUnits);
        std::vector<int> theirs(kUnits);
        std::thread source([&] {
            while (const auto piece = ends.source.take_back()) {
                note(theirs, *piece);
                ends.source.written(*piece, true);
            }
        });
        while (const auto piece = ends.target.take_front())
            note(ours, *piece);
        while (!ends.target.complete()) {
        }
        source.join();
        for (size_t unit = 0; unit < kUnits; unit++)
            ours[unit] += theirs[unit];
        CHECK(ours == std::vector<int>(kUnits, 1));
    }
}

TEST_SUITE_END();
