#include "api/call.hpp"

#include "base/format.hpp"
#include "comm/datatype.hpp"
#include "platform/readable.hpp"

#include <array>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

thread_local std::string detail;

constexpr uintptr_t kPageBytes = 4096;

// A host page that was once found usable is remembered by the thread, so that a buffer which is used again costs no
// system call. Memory that is unmapped or protected later is the caller's bug.
bool is_usable_page(uintptr_t page, Access access) {
    static thread_local std::array<std::array<uintptr_t, 256>, 2> seen{};
    // Fibonacci hashing to 2 to the 8: buffers whose pages lie a power of two apart are common.
    uintptr_t& place = seen[access == Access::kWrite ? 1 : 0][(page * 0x9e3779b97f4a7c15) >> 56];
    if (place == page && page != 0)
        return true;
    const auto* const address = reinterpret_cast<const void*>(page * kPageBytes);
    if (!(access == Access::kWrite ? platform::writable(address) : platform::readable(address)))
        return false;
    place = page;
    return true;
}

// The first and the last page are looked at.
bool is_usable(const void* buffer, size_t bytes, Access access) {
    const auto first = reinterpret_cast<uintptr_t>(buffer);
    const uintptr_t last = first + (bytes - 1);
    return last >= first && is_usable_page(first / kPageBytes, access) && is_usable_page(last / kPageBytes, access);
}

base::Error read_only(const void* buffer, size_t bytes) {
    return base::error(Status::kBuffer,
                       "{} to {} bytes on is mapped read-only: it can be sent, but not received into or written",
                       buffer, bytes);
}

// A wild pointer becomes an error instead of a crash.
Result<void> check_host_memory(const void* buffer, size_t bytes, Access access) {
    if (is_usable(buffer, bytes, access))
        return {};
    if (access == Access::kWrite && is_usable(buffer, bytes, Access::kRead))
        return read_only(buffer, bytes);
    return base::error(Status::kBuffer,
                       "{} to {} bytes on is not memory of this process: it was freed, or the pointer "
                       "or the count is wrong",
                       buffer, bytes);
}

} // namespace

gpurun_status report(base::Error error) {
    detail = std::move(error.detail);
    return static_cast<gpurun_status>(error.status);
}

const char* last_detail() { return detail.c_str(); }

Result<void> enter(Call& call, gpurun_comm comm) {
    GPURUN_ASSIGN(call.runtime, runtime());
    GPURUN_ASSIGN(call.comm, find_comm(*call.runtime, comm));
    return {};
}

Result<void> check_truncation(size_t bytes, size_t room) {
    if (bytes <= room)
        return {};
    return base::error(Status::kTruncated,
                       "the message has {} bytes but the receive's buffer {}; its beginning was delivered", bytes,
                       room);
}

void fill_status(const comm::Arrived& arrived, gpurun_datatype type, Status error, bool cancelled,
                 gpurun_message_status* ret_status) {
    if (ret_status == nullptr)
        return;
    auto element = comm::type_size(static_cast<int>(type));
    CHECK(element); // the call has been through operand()
    *ret_status = gpurun_message_status{
        arrived.source,   arrived.tag, arrived.bytes / *element, arrived.bytes, static_cast<gpurun_status>(error),
        cancelled ? 1 : 0};
}

Result<void> deliver(const comm::Arrived& arrived, size_t room, gpurun_datatype type,
                     gpurun_message_status* ret_status) {
    auto fits = check_truncation(arrived.bytes, room);
    fill_status(arrived, type, fits ? Status::kOk : Status::kTruncated, false, ret_status);
    return fits;
}

Result<const comm::Communicator*> find_comm(Runtime& runtime, gpurun_comm comm) {
    if (comm.id != runtime.world().id)
        return base::error(Status::kComm, "communicator {} does not exist; use GPURUN_COMM_WORLD", comm.id);
    return &runtime.world();
}

