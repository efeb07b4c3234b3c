// What all collectives have in common, once their arguments are checked: they run, are started, or are left to the end
// of a group. `build` adds the steps to a schedule; a signature says what the other ranks have to call alike.
#pragma once

#include "api/call.hpp"
#include "base/collectives.hpp"
#include "base/format.hpp"
#include "comm/collective/algorithms.hpp"

namespace gpurun::api {

// Runs it, or leaves it to the end of the open group. The true length of what this rank has received; 0 without.
template <typename Build>
base::Result<size_t> run(const Call& call, const comm::Signature& what, const transfer::Operand& buffer, Build build) {
    if (OpenGroup* const group = open_group()) [[unlikely]] {
        GPURUN_TRY(refuse_captured(buffer, "a collective of a group"));
        comm::Schedules& schedules = call.engine->schedules();
        group->add_collective(
            what.kind(), *call.engine, *call.comm, buffer,
            {.start = [=, &schedules] { return schedules.start(what, *call.comm, buffer, build, std::nullopt); },
             .run = [=, &schedules] { return schedules.run(what, *call.comm, buffer, build); }});
        return size_t{0};
    }
    if (call.comm->nodes() != nullptr) // on all ranks, whether they have messages to other nodes or not
        GPURUN_TRY(refuse_captured(buffer, "a collective of ranks on several nodes"));
    return call.engine->schedules().run(what, *call.comm, buffer, build);
}

template <typename Build>
base::Result<void> start(const Call& call, const comm::Signature& what, const transfer::Operand& buffer, Build build,
                         gpurun_request* ret_request) {
    GPURUN_TRY(refuse_captured(buffer, "starting a collective without waiting for it"));
    *ret_request =
        gpurun_request{call.engine->schedules().start(what, *call.comm, buffer, std::move(build), call.entered_ns)};
    return {};
}

// Whether a call waits for its collective, gives a request, or a persistent one, or starts that.
struct Way {
    static Way blocking() { return {}; }
    static Way started(gpurun_request* ret_request) { return {true, ret_request}; }
    static Way prepared(gpurun_request* ret_request, const PersistentCall& call) { return {false, ret_request, &call}; }
    static Way again(comm::Request& request) { return {false, nullptr, nullptr, &request}; }

    bool starts = false;
    gpurun_request* ret_request = nullptr;
    const PersistentCall* prepares = nullptr; // null: it does not
    comm::Request* request = nullptr;         // that is started again
};
inline base::Result<void> enter(Call& call, gpurun_comm comm, const Way& way) {
    if (way.request != nullptr) { // the program may have freed its communicator
        GPURUN_ASSIGN(call.runtime, runtime());
        call.engine = &call.runtime->engine_of(way.request->name);
        call.comm = way.request->task.comm;
        call.entered_ns = call.engine->requests().entry_time();
        return {};
    }
    GPURUN_TRY(enter(call, comm));
    if (way.starts)
        call.entered_ns = call.engine->requests().entry_time();
    const bool gives = way.starts || way.prepares != nullptr;
    return gives ? check_output(way.ret_request, "ret_request") : base::Result<void>();
}
template <typename Build>
base::Result<void> perform(const Call& call, const comm::Signature& what, const transfer::Operand& order, Build build,
                           const Way& way) {
    if (way.starts)
        return start(call, what, order, std::move(build), way.ret_request);
    if (way.request != nullptr || way.prepares != nullptr)
        GPURUN_TRY(refuse_captured(order, "a persistent collective"));
    if (way.request != nullptr) {
        call.engine->schedules().start_again(*way.request, what, order, std::move(build), call.entered_ns);
        return {};
    }
    if (way.prepares != nullptr) {
        const uint64_t name = call.engine->requests().make(
            {.kind = comm::Task::Kind::kCollective, .persistent = true, .comm = call.comm, .operand = order});
        call.runtime->persistent_calls().add(name, *way.prepares);
        *way.ret_request = gpurun_request{name};
        return {};
    }
    auto ran = run(call, what, order, std::move(build));
    return ran ? base::Result<void>() : base::Result<void>(std::move(ran).error());
}
// A persistent request for what `call` does.
inline base::Result<void> prepare(const PersistentCall& call, gpurun_request* ret_request) {
    return call(Way::prepared(ret_request, call));
}

// By which algorithm a collective of so many bytes is to be made.
inline comm::AlgorithmWish wish_of(const Call& call, base::AlgorithmRules base::AlgorithmsAskedFor::*which,
                                   size_t bytes) {
    return {.asked_for = (call.comm->algorithms().*which).at(bytes),
            .on_gpus = call.comm->nodes() == nullptr &&
                       call.engine->resources().device.info().identity.kind == device::Kind::kCuda,
            .by_nodes = call.comm->has_nodes_of_ranks()};
}

inline comm::Schedule::Buffer buffer_of(const transfer::Operand& operand) {
    comm::Schedule::Buffer buffer;
    buffer.address = operand.address;
    buffer.bytes = operand.bytes;
    buffer.where = operand.where;
    return buffer;
}

// Stands for both buffers of a call: it is of the memory that the device reaches least.
inline transfer::Operand standing_for(transfer::Operand buffer, const transfer::Operand& other) {
    if (buffer.by_device() && !other.by_device() && other.bytes != 0)
        buffer.where = other.where;
    return buffer;
}

inline base::Result<void> check_root(const Call& call, int root) {
    if (call.comm->group().has(root))
        return {};
    return no_such_rank(call, root, "root", false);
}

inline bool is_in_place(const void* buffer) { return buffer == GPURUN_IN_PLACE; }

// What is sent, and where the result comes.
inline base::Result<void> check_apart(const transfer::Operand& send, const transfer::Operand& recv) {
    if (send.bytes == 0 || recv.bytes == 0 || send.address >= recv.address + recv.bytes ||
        recv.address >= send.address + send.bytes)
        return {};
    return base::error(base::Status::kBuffer, "the two buffers overlap: use two, or pass GPURUN_IN_PLACE");
}

} // namespace gpurun::api
