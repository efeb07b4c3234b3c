// Which scratch memory is lent, and when it is lent again.
#include "transfer/pool/scratch_pool.hpp"
#include "one_device.hpp"
#include "scripted_device.hpp"
#include "support/gate.hpp"

#include "device/capability/graphs.hpp"

using namespace gpurun;
using gpurun::test::must;
using transfer::ScratchPool;
using Kind = ScratchPool::Kind;

namespace {

struct ScratchBench {
    std::unique_ptr<device::Device> device = gpurun::test::open_one_device();
    device::Stream one = must(device->create_stream()), other = must(device->create_stream());
    transfer::EventPool events{*device};
    ScratchPool scratch{*device, events};

    static transfer::Operand host() { return {}; }
    static transfer::Operand in(device::Stream stream, transfer::Domain domain = transfer::Domain::kStream) {
        transfer::Operand order;
        order.domain = domain;
        order.stream = stream;
        return order;
    }
    ScratchPool::Block& take(Kind kind, size_t bytes, const transfer::Operand& order) {
        return *must(scratch.take(kind, bytes, order));
    }
};

} // namespace

TEST_SUITE_BEGIN("scratch pool");

TEST_CASE("a block is of its kind, large enough, and nobody else's as long as it is lent") {
    ScratchBench bench;
    for (const Kind kind : {Kind::kHost, Kind::kPinned, Kind::kDevice}) {
        ScratchPool::Block& block = bench.take(kind, 5000, ScratchBench::host());
        const auto placement = must(bench.device->describe(block.data, 5000)).placement;
        CHECK(placement == (kind == Kind::kHost     ? device::Placement::kPageable
                            : kind == Kind::kPinned ? device::Placement::kPinned
                                                    : device::Placement::kDevice));
        CHECK(block.where.placement == placement);
        CHECK(bench.take(kind, 5000, ScratchBench::host()).data != block.data);
    }
    CHECK(bench.scratch.lent() == 6);
}

TEST_CASE("what is given back in the host's order is lent again at once") {
    ScratchBench bench;
    for (const Kind kind : {Kind::kHost, Kind::kPinned, Kind::kDevice}) {
        ScratchPool::Block& block = bench.take(kind, 5000, ScratchBench::host());
        bench.scratch.give_back(block, ScratchBench::host());
        CHECK(&bench.take(kind, 6000, ScratchBench::host()) == &block);
        CHECK(&bench.take(kind, 60'000, ScratchBench::host()) != &block);
    }
}

TEST_CASE("what a stream may still use is lent to that stream, and to nobody else before the stream is over") {
    ScratchBench bench;
    ScratchPool::Block& block = bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.one));
    {
        gpurun::test::Gate gate(*bench.device);
        gate.hold(bench.one);
        bench.scratch.give_back(block, ScratchBench::in(bench.one));
        ScratchPool::Block& of_other = bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.other));
        CHECK(&of_other != &block);
        ScratchPool::Block& of_host = bench.take(Kind::kDevice, 5000, ScratchBench::host());
        CHECK(&of_host != &block);
        CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.one)) == &block);
        bench.scratch.give_back(block, ScratchBench::in(bench.one));
    }
    must(bench.device->synchronize(bench.one));
    CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::host()) == &block);
}

TEST_CASE("runs in one stream, one after the other, do not ask whether the one before is over") {
    gpurun::test::ScriptedDevice device(gpurun::test::open_one_device());
    const device::Stream stream = must(device.create_stream());
    transfer::EventPool events(device);
    ScratchPool scratch(device, events);
    const transfer::Operand order = ScratchBench::in(stream);
    const auto run = [&] { scratch.give_back(*must(scratch.take(Kind::kDevice, 5000, order)), order); };
    run();
    run(); // has the events that it needs
    const size_t before = device.calls;
    run();
    CHECK(device.calls - before == 3); // the stream's name, twice, and the record
    CHECK(scratch.lent() == 0);
}

TEST_CASE("what was not used is lent again at once, but not before those that used it earlier are over") {
    ScratchBench bench;
    ScratchPool::Block& block = bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.one));
    bench.scratch.give_back_unused(block);
    CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.other)) == &block);
    bench.scratch.give_back_unused(block);
    {
        gpurun::test::Gate gate(*bench.device);
        gate.hold(bench.one);
        CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.one)) == &block);
        bench.scratch.give_back(block, ScratchBench::in(bench.one));
        CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.one)) == &block);
        bench.scratch.give_back_unused(block);
        CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.other)) != &block);
    }
    must(bench.device->synchronize(bench.one));
    CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.other)) == &block);
}

TEST_CASE("what a graph has is lent again when the graph is gone") {
    ScratchBench bench;
    device::Graphs& graphs = *bench.device->graphs();
    const transfer::Operand captured = ScratchBench::in(bench.one, transfer::Domain::kGraph);
    must(graphs.begin_capture(bench.one));
    ScratchPool::Block& block = bench.take(Kind::kDevice, 5000, captured);
    bench.scratch.give_back(block, captured);
    ScratchPool::Block& second = bench.take(Kind::kDevice, 5000, captured);
    CHECK(&second != &block);
    bench.scratch.give_back(second, captured);
    const device::Graph graph = must(graphs.end_capture(bench.one));
    CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::host()) != &block);
    must(graphs.destroy_graph(graph));
    CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::host()) == &block);
    CHECK(&bench.take(Kind::kDevice, 5000, ScratchBench::in(bench.other)) == &second);
}

TEST_CASE("more than a device has is an error, and takes nothing") {
    ScratchBench bench;
    CHECK_STATUS(bench.scratch.take(Kind::kDevice, size_t{1} << 40, ScratchBench::host()), base::Status::kMemory);
    CHECK(bench.scratch.lent() == 0);
}

TEST_SUITE_END();