Result<void> check_rank(const comm::Communicator& comm, int rank, const char* what, bool wildcard) {
    if ((rank >= 0 && rank < comm.size) || rank == GPURUN_PROC_NULL || (wildcard && rank == GPURUN_ANY_SOURCE))
        return {};
    return base::error(Status::kRank, "{} {} is not a rank of the communicator: it has ranks 0 to {}{}", what, rank,
                       comm.size - 1, wildcard ? ", and GPURUN_ANY_SOURCE or GPURUN_PROC_NULL may be given" : "");
}

Result<void> check_tag(int tag, bool wildcard) {
    if (tag >= 0 || (wildcard && tag == GPURUN_ANY_TAG))
        return {};
    return base::error(Status::kTag, "tag {} cannot be used: tags are 0 to GPURUN_TAG_MAX{}", tag,
                       wildcard ? ", or GPURUN_ANY_TAG" : "");
}

Result<void> check_output(const void* output, const char* what) {
    if (output != nullptr)
        return {};
    return base::error(Status::kArgument, "{} is NULL: pass the address of a variable for the result", what);
}

Result<void> fill_operand(transfer::Operand& operand, Runtime& runtime, Access access, const void* buffer, size_t bytes,
                          gpurun_stream stream) {
    operand.address = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
    operand.bytes = bytes;
    if (stream != GPURUN_HOST) {
        GPURUN_ASSIGN(const CheckedStream checked, any_stream(runtime, stream));
        operand.on_stream = true;
        operand.captured = checked.captured;
        operand.stream = checked.stream;
    }
    if (bytes == 0)
        return {};
    if (buffer == nullptr)
        return base::error(Status::kBuffer, "the buffer is NULL but {} bytes are asked for", bytes);
    const uint64_t seen = runtime.host_pages().version();
    const auto where = runtime.device().describe(buffer, bytes);
    if (!where)
        return where.error();
    if (where.value().placement == device::Placement::kPageable) { // of which nothing else is known
        GPURUN_TRY(check_host_memory(buffer, bytes, access));
        runtime.host_pages().keep(buffer, bytes, access, seen);
        return {};
    }
    if (access == Access::kWrite) {
        if (where.value().read_only)
            return read_only(buffer, bytes);
        if (where.value().placement == device::Placement::kPinned)
            GPURUN_TRY(check_host_memory(buffer, bytes, access));
    }
    operand.where = where.value();
    return {};
}

Result<void> fill_operand(transfer::Operand& operand, Runtime& runtime, Access access, const void* buffer, size_t count,
                          gpurun_datatype type, gpurun_stream stream) {
    GPURUN_ASSIGN(const size_t bytes, comm::message_bytes(count, static_cast<int>(type)));
    return fill_operand(operand, runtime, access, buffer, bytes, stream);
}

Result<CheckedStream> any_stream(Runtime& runtime, gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return base::error(Status::kStream,
                           "GPURUN_HOST is no stream of the device; pass one of gpurun_stream_create() "
                           "or of CUDA");
    const device::Stream native{stream};
    GPURUN_ASSIGN(const bool captured, runtime.device().is_captured(native));
    return CheckedStream{native, captured};
}

Result<device::Stream> device_stream(Runtime& runtime, gpurun_stream stream) {
    GPURUN_ASSIGN(const CheckedStream checked, any_stream(runtime, stream));
    if (checked.captured)
        return base::error(Status::kUnsupported,
                           "stream {} is being captured into a graph, of which this call cannot be a part; make it "
                           "outside of the capture",
                           checked.stream.native);
    return checked.stream;
}

Result<void> refuse_captured(const transfer::Operand& operand, const char* what) {
    if (!operand.captured)
        return {};
    return base::error(Status::kUnsupported, "{} cannot be captured into a graph; make the call outside of the capture",
                       what);
}

Result<void> check_captured(const transfer::Operand& receive, int source, int tag) {
    if (!receive.captured || (source != GPURUN_ANY_SOURCE && tag != GPURUN_ANY_TAG))
        return {};
    return base::error(
        Status::kUnsupported,
        "a captured receive is matched once, for all runs of its graph: give its source and its tag, not "
        "GPURUN_ANY_SOURCE or GPURUN_ANY_TAG");
}

} // namespace gpurun::api
