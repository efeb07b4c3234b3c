// Requests: starting messages that outlive the call, and completing them.
#include "api/collective_call.hpp"
#include "base/format.hpp"
#include "device/capability/mails.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace gpurun::api {

base::Result<void> settle(const comm::Request& done, gpurun_message_status* ret_status) {
    base::Result<void> result;
    if (const base::Error* const error = done.error())
        result = *error;
    else if (done.is_truncated())
        result = truncated(done.message_bytes(), done.task.operand.bytes);
    if (ret_status != nullptr)
        fill_status(done.arrived(),
                    done.task.kind == comm::Task::Kind::kCollective ? GPURUN_BYTE
                                                                    : static_cast<gpurun_datatype>(done.task.type),
                    result ? base::Status::kOk : result.error().status, done.was_cancelled(), *ret_status);
    return result;
}

namespace {

using base::Result;
using base::Status;
using comm::Arrived;
using comm::Order;
using comm::Request;
using comm::Requests;
using comm::Task;

// ---------------------------------------------------------------------------------------------------- starting

// What a message is sent from, or received into.
struct Buffer {
    const void* address;
    size_t count;
    gpurun_stream stream;
};

// `task` has its kind, rank, tag and type. Inline in each function of the API, as start_new() is: with the kind known
// there, what it does is a fifth of the time that a small message takes.
template <Task::Kind kind>
[[gnu::always_inline]] inline Result<void> prepare(Task& task, const Buffer& buffer, const Call& call) {
    constexpr bool receives = kind == Task::Kind::kReceive;
    GPURUN_TRY(check_rank(call, task.peer, receives ? "source" : "destination", receives));
    GPURUN_TRY(check_tag(task.tag, receives));
    GPURUN_TRY(fill_operand(task.operand, *call.runtime, receives ? Access::kWrite : Access::kRead, buffer.address,
                            buffer.count, static_cast<gpurun_datatype>(task.type), buffer.stream));
    if (receives)
        GPURUN_TRY(check_captured(task.operand, task.peer, task.tag));
    task.comm = call.comm;
    return {};
}

// Starts it, at once or with its group.
[[gnu::always_inline]] inline uint64_t start_task(comm::Engine& engine, const Task& task, int64_t entered_ns) {
    OpenGroup* const group = open_group();
    if (group == nullptr) [[likely]]
        return engine.requests().start(task, entered_ns);
    const uint64_t name = engine.requests().make(task);
    group->add_request(base::this_call().name.load(std::memory_order_relaxed), engine, name);
    return name;
}

template <Task::Kind kind>
[[gnu::always_inline]] inline Result<void> start_new(Task&& task, const Buffer& buffer, gpurun_comm comm,
                                                     gpurun_request* ret_request) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    const int64_t entered_ns = call.engine->requests().entry_time();
    GPURUN_TRY(prepare<kind>(task, buffer, call));
    *ret_request = gpurun_request{start_task(*call.engine, task, entered_ns)};
    return {};
}

template <Task::Kind kind>
Result<void> make_persistent(Task&& task, const Buffer& buffer, gpurun_comm comm, gpurun_request* ret_request) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_TRY(prepare<kind>(task, buffer, call));
    task.persistent = true;
    *ret_request = gpurun_request{call.engine->requests().make(task)};
    return {};
}

// Of one kind of call. Copied from one that the compiler does not know: gcc would clear it by an instruction that takes
// a tenth of the time of a small message.
Task task_of(Task::Kind kind, int peer, int tag, gpurun_datatype type) {
    Task task = comm::kNoTask;
    task.kind = kind;
    task.type = static_cast<int>(type);
    task.peer = peer;
    task.tag = tag;
    return task;
}
Task send_to(int dest, int tag, gpurun_datatype type, bool synchronous = false) {
    Task task = task_of(Task::Kind::kSend, dest, tag, type);
    task.synchronous = synchronous;
    return task;
}
Task receive_from(int source, int tag, gpurun_datatype type) {
    return task_of(Task::Kind::kReceive, source, tag, type);
}

