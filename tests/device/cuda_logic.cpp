// What the CUDA device decides by itself, above a driver that is not there. That CUDA behaves as assumed here is for
// the conformance suite on a GPU to show.
#include "fake_driver.hpp"
#include "support/unit.hpp"

#include "device/cuda/address_record.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/selection.hpp"
#include "device/cuda/uuid.hpp"

#include <sys/mman.h>

namespace gpurun::test {

using base::Status;
using device::Placement;
using namespace device::cuda;

namespace {

constexpr size_t kPage = 4096;
const CUcontext kContext = reinterpret_cast<CUcontext>(0x10000);
const CUcontext kOther = reinterpret_cast<CUcontext>(0x20000);

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
    Bench() : device(make()) {}
    static CudaDevice make() {
        fake() = FakeState{};
        Facts facts;
        facts.context = kContext;
        facts.info.uuid = "GPU-test";
        facts.info.identity = {device::Kind::kCuda, 0, {}};
        facts.info.identity.uuid.fill(0x10);
        return CudaDevice(fake_driver(), facts, {});
    }
    char* allocate(size_t bytes) {
        fake().next_address = reinterpret_cast<uintptr_t>(addresses.data());
        return static_cast<char*>(must(device.allocate(bytes)));
    }
    FakeMemory& memory() { return fake().memory.begin()->second; }

    Addresses addresses;
    CudaDevice device;
};

} // namespace

TEST_CASE("a UUID is read as it is printed") {
    const char* text = "GPU-01234567-89ab-cdef-0123-456789abcdef";
    const auto uuid = parse_uuid(text);
    REQUIRE(uuid);
    CHECK(format_uuid("GPU", *uuid) == text);
    CHECK(parse_uuid("GPU-01234567-89AB-CDEF-0123-456789ABCDEF") == uuid);
}

TEST_CASE("what is no UUID is not read as one") {
    for (const char* text :
         {"", "0", "GPU-", "EMU-01234567-89ab-cdef-0123-456789abcdef", "GPU-01234567-89ab-cdef-0123-456789abcdeg",
          "GPU-0123456789ab-cdef-0123-456789abcdefff", "GPU-01234567-89ab-cdef-0123-456789abcdef0"})
        CHECK_MESSAGE(!parse_uuid(text), text);
}

TEST_CASE("an address record knows what was noted and not forgotten") {
    AddressRecord record;
    record.note(1, 1000, 100);
    CHECK(record.contains(1000));
    CHECK(record.contains(1099));
    CHECK(!record.contains(999));
    CHECK(!record.contains(1100));
    record.note(2, 1050, 100); // the addresses' next use
    CHECK(!record.contains(1000));
    CHECK(record.contains(1149));
    record.forget(1060);
    CHECK(!record.contains(1050));
}

TEST_CASE("an address record stays bounded") {
    AddressRecord record;
    for (uint64_t id = 1; id <= 5000; ++id)
        record.note(id, id * 1000, 10);
    CHECK(record.contains(5000 * 1000));
    CHECK(!record.contains(1000));
}

TEST_CASE("devices are chosen by ordinal and by UUID") {
    fake() = FakeState{};
    const Driver driver = fake_driver();
    CHECK(must(select_device(driver, "auto")) == 0);
    CHECK(must(select_device(driver, "cuda:1")) == 1);
    CHECK(must(select_device(driver, "cuda:GPU-11111111-1111-1111-1111-111111111111")) == 1);
}

TEST_CASE("a device that is not there is named, and how to find those that are") {
    fake() = FakeState{};
    const Driver driver = fake_driver();
    for (const char* selector : {"cuda:2", "cuda:GPU-99999999-9999-9999-9999-999999999999"}) {
        const auto chosen = select_device(driver, selector);
        CHECK_STATUS(chosen, Status::kDevice);
        CHECK(detail_of(chosen).find(selector) != std::string::npos);
        CHECK(detail_of(chosen).find("nvidia-smi -L") != std::string::npos);
    }
    for (const char* selector : {"cuda:", "cuda:-1", "cuda:1x", "gpu:0"})
        CHECK_STATUS(select_device(driver, selector), Status::kSetting);
}

TEST_CASE("memory of the device is described as far as it reaches") {
    Bench bench;
    char* memory = bench.allocate(1024);
    const auto buffer = must(bench.device.describe(memory + 24, 1000));
    CHECK(buffer.placement == Placement::kDevice);
    CHECK(buffer.exportable);
    CHECK(buffer.base == memory);
    CHECK(buffer.size == 1024);
    CHECK_STATUS(bench.device.describe(memory + 24, 1001), Status::kBuffer);
    CHECK_STATUS(bench.device.describe(memory + 24, SIZE_MAX), Status::kBuffer);
}

