// The rank's device and its memory: allocation, copies, fills.
#include "api/call.hpp"
#include "base/format.hpp"
#include "device/capability/ordered_memory.hpp"
#include "device/capability/other_devices.hpp"
#include "platform/clock.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;
using device::Placement;
using transfer::Operand;

// Runs `work` in the order domain of `operand`: in its stream, or in an internal one that is waited for.
template <typename Work>
Result<void> in_order(Runtime& runtime, const Operand& operand, Work work) {
    if (operand.on_stream())
        return work(operand.stream);
    return runtime.engine().device_waits().run_for_host(work);
}

Result<void> copy(void* destination, const void* source, size_t size, gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    Operand to;
    GPURUN_TRY(fill_operand(to, *found, Access::kWrite, destination, size, stream));
    Operand from;
    GPURUN_TRY(fill_operand(from, *found, Access::kRead, source, size, stream));
    if (size == 0)
        return {};
    if (to.by_cpu() && from.by_cpu()) {
        std::memmove(destination, source, size);
        return {};
    }
    if (to.captured() && (to.where.placement == Placement::kPageable || from.where.placement == Placement::kPageable))
        return base::error(Status::kUnsupported,
                           "gpurun_memcpy() of pageable host memory cannot be captured into a graph: use "
                           "gpurun_malloc_host() or cudaMallocHost()");
    const bool both_in_host_memory = to.in_host_memory() && from.in_host_memory();
    if (both_in_host_memory || !to.by_device() || !from.by_device())
        return comm::copy(found->engine(), found->world(), to, from);
    return in_order(*found, to, [&](device::Stream in) { return found->device().copy(destination, source, size, in); });
}

struct HostFill {
    void* pointer;
    int value;
    size_t size;
};

Result<void> fill_memory(void* pointer, int value, size_t size, gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    Operand to;
    GPURUN_TRY(fill_operand(to, *found, Access::kWrite, pointer, size, stream));
    if (size == 0)
        return {};
    if (to.by_cpu()) {
        std::memset(pointer, value, size);
        return {};
    }
    if (to.on_other_device())
        return in_order(*found, to, [&](device::Stream in) {
            return found->device().other_devices()->fill_elsewhere(pointer, value, size, in);
        });
    if (!to.in_host_memory())
        return in_order(*found, to, [&](device::Stream in) { return found->device().fill(pointer, value, size, in); });
    GPURUN_TRY(refuse_captured(to, "gpurun_memset() of host memory"));
    auto host_fill = std::make_unique<HostFill>(HostFill{pointer, value, size});
    const auto run = [](void* argument) {
        const std::unique_ptr<HostFill> work(static_cast<HostFill*>(argument));
        std::memset(work->pointer, work->value, work->size);
    };
    GPURUN_TRY(found->device().call_host(to.stream, run, host_fill.get()));
    (void)host_fill.release(); // the stream's now
    return {};
}

// What it lies in. kLoan: it is borrowed, or some of the allocation is lent.
Result<device::Buffer> describe_own(Runtime& runtime, const void* pointer) {
    GPURUN_TRY(runtime.for_each_engine([&](comm::Engine& each) -> Result<void> {
        GPURUN_ASSIGN(const std::optional<device::Buffer> borrowed, each.loans().look_up(pointer, 1, false));
        if (borrowed)
            return base::error(Status::kLoan, "{} is borrowed from another rank: give it back with gpurun_give_back()",
                               pointer);
        return {};
    }));
    GPURUN_ASSIGN(const device::Buffer buffer, runtime.device().describe(pointer, 1));
    if (buffer.placement == Placement::kPageable)
        return base::error(Status::kBuffer,
                           "{} is not memory of gpurun_malloc() or gpurun_malloc_host(), or it was "
                           "freed before",
                           pointer);
    GPURUN_TRY(runtime.for_each_engine(
        [&](comm::Engine& each) { return each.loans().check_not_lent(buffer.base, buffer.size); }));
    return buffer;
}

Result<void> free_memory(void* pointer) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (pointer == nullptr)
        return {};
    GPURUN_ASSIGN(const device::Buffer buffer, describe_own(*found, pointer));
    if (buffer.base == pointer)
        GPURUN_TRY(found->joint_worlds().for_each([&](World& each) {
            each.engine().memory().tell_freed(buffer);
            return Result<void>();
        }));
    return found->engine().memory().free(buffer, pointer);
}

Result<void> unregister(const void* pointer, int timeout_ms) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (pointer == nullptr)
        return {};
    GPURUN_ASSIGN(const device::Buffer buffer, describe_own(*found, pointer));
    if (!buffer.exportable) // nobody else can have it mapped
        return {};
    if (found->joint_worlds().empty())
        return found->engine().unregistration().run(buffer, timeout_ms);
    // The jobs in turn, for a moment each: so all are asked, and none of them is kept from being left.
    constexpr int64_t kTurnMs = 10;
    const int64_t end_ns = platform::now_ns() + int64_t{timeout_ms} * 1'000'000;
    while (true) {
        Result<void> result;
        const int64_t left_ms = (end_ns - platform::now_ns() + 999'999) / 1'000'000;
        const int64_t turn_ms = timeout_ms < 0 ? kTurnMs : std::clamp<int64_t>(left_ms, 0, kTurnMs);
        GPURUN_TRY(found->for_each_engine([&](comm::Engine& each) -> Result<void> {
            auto done = each.unregistration().run(buffer, static_cast<int>(turn_ms));
            if (!done && done.error().status != Status::kTimeout)
                return done;
            if (!done)
                result = std::move(done);
            return {};
        }));
        if (result || turn_ms == 0)
            return result;
    }
}