Result<Request*> find(Runtime& runtime, const gpurun_request* request) {
    GPURUN_TRY(check_output(request, "request"));
    Request* found = runtime.engine_of(request->id).requests().find(request->id);
    if (found == nullptr)
        return comm::no_request(request->id);
    return found;
}

// One of those that the call has looked up, in the same stream and the same allocation; null if there is none. Asking
// the driver is a good part of what starting a request takes.
const transfer::Operand* find_like(std::span<Request* const> held, const transfer::Operand& operand) {
    const auto is_like = [&](const Request* each) {
        const transfer::Operand& known = each->task.operand;
        const auto* const base = static_cast<const std::byte*>(known.where.base);
        return known.on_stream() && operand.on_stream() && known.stream == operand.stream &&
               known.where.placement == device::Placement::kDevice && operand.address >= base &&
               operand.address + operand.bytes <= base + known.where.size;
    };
    const auto found = std::find_if(held.rbegin(), held.rend(), is_like);
    return found != held.rend() ? &(*found)->task.operand : nullptr;
}

// The memory of a persistent request may have been freed, or be another allocation by now.
Result<void> look_up_again(Task& task, Runtime& runtime, std::span<Request* const> held) {
    const bool receives = task.kind == Task::Kind::kReceive;
    const Access access = receives ? Access::kWrite : Access::kRead;
    const gpurun_stream stream = task.operand.on_stream() ? task.operand.stream.native : GPURUN_HOST;
    transfer::Operand operand;
    if (const transfer::Operand* const like = find_like(held, task.operand)) {
        operand.address = task.operand.address;
        operand.bytes = task.operand.bytes;
        GPURUN_TRY(look_up_like(operand, runtime, access, *like));
    } else {
        GPURUN_TRY(fill_operand(operand, runtime, access, task.operand.address, task.operand.bytes, stream));
    }
    if (receives)
        GPURUN_TRY(check_captured(operand, task.peer, task.tag));
    task.operand = operand;
    return {};
}

// Checks a persistent request that is to be started, beside those that the call holds already, and holds it. Null if
// the calling thread's group has it now, or if it is started: a collective.
Result<Request*> hold_again(gpurun_request* request, std::span<Request* const> held) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * again, find(*found, request));
    Task& task = again->task;
    if (!task.persistent)
        return base::error(Status::kRequest, "this request is not persistent: only requests of functions whose names "
                                             "end in _init can be started");
    if (again->active)
        return base::error(Status::kRequest, "the request is active: wait for it before it is started again");
    if (task.kind == Task::Kind::kCollective) {
        const auto call = found->persistent_calls().find(again->name);
        GPURUN_TRY(call != nullptr ? (*call)(Way::again(*again)) : comm::no_request(again->name));
        return nullptr;
    }
    GPURUN_TRY(look_up_again(task, *found, held));
    comm::Engine& engine = found->engine_of(again->name);
    engine.requests().hold(*again);
    if (OpenGroup* const group = open_group()) [[unlikely]] {
        group->add_request("gpurun_start", engine, again->name);
        return nullptr;
    }
    return again;
}

// Those before one that cannot be started are started. In rounds, so that nothing is allocated; each of one job.
Result<void> start_again(std::span<gpurun_request> requests) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    while (!requests.empty()) {
        std::array<Request*, device::kMostExchanged> held;
        size_t count = 0;
        size_t of_round = 0;
        Result<void> result;
        comm::Engine& engine = found->engine_of(requests.front().id);
        const int64_t entered_ns = engine.requests().entry_time();
        for (gpurun_request& each : requests.first(std::min(requests.size(), held.size()))) {
            if (&found->engine_of(each.id) != &engine)
                break;
            ++of_round;
            auto again = hold_again(&each, std::span(held).first(count));
            if (!again) {
                result = std::move(again).error();
                break;
            }
            if (*again != nullptr)
                held[count++] = *again;
        }
        if (count != 0)
            engine.requests().start_again(std::span(held).first(count), entered_ns);
        GPURUN_TRY(std::move(result));
        requests = requests.subspan(of_round);
    }
    return {};
}

