// Freeing memory and graphs: at once, or later where the device must not be waited for; and who is told.
#include "device/capability/graphs.hpp"
#include "one_rank.hpp"
#include "platform/clock.hpp"
#include "support/gate.hpp"
#include "transfer/protocol/pull.hpp"

using namespace gpurun;
using gpurun::test::Gate;
using gpurun::test::must;
using gpurun::test::OneRank;
using transfer::Edge;
using transfer::RecordKind;
using transfer::Slot;
using transfer::SlotClass;

namespace {

constexpr size_t kFreedBytes = 4096;

struct Owner {
    OneRank rank;
    void* memory = must(rank.device().allocate(kFreedBytes));
    const device::Buffer buffer = must(rank.device().describe(memory, kFreedBytes));

    void free() { must(rank.deferred.free(buffer, memory)); }
    bool is_freed() { return !rank.deferred.any_left() && !rank.device().describe(memory, 1); }
    // As a call does that moves transfers.
    void give_back() {
        const comm::EngineLock lock(rank.core.mutex());
        rank.deferred.give_back();
    }
    // Some stream of the rank waits for the peer to come to the slot's edge.
    Slot hold() {
        const Slot slot{SlotClass::kRendezvous, true, 2, 0, transfer::kSlotStep};
        rank.channel(1).edges(transfer::Direction::kIn);
        rank.core.peer(base::WorldRank{1}).awaiting_forward.note(slot, device::Stream{});
        return slot;
    }
    void release(const Slot& slot) { rank.channel(1).edges(transfer::Direction::kIn).signal_now(Edge::kForward, slot); }
};

} // namespace

TEST_SUITE_BEGIN("deferred free");

TEST_CASE("where nobody captures messages, memory is freed at once") {
    Owner owner;
    const Slot slot = owner.hold();
    owner.free();
    CHECK(owner.is_freed());
    CHECK_FALSE(owner.rank.deferred.any_left());
    owner.release(slot);
}

TEST_CASE("peers that have the handle of freed memory are told, others are not") {
    Owner owner;
    REQUIRE(owner.rank.core.resources().exports.handle(owner.buffer, 2));
    owner.free();
    CHECK(owner.rank.channel(1).posted.empty());
    REQUIRE(owner.rank.channel(2).posted.size() == 1);
    const transfer::Record& told = owner.rank.channel(2).posted.front().record;
    CHECK(told.kind == RecordKind::kNotice);
    CHECK(told.protocol == transfer::PullPart::kProtocol);
    CHECK(told.as<transfer::AllocationNotice>().id == owner.buffer.id);
}

TEST_CASE("a dead peer is told nothing") {
    Owner owner;
    REQUIRE(owner.rank.core.resources().exports.handle(owner.buffer, 1));
    owner.rank.channel(1).die();
    REQUIRE(owner.rank.look());
    owner.free();
    CHECK(owner.rank.channel(1).posted.empty());
    CHECK(owner.is_freed());
}

TEST_CASE("where messages are captured, memory is freed later if a stream waits for a peer") {
    Owner owner;
    owner.rank.channel(2).captured = true;
    const Slot slot = owner.hold();
    owner.free();
    CHECK_FALSE(owner.is_freed());
    CHECK(owner.rank.deferred.any_left());
    owner.give_back();
    CHECK_FALSE(owner.is_freed());
    owner.release(slot);
    owner.give_back();
    CHECK(owner.is_freed());
    CHECK_FALSE(owner.rank.deferred.any_left());
}

TEST_CASE("where messages are captured, and no stream waits, memory is freed at once") {
    Owner owner;
    owner.rank.channel(1).captured = true;
    owner.release(owner.hold());
    owner.free();
    CHECK(owner.is_freed());
}

TEST_CASE("an alarm that waits for a peer's edge counts as a stream that does") {
    Owner owner;
    owner.rank.channel(1).captured = true;
    const Slot slot{SlotClass::kRendezvous, true, 0, 0, transfer::kSlotStep};
    transfer::Fence& edges = owner.rank.channel(1).edges(transfer::Direction::kIn);
    owner.rank.alarms.begin();
    must(owner.rank.alarms.set(transfer::CompletionPoint::at(edges, Edge::kForward, slot)));
    owner.free();
    CHECK_FALSE(owner.is_freed());
    owner.release(slot);
    must(owner.rank.device().synchronize_all()); // it has rung
    owner.give_back();
    CHECK(owner.is_freed());
}

TEST_CASE("while a graph runs, memory and graphs are left for later") {
    Owner owner;
    owner.rank.channel(1).captured = true;
    device::Device& device = owner.rank.device();
    const device::Stream stream = must(device.create_stream());
    must(device.graphs()->begin_capture(stream));
    must(device.fill(owner.memory, 1, kFreedBytes, stream));
    const device::Graph graph = must(device.graphs()->end_capture(stream));
    {
        Gate gate(device);
        gate.hold(stream);
        must(device.graphs()->launch(graph, stream));
        owner.free();
        must(owner.rank.deferred.destroy(graph));
        CHECK_FALSE(owner.is_freed());
        CHECK(owner.rank.core.process().share().graphs_end_by_ns == transfer::ProcessShare::kGraphsLeft);
        owner.give_back();
        CHECK_FALSE(owner.is_freed());
    }
    owner.give_back();
    CHECK(owner.is_freed());
    CHECK(owner.rank.core.process().share().graphs_end_by_ns > platform::now_ns());
    CHECK_STATUS(device.graphs()->destroy_graph(graph), base::Status::kArgument); // it is gone
}

TEST_SUITE_END();
