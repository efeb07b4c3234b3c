// Who copies which piece of a message that both ranks copy.
#include "transfer/shared_copy.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

using namespace gpurun;
using transfer::kSharedPieceBytes;
using transfer::SharedCopy;

namespace {

constexpr uint64_t kOdd = 777;

// Both ends of one message.
struct Ends {
    explicit Ends(uint64_t bytes)
        : target(SharedCopy::begin(*control, bytes)), source(*control, bytes, target.number()) {}

    std::unique_ptr<platform::PairControl> control = std::make_unique<platform::PairControl>();
    SharedCopy target;
    SharedCopy source;
};

} // namespace

TEST_SUITE_BEGIN("shared copy");

TEST_CASE("the target takes pieces from the front, the source from the back, until they meet") {
    Ends ends(5 * kSharedPieceBytes + kOdd);
    CHECK(ends.target.take_front()->offset == 0);
    const auto last = ends.source.take_back();
    CHECK(last->offset == 5 * kSharedPieceBytes);
    CHECK(last->bytes == kOdd);
    CHECK(ends.target.take_front()->offset == kSharedPieceBytes);
    CHECK(ends.target.take_front()->offset == 2 * kSharedPieceBytes);
    CHECK(ends.source.take_back()->offset == 4 * kSharedPieceBytes);
    const auto middle = ends.source.take_back();
    CHECK(middle->offset == 3 * kSharedPieceBytes);
    CHECK(middle->bytes == kSharedPieceBytes);
    CHECK_FALSE(ends.target.take_front());
    CHECK_FALSE(ends.source.take_back());
    CHECK(ends.target.front_end() == 3 * kSharedPieceBytes);
}

TEST_CASE("a message that the source does not help with is the target's, and complete when it has taken all") {
    constexpr uint64_t kBytes = 4 * kSharedPieceBytes + 1;
    Ends ends(kBytes);
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
    Ends ends(4 * kSharedPieceBytes);
    REQUIRE(ends.source.take_back());
    REQUIRE(ends.source.take_back());
    ends.target.close();
    CHECK_FALSE(ends.target.complete());
    ends.source.written(true);
    CHECK_FALSE(ends.target.complete());
    ends.source.written(true);
    CHECK(ends.target.complete());
    CHECK_FALSE(ends.target.failed());
}

TEST_CASE("what the source cannot write is left to the target") {
    Ends ends(4 * kSharedPieceBytes);
    REQUIRE(ends.source.take_back());
    ends.source.written(false);
    ends.target.close();
    CHECK(ends.target.complete());
    CHECK(ends.target.failed());
    CHECK(ends.target.front_end() == 3 * kSharedPieceBytes);
}

TEST_CASE("a source that looks late takes nothing of the next message") {
    Ends ends(4 * kSharedPieceBytes);
    ends.target.close();
    SharedCopy next = SharedCopy::begin(*ends.control, 6 * kSharedPieceBytes);
    CHECK(next.number() != ends.target.number());
    CHECK_FALSE(ends.source.take_back());
    CHECK(next.take_front());
    CHECK_FALSE(ends.target.take_front());
}

TEST_CASE("each piece is taken once, however they race") {
    constexpr uint64_t kPieces = 1000;
    for (int round = 0; round < 20; round++) {
        Ends ends(kPieces * kSharedPieceBytes);
        std::vector<int> taken(kPieces);
        std::vector<uint64_t> theirs;
        std::thread source([&] {
            while (const auto piece = ends.source.take_back()) {
                theirs.push_back(piece->offset / kSharedPieceBytes);
                ends.source.written(true);
            }
        });
        while (const auto piece = ends.target.take_front())
            ++taken[piece->offset / kSharedPieceBytes];
        while (!ends.target.complete()) {
        }
        source.join();
        for (const uint64_t piece : theirs)
            ++taken[piece];
        CHECK(taken == std::vector<int>(kPieces, 1));
    }
}

TEST_SUITE_END();
