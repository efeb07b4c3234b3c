#include "comm/local_reduction.hpp"

#include "base/format.hpp"
#include "device/capability/reduce.hpp"
#include "transfer/stream_use.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using transfer::EventLease;
using transfer::HostReduction;
using transfer::Operand;
using transfer::Resources;
using transfer::ScratchPool;

namespace {

constexpr size_t kPieceBytes = size_t{256} << 10; // that are copied and reduced at a time

// Of all buffers.
template <typename Predicate>
bool all_are(const LocalReduction& work, const Predicate& predicate) {
    return predicate(work.result) && std::all_of(work.operands.begin(), work.operands.end(), predicate);
}

HostReduction host_reduction(const LocalReduction& work) {
    HostReduction host{work.reduction, work.count, work.result.address, {}, work.operands.size()};
    for (size_t i = 0; i < work.operands.size(); ++i)
        host.operands[i] = work.operands[i].address;
    return host;
}

// ---- by a stream: the order's own, or in the host's order one of the runtime's

Result<void> reduce_by_device(device::Reduce& device, const LocalReduction& work, device::Stream stream) {
    const HostReduction all = host_reduction(work); // for its array of addresses
    return device.reduce_elements(work.reduction, work.count, work.result.address,
                                  std::span(all.operands).first(all.operands_given), stream);
}

Result<void> reduce_copies(Resources& resources, const LocalReduction& work, device::Stream stream) {
    const size_t element = base::size_of_type(static_cast<int>(work.reduction.type));
    const size_t piece = std::min(work.count, kPieceBytes / element);
    Operand in_stream; // the order of the copies
    in_stream.domain = transfer::Domain::kStream;
    in_stream.stream = stream;
    ScratchPool& pool = resources.pools.scratch;
    GPURUN_ASSIGN(ScratchPool::Block* const copies,
                  pool.take(ScratchPool::Kind::kPinned, work.operands.size() * piece * element, in_stream));
    const auto reduce_piece = [&](size_t first, size_t count) -> Result<void> {
        HostReduction host{work.reduction, count, copies->data, {}, work.operands.size()};
        for (size_t i = 0; i < work.operands.size(); ++i) {
            std::byte* const copy = copies->data + i * piece * element;
            host.operands[i] = copy;
            GPURUN_TRY(copy_in_stream(resources, work.operands[i], copy, work.operands[i].address + first * element,
                                      count * element, stream));
        }
        GPURUN_TRY(resources.pools.host_reductions.enqueue(stream, host));
        return copy_in_stream(resources, work.result, work.result.address + first * element, copies->data,
                              count * element, stream);
    };
    Result<void> reduced;
    for (size_t first = 0; first < work.count && reduced; first += piece)
        reduced = reduce_piece(first, std::min(piece, work.count - first));
    pool.give_back(*copies, in_stream);
    return reduced;
}

Result<void> enqueue(Resources& resources, const LocalReduction& work, device::Stream stream, bool captured) {
    device::Reduce* const device = resources.device.reduce();
    if (device != nullptr && all_are(work, [](const Operand& each) { return each.by_device(); }))
        return reduce_by_device(*device, work, stream);
    if (captured)
        return base::error(base::Status::kUnsupported,
                           "a reduction of memory that the device cannot reduce itself cannot be part of a graph: use "
                           "memory of the rank's device, or make the call outside of the capture");
    if (all_are(work, [](const Operand& each) { return each.in_host_memory(); }))
        return resources.pools.host_reductions.enqueue(stream, host_reduction(work));
    return reduce_copies(resources, work, stream);
}

} // namespace

Result<EventLease> reduce_here(Resources& resources, const Operand& order, const LocalReduction& work) {
    if (order.on_stream()) {
        GPURUN_TRY(enqueue(resources, work, order.stream, order.captured()));
        return EventLease();
    }
    if (all_are(work, [](const Operand& each) { return each.in_host_memory(); })) {
        host_reduction(work)();
        return EventLease();
    }
    GPURUN_ASSIGN(const device::Stream stream, resources.pools.streams.brief());
    GPURUN_TRY(enqueue(resources, work, stream, false));
    GPURUN_ASSIGN(const device::Event event, resources.pools.events.record(stream));
    return EventLease(resources.pools.events, event);
}

} // namespace gpurun::comm
