// What every function of the C API has in common: find the runtime, check and translate arguments.
#pragma once

#include "api/call_scope.hpp"
#include "api/errors.hpp"
#include "api/open_group.hpp"
#include "api/runtime.hpp"
#include "comm/datatype.hpp"
#include "comm/point_to_point.hpp"
#include "device/capabilities.hpp"

#include <gpurun/gpurun.h>

namespace gpurun::api {

// The one of this process, between init and finalize; else null. Stored (release) once it is ready, read (acquire) by
// every call.
extern constinit std::atomic<Runtime*> running;
// kNotInitialized or kFinalized outside init and finalize.
base::Error not_running();
inline base::Result<Runtime*> runtime() {
    Runtime* const current = running.load(std::memory_order_acquire);
    if (current == nullptr) [[unlikely]]
        return not_running();
    return current;
}

struct Call {
    Runtime* runtime = nullptr;
    comm::Engine* engine = nullptr; // of the communicator's job
    const comm::Communicator* comm = nullptr;
    int64_t entered_ns = 0; // of one that starts a collective: Requests::entry_time()
};
// Sets call.comm, and call.engine. kComm if there is none.
base::Result<void> find_comm(Call& call, gpurun_comm comm);
// What every call with a communicator begins with.
inline base::Result<void> enter(Call& call, gpurun_comm comm) {
    call.runtime = running.load(std::memory_order_acquire);
    if (call.runtime == nullptr) [[unlikely]]
        return not_running();
    call.engine = &call.runtime->engine();
    call.comm = &call.runtime->world();
    if (comm.id != comm::CommunicatorTable::kWorldHandle) [[unlikely]]
        return find_comm(call, comm);
    return {};
}

// A message that a probe has taken, or none (GPURUN_MESSAGE_NO_PROC).
struct Taken {
    Runtime* runtime;
    comm::Engine* engine;
    uint64_t number;
    const comm::Communicator* comm;
};
base::Result<Taken> find_taken(const gpurun_message* message);

// What a receive of `room` bytes gives for a message of `bytes`: nothing, or kTruncated.
base::Error truncated(size_t bytes, size_t room);
inline base::Result<void> check_truncation(size_t bytes, size_t room) {
    if (bytes <= room) [[likely]]
        return {};
    return truncated(bytes, room);
}
void fill_status(const comm::Arrived& arrived, gpurun_datatype type, base::Status error, bool cancelled,
                 gpurun_message_status& ret_status);
// Fills the status, and says so if the message was truncated.
inline base::Result<void> deliver(const comm::Arrived& arrived, size_t room, gpurun_datatype type,
                                  gpurun_message_status* ret_status) {
    if (ret_status != nullptr)
        fill_status(arrived, type, arrived.bytes <= room ? base::Status::kOk : base::Status::kTruncated, false,
                    *ret_status);
    return check_truncation(arrived.bytes, room);
}

// The same of a request that is complete: the status, which may be null, and its error.
base::Result<void> settle(const comm::Request& done, gpurun_message_status* ret_status);

// " 'rows'": for an error, the communicator's name behind that word. "" if it has none, or is the one of all ranks.
std::string in_quotes(const Call& call);
base::Error no_such_rank(const Call& call, int rank, const char* what, bool wildcard);
// A rank of the communicator, or PROC_NULL, or (with `wildcard`) ANY_SOURCE.
inline base::Result<void> check_rank(const Call& call, int rank, const char* what, bool wildcard) {
    if (call.comm->group().has(rank) || rank == GPURUN_PROC_NULL || (wildcard && rank == GPURUN_ANY_SOURCE)) [[likely]]
        return {};
    return no_such_rank(call, rank, what, wildcard);
}
base::Error no_such_tag(int tag, bool wildcard);
inline base::Result<void> check_tag(int tag, bool wildcard) {
    if (tag >= 0 || (wildcard && tag == GPURUN_ANY_TAG)) [[likely]]
        return {};
    return no_such_tag(tag, wildcard);
}
base::Error no_output(const char* what);
inline base::Result<void> check_output(const void* output, const char* what) {
    if (output != nullptr) [[likely]]
        return {};
    return no_output(what);
}

// A buffer of `bytes` in the order domain `stream`, both checked. Filled where the caller has it: small messages are
// short enough for copies of it to be seen.
base::Result<void> look_up_operand(transfer::Operand& operand, Runtime& runtime, Access access, gpurun_stream stream);
// The same of one in the stream and in the allocation, of device memory, of another that this call has looked up.
base::Result<void> look_up_like(transfer::Operand& operand, Runtime& runtime, Access access,
                                const transfer::Operand& like);
inline base::Result<void> fill_operand(transfer::Operand& operand, Runtime& runtime, Access access, const void* buffer,
                                       size_t bytes, gpurun_stream stream) {
    operand.address = const_cast<std::byte*>(static_cast<const std::byte*>(buffer)); // not written by a sender
    operand.bytes = bytes;
    if (stream == GPURUN_HOST && (bytes == 0 || runtime.host_pages().know(buffer, bytes, access)))
        return {};
    return look_up_operand(operand, runtime, access, stream);
}
// The same for `count` elements of `type`.
inline base::Result<void> fill_operand(transfer::Operand& operand, Runtime& runtime, Access access, const void* buffer,
                                       size_t count, gpurun_datatype type, gpurun_stream stream) {
    size_t bytes = 0;
    if (!comm::is_message(count, comm::size_of_type(static_cast<int>(type)), bytes)) [[unlikely]]
        return comm::no_such_message(count, static_cast<int>(type));
    return fill_operand(operand, runtime, access, buffer, bytes, stream);
}
// A stream of the device; GPURUN_HOST is none.
struct CheckedStream {
    device::Stream stream;
    bool captured; // into a graph
};
base::Result<CheckedStream> any_stream(Runtime& runtime, gpurun_stream stream);
// kUnsupported if it is captured.
base::Result<device::Stream> device_stream(Runtime& runtime, gpurun_stream stream);
// A capability of the rank's device; kUnsupported, with what to do instead, if it lacks that.
base::Error lacks(Runtime& runtime, device::Capability what, const char* advice);
template <typename Interface>
base::Result<Interface*> need(Runtime& runtime, Interface* (device::Device::*get)(), device::Capability what,
                              const char* advice) {
    Interface* const found = (runtime.device().*get)();
    if (found == nullptr)
        return lacks(runtime, what, advice);
    return found;
}
// For what cannot be part of a graph.
base::Result<void> refuse_captured(const transfer::Operand& operand, const char* what);
// A graph's receive names its message.
base::Error no_wildcards();
inline base::Result<void> check_captured(const transfer::Operand& receive, int source, int tag) {
    if (!receive.captured() || (source != GPURUN_ANY_SOURCE && tag != GPURUN_ANY_TAG)) [[likely]]
        return {};
    return no_wildcards();
}

} // namespace gpurun::api