Result<void> start_again(gpurun_request* request) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(find(*found, request));
    return start_again({request, 1});
}

// -------------------------------------------------------------------------------------------------- completing

Result<Order> order_of(Runtime& runtime, gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return Order{};
    GPURUN_ASSIGN(const CheckedStream checked, any_stream(runtime, stream));
    return Order{checked.captured ? transfer::Domain::kGraph : transfer::Domain::kStream, checked.stream};
}

void keep_first(Result<void>& first, Result<void> next) {
    if (!next && first)
        first = std::move(next);
}

// Of a request that was complete before the call.
void fill_empty(gpurun_message_status* ret_status) {
    if (ret_status != nullptr)
        fill_status(Arrived{comm::kAnySource, comm::kAnyTag, 0}, GPURUN_BYTE, Status::kOk, false, *ret_status);
}

static_assert(sizeof(gpurun_request) == sizeof(uint64_t)); // GPURUN_REQUEST_NULL is 0

// Nothing has happened if this fails.
Result<Requests::Ask> ask_for(Runtime& runtime, size_t count, gpurun_request* requests, gpurun_stream stream,
                              Requests::Need need, bool may_wait, bool tell_all = true) {
    GPURUN_TRY(refuse_in_group(base::this_call().name.load(std::memory_order_relaxed)));
    if (count != 0)
        GPURUN_TRY(check_output(requests, "requests"));
    comm::Engine& engine = count == 0 ? runtime.engine() : runtime.engine_of(requests->id);
    const int64_t entered_ns = engine.requests().entry_time();
    GPURUN_ASSIGN(const Order order, order_of(runtime, stream));
    return Requests::Ask{{count == 0 ? nullptr : &requests->id, count}, order, need, may_wait, tell_all, entered_ns};
}

// The first request says which job they are of. All are to be of that one: whoever waits for messages of one job moves
// those of no other.
Result<bool> complete(Runtime& runtime, const Requests::Ask& ask, Requests::Settle settle) {
    const auto first = std::find_if(ask.names.begin(), ask.names.end(), [](uint64_t name) { return name != 0; });
    if (first == ask.names.end()) [[unlikely]]
        return runtime.engine().requests().complete(ask, settle);
    comm::Engine& engine = runtime.engine_of(*first);
    const auto is_of_another = [&](uint64_t name) {
        return name != 0 && comm::Names::engine_of(name) != comm::Names::engine_of(*first) &&
               &runtime.engine_of(name) != &engine;
    };
    if (std::any_of(first + 1, ask.names.end(), is_of_another)) [[unlikely]]
        return base::error(Status::kRequest,
                           "the requests are of communicators of two jobs: complete those of each job by a call of "
                           "their own");
    return engine.requests().complete(ask, settle);
}

// `ret_done` (null: nobody asks) is written whenever the answer is known, also where a request has ended in an error,
// which is returned. So in complete_one().
Result<void> complete_all(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait,
                          gpurun_message_status* ret_statuses, int* ret_done = nullptr) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const Requests::Ask ask,
                  ask_for(*found, count, requests, stream, Requests::Need::kAll, may_wait, ret_statuses != nullptr));
    size_t settled = 0; // the first of which nothing is said yet
    const auto fill_up_to = [&](size_t index) {
        for (; ret_statuses != nullptr && settled < index; ++settled)
            fill_empty(&ret_statuses[settled]);
        settled = index + 1;
    };
    Result<void> result;
    const auto settle_one = [&](size_t index, const Request& done) {
        fill_up_to(index);
        keep_first(result, settle(done, ret_statuses == nullptr ? nullptr : &ret_statuses[index]));
    };
    GPURUN_ASSIGN(const bool done, complete(*found, ask, settle_one));
    if (ret_done != nullptr)
        *ret_done = done ? 1 : 0;
    if (done)
        fill_up_to(count);
    return result;
}

