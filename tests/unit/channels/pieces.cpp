// Host memory of middle size between ranks without memory in common: it is sent before it is matched, as far as there
// are buffers for it at the receiver.
#include "transfer/protocol/pieces.hpp"
#include "support/two_ranks.hpp"

#include <latch>

using namespace gpurun;
using namespace gpurun::test;
using transfer::kEagerPiece;
using transfer::kMostInPieces;

namespace {

constexpr size_t kInlineBytes = transfer::kMostInlineCarried;
constexpr size_t kPieceSizes[] = {
    kInlineBytes + 1, 16'000,  2 * kInlineBytes - 8, 2 * kInlineBytes, kEagerPiece - 8, kEagerPiece, kEagerPiece + 8,
    2 * kEagerPiece,  100'000, kMostInPieces - 1,    kMostInPieces};
constexpr const char* kRoute = "host (host memory: does not wait for its match): ";

} // namespace

TEST_SUITE_BEGIN("pieces over channels");

TEST_CASE_TEMPLATE("it is sent before it is matched, and arrives whole in every memory and order", T, OverSocket,
                   OverFabric) {
    for (const Kind kind : kKinds)
        for (const bool on_stream : {false, true})
            for (const size_t bytes : kPieceSizes) {
                CAPTURE(static_cast<int>(kind));
                CAPTURE(on_stream);
                CAPTURE(bytes);
                TwoRanks ranks(T::kOver);
                std::latch sent(1);
                ranks.run(
                    [&](Rank& sender) {
                        Bytes content = pattern(bytes, 1);
                        REQUIRE_OK(sender.send(sender.operand(content.data(), bytes), 1));
                        std::fill(content.begin(), content.end(), uint8_t{0});
                        CHECK(sender.engine().traffic().find(kRoute + std::string("1 messages")) != std::string::npos);
                        sent.count_down();
                    },
                    [&](Rank& receiver) {
                        sent.wait();
                        uint8_t* const into = receiver.memory(kind, bytes);
                        const Rank::Stream stream = on_stream ? Rank::Stream(receiver.stream()) : Rank::Stream();
                        CHECK(must(receiver.recv(receiver.operand(into, bytes, stream), 0, 1)).bytes == bytes);
                        if (stream)
                            REQUIRE_OK(receiver.synchronize(*stream));
                        CHECK(first_difference(into, pattern(bytes, 1)) == -1);
                    });
            }
}

TEST_CASE_TEMPLATE("without a receiver no more is sent than there are buffers for, and it is taken in any order", T,
                   OverSocket, OverFabric) {
    constexpr size_t kBytes = 2 * kEagerPiece;
    constexpr size_t kSent = transfer::kPieceBuffers / 2;
    constexpr size_t kAll = 2 * kSent;
    TwoRanks ranks(T::kOver);
    for (int round = 0; round < 3; ++round) {
        std::latch looked(1);
        ranks.run(
            [&](Rank& sender) {
                std::vector<Bytes> contents;
                std::vector<uint64_t> names;
                for (size_t i = 0; i < kAll; ++i) {
                    contents.push_back(pattern(kBytes, i));
                    names.push_back(sender.isend(sender.operand(contents.back().data(), kBytes), static_cast<int>(i)));
                }
                std::vector<uint64_t> left;
                for (size_t i = 0; i < kAll; ++i)
                    if (!sender.test(names[i]))
                        left.push_back(names[i]);
                CHECK(left.size() == kAll - kSent);
                looked.count_down();
                sender.wait_all(left);
                REQUIRE_OK(sender.barrier()); // all buffers are free again
            },
            [&](Rank& receiver) {
                looked.wait();
                Bytes got(kBytes);
                for (size_t i = kAll; i-- > 0;) {
                    CHECK(must(receiver.recv(receiver.operand(got.data(), kBytes), 0, static_cast<int>(i))).bytes ==
                          kBytes);
                    CHECK(first_difference(got.data(), pattern(kBytes, i)) == -1);
                }
                REQUIRE_OK(receiver.barrier());
            });
    }
}

TEST_CASE_TEMPLATE("a receive that takes less of it gives all its buffers back", T, OverSocket, OverFabric) {
    TwoRanks ranks(T::kOver);
    constexpr size_t kBytes = 4 * kEagerPiece;
    int sent = 0;
    for (int round = 0; round < 4; ++round)
        for (const Kind kind : {Kind::kPageable, Kind::kDevice})
            for (const size_t room : {size_t{0}, size_t{1}, kEagerPiece, kEagerPiece + 1, kBytes - 1}) {
                CAPTURE(static_cast<int>(kind));
                CAPTURE(room);
                ++sent;
                ranks.run(
                    [&](Rank& sender) {
                        const Bytes content = pattern(kBytes, 7);
                        REQUIRE_OK(sender.send(sender.operand(content.data(), kBytes), 1));
                        REQUIRE_OK(sender.barrier());
                        const std::string all = kRoute + std::to_string(sent) + " messages"; // none by a relay
                        CHECK(sender.engine().traffic().find(all) != std::string::npos);
                    },
                    [&](Rank& receiver) {
                        uint8_t* const into = receiver.memory(kind, Bytes(kBytes));
                        CHECK(must(receiver.recv(receiver.operand(into, room), 0, 1)).bytes == kBytes);
                        Bytes expected = pattern(kBytes, 7);
                        std::fill(expected.begin() + static_cast<ptrdiff_t>(room), expected.end(), uint8_t{0});
                        CHECK(first_difference(into, expected) == -1);
                        REQUIRE_OK(receiver.barrier());
                    });
            }
}

TEST_SUITE_END();
