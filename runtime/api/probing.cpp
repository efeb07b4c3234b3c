// Probes, and receiving what a matched probe has taken.
#include "api/call.hpp"
#include "base/format.hpp"

namespace gpurun::api {

using base::Result;
using base::Status;

Result<Taken> find_taken(const gpurun_message* message) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(message, "message"));
    if (message->id == GPURUN_MESSAGE_NO_PROC.id)
        return Taken{found, &found->engine(), message->id, &found->world()};
    comm::Engine& engine = found->engine_of(message->id);
    const comm::Communicator* const comm = engine.messages().communicator_of_taken(message->id);
    if (comm == nullptr)
        return base::error(Status::kRequest,
                           "{} is not a probed message of this process: it was received before, or never probed",
                           message->id);
    return Taken{found, &engine, message->id, comm};
}

namespace {

// One probe. `ret_message`: it takes the message.
struct Probe {
    int source;
    int tag;
    gpurun_comm comm;
    bool may_wait;
};

Result<bool> probe(const Probe& what, gpurun_message* ret_message, gpurun_message_status* ret_status) {
    GPURUN_TRY(refuse_in_group(base::this_call().name.load(std::memory_order_relaxed)));
    Call call;
    GPURUN_TRY(enter(call, what.comm));
    GPURUN_TRY(check_rank(call, what.source, "source", true));
    GPURUN_TRY(check_tag(what.tag, true));
    if (what.source == GPURUN_PROC_NULL) {
        if (ret_message != nullptr)
            *ret_message = GPURUN_MESSAGE_NO_PROC;
        if (ret_status != nullptr)
            fill_status(comm::Arrived{}, GPURUN_BYTE, Status::kOk, false, *ret_status);
        return true;
    }
    uint64_t taken = 0;
    const comm::CommunicatorUse use(*call.comm);
    const auto pattern = comm::Pattern::of(call.comm->group(), call.comm->user_context(), what.source, what.tag);
    GPURUN_ASSIGN(const std::optional<comm::Messages::Found> found,
                  call.engine->messages().probe(pattern, what.may_wait, ret_message == nullptr ? nullptr : &taken));
    if (!found)
        return false;
    if (ret_message != nullptr)
        *ret_message = gpurun_message{taken};
    if (ret_status != nullptr)
        fill_status({pattern.rank_of(found->source), found->envelope.tag, static_cast<size_t>(found->envelope.bytes)},
                    GPURUN_BYTE, Status::kOk, false, *ret_status);
    return true;
}

gpurun_status report_found(Result<bool> found, int* ret_found) {
    if (!found)
        return report(std::move(found).error());
    if (ret_found != nullptr)
        *ret_found = *found ? 1 : 0;
    return GPURUN_OK;
}

Result<void> receive_taken(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                           gpurun_stream stream, gpurun_message_status* ret_status, platform::TraceEvent* event) {
    GPURUN_ASSIGN(const Taken taken, find_taken(message));
    transfer::Operand into;
    GPURUN_TRY(fill_operand(into, *taken.runtime, Access::kWrite, buffer, count, type, stream));
    GPURUN_TRY(refuse_captured(into, "receiving a probed message"));
    comm::Arrived arrived;
    const bool from_nobody = taken.number == GPURUN_MESSAGE_NO_PROC.id;
    *message = GPURUN_MESSAGE_NULL;
    if (OpenGroup* const group = open_group(); group != nullptr && !from_nobody) {
        group->add("gpurun_mrecv", *taken.engine,
                   {.kind = comm::Task::Kind::kReceive,
                    .type = static_cast<int>(type),
                    .peer = GPURUN_ANY_SOURCE,
                    .tag = GPURUN_ANY_TAG,
                    .comm = taken.comm,
                    .taken = taken.number,
                    .operand = into},
                   ret_status);
        return {};
    }
    if (!from_nobody) {
        GPURUN_ASSIGN(arrived, comm::recv_taken(*taken.engine, *taken.comm, into, taken.number, event));
    }
    return deliver(arrived, into.bytes, type, ret_status);
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_probe(int source, int tag, gpurun_comm comm, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {source, tag});
    return api::report_found(api::probe({source, tag, comm, true}, nullptr, ret_status), nullptr);
}

gpurun_status gpurun_iprobe(int source, int tag, gpurun_comm comm, int* ret_found, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {source, tag});
    if (auto checked = api::check_output(ret_found, "ret_found"); !checked)
        return api::report(std::move(checked));
    return api::report_found(api::probe({source, tag, comm, false}, nullptr, ret_status), ret_found);
}

gpurun_status gpurun_mprobe(int source, int tag, gpurun_comm comm, gpurun_message* ret_message,
                            gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {source, tag});
    if (auto checked = api::check_output(ret_message, "ret_message"); !checked)
        return api::report(std::move(checked));
    return api::report_found(api::probe({source, tag, comm, true}, ret_message, ret_status), nullptr);
}

gpurun_status gpurun_improbe(int source, int tag, gpurun_comm comm, int* ret_found, gpurun_message* ret_message,
                             gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {source, tag});
    if (auto checked = api::check_output(ret_found, "ret_found"); !checked)
        return api::report(std::move(checked));
    if (auto checked = api::check_output(ret_message, "ret_message"); !checked)
        return api::report(std::move(checked));
    return api::report_found(api::probe({source, tag, comm, false}, ret_message, ret_status), ret_found);
}

gpurun_status gpurun_mrecv(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                           gpurun_stream stream, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::receive_taken(buffer, count, type, message, stream, ret_status, call.event()));
}

} // extern "C"
