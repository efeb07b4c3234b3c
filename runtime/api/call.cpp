#include "api/call.hpp"

#include "api/host_memory.hpp"
#include "base/format.hpp"
#include "comm/datatype.hpp"

namespace gpurun::api {

using base::Result;
using base::Status;

base::Error truncated(size_t bytes, size_t room) {
    return base::error(Status::kTruncated,
                       "the message has {} bytes, but the receive buffer only {}: its beginning was delivered", bytes,
                       room);
}

void fill_status(const comm::Arrived& arrived, gpurun_datatype type, Status error, bool cancelled,
                 gpurun_message_status& ret_status) {
    auto element = comm::type_size(static_cast<int>(type));
    CHECK(element); // the call has been through operand()
    ret_status = gpurun_message_status{
        arrived.source,   arrived.tag, arrived.bytes / *element, arrived.bytes, static_cast<gpurun_status>(error),
        cancelled ? 1 : 0};
}

Result<void> find_comm(Call& call, gpurun_comm comm) {
    comm::Communicators& all = call.runtime->engine().communicators();
    call.comm = all.find(comm.id);
    if (call.comm != nullptr) [[likely]]
        return {};
    if (comm.id == GPURUN_COMM_NULL.id)
        return base::error(Status::kComm, "GPURUN_COMM_NULL is no communicator: use GPURUN_COMM_WORLD, or one that "
                                          "gpurun_comm_split() or its like has given this rank");
    if (all.had(comm.id))
        return base::error(Status::kComm, "the communicator has been freed: its handle cannot be used any more");
    return base::error(Status::kComm, "{} is no communicator of this process; use GPURUN_COMM_WORLD", comm.id);
}

std::string in_quotes(const comm::Communicator& comm) {
    auto current = runtime();
    if (!current || comm.id() == comm::kWorldId)
        return "";
    const std::string name = (*current)->engine().communicators().name(comm);
    return name.empty() ? "" : base::format(" '{}'", name);
}

base::Error no_such_rank(const comm::Communicator& comm, int rank, const char* what, bool wildcard) {
    return base::error(Status::kRank, "{} {} is not a rank of the communicator{}: it has ranks 0 to {}{}", what, rank,
                       in_quotes(comm), comm.size() - 1,
                       wildcard ? ", and GPURUN_ANY_SOURCE or GPURUN_PROC_NULL may be given" : "");
}

base::Error no_such_tag(int tag, bool wildcard) {
    return base::error(Status::kTag, "tag {} cannot be used: tags are 0 to GPURUN_TAG_MAX{}", tag,
                       wildcard ? ", or GPURUN_ANY_TAG" : "");
}

base::Error no_output(const char* what) {
    return base::error(Status::kArgument, "{} is NULL: pass the address of a variable for the result", what);
}

Result<void> look_up_operand(transfer::Operand& operand, Runtime& runtime, Access access, gpurun_stream stream) {
    if (stream != GPURUN_HOST) {
        GPURUN_ASSIGN(const CheckedStream checked, any_stream(runtime, stream));
        operand.domain = checked.captured ? transfer::Domain::kGraph : transfer::Domain::kStream;
        operand.stream = checked.stream;
    }
    const void* const buffer = operand.address;
    const size_t bytes = operand.bytes;
    if (bytes == 0 || runtime.host_pages().know(buffer, bytes, access))
        return {};
    if (buffer == nullptr)
        return base::error(Status::kBuffer, "the buffer is NULL, but it should have {} bytes", bytes);
    GPURUN_ASSIGN(const std::optional<device::Buffer> borrowed,
                  runtime.engine().loans().look_up(buffer, bytes, access == Access::kWrite));
    if (borrowed) {
        operand.where = *borrowed;
        return {};
    }
    const uint64_t seen = runtime.host_pages().version();
    const auto where = runtime.device().describe(buffer, bytes);
    if (!where)
        return where.error();
    if (where.value().placement == device::Placement::kPageable) { // of which nothing else is known
        GPURUN_TRY(check_host_memory(buffer, bytes, access, seen));
        runtime.host_pages().keep(buffer, bytes, access, seen);
        return {};
    }
    if (access == Access::kWrite) {
        if (where.value().read_only)
            return read_only(buffer, bytes);
        if (where.value().placement == device::Placement::kPinned)
            GPURUN_TRY(check_host_memory(buffer, bytes, access, seen));
    }
    operand.where = where.value();
    return {};
}

Result<CheckedStream> any_stream(Runtime& runtime, gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return base::error(Status::kStream,
                           "GPURUN_HOST is not a stream of the device: pass a stream of gpurun_stream_create() or of "
                           "CUDA");
    const device::Stream native{stream};
    GPURUN_ASSIGN(const bool captured, runtime.device().is_captured(native));
    return CheckedStream{native, captured};
}

Result<device::Stream> device_stream(Runtime& runtime, gpurun_stream stream) {
    GPURUN_ASSIGN(const CheckedStream checked, any_stream(runtime, stream));
    if (checked.captured)
        return base::error(Status::kUnsupported,
                           "stream {} is being captured into a graph, and this call cannot be captured: make it "
                           "outside of the capture",
                           checked.stream.address());
    return checked.stream;
}

base::Error lacks(Runtime& runtime, device::Capability what, const char* advice) {
    return base::error(Status::kUnsupported, "{} lacks a capability that this call needs, '{}': {}",
                       runtime.device().info().name, device::info_of(what).name, advice);
}

Result<void> refuse_captured(const transfer::Operand& operand, const char* what) {
    if (!operand.captured())
        return {};
    return base::error(Status::kUnsupported, "{} cannot be captured into a graph; make the call outside of the capture",
                       what);
}

base::Error no_wildcards() {
    return base::error(
        Status::kUnsupported,
        "a captured receive is matched once, for all runs of its graph: give its source and its tag, not "
        "GPURUN_ANY_SOURCE or GPURUN_ANY_TAG");
}

} // namespace gpurun::api
