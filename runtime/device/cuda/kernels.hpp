// The kernels of kernels.cu, reduce_kernels.cu and graph_reduce_kernels.cu, loaded into the primary context, where they
// stay.
#pragma once

#include "base/datatype.hpp"
#include "device/cuda/driver.hpp"

namespace gpurun::device::cuda {

struct ChannelKernel {
    CUfunction plain = nullptr;
    CUfunction logged = nullptr; // of runs that are recorded
};

struct Kernels {
    CUfunction put_mail = nullptr;
    CUfunction take_mail = nullptr;
    CUfunction exchange = nullptr;
    CUfunction exchange_few = nullptr;
    CUfunction put_mails = nullptr;
    CUfunction take_mails = nullptr;
    CUfunction watch_counter = nullptr;
    CUfunction copy_fenced = nullptr;
    CUfunction read_clock = nullptr;
    CUfunction write_time = nullptr;
    ChannelKernel put_in_channel;
    ChannelKernel await_channel_taken;
    ChannelKernel take_from_channel;
    ChannelKernel await_channel_put;
    ChannelKernel tell_channel_taken;
    ChannelKernel pull_through_channel;
    CUfunction exchange_in_graph = nullptr;
    CUfunction meet_in_graph = nullptr;
    CUfunction part_in_graph = nullptr;
    std::array<CUfunction, base::kTypes> reduce{};       // by type; null: it has no operation
    std::array<CUfunction, base::kTypes> fused_reduce{}; // by type, too
    std::array<CUfunction, base::kTypes> reduce_in_graph{};

    // All at once and early: loading one later could wait for kernels that wait for another rank.
    // REQUIRES the primary context to be current. kDevice if the library has none for this GPU.
    static base::Result<Kernels> load(const Driver& driver);
};

} // namespace gpurun::device::cuda
