// Broadcast and barrier: check, translate, build the steps.
#include "api/collective_call.hpp"
#include "comm/collective/barrier.hpp"
#include "comm/collective/bcast.hpp"

namespace gpurun::api {

namespace {

using base::Collective;
using base::Result;
using base::Status;
using comm::Rank;
using comm::Schedule;
using transfer::Operand;

// ---- broadcast

// Its buffer, as the root or another rank has it.
struct Message {
    void* buffer;
    size_t count;
    gpurun_datatype type;
};
Result<void> prepare_bcast(Operand& both, const Call& call, const Message& message, int root, gpurun_stream stream) {
    GPURUN_TRY(check_root(call, root));
    const Access access = root == call.comm->rank().value ? Access::kRead : Access::kWrite;
    return fill_operand(both, *call.runtime, access, message.buffer, message.count, message.type, stream);
}
comm::Signature signature_of(const Operand& both, int root) {
    return comm::Signature(Collective::kBcast).with_root(root).with_bytes(both.bytes);
}
auto bcast_of(const Call& call, const Operand& both, int root) {
    const comm::Broadcast work{buffer_of(both), Rank{root},
                               wish_of(call, &base::AlgorithmsAskedFor::bcast, both.bytes)};
    return [work](Schedule& schedule) { build_bcast(schedule, work); };
}

Result<void> bcast(const Message& message, int root, gpurun_comm comm, gpurun_stream stream, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, comm, way));
    Operand both;
    GPURUN_TRY(prepare_bcast(both, call, message, root, stream));
    return perform(call, signature_of(both, root), both, bcast_of(call, both, root), way);
}

// ---- barrier

Result<void> barrier(gpurun_comm comm, gpurun_stream stream, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, comm, way));
    Operand order;
    GPURUN_TRY(fill_operand(order, *call.runtime, Access::kRead, nullptr, 0, stream));
    const transfer::Resources& resources = call.engine->resources();
    const bool by_mail = order.on_stream() && !order.captured() && resources.kernels_spin &&
                         resources.exchanges.has_mails() && resources.settings.mail_bytes != 0;
    return perform(
        call, Collective::kBarrier, order, [=](comm::Schedule& schedule) { comm::build_barrier(schedule, by_mail); },
        way);
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;
using api::Way;

extern "C" {

gpurun_status gpurun_bcast(void* buffer, size_t count, gpurun_datatype type, int root, gpurun_comm comm,
                           gpurun_stream stream) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(type), .count = count});
    return api::report(api::bcast({buffer, count, type}, root, comm, stream, Way::blocking()));
}

gpurun_status gpurun_ibcast(void* buffer, size_t count, gpurun_datatype type, int root, gpurun_comm comm,
                            gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(type), .count = count});
    return api::report(api::bcast({buffer, count, type}, root, comm, stream, Way::started(ret_request)));
}

gpurun_status gpurun_barrier(gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::barrier(comm, stream, Way::blocking()));
}

gpurun_status gpurun_ibarrier(gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::barrier(comm, stream, Way::started(ret_request)));
}

gpurun_status gpurun_bcast_init(void* buffer, size_t count, gpurun_datatype type, int root, gpurun_comm comm,
                                gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(type), .count = count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::bcast({buffer, count, type}, root, comm, stream, way);
        },
        ret_request));
}

gpurun_status gpurun_barrier_init(gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::prepare([=](const Way& way) { return api::barrier(comm, stream, way); }, ret_request));
}

} // extern "C"