TEST_CASE("only ordinary device memory can be exported") {
    Bench bench;
    char* memory = bench.allocate(64);
    bench.memory().pool = true;
    CHECK(!must(bench.device.describe(memory, 1)).exportable);
    bench.memory() = FakeMemory{.size = 64, .managed = true, .id = 7};
    CHECK(must(bench.device.describe(memory, 1)).placement == Placement::kManaged);
    CHECK(!must(bench.device.describe(memory, 1)).exportable);
    bench.memory() = FakeMemory{.size = 64, .type = CU_MEMORYTYPE_HOST, .id = 8};
    CHECK(must(bench.device.describe(memory, 1)).placement == Placement::kPinned);
    CHECK(!must(bench.device.describe(memory, 1)).exportable);
}

TEST_CASE("memory of another device is refused") {
    Bench bench;
    char* memory = bench.allocate(64);
    bench.memory().ordinal = 1;
    const auto buffer = bench.device.describe(memory, 1);
    CHECK_STATUS(buffer, Status::kBuffer);
    CHECK(detail_of(buffer).find("device 1") != std::string::npos);
}

TEST_CASE("freed device memory is told from host memory, also where host memory takes its place") {
    Bench bench;
    char* memory = bench.allocate(64);
    int local = 0;
    CHECK(must(bench.device.describe(&local, sizeof(local))).placement == Placement::kPageable);
    REQUIRE_OK(bench.device.free(memory));
    CHECK_STATUS(bench.device.describe(memory, 1), Status::kBuffer);
    bench.addresses.host();
    CHECK(must(bench.device.describe(memory, 1)).placement == Placement::kPageable);
    CHECK(must(bench.device.describe(memory, 1)).placement == Placement::kPageable);
}

TEST_CASE("memory is freed once, and only what was allocated") {
    Bench bench;
    char* memory = bench.allocate(64);
    CHECK_STATUS(bench.device.free(memory + 1), Status::kBuffer);
    CHECK_STATUS(bench.device.free_pinned(memory), Status::kBuffer);
    REQUIRE_OK(bench.device.free(memory));
    CHECK_STATUS(bench.device.free(memory), Status::kBuffer);
}

TEST_CASE("a device that is full says how full") {
    Bench bench;
    fake().next_allocation = CUDA_ERROR_OUT_OF_MEMORY;
    const auto memory = bench.device.allocate(500);
    CHECK_STATUS(memory, Status::kMemory);
    CHECK(detail_of(memory).find("100 of 1000") != std::string::npos);
}

TEST_CASE("streams of other contexts, and what is none, are refused") {
    Bench bench;
    const auto stream = [](uintptr_t native) { return device::Stream{reinterpret_cast<void*>(native)}; };
    for (uintptr_t ours : {uintptr_t{0}, uintptr_t{1}, uintptr_t{2}, uintptr_t{0x10008}})
        CHECK_STATUS(bench.device.check_stream(stream(ours)), Status::kOk);
    for (uintptr_t foreign : {uintptr_t{3}, uintptr_t{0x1234}, uintptr_t{0x10001}, uintptr_t{0x20008}, ~uintptr_t{0}})
        CHECK_STATUS(bench.device.check_stream(stream(foreign)), Status::kStream);
    CHECK_STATUS(bench.device.destroy_stream(stream(0x10008)), Status::kStream);
    CHECK_STATUS(bench.device.destroy_event(device::Event{reinterpret_cast<void*>(0x10008)}), Status::kEvent);
}

TEST_CASE("the caller's context comes back, and is not touched when it is ours") {
    Bench bench;
    fake().current = kOther;
    fake().switches = 0;
    int local = 0;
    must(bench.device.describe(&local, 1));
    CHECK(fake().current == kOther);
    CHECK(fake().switches == 2);
    fake().current = kContext;
    fake().switches = 0;
    must(bench.device.describe(&local, 1));
    CHECK(fake().switches == 0);
}

TEST_CASE("a peer is reached on the same GPU, or where CUDA does not show its GPU; not without peer access") {
    Bench bench;
    device::Identity peer{device::Kind::kCuda, 5, {}};
    peer.uuid.fill(0x10);
    CHECK_STATUS(bench.device.can_reach(peer), Status::kOk);
    peer.uuid.fill(0x77);
    CHECK_STATUS(bench.device.can_reach(peer), Status::kOk);
    peer.uuid.fill(0x11);
    CHECK_STATUS(bench.device.can_reach(peer), Status::kDevice);
    peer.kind = device::Kind::kEmulated;
    CHECK_STATUS(bench.device.can_reach(peer), Status::kDevice);
}

TEST_CASE("only peers that were added are imported from, and only what was imported is closed") {
    Bench bench;
    CHECK_STATUS(bench.device.import_memory(7, {}), Status::kArgument);
    CHECK_STATUS(bench.device.import_event(7, {}), Status::kArgument);
    CHECK_STATUS(bench.device.close_memory(bench.allocate(64)), Status::kBuffer);
}

} // namespace gpurun::test