// `ret_index` is written whenever something was completed, or nothing is active.
Result<void> complete_one(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait, int* ret_index,
                          gpurun_message_status* ret_status, int* ret_done = nullptr) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const Requests::Ask ask, ask_for(*found, count, requests, stream, Requests::Need::kOne, may_wait));
    GPURUN_TRY(check_output(ret_index, "ret_index"));
    int completed = GPURUN_UNDEFINED;
    Result<void> result;
    const auto settle_one = [&](size_t index, const Request& done) {
        completed = static_cast<int>(index);
        result = settle(done, ret_status);
    };
    GPURUN_ASSIGN(const bool done, complete(*found, ask, settle_one));
    if (ret_done != nullptr)
        *ret_done = done ? 1 : 0;
    if (!done)
        return {};
    *ret_index = completed;
    if (completed == GPURUN_UNDEFINED)
        fill_empty(ret_status);
    return result;
}

Result<void> complete_some(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait, int* ret_count,
                           int* ret_indices, gpurun_message_status* ret_statuses) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const Requests::Ask ask, ask_for(*found, count, requests, stream, Requests::Need::kSome, may_wait));
    GPURUN_TRY(check_output(ret_count, "ret_count"));
    if (count != 0)
        GPURUN_TRY(check_output(ret_indices, "ret_indices"));
    int completed = 0;
    Result<void> result;
    const auto settle_one = [&](size_t index, const Request& done) {
        ret_indices[completed] = static_cast<int>(index);
        keep_first(result, settle(done, ret_statuses == nullptr ? nullptr : &ret_statuses[completed]));
        ++completed;
    };
    GPURUN_ASSIGN(const bool done, complete(*found, ask, settle_one));
    *ret_count = !done ? 0 : completed == 0 ? GPURUN_UNDEFINED : completed;
    return result;
}

// ---------------------------------------------------------------------------------------------------- giving up

Result<void> cancel(gpurun_request* request) {
    GPURUN_TRY(refuse_in_group("gpurun_cancel"));
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * cancelled, find(*found, request));
    if (!cancelled->active)
        return base::error(Status::kRequest, "the request is not active: there is nothing to cancel");
    if (cancelled->task.kind == Task::Kind::kSend)
        return base::error(Status::kUnsupported, "a send cannot be cancelled: its receiver may have matched it");
    if (cancelled->task.kind == Task::Kind::kCollective)
        return base::error(Status::kUnsupported, "a collective cannot be cancelled: other ranks take part in it");
    found->engine_of(request->id).requests().cancel(*cancelled);
    return {};
}

Result<void> free_request(gpurun_request* request) {
    GPURUN_TRY(refuse_in_group("gpurun_request_free"));
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * freed, find(*found, request));
    const bool persistent_call = freed->task.persistent && freed->task.kind == Task::Kind::kCollective;
    GPURUN_TRY(found->engine_of(request->id).requests().abandon(*freed));
    if (persistent_call)
        found->persistent_calls().remove(request->id);
    *request = GPURUN_REQUEST_NULL;
    return {};
}

} // namespace

static Result<void> start_taken(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                                gpurun_stream stream, gpurun_request* ret_request) {
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_ASSIGN(const Taken taken, find_taken(message));
    const int source = taken.number == GPURUN_MESSAGE_NO_PROC.id ? GPURUN_PROC_NULL : GPURUN_ANY_SOURCE;
    Task task = receive_from(source, GPURUN_ANY_TAG, type);
    GPURUN_TRY(fill_operand(task.operand, *taken.runtime, Access::kWrite, buffer, count, type, stream));
    GPURUN_TRY(refuse_captured(task.operand, "receiving a probed message"));
    task.comm = taken.comm;
    if (source != GPURUN_PROC_NULL)
        task.taken = taken.number;
    *ret_request = gpurun_request{start_task(*taken.engine, task, 0)};
    *message = GPURUN_MESSAGE_NULL;
    return {};
}

} // namespace gpurun::api

namespace api = gpurun::api;
using gpurun::comm::Task;

