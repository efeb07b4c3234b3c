// A socket that ends, or what the job segment says to a fabric, is a peer that has died: what needs it fails, sleepers
// wake, blocked streams are released. (Deaths of ranks over shared memory need processes: tests/faults.)
#include "support/gate.hpp"
#include "support/two_ranks.hpp"

#include <latch>

using namespace gpurun;
using namespace gpurun::test;

using base::Status;
using comm::kAnySource;
using comm::kAnyTag;

namespace {

constexpr size_t kLarge = 700'000;

// One side makes a call that cannot end; the other cuts the connection once it does.
template <typename T>
void check_ends(const std::function<base::Result<void>(Rank&)>& call) {
    TwoRanks ranks(T::kOver);
    std::latch begun(1);
    ranks.run(
        [&](Rank& survivor) {
            begun.count_down();
            CHECK_STATUS(call(survivor), Status::kPeerLost);
        },
        [&](Rank&) {
            begun.wait();
            ranks.cut();
        });
}

template <typename T>
base::Result<void> without_value(base::Result<T> result) {
    return result ? base::Result<void>() : base::Result<void>(std::move(result).error());
}

} // namespace

TEST_SUITE_BEGIN("failures over channels without memory in common");

TEST_CASE_TEMPLATE("a receive that waits ends", T, OverSocket, OverFabric) {
    Bytes got(kLarge);
    for (const size_t bytes : {size_t{8}, kLarge})
        for (const int source : {1, kAnySource})
            check_ends<T>(
                [&](Rank& rank) { return without_value(rank.recv(rank.operand(got.data(), bytes), source, 1)); });
}

TEST_CASE_TEMPLATE("a send that waits for its match ends", T, OverSocket, OverFabric) {
    const Bytes content(kLarge);
    check_ends<T>([&](Rank& rank) { return rank.send(rank.operand(content.data(), 8), 1, true); });
    check_ends<T>([&](Rank& rank) { return rank.send(rank.operand(content.data(), kLarge), 1); });
}

TEST_CASE_TEMPLATE("a probe and a barrier that wait end", T, OverSocket, OverFabric) {
    check_ends<T>([](Rank& rank) { return without_value(rank.probe(1, kAnyTag, true)); });
    check_ends<T>([](Rank& rank) { return rank.barrier(); });
}

TEST_CASE_TEMPLATE("requests with the dead end in errors, and nothing new starts", T, OverSocket, OverFabric) {
    TwoRanks ranks(T::kOver);
    Rank& survivor = ranks.rank(0);
    uint8_t* const memory = survivor.memory(Kind::kDevice, kLarge);
    const device::Stream stream = survivor.stream();
    std::vector<uint64_t> names{survivor.irecv(survivor.operand(memory, kLarge), 1, 1),
                                survivor.irecv(survivor.operand(memory, 8, stream), kAnySource, kAnyTag),
                                survivor.isend(survivor.operand(memory, kLarge), 2),
                                survivor.isend(survivor.operand(memory, kLarge, stream), 2)};
    ranks.cut();
    for (uint64_t& name : names)
        CHECK(survivor.wait(name).status == Status::kPeerLost);
    const uint32_t number = 0;
    CHECK_STATUS(survivor.send(survivor.operand(&number, sizeof number), 1), Status::kPeerLost);
    CHECK_STATUS(survivor.recv(survivor.operand(memory, 8), 1, 1), Status::kPeerLost);
    CHECK_STATUS(survivor.barrier(), Status::kPeerLost);
    uint64_t to_self = survivor.irecv(survivor.operand(memory, 8), 0, 5); // a rank lives for itself
    const Bytes content = pattern(8, 1);
    comm::SendOptions options;
    REQUIRE_OK(comm::send(survivor.engine(), survivor.world(), survivor.operand(content.data(), 8), 0, 5, options));
    CHECK(survivor.wait(to_self).status == Status::kOk);
    CHECK(first_difference(memory, content) == -1);
}

TEST_CASE_TEMPLATE("what had crossed before is received", T, OverSocket, OverFabric) {
    TwoRanks ranks(T::kOver);
    ranks.run(
        [](Rank& sender) {
            const uint32_t number = 12;
            REQUIRE_OK(sender.send(sender.operand(&number, sizeof number), 1));
        },
        [](Rank& receiver) { REQUIRE(must(receiver.probe(0, 1, true))); });
    ranks.cut();
    Rank& survivor = ranks.rank(1);
    uint32_t number = 0;
    REQUIRE_OK(survivor.recv(survivor.operand(&number, sizeof number), kAnySource, kAnyTag));
    CHECK(number == 12);
    CHECK_STATUS(survivor.recv(survivor.operand(&number, sizeof number), kAnySource, kAnyTag), Status::kPeerLost);
}

TEST_CASE_TEMPLATE("a stream that waits for the dead rank's is released, and says once that its message was cut short",
                   T, OverSocket, OverFabric) {
    for (const size_t bytes : {size_t{8}, kLarge, size_t{3'000'000}}) {
        CAPTURE(bytes);
        TwoRanks ranks(T::kOver);
        Gate gate(ranks.rank(0).device());
        std::latch enqueued(1);
        ranks.run(
            [&](Rank& sender) {
                const device::Stream stream = sender.stream();
                const uint8_t* const from = sender.memory(Kind::kDevice, bytes);
                gate.hold(stream);
                REQUIRE_OK(sender.send(sender.operand(from, bytes, stream), 1));
                enqueued.wait();
                ranks.cut();
            },
            [&](Rank& receiver) {
                const device::Stream stream = receiver.stream();
                uint8_t* const into = receiver.memory(Kind::kDevice, bytes);
                REQUIRE_OK(receiver.recv(receiver.operand(into, bytes, stream), 0, 1));
                CHECK_FALSE(must(receiver.device().query(stream)));
                enqueued.count_down();
                CHECK_STATUS(receiver.synchronize(stream), Status::kPeerLost);
                REQUIRE_OK(receiver.synchronize(stream));
                CHECK_STATUS(receiver.leave(), Status::kPeerLost);
            });
        gate.open();
    }
}

TEST_CASE_TEMPLATE("requests of a rank that is in no call fail by themselves", T, OverSocket, OverFabric) {
    TwoRanks ranks(T::kOver);
    Rank& survivor = ranks.rank(0);
    uint32_t number = 0;
    uint64_t name = survivor.irecv(survivor.operand(&number, sizeof number), 1, 1);
    ranks.cut();
    CHECK(survivor.wait(name).status == Status::kPeerLost);
    CHECK_STATUS(survivor.leave(), Status::kOk); // no message was cut short
}

TEST_SUITE_END();
