// What the CUDA device decides by itself, above a driver that is not there. That CUDA behaves as assumed here is for
// the conformance suite on a GPU to show.
#include "cuda_bench.hpp"

#include "device/cuda/address_record.hpp"
#include "device/cuda/kernel_arguments.hpp"
#include "device/cuda/launch_sizes.hpp"
#include "device/cuda/selection.hpp"
#include "device/cuda/uuid.hpp"

namespace gpurun::test {

using base::Status;
using device::Placement;
using namespace device::cuda;

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
    CHECK(must(select_device(driver, "cuda:1", 0)) == 1);
    CHECK(must(select_device(driver, "cuda:GPU-11111111-1111-1111-1111-111111111111", 0)) == 1);
}

TEST_CASE("where none is chosen ranks take devices in turn") {
    fake() = FakeState{}; // of two devices
    const Driver driver = fake_driver();
    for (const uint32_t rank : {0, 1, 2, 3, 254, 255})
        CHECK(must(select_device(driver, "auto", rank)) == static_cast<int>(rank % 2));
    CHECK(must(select_device(driver, "cuda:0", 1)) == 0);
}

TEST_CASE("a device that is not there is named, and how to find those that are") {
    fake() = FakeState{};
    const Driver driver = fake_driver();
    for (const char* selector : {"cuda:2", "cuda:GPU-99999999-9999-9999-9999-999999999999"}) {
        const auto chosen = select_device(driver, selector, 0);
        CHECK_STATUS(chosen, Status::kDevice);
        CHECK(detail_of(chosen).find(selector) != std::string::npos);
        CHECK(detail_of(chosen).find("nvidia-smi -L") != std::string::npos);
    }
    for (const char* selector : {"cuda:", "cuda:-1", "cuda:1x", "gpu:0"})
        CHECK_STATUS(select_device(driver, selector, 0), Status::kSetting);
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
    bench.memory() = FakeMemory{.size = 64, .pool = true, .id = 6}; // an id has one kind of memory
    CHECK(!must(bench.device.describe(memory, 1)).exportable);
    bench.memory() = FakeMemory{.size = 64, .managed = true, .id = 7};
    CHECK(must(bench.device.describe(memory, 1)).placement == Placement::kManaged);
    CHECK(!must(bench.device.describe(memory, 1)).exportable);
    bench.memory() = FakeMemory{.size = 64, .type = CU_MEMORYTYPE_HOST, .id = 8};
    CHECK(must(bench.device.describe(memory, 1)).placement == Placement::kPinned);
    CHECK(!must(bench.device.describe(memory, 1)).exportable);
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
    const auto stream = [](uintptr_t native) { return made_up<device::Stream>(native); };
    for (uintptr_t ours : {uintptr_t{0}, uintptr_t{1}, uintptr_t{2}, uintptr_t{0x10008}})
        CHECK_STATUS(bench.device.is_captured(stream(ours)), Status::kOk);
    for (uintptr_t foreign : {uintptr_t{3}, uintptr_t{0x1234}, uintptr_t{0x10001}, uintptr_t{0x20008}, ~uintptr_t{0}})
        CHECK_STATUS(bench.device.is_captured(stream(foreign)), Status::kStream);
    CHECK_STATUS(bench.device.destroy_stream(stream(0x10008)), Status::kStream);
    CHECK_STATUS(bench.device.destroy_event(made_up<device::Event>(0x10008)), Status::kEvent);
}

TEST_CASE("a stream is captured, or its capture has failed, or neither") {
    Bench bench;
    const auto stream = made_up<device::Stream>(0x10008);
    const auto per_thread = made_up<device::Stream>(2);
    for (const device::Stream each : {stream, per_thread}) {
        fake().capturing = CU_STREAM_CAPTURE_STATUS_NONE;
        CHECK_FALSE(must(bench.device.is_captured(each)));
        fake().capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CHECK(must(bench.device.is_captured(each)));
        fake().capturing = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        CHECK_STATUS(bench.device.is_captured(each), Status::kStream);
    }
    fake().capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK_FALSE(must(bench.device.is_captured({}))); // the legacy default stream never is
    fake().capturing = CU_STREAM_CAPTURE_STATUS_NONE;
}