// Memory whose freeing was deferred. False if there was none.
bool reclaim(Runtime& runtime) {
    bool reclaimed = false;
    static_cast<void>(runtime.for_each_engine([&](comm::Engine& each) {
        reclaimed |= each.reclaim();
        return Result<void>();
    }));
    return reclaimed;
}

template <typename Allocate>
gpurun_status allocate(void** ret_pointer, size_t size, Allocate allocate_on) {
    auto found = runtime();
    if (!found)
        return report(std::move(found).error());
    if (auto checked = check_output(ret_pointer, "ret_pointer"); !checked)
        return report(std::move(checked));
    if (size == 0) {
        *ret_pointer = nullptr;
        return GPURUN_OK;
    }
    Result<void*> memory = allocate_on(**found);
    if (!memory && memory.error().status == Status::kMemory && reclaim(**found))
        memory = allocate_on(**found);
    if (!memory)
        return report(std::move(memory).error());
    *ret_pointer = *memory;
    return GPURUN_OK;
}

void copy_text(const std::string& from, std::span<char> to) {
    const size_t length = std::min(from.size(), to.size() - 1);
    std::memcpy(to.data(), from.data(), length);
    to[length] = '\0';
}

Result<void> describe_device(gpurun_device_info* ret_info) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_info, "ret_info"));
    if (ret_info->size != sizeof(gpurun_device_info))
        return base::error(Status::kArgument, "ret_info->size is {}: set it to sizeof(gpurun_device_info) ({}) before",
                           ret_info->size, sizeof(gpurun_device_info));
    const device::Info& info = found->device().info();
    gpurun_device_info result{};
    result.size = sizeof result;
    static_assert(static_cast<int>(device::Kind::kCuda) == GPURUN_DEVICE_CUDA &&
                  static_cast<int>(device::Kind::kEmulated) == GPURUN_DEVICE_EMULATED);
    result.kind = static_cast<gpurun_device_kind>(info.identity.kind);
    result.ordinal = static_cast<int>(info.identity.ordinal);
    result.memory_bytes = info.memory_bytes;
    copy_text(info.name, result.name);
    copy_text(info.uuid, result.uuid);
    copy_text(info.pci_bus_id, result.pci_bus_id);
    *ret_info = result;
    return {};
}

} // namespace

static Result<device::OrderedMemory*> ordered_memory_of(Runtime& runtime) {
    return need(runtime, &device::Device::ordered_memory, device::Capability::kOrderedMemory,
                "use gpurun_malloc() and gpurun_free()");
}

static Result<void*> allocate_ordered(Runtime& runtime, size_t size, gpurun_stream stream) {
    GPURUN_ASSIGN(device::OrderedMemory * memory, ordered_memory_of(runtime));
    GPURUN_ASSIGN(const device::Stream in, device_stream(runtime, stream));
    return memory->allocate_ordered(size, in);
}

// Memory is described only if there are loans at all: not in a program without any.
static bool has_loans(Runtime& runtime) {
    bool any = false;
    static_cast<void>(runtime.for_each_engine([&](comm::Engine& each) {
        any |= each.loans().has_any();
        return Result<void>();
    }));
    return any;
}

static Result<void> free_ordered(void* pointer, gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const device::Stream in, device_stream(*found, stream));
    if (pointer == nullptr)
        return {};
    if (has_loans(*found))
        GPURUN_TRY(describe_own(*found, pointer));
    GPURUN_ASSIGN(device::OrderedMemory * memory, ordered_memory_of(*found));
    return memory->free_ordered(pointer, in);
}

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_device(gpurun_device_info* ret_info) {
    return api::report(api::describe_device(ret_info), __func__);
}

gpurun_status gpurun_malloc(void** ret_pointer, size_t size) {
    const api::CallScope call(__func__, {.count = size});
    return api::allocate(ret_pointer, size, [&](api::Runtime& found) { return found.device().allocate(size); });
}

gpurun_status gpurun_malloc_host(void** ret_pointer, size_t size) {
    const api::CallScope call(__func__, {.count = size});
    return api::allocate(ret_pointer, size, [&](api::Runtime& found) { return found.device().allocate_pinned(size); });
}

gpurun_status gpurun_malloc_async(void** ret_pointer, size_t size, gpurun_stream stream) {
    const api::CallScope call(__func__, {.count = size});
    return api::allocate(ret_pointer, size,
                         [&](api::Runtime& found) { return api::allocate_ordered(found, size, stream); });
}

gpurun_status gpurun_free(void* pointer) {
    const api::CallScope call(__func__);
    return api::report(api::free_memory(pointer));
}

gpurun_status gpurun_unregister(const void* pointer, int timeout_ms) {
    const api::CallScope call(__func__);
    return api::report(api::unregister(pointer, timeout_ms));
}

gpurun_status gpurun_free_async(void* pointer, gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::free_ordered(pointer, stream));
}

gpurun_status gpurun_memcpy(void* destination, const void* source, size_t size, gpurun_stream stream) {
    const api::CallScope call(__func__, {.count = size});
    return api::report(api::copy(destination, source, size, stream));
}

gpurun_status gpurun_memset(void* pointer, int value, size_t size, gpurun_stream stream) {
    const api::CallScope call(__func__, {.count = size});
    return api::report(api::fill_memory(pointer, value, size, stream));
}

} // extern "C"
