// The order rule over each channel: a message comes after what was enqueued before it in its stream, and before what
// follows there. Streams are held by a gate, so that what must wait is seen to wait.
#include "comm/collective/bcast.hpp"
#include "support/gate.hpp"
#include "support/two_ranks.hpp"

#include <latch>

using namespace gpurun;
using namespace gpurun::test;

namespace {

// Inline, or the smallest of a stream; a chunk; more chunks than a relay has buffers; too long for a kernel.
constexpr size_t kOrderedSizes[] = {8, 5000, 100'000, 1'000'000, 3'000'000};

bool is_idle(Rank& rank, device::Stream stream) { return must(rank.device().query(stream)); }

} // namespace

TEST_SUITE_BEGIN("order over channels");

TEST_CASE_TEMPLATE("a receive returns while its sender's stream is held, and its stream waits", T, OverSocket, OverShm,
                   OverFabric) {
    for (const Kind kind : {Kind::kPinned, Kind::kDevice, Kind::kOrdered})
        for (const size_t bytes : kOrderedSizes) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(bytes);
            TwoRanks ranks(T::kOver);
            std::latch received(1);
            ranks.run(
                [&](Rank& sender) {
                    Gate gate(sender.device());
                    const device::Stream stream = sender.stream();
                    uint8_t* const from = sender.memory(kind, bytes);
                    gate.hold(stream);
                    const uint8_t* const content = sender.memory(Kind::kDevice, pattern(bytes, 1));
                    must(sender.device().copy(from, content, bytes, stream));
                    REQUIRE_OK(sender.send(sender.operand(from, bytes, stream), 1));
                    if (kind == Kind::kPinned)
                        must(sender.device().copy(from, sender.memory(Kind::kDevice, bytes), bytes, stream));
                    else
                        must(sender.device().fill(from, 0xee, bytes, stream));
                    received.wait();
                    gate.open();
                    REQUIRE_OK(sender.synchronize(stream));
                },
                [&](Rank& receiver) {
                    const device::Stream stream = receiver.stream();
                    uint8_t* const into = receiver.memory(kind, bytes);
                    const auto arrived = must(receiver.recv(receiver.operand(into, bytes, stream), 0, 1));
                    CHECK(arrived.bytes == bytes);
                    CHECK_FALSE(is_idle(receiver, stream));
                    received.count_down();
                    REQUIRE_OK(receiver.synchronize(stream));
                    CHECK(first_difference(into, pattern(bytes, 1)) == -1);
                });
        }
}

TEST_CASE("over a channel without memory in common device memory is staged, and the report says why") {
    TwoRanks ranks(Over::kSocket);
    constexpr size_t kBytes = 1'000'000;
    ranks.run(
        [&](Rank& sender) { REQUIRE_OK(sender.send(sender.operand(sender.memory(Kind::kDevice, kBytes), kBytes), 1)); },
        [&](Rank& receiver) {
            (void)must(receiver.recv(receiver.operand(receiver.memory(Kind::kDevice, kBytes), kBytes), 0, 1));
            CHECK(receiver.engine().traffic().find(
                      "staged (the ranks have no memory in common): 1 messages, 1000000 bytes") != std::string::npos);
        });
}

TEST_CASE_TEMPLATE("a buffer is not written before the receiver's stream comes to the receive", T, OverSocket, OverShm,
                   OverFabric) {
    for (const size_t bytes : kOrderedSizes) {
        CAPTURE(bytes);
        TwoRanks ranks(T::kOver);
        std::latch sent(1);
        ranks.run(
            [&](Rank& sender) {
                const device::Stream stream = sender.stream();
                const uint8_t* const from = sender.memory(Kind::kDevice, pattern(bytes, 2));
                REQUIRE_OK(sender.send(sender.operand(from, bytes, stream), 1));
                sent.count_down();
                REQUIRE_OK(sender.synchronize(stream));
            },
            [&](Rank& receiver) {
                Gate gate(receiver.device());
                const device::Stream stream = receiver.stream();
                uint8_t* const into = receiver.memory(Kind::kDevice, bytes);
                uint8_t* const before = receiver.memory(Kind::kDevice, bytes);
                must(receiver.device().fill(into, 0x21, bytes, stream));
                gate.hold(stream);
                must(receiver.device().copy(before, into, bytes, stream));
                (void)must(receiver.recv(receiver.operand(into, bytes, stream), 0, 1));
                sent.wait();
                CHECK_FALSE(is_idle(receiver, stream));
                gate.open();
                REQUIRE_OK(receiver.synchronize(stream));
                CHECK(first_difference(before, Bytes(bytes, 0x21)) == -1);
                CHECK(first_difference(into, pattern(bytes, 2)) == -1);
            });
    }
}

