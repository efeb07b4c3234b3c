// What all transfers of a rank share. One a rank, owned by comm::Engine; used under its lock.
#pragma once

#include "base/settings.hpp"
#include "base/world_rank.hpp"
#include "device/capability/counters.hpp"
#include "device/capability/fenced_copies.hpp"
#include "platform/trace_buffer.hpp"
#include "transfer/memory/export_cache.hpp"
#include "transfer/memory/quiescence.hpp"
#include "transfer/memory/workspace.hpp"
#include "transfer/operation_list.hpp"
#include "transfer/protocol/captured_exchange.hpp"
#include "transfer/protocol/exchanges.hpp"
#include "transfer/protocol/fused_messages.hpp"

namespace gpurun::transfer {

struct ProtocolTable;

struct Resources {
    struct Place { // of the rank in its job
        base::WorldRank self;
        uint32_t ranks = 1;
        uint32_t ranks_on_device = 1;
        bool takes_turns = false; // the device is shared without MPS
        bool core_for_each_rank = false;
        std::atomic<uint32_t>* captures; // not 0 once this rank has captured a message
        ProcessShare* process;           // this engine has its part of
    };
    Resources(device::Device& device_, const base::Settings& settings_, const Place& place_,
              const Workspace& workspace_, const ProtocolTable& protocols_, platform::TraceBuffer* trace_,
              const device::RunLog& runs_)
        : device(device_), settings(settings_), place(place_), workspace(workspace_), protocols(protocols_),
          trace(trace_), runs(runs_), counters(ordering_counters(device_, settings_)),
          kernels_spin(counters != nullptr && !place_.takes_turns),
          fenced_copies(kernels_spin ? device_.fenced_copies() : nullptr),
          pools(device_, settings_.hardware_queues, place_.ranks_on_device, place_.ranks, place_.process->engines),
          exports(device_, place_.ranks), fused(device_, pools), exchanges(device_, pools),
          captured_exchange(device_, pools) {}

    // Up to which length kernels copy messages of collectives: where all ranks copy from all, copy engines are slower.
    size_t collective_copy_bytes() const { return 16 * settings.kernel_copy_bytes; }
    // Whether a stream that waits for a rank is released when that rank dies.
    bool releases_streams() const { return counters != nullptr || device.info().releases_events; }

    device::Device& device;
    const base::Settings& settings;
    const Place place;
    const Workspace& workspace;
    const ProtocolTable& protocols;
    platform::TraceBuffer* const trace; // null where nobody traces
    const device::RunLog& runs;         // of messages of graphs, for the trace; `taken` is null where there is none
    // What the device can do, and this rank makes use of.
    device::Counters* const counters;          // order the streams of two ranks; null: events do
    const bool kernels_spin;                   // kernels may wait for a counter; else their stream waits before them
    device::FencedCopies* const fenced_copies; // null: copies do not wait themselves
    Pools pools;
    ExportCache exports;
    FusedMessages fused;
    Exchanges exchanges;
    CapturedExchange captured_exchange;
    MovingList moving; // operations that advance() moves
    LeftList left;     // operations whose last work is enqueued by whoever completes them
    // What requests on a stream take and pull may be left for a moment (comm/batch.hpp): a series of them is held.
    bool leaves_series = false;
    static constexpr size_t kMostLeftOfSeries = 256;
    size_t most_left() const { return leaves_series ? kMostLeftOfSeries : device::kMostExchanged; }
    size_t unmapping = 0; // allocations that peers have asked this rank to unmap, and are still mapped (PullPart)
    size_t returning = 0; // loans that are given back once their stream has come to that (LoanPart)
    size_t ending = 0;    // loans that end when their lost borrowers have ended (comm::OrphanedLoans)
    uint64_t changes = 0; // how often a message was enqueued or done: who has seen as many need not look again
    TryQuiescence try_quiescence = [] { return Quiescence(std::in_place); }; // the engine's
};

} // namespace gpurun::transfer
