// Loading kernels.
#include "device/cuda/kernels.hpp"

#include "base/format.hpp"

// Made from kernels.cu, reduce_kernels.cu and graph_reduce_kernels.cu.
extern "C" const unsigned long long gpurun_kernel_image[];
extern "C" const unsigned long long gpurun_reduce_kernel_image[];
extern "C" const unsigned long long gpurun_graph_reduce_kernel_image[];

namespace gpurun::device::cuda {

base::Result<Kernels> Kernels::load(const Driver& driver) {
    Kernels kernels;
    CUmodule module = nullptr;
    GPURUN_TRY(driver.check(driver.cuModuleLoadData(&module, gpurun_kernel_image), "cuModuleLoadData"));
    const auto find = [&](CUfunction& function, const char* name) {
        return driver.check(driver.cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
    };
    const auto find_both = [&](ChannelKernel& kernel, const std::string& name) -> base::Result<void> {
        GPURUN_TRY(find(kernel.plain, name.c_str()));
        return find(kernel.logged, (name + "_logged").c_str());
    };
    GPURUN_TRY(find(kernels.put_mail, "gpurun_put_mail"));
    GPURUN_TRY(find(kernels.take_mail, "gpurun_take_mail"));
    GPURUN_TRY(find(kernels.exchange, "gpurun_exchange"));
    GPURUN_TRY(find(kernels.exchange_few, "gpurun_exchange_few"));
    GPURUN_TRY(find(kernels.put_mails, "gpurun_put_mails"));
    GPURUN_TRY(find(kernels.take_mails, "gpurun_take_mails"));
    GPURUN_TRY(find(kernels.watch_counter, "gpurun_watch_counter"));
    GPURUN_TRY(find(kernels.copy_fenced, "gpurun_copy_fenced"));
    GPURUN_TRY(find(kernels.read_clock, "gpurun_read_clock"));
    GPURUN_TRY(find(kernels.write_time, "gpurun_write_time"));
    GPURUN_TRY(find_both(kernels.put_in_channel, "gpurun_put_in_channel"));
    GPURUN_TRY(find_both(kernels.await_channel_taken, "gpurun_await_channel_taken"));
    GPURUN_TRY(find_both(kernels.take_from_channel, "gpurun_take_from_channel"));
    GPURUN_TRY(find_both(kernels.await_channel_put, "gpurun_await_channel_put"));
    GPURUN_TRY(find_both(kernels.tell_channel_taken, "gpurun_tell_channel_taken"));
    GPURUN_TRY(find_both(kernels.pull_through_channel, "gpurun_pull_through_channel"));
    GPURUN_TRY(find(kernels.exchange_in_graph, "gpurun_exchange_in_graph"));
    GPURUN_TRY(find(kernels.meet_in_graph, "gpurun_meet_in_graph"));
    GPURUN_TRY(find(kernels.part_in_graph, "gpurun_part_in_graph"));
    const auto find_of_all_types = [&](auto& functions, const std::string& name) -> base::Result<void> {
        for (size_t type = 1; type < base::kTypes; ++type)
            if (base::info_of_type(static_cast<int>(type)).values != base::Values::kText)
                GPURUN_TRY(find(functions[type], (name + std::to_string(type)).c_str()));
        return {};
    };
    GPURUN_TRY(driver.check(driver.cuModuleLoadData(&module, gpurun_reduce_kernel_image), "cuModuleLoadData"));
    GPURUN_TRY(find_of_all_types(kernels.reduce, "gpurun_reduce_"));
    GPURUN_TRY(find_of_all_types(kernels.fused_reduce, "gpurun_fused_reduce_"));
    GPURUN_TRY(driver.check(driver.cuModuleLoadData(&module, gpurun_graph_reduce_kernel_image), "cuModuleLoadData"));
    GPURUN_TRY(find_of_all_types(kernels.reduce_in_graph, "gpurun_reduce_in_graph_"));
    return kernels;
}

} // namespace gpurun::device::cuda
