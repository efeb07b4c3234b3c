// A CUDA device above a fake driver, and addresses to give to it.
#pragma once

#include "fake_driver.hpp"
#include "support/made_up.hpp"
#include "support/unit.hpp"

#include "device/cuda/cuda_device.hpp"

#include <sys/mman.h>

namespace gpurun::test {

constexpr size_t kPage = 4096;
inline const CUcontext kContext = reinterpret_cast<CUcontext>(0x10000);
inline const CUcontext kOther = reinterpret_cast<CUcontext>(0x20000);

inline const CUfunction kPutMail = reinterpret_cast<CUfunction>(0x100);
inline const CUfunction kTakeMail = reinterpret_cast<CUfunction>(0x200);
inline const CUfunction kExchange = reinterpret_cast<CUfunction>(0x280);
inline const CUfunction kExchangeFew = reinterpret_cast<CUfunction>(0x288);
inline const CUfunction kTakeMails = reinterpret_cast<CUfunction>(0x2a0);
inline const CUfunction kFusedReduce = reinterpret_cast<CUfunction>(0x290);
inline const CUfunction kWatchCounter = reinterpret_cast<CUfunction>(0x400);
inline const CUfunction kCopyFenced = reinterpret_cast<CUfunction>(0x300);
inline const CUfunction kPutInChannel = reinterpret_cast<CUfunction>(0x500);
inline const CUfunction kAwaitChannelTakenLogged = reinterpret_cast<CUfunction>(0x570);
inline const CUfunction kLogged = reinterpret_cast<CUfunction>(0x571); // any other, of runs that are recorded
inline const CUfunction kAwaitChannelTaken = reinterpret_cast<CUfunction>(0x600);
inline const CUfunction kTakeFromChannel = reinterpret_cast<CUfunction>(0x700);
inline const CUfunction kAwaitChannelPut = reinterpret_cast<CUfunction>(0x800);
inline const CUfunction kTellChannelTaken = reinterpret_cast<CUfunction>(0x900);
inline const CUfunction kReadClock = reinterpret_cast<CUfunction>(0xb00);
inline const CUfunction kWriteTime = reinterpret_cast<CUfunction>(0xc00);
inline const CUfunction kPullThroughChannel = reinterpret_cast<CUfunction>(0xa00);
constexpr int kUrgentPriority = -5;
inline const auto kStream = made_up<device::Stream>(0x10008);

inline device::Mail mail_of(size_t bytes) {
    device::Mail mail;
    mail.words = reinterpret_cast<std::byte*>(0x5000);
    mail.bytes = bytes;
    mail.mark = 77;
    mail.sent = reinterpret_cast<device::Counter*>(0x6000);
    mail.taken = reinterpret_cast<device::Counter*>(0x6040);
    mail.value = (uint64_t{1} << 40) + 2;
    mail.ticket = reinterpret_cast<uint32_t*>(0x7000);
    return mail;
}

// Addresses that the CPU cannot read, as device memory is, until host() gives them memory.
class Addresses {
  public:
    Addresses() { data_ = map(PROT_NONE, nullptr, 0); }
    ~Addresses() { munmap(data_, kPage); }
    void host() { map(PROT_READ | PROT_WRITE, data_, MAP_FIXED); }
    char* data() const { return static_cast<char*>(data_); }

  private:
    static void* map(int access, void* where, int flags) {
        return mmap(where, kPage, access, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    }
    void* data_;
};

struct Bench {
    explicit Bench(bool host_pointers = true, bool early_kernels = false)
        : device(make(host_pointers, early_kernels)) {}
    static device::cuda::CudaDevice make(bool host_pointers, bool early_kernels) {
        fake() = FakeState{};
        device::cuda::Facts facts;
        facts.host_pointers = host_pointers;
        facts.early_kernels = early_kernels;
        facts.context = kContext;
        facts.urgent_priority = kUrgentPriority;
        facts.ordered_memory = true;
        facts.info.uuid = "GPU-test";
        facts.info.identity = {device::Kind::kCuda, 0, {}};
        facts.info.identity.uuid.fill(0x10);
        device::cuda::Kernels kernels;
        kernels.put_mail = kPutMail;
        kernels.take_mail = kTakeMail;
        kernels.exchange = kExchange;
        kernels.exchange_few = kExchangeFew;
        kernels.take_mails = kTakeMails;
        kernels.fused_reduce[static_cast<size_t>(base::Type::kFloat)] = kFusedReduce;
        kernels.watch_counter = kWatchCounter;
        kernels.copy_fenced = kCopyFenced;
        kernels.read_clock = kReadClock;
        kernels.write_time = kWriteTime;
        kernels.put_in_channel = {kPutInChannel, kLogged};
        kernels.await_channel_taken = {kAwaitChannelTaken, kAwaitChannelTakenLogged};
        kernels.take_from_channel = {kTakeFromChannel, kLogged};
        kernels.await_channel_put = {kAwaitChannelPut, kLogged};
        kernels.tell_channel_taken = {kTellChannelTaken, kLogged};
        kernels.pull_through_channel = {kPullThroughChannel, kLogged};
        return device::cuda::CudaDevice(fake_driver(), facts, kernels);
    }
    char* allocate(size_t bytes) {
        fake().next_address = reinterpret_cast<uintptr_t>(addresses.data());
        return static_cast<char*>(must(device.allocate(bytes)));
    }
    // What one call launches, with the arguments that its kernel is given.
    template <typename Arguments, typename Call>
    std::pair<FakeLaunch, Arguments> launched(Call call) {
        fake().launches.clear();
        fake().argument_bytes = sizeof(Arguments);
        REQUIRE_OK(call(device));
        REQUIRE(fake().launches.size() == 1);
        const FakeLaunch& launch = fake().launches.front();
        CHECK(launch.other_sides == 1);
        CHECK(launch.shared_bytes == 0);
        CHECK(launch.stream == kStream.native);
        Arguments arguments;
        std::memcpy(&arguments, launch.arguments.data(), sizeof arguments);
        return {launch, arguments};
    }
    FakeMemory& memory() { return fake().memory.begin()->second; }

    Addresses addresses;
    device::cuda::CudaDevice device;
};

} // namespace gpurun::test