extern "C" {

gpurun_status gpurun_isend(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                           gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(
        api::start_new<Task::Kind::kSend>(api::send_to(dest, tag, type), {buffer, count, stream}, comm, ret_request));
}

gpurun_status gpurun_issend(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                            gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(api::start_new<Task::Kind::kSend>(api::send_to(dest, tag, type, true), {buffer, count, stream},
                                                         comm, ret_request));
}

gpurun_status gpurun_irecv(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                           gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {source, tag, static_cast<int>(type), count});
    return api::report(api::start_new<Task::Kind::kReceive>(api::receive_from(source, tag, type),
                                                            {buffer, count, stream}, comm, ret_request));
}

gpurun_status gpurun_imrecv(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                            gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::start_taken(buffer, count, type, message, stream, ret_request));
}

gpurun_status gpurun_send_init(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag,
                               gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(api::make_persistent<Task::Kind::kSend>(api::send_to(dest, tag, type), {buffer, count, stream},
                                                               comm, ret_request));
}

gpurun_status gpurun_ssend_init(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(api::make_persistent<Task::Kind::kSend>(api::send_to(dest, tag, type, true),
                                                               {buffer, count, stream}, comm, ret_request));
}

gpurun_status gpurun_recv_init(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                               gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {source, tag, static_cast<int>(type), count});
    return api::report(api::make_persistent<Task::Kind::kReceive>(api::receive_from(source, tag, type),
                                                                  {buffer, count, stream}, comm, ret_request));
}

gpurun_status gpurun_start(gpurun_request* request) {
    const api::CallScope call(__func__, {.count = 1});
    return api::report(api::start_again(request));
}

gpurun_status gpurun_startall(size_t count, gpurun_request* requests) {
    const api::CallScope call(__func__, {.count = count});
    if (count != 0)
        if (auto checked = api::check_output(requests, "requests"); !checked)
            return api::report(std::move(checked));
    return api::report(api::start_again({requests, count}));
}

gpurun_status gpurun_wait(gpurun_request* request, gpurun_stream stream, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = 1});
    return api::report(api::complete_all(1, request, stream, true, ret_status));
}

gpurun_status gpurun_waitall(size_t count, gpurun_request* requests, gpurun_stream stream,
                             gpurun_message_status* ret_statuses) {
    const api::CallScope call(__func__, {.count = count});
    return api::report(api::complete_all(count, requests, stream, true, ret_statuses));
}

gpurun_status gpurun_waitany(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_index,
                             gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = count});
    return api::report(api::complete_one(count, requests, stream, true, ret_index, ret_status));
}

gpurun_status gpurun_waitsome(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_count,
                              int* ret_indices, gpurun_message_status* ret_statuses) {
    const api::CallScope call(__func__, {.count = count});
    return api::report(api::complete_some(count, requests, stream, true, ret_count, ret_indices, ret_statuses));
}

gpurun_status gpurun_test(gpurun_request* request, gpurun_stream stream, int* ret_done,
                          gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = 1});
    return gpurun_testall(1, request, stream, ret_done, ret_status);
}

gpurun_status gpurun_testall(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_done,
                             gpurun_message_status* ret_statuses) {
    const api::CallScope call(__func__, {.count = count});
    if (auto checked = api::check_output(ret_done, "ret_done"); !checked)
        return api::report(std::move(checked));
    return api::report(api::complete_all(count, requests, stream, false, ret_statuses, ret_done));
}

gpurun_status gpurun_testany(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_index,
                             int* ret_done, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = count});
    if (auto checked = api::check_output(ret_done, "ret_done"); !checked)
        return api::report(std::move(checked));
    return api::report(api::complete_one(count, requests, stream, false, ret_index, ret_status, ret_done));
}

gpurun_status gpurun_testsome(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_count,
                              int* ret_indices, gpurun_message_status* ret_statuses) {
    const api::CallScope call(__func__, {.count = count});
    return api::report(api::complete_some(count, requests, stream, false, ret_count, ret_indices, ret_statuses));
}

gpurun_status gpurun_cancel(gpurun_request* request) {
    const api::CallScope call(__func__, {.count = 1});
    return api::report(api::cancel(request));
}

gpurun_status gpurun_request_free(gpurun_request* request) {
    const api::CallScope call(__func__, {.count = 1});
    return api::report(api::free_request(request));
}

} // extern "C"
