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
    GPURUN_ASSERT(element); // the call has been through operand()
    ret_status = gpurun_message_status{
        arrived.source,   arrived.tag, arrived.bytes / *element, arrived.bytes, static_cast<gpurun_status>(error),
        cancelled ? 1 : 0};
}

Result<void> find_comm(Call& call, gpurun_comm comm) {
    World* const joint = call.runtime->joint_worlds().of_name(comm.id);
    if (joint != nullptr)
        call.engine = &joint->engine();
    comm::Communicators& all = call.engine->communicators();
    call.comm = all.find(comm.id);
    if (call.comm != nullptr) [[likely]]
        return {};
    if (comm.id == GPURUN_COMM_NULL.id)
        return base::error(Status::kComm, "GPURUN_COMM_NULL is no communicator: use GPURUN_COMM_WORLD, or one that "
                                          "gpurun_comm_split() or its like has given this rank");
    if (all.had(comm.id) || call.runtime->joint_worlds().had(comm.id))
        return base::error(Status::kComm, "the communicator has been freed: its handle cannot be used any more");
    return base::error(Status::kComm, "{} is no communicator of this process; use GPURUN_COMM_WORLD", comm.id);
}

std::string in_quotes(const Call& call) {
    if (call.comm == &call.runtime->world())
        return "";
    const std::string name = call.engine->communicators().name(*call.comm);
    return name.empty() ? "" : base::format(" '{}'", name);
}

base::Error no_such_rank(const Call& call, int rank, const char* what, bool wildcard) {
    const bool alone = call.comm->size() == 1 && call.runtime->session().alone();
    return base::error(
        Status::kRank, "{} {} is not a rank of the communicator{}: it has ranks 0 to {}{}{}", what, rank,
        in_quotes(call), call.comm->size() - 1,
        wildcard ? ", and GPURUN_ANY_SOURCE or GPURUN_PROC_NULL may be given" : "",
        alone ? "; gpurun did not start this process, so it is a job of one rank: use gpurun -n 2 PROGRAM" : "");
}

base::Error no_such_tag(int tag, bool wildcard) {
    return base::error(Status::kTag, "tag {} cannot be used: tags are 0 to GPURUN_TAG_MAX{}", tag,
                       wildcard ? ", or GPURUN_ANY_TAG" : "");
}

base::Error no_output(const char* what) {
    return base::error(Status::kArgument, "{} is NULL: pass the address of a variable for the result", what);
}

// Memory that another rank has lent to this one, in whichever of its jobs; an error if what is lent forbids the access.
static Result<std::optional<device::Buffer>> find_borrowed(Runtime& runtime, const void* buffer, size_t bytes,
                                                           Access access) {
    std::optional<device::Buffer> borrowed;
    GPURUN_TRY(runtime.for_each_engine([&](comm::Engine& each) -> Result<void> {
        GPURUN_ASSIGN(const std::optional<device::Buffer> here,
                      each.loans().look_up(buffer, bytes, access == Access::kWrite));
        borrowed = borrowed ? borrowed : here;
        return {};
    }));
    return borrowed;
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
    GPURUN_ASSIGN(const std::optional<device::Buffer> borrowed, find_borrowed(runtime, buffer, bytes, access));
    if (borrowed) {
        operand.where = *borrowed;
        return {};
    }
    const uint64_t seen = runtime.host_pages().version();
    const auto where = runtime.device().describe(buffer, bytes);
    if (!where)
        return where.error();
    if (where.value().placement == device::Placement::kPageable) { // of which nothing else is known
        GPURUN_TRY(check_host_memory(runtime.host_pages(), buffer, bytes, access, seen));
        runtime.host_pages().keep(buffer, bytes, access, seen);
        return {};
    }
    if (access == Access::kWrite) {
        if (where.value().read_only)
            return read_only(buffer, bytes);
        if (where.value().placement == device::Placement::kPinned)
            GPURUN_TRY(check_host_memory(runtime.host_pages(), buffer, bytes, access, seen));
    }
    operand.where = where.value();
    return {};
}

Result<void> look_up_like(transfer::Operand& operand, Runtime& runtime, Access access, const transfer::Operand& like) {
    operand.domain = like.domain;
    operand.stream = like.stream;
    if (operand.bytes == 0)
        return {};
    GPURUN_ASSIGN(const std::optional<device::Buffer> borrowed,
                  find_borrowed(runtime, operand.address, operand.bytes, access));
    if (!borrowed && access == Access::kWrite && like.where.read_only)
        return read_only(operand.address, operand.bytes);
    operand.where = borrowed.value_or(like.where);
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
