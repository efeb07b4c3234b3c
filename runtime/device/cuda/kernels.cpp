// Loading kernels and launching them.
#include "device/cuda/kernels.hpp"

#include "base/format.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/kernel_arguments.hpp"

#include <algorithm>

extern "C" const unsigned long long gpurun_kernel_image[]; // made from kernels.cu

namespace gpurun::device::cuda {

namespace {

// Each waits on the GPU, so that a few of them must leave room for what they wait for.
constexpr uint64_t kMailBytesPerBlock = 8 * kMailThreads;
constexpr unsigned kMostMailBlocks = 16;
constexpr uint64_t kCopyBytesPerBlock = 16 * kCopyThreads;
constexpr unsigned kMostCopyBlocks = 64;

unsigned blocks(uint64_t bytes, uint64_t bytes_per_block, unsigned most) {
    return static_cast<unsigned>(std::clamp<uint64_t>((bytes + bytes_per_block - 1) / bytes_per_block, 1, most));
}

unsigned mail_threads(uint64_t bytes) {
    const uint64_t needed = (bytes + 7) / 8;
    return static_cast<unsigned>(std::clamp<uint64_t>((needed + 31) / 32 * 32, 32, kMailThreads));
}

template <typename Arguments>
base::Result<void> launch(const Driver& driver, CUfunction kernel, unsigned grid, unsigned threads,
                          const Arguments& arguments, Stream stream) {
    void* parameters[] = {const_cast<Arguments*>(&arguments)};
    return driver.check(
        driver.cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, 0, native(stream), parameters, nullptr),
        "cuLaunchKernel", base::Status::kStream);
}

uint64_t* address(CUdeviceptr counter) { return reinterpret_cast<uint64_t*>(counter); }

} // namespace

uint32_t waiting_room(int processors, int threads_of_each) {
    static_assert(kMostCopyBlocks <= kCopyWait * kMostMailBlocks);
    const auto blocks = static_cast<unsigned>(processors) * (static_cast<unsigned>(threads_of_each) / kCopyThreads);
    return blocks / 2 / kMostMailBlocks;
}

base::Result<Kernels> Kernels::load(const Driver& driver) {
    Kernels kernels;
    CUmodule module = nullptr;
    GPURUN_TRY(driver.check(driver.cuModuleLoadData(&module, gpurun_kernel_image), "cuModuleLoadData"));
    const auto find = [&](CUfunction& function, const char* name) {
        return driver.check(driver.cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
    };
    GPURUN_TRY(find(kernels.put_mail, "gpurun_put_mail"));
    GPURUN_TRY(find(kernels.take_mail, "gpurun_take_mail"));
    GPURUN_TRY(find(kernels.watch_counter, "gpurun_watch_counter"));
    GPURUN_TRY(find(kernels.copy_fenced, "gpurun_copy_fenced"));
    return kernels;
}

base::Result<void> CudaDevice::put_mail(const Mail& mail, const void* source, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr sent, device_address(mail.sent));
    const PutMailArguments arguments{static_cast<const unsigned char*>(source),
                                     mail.words,
                                     mail.bytes,
                                     address(sent),
                                     mail.value,
                                     mail.ticket,
                                     mail.mark};
    return launch(driver_, kernels_.put_mail, blocks(mail.bytes, kMailBytesPerBlock, kMostMailBlocks),
                  mail_threads(mail.bytes), arguments, stream);
}

base::Result<void> CudaDevice::take_mail(const Mail& mail, void* destination, size_t bytes, bool seen, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr sent, device_address(mail.sent));
    GPURUN_ASSIGN(const CUdeviceptr taken, device_address(mail.taken));
    const TakeMailArguments arguments{static_cast<unsigned char*>(destination),
                                      mail.words,
                                      bytes,
                                      address(sent),
                                      address(taken),
                                      mail.value,
                                      mail.ticket,
                                      mail.mark,
                                      seen ? 1U : 0U};
    return launch(driver_, kernels_.take_mail, blocks(bytes, kMailBytesPerBlock, kMostMailBlocks), mail_threads(bytes),
                  arguments, stream);
}

base::Result<void> CudaDevice::watch_counter(Stream stream, Counter* counter, uint64_t value) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr where, device_address(counter));
    return launch(driver_, kernels_.watch_counter, 1, 1, WatchCounterArguments{address(where), value}, stream);
}

base::Result<void> CudaDevice::copy_fenced(const FencedCopy& copy, Stream stream) {
    const auto current = enter();
    CUdeviceptr before = 0;
    if (copy.before != nullptr) {
        GPURUN_ASSIGN(before, device_address(copy.before));
    }
    GPURUN_ASSIGN(const CUdeviceptr after, device_address(copy.after));
    const FencedCopyArguments arguments{copy.destination, copy.source, copy.bytes,  address(before),
                                        address(after),   copy.value,  copy.ticket, copy.gate};
    return launch(driver_, kernels_.copy_fenced, blocks(copy.bytes, kCopyBytesPerBlock, kMostCopyBlocks), kCopyThreads,
                  arguments, stream);
}

} // namespace gpurun::device::cuda
