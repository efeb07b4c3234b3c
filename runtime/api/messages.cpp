// Point-to-point calls: check, translate, call.
#include "api/call.hpp"
#include "base/format.hpp"
#include "comm/datatype.hpp"

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;
using comm::Arrived;
using comm::Communicator;
using comm::Task;
using transfer::Operand;

// Of a call in a group.
Task task_of(Task::Kind kind, const Call& call, const Operand& operand, int peer, int tag, gpurun_datatype type) {
    return {
        .kind = kind, .type = static_cast<int>(type), .peer = peer, .tag = tag, .comm = call.comm, .operand = operand};
}

Result<void> send(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                  gpurun_stream stream, const comm::SendOptions& options) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_rank(call, dest, "destination", false));
    GPURUN_TRY(check_tag(tag, false));
    Operand from;
    GPURUN_TRY(fill_operand(from, *call.runtime, Access::kRead, buffer, count, type, stream));
    if (dest == GPURUN_PROC_NULL)
        return {};
    if (OpenGroup* const group = open_group()) [[unlikely]] {
        Task task = task_of(Task::Kind::kSend, call, from, dest, tag, type);
        task.synchronous = options.synchronous;
        group->add(options.synchronous ? "gpurun_ssend" : "gpurun_send", *call.engine, task);
        return {};
    }
    return comm::send(*call.engine, *call.comm, from, dest, tag, options);
}

Result<void> recv(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                  gpurun_stream stream, gpurun_message_status* ret_status, platform::TraceEvent* event) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_rank(call, source, "source", true));
    GPURUN_TRY(check_tag(tag, true));
    Operand into;
    GPURUN_TRY(fill_operand(into, *call.runtime, Access::kWrite, buffer, count, type, stream));
    GPURUN_TRY(check_captured(into, source, tag));
    if (OpenGroup* const group = open_group(); group != nullptr && source != GPURUN_PROC_NULL) {
        group->add("gpurun_recv", *call.engine, task_of(Task::Kind::kReceive, call, into, source, tag, type),
                   ret_status);
        return {};
    }
    Arrived arrived;
    if (source != GPURUN_PROC_NULL)
        GPURUN_TRY(comm::recv(*call.engine, *call.comm, into, source, tag, event, arrived));
    return deliver(arrived, into.bytes, type, ret_status);
}

} // namespace

static Result<void> sendrecv(const void* send_buffer, size_t send_count, gpurun_datatype send_type, int dest,
                             int send_tag, void* recv_buffer, size_t recv_count, gpurun_datatype recv_type, int source,
                             int recv_tag, gpurun_comm comm, gpurun_stream stream, gpurun_message_status* ret_status) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_rank(call, dest, "destination", false));
    GPURUN_TRY(check_rank(call, source, "source", true));
    GPURUN_TRY(check_tag(send_tag, false));
    GPURUN_TRY(check_tag(recv_tag, true));
    Operand from;
    GPURUN_TRY(fill_operand(from, *call.runtime, Access::kRead, send_buffer, send_count, send_type, stream));
    Operand into;
    GPURUN_TRY(fill_operand(into, *call.runtime, Access::kWrite, recv_buffer, recv_count, recv_type, stream));
    GPURUN_TRY(check_captured(into, source, recv_tag));
    if (from.bytes != 0 && into.bytes != 0 && from.address < into.address + into.bytes &&
        into.address < from.address + from.bytes)
        return base::error(Status::kBuffer, "the two buffers of gpurun_sendrecv() overlap: use two");
    if (OpenGroup* const group = open_group()) [[unlikely]] {
        if (dest != GPURUN_PROC_NULL)
            group->add("gpurun_sendrecv", *call.engine,
                       task_of(Task::Kind::kSend, call, from, dest, send_tag, send_type));
        if (source == GPURUN_PROC_NULL)
            return deliver(Arrived{}, into.bytes, recv_type, ret_status);
        group->add("gpurun_sendrecv", *call.engine,
                   task_of(Task::Kind::kReceive, call, into, source, recv_tag, recv_type), ret_status);
        return {};
    }
    GPURUN_ASSIGN(const Arrived arrived,
                  comm::sendrecv(*call.engine, *call.comm, {from, dest, send_tag}, {into, source, recv_tag}));
    return deliver(arrived, into.bytes, recv_type, ret_status);
}

static Result<void> sendrecv_replace(void* buffer, size_t count, gpurun_datatype type, int dest, int send_tag,
                                     int source, int recv_tag, gpurun_comm comm, gpurun_stream stream,
                                     gpurun_message_status* ret_status) {
    GPURUN_TRY(refuse_in_group("gpurun_sendrecv_replace", "use gpurun_sendrecv() and two buffers"));
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_rank(call, dest, "destination", false));
    GPURUN_TRY(check_rank(call, source, "source", true));
    GPURUN_TRY(check_tag(send_tag, false));
    GPURUN_TRY(check_tag(recv_tag, true));
    Operand both;
    GPURUN_TRY(fill_operand(both, *call.runtime, Access::kWrite, buffer, count, type, stream));
    GPURUN_ASSIGN(const Arrived arrived,
                  comm::sendrecv_replace(*call.engine, *call.comm, {both, dest, send_tag}, {both, source, recv_tag}));
    return deliver(arrived, both.bytes, type, ret_status);
}

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_send(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                          gpurun_stream stream) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(api::send(buffer, count, type, dest, tag, comm, stream, {.call = call.event()}));
}

gpurun_status gpurun_ssend(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                           gpurun_stream stream) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(
        api::send(buffer, count, type, dest, tag, comm, stream, {.synchronous = true, .call = call.event()}));
}

gpurun_status gpurun_recv(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                          gpurun_stream stream, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {source, tag, static_cast<int>(type), count});
    return api::report(api::recv(buffer, count, type, source, tag, comm, stream, ret_status, call.event()));
}

gpurun_status gpurun_sendrecv(const void* send_buffer, size_t send_count, gpurun_datatype send_type, int dest,
                              int send_tag, void* recv_buffer, size_t recv_count, gpurun_datatype recv_type, int source,
                              int recv_tag, gpurun_comm comm, gpurun_stream stream, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {dest, send_tag, static_cast<int>(send_type), send_count});
    return api::report(api::sendrecv(send_buffer, send_count, send_type, dest, send_tag, recv_buffer, recv_count,
                                     recv_type, source, recv_tag, comm, stream, ret_status));
}

gpurun_status gpurun_sendrecv_replace(void* buffer, size_t count, gpurun_datatype type, int dest, int send_tag,
                                      int source, int recv_tag, gpurun_comm comm, gpurun_stream stream,
                                      gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {dest, send_tag, static_cast<int>(type), count});
    return api::report(
        api::sendrecv_replace(buffer, count, type, dest, send_tag, source, recv_tag, comm, stream, ret_status));
}

} // extern "C"
