// What every function of the C API has in common: find the runtime, check and translate arguments, turn an Error
// into a gpurun_status and the thread's detail.
#pragma once

#include "api/call_scope.hpp"
#include "api/runtime.hpp"
#include "comm/point_to_point.hpp"

#include <gpurun/gpurun.h>

namespace gpurun::api {

// The one of this process, between init and finalize; else null. Stored (release) once it is ready, read (acquire) by
// every call.
extern constinit std::atomic<Runtime*> running;
// kNotInitialized or kFinalized outside init and finalize.
base::Result<Runtime*> runtime();

// Keeps the error's detail for gpurun_error_detail() and returns its status.
gpurun_status report(base::Error error);
inline gpurun_status report(base::Result<void> result) {
    return result ? GPURUN_OK : report(std::move(result).error());
}
const char* last_detail();

struct Call {
    Runtime* runtime = nullptr;
    const comm::Communicator* comm = nullptr;
};
// What every call with a communicator begins with.
base::Result<void> enter(Call& call, gpurun_comm comm);

// A message that a probe has taken, or none (GPURUN_MESSAGE_NO_PROC).
struct Taken {
    Runtime* runtime;
    uint64_t number;
};
base::Result<Taken> find_taken(const gpurun_message* message);

// What a receive of `room` bytes gives for a message of `bytes`: nothing, or kTruncated.
base::Result<void> check_truncation(size_t bytes, size_t room);
// `ret_status` may be null.
void fill_status(const comm::Arrived& arrived, gpurun_datatype type, base::Status error, bool cancelled,
                 gpurun_message_status* ret_status);
// Fills the status, and says so if the message was truncated.
base::Result<void> deliver(const comm::Arrived& arrived, size_t room, gpurun_datatype type,
                           gpurun_message_status* ret_status);

base::Result<const comm::Communicator*> find_comm(Runtime& runtime, gpurun_comm comm);
// A rank of the communicator, or PROC_NULL, or (with `wildcard`) ANY_SOURCE.
base::Result<void> check_rank(const comm::Communicator& comm, int rank, const char* what, bool wildcard);
base::Result<void> check_tag(int tag, bool wildcard);
base::Result<void> check_output(const void* output, const char* what);

// A buffer of `bytes` in the order domain `stream`, both checked. Filled where the caller has it: small messages are
// short enough for copies of it to be seen.
base::Result<void> fill_operand(transfer::Operand& operand, Runtime& runtime, Access access, const void* buffer,
                                size_t bytes, gpurun_stream stream);
// The same for `count` elements of `type`.
base::Result<void> fill_operand(transfer::Operand& operand, Runtime& runtime, Access access, const void* buffer,
                                size_t count, gpurun_datatype type, gpurun_stream stream);
// A stream of the device; GPURUN_HOST is none.
struct CheckedStream {
    device::Stream stream;
    bool captured; // into a graph
};
base::Result<CheckedStream> any_stream(Runtime& runtime, gpurun_stream stream);
// kUnsupported if it is captured.
base::Result<device::Stream> device_stream(Runtime& runtime, gpurun_stream stream);
// For what cannot be part of a graph.
base::Result<void> refuse_captured(const transfer::Operand& operand, const char* what);
// A graph's receive names its message.
base::Result<void> check_captured(const transfer::Operand& receive, int source, int tag);

} // namespace gpurun::api
