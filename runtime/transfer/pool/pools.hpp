// What a rank's transfers use again and again, so that the message path allocates nothing: one of each a rank.
#pragma once

#include "transfer/pool/bounce_pool.hpp"
#include "transfer/pool/capture_pool.hpp"
#include "transfer/pool/event_pool.hpp"
#include "transfer/pool/graph_notes.hpp"
#include "transfer/pool/host_calls.hpp"
#include "transfer/pool/internal_streams.hpp"
#include "transfer/pool/kernel_budget.hpp"
#include "transfer/pool/scratch_pool.hpp"
#include "transfer/pool/staging_pool.hpp"
#include "transfer/pool/stream_markers.hpp"

namespace gpurun::transfer {

struct Pools {
    // `hardware_queues` of the device are this rank's; `ranks_on_device` share it; `ranks` are in the job.
    // `engines` of this rank have a part of them.
    Pools(device::Device& device, uint32_t hardware_queues, uint32_t ranks_on_device, size_t ranks,
          const EngineCount& engines = kOneEngine)
        : streams(device, stream_limits(hardware_queues, engines.load(std::memory_order_relaxed)), hardware_queues,
                  engines),
          events(device), staging(device), host_copies(device), host_reductions(device), scratch(device, events),
          bounces(device, ranks_on_device), kernels(device.info().spinning_blocks, ranks_on_device, engines),
          captures(device, streams.limits().captured), graph_notes(device, ranks),
          markers({[this](device::Stream stream) { return events.record(stream); },
                   [this](device::Event event) { events.give_back(event); },
                   [&device](device::Stream stream) { return device.name(stream); },
                   [&device](device::Event event) { return device.query(event); }}) {}

    InternalStreams streams;
    EventPool events;
    StagingPool staging;
    HostCalls<HostCopy> host_copies;
    HostCalls<HostReduction> host_reductions;
    ScratchPool scratch;
    BouncePool bounces;
    KernelBudget kernels;
    CapturePool captures;
    GraphNotes graph_notes;
    StreamMarkers markers;
};

} // namespace gpurun::transfer
