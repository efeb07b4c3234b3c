// Reductions inside a rank: whoever makes them, they are made, in order, and give the same.
#include "comm/local_reduction.hpp"
#include "one_rank.hpp"
#include "support/gate.hpp"
#include "support/reduction_reference.hpp"
#include "unit/transfer/scripted_device.hpp"

#include <vector>

using namespace gpurun;
using comm::EngineLock;
using gpurun::test::must;
using gpurun::test::OneRank;
namespace reference = gpurun::test::reference;
using reference::Content;

namespace {

enum class Memory { kPageable, kPinned, kDevice };
constexpr Memory kMemories[] = {Memory::kPageable, Memory::kPinned, Memory::kDevice};

constexpr size_t kCount = 100'003; // several pieces of copies

std::unique_ptr<device::Device> without_reduce(std::unique_ptr<device::Device> real) {
    auto device = std::make_unique<gpurun::test::ScriptedDevice>(std::move(real));
    device->lack_reduce();
    return device;
}

struct Bench {
    explicit Bench(bool reduces) : rank(1, gpurun::test::rank_settings(), false, reduces ? nullptr : without_reduce) {}

    uint8_t* memory(Memory kind, const Content& content) {
        uint8_t* made = nullptr;
        if (kind == Memory::kPageable)
            made = pageable.emplace_back(content).data();
        else if (kind == Memory::kPinned)
            made = static_cast<uint8_t*>(must(rank.device().allocate_pinned(content.size())));
        else
            made = static_cast<uint8_t*>(must(rank.device().allocate(content.size())));
        std::copy(content.begin(), content.end(), made); // the CPU reaches an emulated device's memory
        return made;
    }
    base::Result<transfer::EventLease> reduce(const transfer::Operand& result,
                                              std::span<const transfer::Operand> operands) {
        const EngineLock lock(rank.core.mutex());
        transfer::Operand order;
        order.domain = result.domain;
        order.stream = result.stream;
        return comm::reduce_here(rank.core.resources(), order,
                                 {{base::Type::kFloat16, base::Op::kSum, 2}, kCount, result, operands});
    }

    OneRank rank;
    std::deque<Content> pageable;
    const device::Stream stream = must(rank.device().create_stream());
    const Content first = reference::values(reference::kFloat16, kCount, 1);
    const Content second = reference::values(reference::kFloat16, kCount, 2);
    const Content expected = reference::reduced(reference::kFloat16, reference::kAvg, {first, second}, 2);
};

Content content_of(const transfer::Operand& operand) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(operand.address);
    return Content(begin, begin + operand.bytes);
}

} // namespace

TEST_SUITE_BEGIN("local reduction");

TEST_CASE("buffers of every kind are reduced in either order domain, with and without the device's help") {
    for (const bool reduces : {true, false}) {
        Bench bench(reduces);
        for (const Memory of_first : kMemories)
            for (const Memory of_second : kMemories)
                for (const bool on_stream : {false, true}) {
                    CAPTURE(reduces);
                    CAPTURE(static_cast<int>(of_first));
                    CAPTURE(static_cast<int>(of_second));
                    CAPTURE(on_stream);
                    const auto stream = on_stream ? std::optional(bench.stream) : std::nullopt;
                    const transfer::Operand operands[] = {
                        bench.rank.operand(bench.memory(of_first, bench.first), bench.first.size(), stream),
                        bench.rank.operand(bench.memory(of_second, bench.second), bench.second.size(), stream)};
                    const auto event = must(bench.reduce(operands[0], operands));
                    if (event)
                        must(bench.rank.device().synchronize(event.get()));
                    if (on_stream)
                        must(bench.rank.device().synchronize(bench.stream));
                    CHECK(content_of(operands[0]) == bench.expected);
                    CHECK(content_of(operands[1]) == bench.second);
                }
        must(bench.rank.device().synchronize_all());
        CHECK(bench.rank.core.resources().pools.scratch.lent() == 0);
    }
}

TEST_CASE("a reduction in a stream waits for what is before it, and holds up nobody") {
    for (const bool reduces : {true, false})
        for (const Memory kind : kMemories) {
            Bench bench(reduces);
            const transfer::Operand operands[] = {
                bench.rank.operand(bench.memory(kind, bench.first), bench.first.size(), bench.stream),
                bench.rank.operand(bench.memory(Memory::kDevice, bench.second), bench.second.size(), bench.stream)};
            gpurun::test::Gate gate(bench.rank.device());
            gate.hold(bench.stream);
            (void)must(bench.reduce(operands[0], operands));
            CHECK(content_of(operands[0]) == bench.first);
            gate.open();
            must(bench.rank.device().synchronize(bench.stream));
            CHECK(content_of(operands[0]) == bench.expected);
        }
}

TEST_CASE("what the device cannot reduce itself cannot be part of a graph") {
    Bench bench(false);
    transfer::Operand operands[] = {
        bench.rank.operand(bench.memory(Memory::kDevice, bench.first), bench.first.size(), bench.stream),
        bench.rank.operand(bench.memory(Memory::kDevice, bench.second), bench.second.size(), bench.stream)};
    for (transfer::Operand& each : operands)
        each.domain = transfer::Domain::kGraph;
    CHECK_STATUS(bench.reduce(operands[0], operands), base::Status::kUnsupported);
}

TEST_SUITE_END();