TEST_CASE_TEMPLATE("one buffer is filled, sent and overwritten, round by round, from every order domain to every other",
                   T, OverSocket, OverShm, OverFabric) {
    constexpr size_t kLengths[] = {8, 5000, 40'000, 1'000'000, 32'768, 4'000'064};
    constexpr size_t kRounds = 2 * std::size(kLengths);
    const auto bytes_of = [&](size_t round) { return kLengths[round % std::size(kLengths)]; };
    for (const bool sent_on_stream : {true, false})
        for (const bool received_on_stream : {true, false}) {
            CAPTURE(sent_on_stream);
            CAPTURE(received_on_stream);
            base::Settings settings = rank_settings();
            settings.emulated_seed = 7;
            settings.emulated_delay_us = 300;
            TwoRanks ranks(T::kOver, settings);
            ranks.run(
                [&](Rank& sender) {
                    const device::Stream stream = sender.stream();
                    uint8_t* const buffer = sender.memory(Kind::kDevice, size_t{4'000'064});
                    for (size_t round = 0; round < kRounds; ++round) {
                        const size_t bytes = bytes_of(round);
                        const uint8_t* const content = sender.memory(Kind::kPinned, pattern(bytes, round));
                        must(sender.device().copy(buffer, content, bytes, stream));
                        if (!sent_on_stream)
                            REQUIRE_OK(sender.synchronize(stream));
                        REQUIRE_OK(sender.send(
                            sender.operand(buffer, bytes, sent_on_stream ? Rank::Stream(stream) : Rank::Stream()), 6));
                        must(sender.device().fill(buffer, 0xee, bytes, stream));
                    }
                    REQUIRE_OK(sender.synchronize(stream));
                },
                [&](Rank& receiver) {
                    const device::Stream stream = receiver.stream();
                    uint8_t* const buffer = receiver.memory(Kind::kDevice, size_t{4'000'064});
                    std::vector<uint8_t*> after;
                    for (size_t round = 0; round < kRounds; ++round) {
                        const size_t bytes = bytes_of(round);
                        must(receiver.device().fill(buffer, static_cast<int>(round), bytes, stream));
                        if (!received_on_stream)
                            REQUIRE_OK(receiver.synchronize(stream));
                        (void)must(receiver.recv(
                            receiver.operand(buffer, bytes, received_on_stream ? Rank::Stream(stream) : Rank::Stream()),
                            0, 6));
                        after.push_back(receiver.memory(Kind::kPinned, bytes));
                        must(receiver.device().copy(after.back(), buffer, bytes, stream));
                    }
                    REQUIRE_OK(receiver.synchronize(stream));
                    for (size_t round = 0; round < kRounds; ++round) {
                        CAPTURE(round);
                        CHECK(first_difference(after[round], pattern(bytes_of(round), round)) == -1);
                    }
                });
        }
}