TEST_CASE("what could disturb a capture is done beside it, and the thread's own mode comes back") {
    Bench bench;
    fake().mode_of_allocation.reset();
    must(bench.device.allocate(64));
    CHECK(fake().mode_of_allocation == CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(fake().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    fake().mode_of_allocation.reset();
    must(bench.device.allocate_ordered(64, kStream));
    CHECK(fake().mode_of_allocation == CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(fake().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
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

TEST_CASE("a fused reduction has blocks for the longest of what is put and reduced, and the first mail's ticket") {
    Bench bench;
    auto* const memory = reinterpret_cast<std::byte*>(0x4000);
    const device::OutgoingMail put{mail_of(65536), memory};
    device::FusedReduction::Operand operands[3];
    operands[0].buffer = memory;
    operands[1].mail = mail_of(8192);
    operands[2].mail = mail_of(8192);
    operands[2].mail.ticket += 1;
    device::FusedReduction reduction{{base::Type::kFloat, base::Op::kMax, 0}, 2048, memory, operands};
    const auto fused = [&] {
        return bench.launched<FusedReduceArguments>([&](CudaDevice& device) {
            return device.put_and_reduce({&put, 1}, reduction, kStream);
        });
    };
    const auto [launch, arguments] = fused();
    CHECK(launch.kernel == kFusedReduce);
    CHECK(launch.blocks == 16);
    CHECK(launch.threads == kReduceThreads);
    CHECK(arguments.bytes == 8192);
    CHECK(arguments.number_of_puts == 1);
    CHECK(arguments.puts[0].bytes == 65536);
    CHECK(arguments.operands_given == 3);
    CHECK(arguments.operands[0].sent == nullptr);
    CHECK(arguments.operands[0].words == memory);
    CHECK(arguments.operands[2].words == operands[2].mail.words);
    CHECK(arguments.operands[2].mark == operands[2].mail.mark);
    CHECK(arguments.ticket == operands[1].mail.ticket);
    CHECK(arguments.aligned == 1);
    CHECK(arguments.timed == nullptr);
    reduction.blocks = 3;
    reduction.result = memory + 4;
    CHECK(fused().first.blocks == 3);
    CHECK(fused().first.threads == kFusedReduceThreads);
    CHECK(fused().second.aligned == 0);
}

TEST_CASE("a fenced copy has threads for every odd byte, blocks for every word, and few of them") {
    constexpr unsigned kMostBlocks = 64;
    constexpr size_t kMiB = 1 << 20;
    Bench bench;
    device::FencedCopy copy;
    copy.destination = reinterpret_cast<void*>(0x4000);
    copy.source = reinterpret_cast<void*>(0x5000);
    copy.after = reinterpret_cast<device::Counter*>(0x6000);
    copy.value = 4;
    copy.ticket = reinterpret_cast<uint32_t*>(0x7000);
    copy.gate = reinterpret_cast<uint64_t*>(0x7008);
    for (const size_t bytes : {size_t{1}, size_t{15}, size_t{16}, size_t{8192}, size_t{8193}, kMiB, 16 * kMiB + 7})
        for (const bool waits : {false, true}) {
            CAPTURE(bytes);
            copy.bytes = bytes;
            copy.before = waits ? reinterpret_cast<device::Counter*>(0x6040) : nullptr;
            const auto [launch, arguments] = bench.launched<FencedCopyArguments>(
                [&](CudaDevice& device) { return device.copy_fenced(copy, kStream); });
            CHECK(launch.kernel == kCopyFenced);
            CHECK(launch.threads == kCopyThreads);
            CHECK(launch.threads > 15); // the odd bytes at the end have one each
            CHECK(launch.blocks >= 1);
            CHECK(launch.blocks <= kMostBlocks);
            CHECK(size_t{launch.blocks - 1} * launch.threads * 16 < bytes); // no block without bytes
            CHECK((launch.blocks == kMostBlocks || size_t{launch.blocks} * launch.threads * 16 >= bytes));
            CHECK(arguments.destination == copy.destination);
            CHECK(arguments.source == copy.source);
            CHECK(arguments.bytes == bytes);
            CHECK(static_cast<const void*>(arguments.before) == copy.before);
            CHECK(static_cast<void*>(arguments.after) == copy.after);
            CHECK(arguments.value == copy.value);
            CHECK(arguments.ticket == copy.ticket);
            CHECK(arguments.gate == copy.gate);
        }
}

TEST_CASE("kernels are told where to say when they ran, each for its own message, or nothing") {
    for (const uintptr_t distance : {uintptr_t{0}, uintptr_t{0x100000}}) {
        Bench bench(distance == 0);
        fake().host_distance = distance;
        device::Mail mail = mail_of(8);
        auto* const memory = reinterpret_cast<std::byte*>(0x4000);
        auto* const times = reinterpret_cast<device::Times*>(0x6100);
        const auto at = [&](const uint64_t* told) { return reinterpret_cast<uintptr_t>(told); };
        const auto wanted = [&](const device::Times* asked) {
            return asked == nullptr ? 0 : reinterpret_cast<uintptr_t>(asked) + distance;
        };
        for (device::Times* const first : {times, static_cast<device::Times*>(nullptr)}) {
            mail.times = first;
            CHECK(at(bench
                         .launched<PutMailArguments>(
                             [&](CudaDevice& device) { return device.put_mail(mail, memory, kStream); })
                         .second.times) == wanted(first));
            CHECK(at(bench
                         .launched<TakeMailArguments>(
                             [&](CudaDevice& device) { return device.take_mail(mail, memory, 8, false, kStream); })
                         .second.times) == wanted(first));
            device::Mail other = mail;
            other.times = times + 1;
            const device::OutgoingMail outgoing[] = {{mail, memory}, {other, memory}};
            const auto puts =
                bench.launched<FewExchanged>([&](CudaDevice& device) { return device.put_mails(outgoing, kStream); })
                    .second;
            CHECK(at(puts.parts[0].put.times) == wanted(first));
            CHECK(at(puts.parts[1].put.times) == wanted(times + 1));
            const device::IncomingMail incoming[] = {{mail, memory, 8}, {other, memory, 8}};
            const auto takes =
                bench.launched<FewExchanged>([&](CudaDevice& device) { return device.take_mails(incoming, kStream); })
                    .second;
            CHECK(at(takes.parts[0].take.times) == wanted(first));
            CHECK(at(takes.parts[1].take.times) == wanted(times + 1));
            device::FencedCopy copy;
            copy.bytes = 8;
            copy.after = mail.taken;
            copy.times = first;
            CHECK(at(bench
                         .launched<FencedCopyArguments>(
                             [&](CudaDevice& device) { return device.copy_fenced(copy, kStream); })
                         .second.times) == wanted(first));
        }
    }
}

TEST_CASE("every kernel starts early where the device allows it, and none elsewhere") {
    for (const bool early : {false, true}) {
        Bench bench(true, early);
        const device::Mail mail = mail_of(8);
        auto* const memory = reinterpret_cast<std::byte*>(0x4000);
        device::FencedCopy copy;
        copy.destination = memory;
        copy.source = memory + 64;
        copy.bytes = 8;
        copy.after = mail.taken;
        const auto is_early = [&]<typename Arguments>(Arguments, auto call) {
            return bench.launched<Arguments>(call).first.early;
        };
        const device::OutgoingMail outgoing{mail, memory};
        const device::IncomingMail incoming{mail, memory, 8};
        CHECK(is_early(PutMailArguments{}, [&](auto& device) { return device.put_mail(mail, memory, kStream); }) ==
              early);
        CHECK(is_early(TakeMailArguments{},
                       [&](auto& device) { return device.take_mail(mail, memory, 8, false, kStream); }) == early);
        CHECK(is_early(FewExchanged{}, [&](auto& device) {
                  return device.put_mails({&outgoing, 1}, kStream);
              }) == early);
        CHECK(is_early(FewExchanged{}, [&](auto& device) {
                  return device.take_mails({&incoming, 1}, kStream);
              }) == early);
        CHECK(is_early(FewExchanged{}, [&](auto& device) {
                  return device.exchange({.puts = {&outgoing, 1}, .takes = {&incoming, 1}}, kStream);
              }) == early);
        CHECK(is_early(FencedCopyArguments{}, [&](auto& device) { return device.copy_fenced(copy, kStream); }) ==
              early);
        CHECK(is_early(WatchCounterArguments{},
                       [&](auto& device) { return device.watch_counter(kStream, mail.sent, mail.value); }) == early);
    }
}

TEST_CASE("streams do not wait for the legacy one, and urgent ones have the highest priority") {
    Bench bench;
    must(bench.device.create_stream());
    CHECK(fake().stream_flags == CU_STREAM_NON_BLOCKING);
    CHECK(fake().stream_priority == 0);
    must(bench.device.create_urgent_stream());
    CHECK(fake().stream_flags == CU_STREAM_NON_BLOCKING);
    CHECK(fake().stream_priority == kUrgentPriority);
}

TEST_CASE("streams that were reserved are urgent, and are not made when they are taken") {
    Bench bench;
    must(bench.device.reserve_urgent_streams(2));
    CHECK(fake().stream_priority == kUrgentPriority);
    const uintptr_t made = fake().next_handle;
    const device::Stream one = must(bench.device.take_reserved_stream());
    CHECK(must(bench.device.take_reserved_stream()) != one);
    CHECK(fake().next_handle == made);
    must(bench.device.destroy_stream(one));
    must(bench.device.take_reserved_stream());
    CHECK(fake().next_handle != made);
}

TEST_CASE("a counter is watched by one thread") {
    Bench bench;
    const device::Mail mail = mail_of(8);
    const auto [launch, arguments] = bench.launched<WatchCounterArguments>(
        [&](CudaDevice& device) { return device.watch_counter(kStream, mail.sent, mail.value); });
    CHECK(launch.kernel == kWatchCounter);
    CHECK(launch.blocks == 1);
    CHECK(launch.threads == 1);
    CHECK(static_cast<const void*>(arguments.counter) == mail.sent);
    CHECK(arguments.value == mail.value);
}

TEST_CASE("kernels are given counters by the device's address for them") {
    Bench bench(false);
    fake().host_distance = 0x100000;
    const device::Mail mail = mail_of(8);
    const auto [put, put_arguments] = bench.launched<PutMailArguments>(
        [&](CudaDevice& device) { return device.put_mail(mail, mail.words, kStream); });
    CHECK(reinterpret_cast<uintptr_t>(put_arguments.sent) == 0x106000);
    const auto [take, take_arguments] = bench.launched<TakeMailArguments>(
        [&](CudaDevice& device) { return device.take_mail(mail, mail.words, 8, true, kStream); });
    CHECK(reinterpret_cast<uintptr_t>(take_arguments.sent) == 0x106000);
    CHECK(reinterpret_cast<uintptr_t>(take_arguments.taken) == 0x106040);
    device::FencedCopy fenced;
    fenced.bytes = 16;
    fenced.after = mail.taken;
    const auto [copy, copy_arguments] =
        bench.launched<FencedCopyArguments>([&](CudaDevice& device) { return device.copy_fenced(fenced, kStream); });
    CHECK(copy_arguments.before == nullptr); // not the address of null
    CHECK(reinterpret_cast<uintptr_t>(copy_arguments.after) == 0x106040);
}

TEST_CASE("a launch that fails is the stream's error, in our context and back in the caller's") {
    Bench bench;
    fake().current = kOther;
    fake().next_launch = CUDA_ERROR_INVALID_HANDLE;
    const device::Mail mail = mail_of(8);
    CHECK_STATUS(bench.device.put_mail(mail, mail.words, kStream), Status::kStream);
    CHECK_STATUS(bench.device.take_mail(mail, mail.words, 8, true, kStream), Status::kStream);
    CHECK(fake().current == kOther);
    CHECK(fake().switches == 4);
}

} // namespace gpurun::test