TEST_CASE_TEMPLATE("a message of a held stream does not hold up those of others", T, OverSocket, OverShm, OverFabric) {
    for (const size_t bytes : {size_t{8}, size_t{100'000}, size_t{3'000'000}}) {
        CAPTURE(bytes);
        TwoRanks ranks(T::kOver);
        std::latch through(1);
        ranks.run(
            [&](Rank& sender) {
                Gate gate(sender.device());
                const device::Stream held = sender.stream();
                const device::Stream free = sender.stream();
                const uint8_t* const from = sender.memory(Kind::kDevice, pattern(bytes, 3));
                gate.hold(held);
                uint64_t waits = sender.isend(sender.operand(from, bytes, held), 1);
                uint64_t goes = sender.isend(sender.operand(from, bytes, free), 2);
                CHECK(sender.wait(goes).status == base::Status::kOk);
                through.wait();
                gate.open();
                CHECK(sender.wait(waits).status == base::Status::kOk);
            },
            [&](Rank& receiver) {
                const device::Stream first = receiver.stream();
                const device::Stream second = receiver.stream();
                uint8_t* const into_first = receiver.memory(Kind::kDevice, bytes);
                uint8_t* const into_second = receiver.memory(Kind::kDevice, bytes);
                uint64_t waits = receiver.irecv(receiver.operand(into_first, bytes, first), 0, 1);
                uint64_t goes = receiver.irecv(receiver.operand(into_second, bytes, second), 0, 2);
                CHECK(receiver.wait(goes).arrived.bytes == bytes);
                CHECK(first_difference(into_second, pattern(bytes, 3)) == -1);
                CHECK_FALSE(receiver.test(waits).has_value());
                through.count_down();
                CHECK(receiver.wait(waits).arrived.bytes == bytes);
                CHECK(first_difference(into_first, pattern(bytes, 3)) == -1);
            });
    }
}

TEST_CASE_TEMPLATE("both ways at once, and on from what was received, in one stream", T, OverSocket, OverShm,
                   OverFabric) {
    constexpr int kRounds = 10;
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {size_t{8}, size_t{100'000}, size_t{1'000'000}}) {
        CAPTURE(bytes);
        ranks.run_both([&](Rank& each) {
            const device::Stream stream = each.stream();
            uint8_t* const out = each.memory(Kind::kDevice, pattern(bytes, static_cast<uint64_t>(each.number())));
            uint8_t* const in = each.memory(Kind::kDevice, bytes);
            for (int round = 0; round < kRounds; ++round) { // each sends on what it has got
                const auto arrived = must(comm::sendrecv(each.engine(), each.world(),
                                                         {each.operand(out, bytes, stream), each.other(), 4},
                                                         {each.operand(in, bytes, stream), each.other(), 4}));
                REQUIRE(arrived.bytes == bytes);
                must(each.device().copy(out, in, bytes, stream));
                must(each.device().fill(in, 0xdd, bytes, stream));
            }
            REQUIRE_OK(each.synchronize(stream));
            CHECK(first_difference(out, pattern(bytes, static_cast<uint64_t>(each.number()))) == -1);
        });
    }
}

TEST_CASE_TEMPLATE("a barrier in a stream holds back what follows until the other's stream is there", T, OverSocket,
                   OverShm, OverFabric) {
    TwoRanks ranks(T::kOver);
    std::latch enqueued(1);
    ranks.run(
        [&](Rank& first) {
            Gate gate(first.device());
            const device::Stream stream = first.stream();
            gate.hold(stream);
            REQUIRE_OK(first.barrier(stream));
            enqueued.wait();
            gate.open();
            REQUIRE_OK(first.synchronize(stream));
            REQUIRE_OK(first.barrier());
        },
        [&](Rank& second) {
            const device::Stream stream = second.stream();
            REQUIRE_OK(second.barrier(stream));
            CHECK_FALSE(is_idle(second, stream));
            enqueued.count_down();
            REQUIRE_OK(second.synchronize(stream));
            REQUIRE_OK(second.barrier());
        });
}

TEST_CASE_TEMPLATE("a broadcast brings every length from either root, in either order domain", T, OverSocket, OverShm,
                   OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {size_t{0}, size_t{8}, size_t{100'000}, size_t{1'000'000}})
        for (const int root : {0, 1})
            for (const bool on_stream : {false, true}) {
                CAPTURE(bytes);
                CAPTURE(root);
                CAPTURE(on_stream);
                ranks.run_both([&](Rank& each) {
                    const device::Stream stream = each.stream();
                    const bool sends = each.number() == root;
                    uint8_t* const buffer =
                        each.memory(Kind::kDevice, sends ? pattern(bytes, bytes + 1) : Bytes(bytes, 0));
                    const auto operand = each.operand(buffer, bytes, on_stream ? Rank::Stream(stream) : Rank::Stream());
                    const auto build = [&](comm::Schedule& schedule) {
                        comm::build_bcast(schedule, {{operand.address, bytes, operand.where}, comm::Rank{root}});
                    };
                    REQUIRE_OK(each.engine().schedules().run(base::Collective::kBcast, each.world(), operand, build));
                    REQUIRE_OK(each.synchronize(stream));
                    CHECK(first_difference(buffer, pattern(bytes, bytes + 1)) == -1);
                });
            }
}

TEST_SUITE_END();
