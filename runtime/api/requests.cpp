// Requests: starting messages that outlive the call, and completing them.
#include "api/call.hpp"
#include "api/short_messages.hpp"
#include "base/format.hpp"

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;
using comm::Engine;
using comm::Order;
using comm::Outcome;
using comm::Request;
using comm::Task;

// ---------------------------------------------------------------------------------------------------- starting

struct Start {
    Task::Kind kind;
    const void* buffer;
    size_t count;
    gpurun_datatype type;
    int peer;
    int tag;
    gpurun_comm comm;
    gpurun_stream stream;
    bool synchronous = false;
};

Result<void> prepare(Task& task, Runtime& runtime, const comm::Communicator& comm, const Start& what) {
    const bool receives = what.kind == Task::Kind::kReceive;
    GPURUN_TRY(check_rank(comm, what.peer, receives ? "source" : "destination", receives));
    GPURUN_TRY(check_tag(what.tag, receives));
    GPURUN_TRY(fill_operand(task.operand, runtime, receives ? Access::kWrite : Access::kRead, what.buffer, what.count,
                            what.type, what.stream));
    if (receives)
        GPURUN_TRY(check_captured(task.operand, what.peer, what.tag));
    task.kind = what.kind;
    task.peer = what.peer;
    task.tag = what.tag;
    task.type = static_cast<int>(what.type);
    task.context = comm.user_context();
    task.synchronous = what.synchronous;
    return {};
}

Result<void> start_new(const Start& what, gpurun_request* ret_request) {
    Call call;
    GPURUN_TRY(enter(call, what.comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    Task task;
    GPURUN_TRY(prepare(task, *call.runtime, *call.comm, what));
    *ret_request = gpurun_request{call.runtime->engine().start(task)};
    return {};
}

Result<void> make_persistent(const Start& what, gpurun_request* ret_request) {
    Call call;
    GPURUN_TRY(enter(call, what.comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    Task task;
    GPURUN_TRY(prepare(task, *call.runtime, *call.comm, what));
    task.persistent = true;
    *ret_request = gpurun_request{call.runtime->engine().make(task)};
    return {};
}

Result<Request*> find(Runtime& runtime, const gpurun_request* request) {
    GPURUN_TRY(check_output(request, "request"));
    Request* found = runtime.engine().find(request->id);
    if (found == nullptr)
        return comm::no_request(request->id);
    return found;
}

Result<void> start_again(gpurun_request* request) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * again, find(*found, request));
    if (!again->persistent)
        return base::error(Status::kRequest, "this request is not of gpurun_send_init() or its kin: it started when "
                                             "it was made");
    if (again->active)
        return base::error(Status::kRequest, "the request is active: wait for it before it is started again");
    // Its memory may have been freed, or be another allocation by now.
    const gpurun_stream stream =
        again->operand.on_stream ? static_cast<gpurun_stream>(again->operand.stream.native) : GPURUN_HOST;
    transfer::Operand operand;
    const Access access = again->kind == Task::Kind::kReceive ? Access::kWrite : Access::kRead;
    GPURUN_TRY(fill_operand(operand, *found, access, again->operand.address, again->operand.bytes, stream));
    if (again->kind == Task::Kind::kReceive)
        GPURUN_TRY(check_captured(operand, again->peer, again->tag));
    again->operand = operand;
    found->engine().start_again(*again);
    return {};
}

// -------------------------------------------------------------------------------------------------- completing

Result<Order> order_of(Runtime& runtime, gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return Order{};
    GPURUN_ASSIGN(const CheckedStream checked, any_stream(runtime, stream));
    return Order{true, checked.captured, checked.stream};
}

// One call that completes some of several requests.
class Completing {
  public:
    Completing(size_t count, gpurun_request* requests) : count_(count), requests_(requests) {}

    // Nothing has happened if this fails.
    Result<void> prepare(gpurun_stream stream) {
        GPURUN_ASSIGN(runtime_, runtime());
        if (count_ != 0)
            GPURUN_TRY(check_output(requests_, "requests"));
        GPURUN_ASSIGN(order_, order_of(*runtime_, stream));
        several_.names.resize(count_);
        for (size_t i = 0; i < count_; ++i)
            several_.names[i] = requests_[i].id;
        return {};
    }

    // False if it may not wait and would have to.
    Result<bool> run(Engine::Need need, bool may_wait) {
        auto run = runtime_->engine().complete(several_, order_, need, may_wait);
        for (size_t i = 0; !run && i < several_.outcomes.size(); ++i)
            if (several_.outcomes[i].completed && several_.outcomes[i].gone)
                requests_[i] = GPURUN_REQUEST_NULL;
        return run;
    }

    bool completed(size_t index) const { return several_.outcomes[index].completed; }

    // Fills the status of the request at `index`, takes the request off the caller's list, and gives its error.
    Result<void> settle(size_t index, gpurun_message_status* ret_status) {
        Outcome& outcome = several_.outcomes[index];
        if (!outcome.completed) { // before the call
            fill_status(Outcome{}.arrived, GPURUN_BYTE, Status::kOk, false, ret_status);
            return {};
        }
        Result<void> result;
        if (outcome.error)
            result = std::move(*outcome.error);
        else if (outcome.truncates)
            result = check_truncation(outcome.arrived.bytes, outcome.room);
        fill_status(outcome.arrived, static_cast<gpurun_datatype>(outcome.type),
                    result ? Status::kOk : result.error().status, outcome.cancelled, ret_status);
        if (outcome.gone)
            requests_[index] = GPURUN_REQUEST_NULL;
        return result;
    }

  private:
    static comm::Completion& of_thread() {
        static thread_local comm::Completion several;
        return several;
    }

    size_t count_;
    gpurun_request* requests_;
    Runtime* runtime_ = nullptr;
    Order order_;
    comm::Completion& several_ = of_thread();
};

Result<void> keep_first(Result<void> first, Result<void> next) { return first ? std::move(next) : std::move(first); }

// Of a call that may wait. False if the requests are not all of small messages that are there, or come at once.
bool complete_short(size_t count, gpurun_request* requests, gpurun_stream stream, gpurun_message_status* ret_statuses) {
    Runtime* const found = running.load(std::memory_order_acquire);
    if (found == nullptr || stream != GPURUN_HOST || requests == nullptr || count == 0)
        return false;
    static_assert(sizeof(gpurun_request) == sizeof requests->id);
    const auto fill = [&](size_t index, const comm::Arrived& arrived, int type) {
        fill_status(arrived, type == 0 ? GPURUN_BYTE : static_cast<gpurun_datatype>(type), Status::kOk, false,
                    &ret_statuses[index]);
    };
    const Engine::Settle settle(fill);
    return found->engine().complete_short({&requests->id, count}, ret_statuses == nullptr ? nullptr : &settle);
}

Result<bool> complete_all(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait,
                          gpurun_message_status* ret_statuses) {
    if (may_wait && complete_short(count, requests, stream, ret_statuses))
        return true;
    Completing completion(count, requests);
    GPURUN_TRY(completion.prepare(stream));
    GPURUN_ASSIGN(const bool done, completion.run(Engine::Need::kAll, may_wait));
    if (!done)
        return false;
    Result<void> result;
    for (size_t i = 0; i < count; ++i)
        result =
            keep_first(std::move(result), completion.settle(i, ret_statuses == nullptr ? nullptr : &ret_statuses[i]));
    if (!result)
        return std::move(result).error();
    return true;
}

// `ret_index` is written whenever something was completed, or nothing is active.
Result<bool> complete_one(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait, int* ret_index,
                          gpurun_message_status* ret_status) {
    Completing completion(count, requests);
    GPURUN_TRY(completion.prepare(stream));
    GPURUN_TRY(check_output(ret_index, "ret_index"));
    GPURUN_ASSIGN(const bool done, completion.run(Engine::Need::kOne, may_wait));
    if (!done)
        return false;
    size_t index = 0;
    while (index < count && !completion.completed(index))
        ++index;
    if (index == count) {
        *ret_index = GPURUN_UNDEFINED;
        fill_status(Outcome{}.arrived, GPURUN_BYTE, Status::kOk, false, ret_status);
        return true;
    }
    *ret_index = static_cast<int>(index);
    GPURUN_TRY(completion.settle(index, ret_status));
    return true;
}

Result<void> complete_some(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait, int* ret_count,
                           int* ret_indices, gpurun_message_status* ret_statuses) {
    Completing completion(count, requests);
    GPURUN_TRY(completion.prepare(stream));
    GPURUN_TRY(check_output(ret_count, "ret_count"));
    if (count != 0)
        GPURUN_TRY(check_output(ret_indices, "ret_indices"));
    GPURUN_ASSIGN(const bool done, completion.run(Engine::Need::kSome, may_wait));
    int completed = 0;
    Result<void> result;
    for (size_t i = 0; done && i < count; ++i) {
        if (!completion.completed(i))
            continue;
        ret_indices[completed] = static_cast<int>(i);
        result = keep_first(std::move(result),
                            completion.settle(i, ret_statuses == nullptr ? nullptr : &ret_statuses[completed]));
        ++completed;
    }
    *ret_count = !done ? 0 : completed == 0 ? GPURUN_UNDEFINED : completed;
    return result;
}

// `ret_done` is written whenever the answer is known.
gpurun_status report_done(Result<bool> result, int* ret_done) {
    const bool known =
        result || result.error().status == Status::kTruncated || result.error().status == Status::kPeerLost;
    if (known && ret_done != nullptr)
        *ret_done = !result || *result ? 1 : 0;
    return result ? GPURUN_OK : report(std::move(result).error());
}

Result<void> ignore_value(Result<bool> result) {
    return result ? Result<void>() : Result<void>(std::move(result).error());
}

// ---------------------------------------------------------------------------------------------------- giving up

Result<void> cancel(gpurun_request* request) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * cancelled, find(*found, request));
    if (!cancelled->active)
        return base::error(Status::kRequest, "the request is not active: there is nothing to take back");
    if (cancelled->kind == Task::Kind::kSend)
        return base::error(Status::kUnsupported, "a send cannot be taken back: its receiver may have matched it");
    found->engine().cancel(*cancelled);
    return {};
}

Result<void> free_request(gpurun_request* request) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * freed, find(*found, request));
    GPURUN_TRY(found->engine().abandon(*freed));
    *request = GPURUN_REQUEST_NULL;
    return {};
}

} // namespace

static Result<void> start_taken(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                                gpurun_stream stream, gpurun_request* ret_request) {
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_ASSIGN(const Taken taken, find_taken(message));
    const int source = taken.number == GPURUN_MESSAGE_NO_PROC.id ? GPURUN_PROC_NULL : GPURUN_ANY_SOURCE;
    Task task;
    transfer::Operand into;
    GPURUN_TRY(fill_operand(into, *taken.runtime, Access::kWrite, buffer, count, type, stream));
    GPURUN_TRY(refuse_captured(into, "receiving a probed message"));
    GPURUN_TRY(prepare(task, *taken.runtime, taken.runtime->world(),
                       {Task::Kind::kReceive, buffer, count, type, source, GPURUN_ANY_TAG, {}, stream}));
    if (source != GPURUN_PROC_NULL)
        task.taken = taken.number;
    *ret_request = gpurun_request{taken.runtime->engine().start(task)};
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
    if (ret_request != nullptr) {
        const api::ShortMessage message(api::Access::kRead, buffer, count, type, dest, tag, comm, stream);
        if (const uint64_t name = message.start_send(); name != 0) {
            ret_request->id = name;
            return GPURUN_OK;
        }
    }
    return api::report(api::start_new({Task::Kind::kSend, buffer, count, type, dest, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_issend(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                            gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(
        api::start_new({Task::Kind::kSend, buffer, count, type, dest, tag, comm, stream, true}, ret_request));
}

gpurun_status gpurun_irecv(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                           gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {source, tag, static_cast<int>(type), count});
    if (ret_request != nullptr) {
        const api::ShortMessage message(api::Access::kWrite, buffer, count, type, source, tag, comm, stream);
        if (const uint64_t name = message.start_receive(); name != 0) {
            ret_request->id = name;
            return GPURUN_OK;
        }
    }
    return api::report(
        api::start_new({Task::Kind::kReceive, buffer, count, type, source, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_imrecv(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                            gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::start_taken(buffer, count, type, message, stream, ret_request));
}

gpurun_status gpurun_send_init(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag,
                               gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(
        api::make_persistent({Task::Kind::kSend, buffer, count, type, dest, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_ssend_init(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(type), count});
    return api::report(
        api::make_persistent({Task::Kind::kSend, buffer, count, type, dest, tag, comm, stream, true}, ret_request));
}

gpurun_status gpurun_recv_init(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                               gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {source, tag, static_cast<int>(type), count});
    return api::report(
        api::make_persistent({Task::Kind::kReceive, buffer, count, type, source, tag, comm, stream}, ret_request));
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
    for (size_t i = 0; i < count; ++i)
        if (auto started = api::start_again(&requests[i]); !started)
            return api::report(std::move(started));
    return GPURUN_OK;
}

gpurun_status gpurun_wait(gpurun_request* request, gpurun_stream stream, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = 1});
    return api::report(api::ignore_value(api::complete_all(1, request, stream, true, ret_status)));
}

gpurun_status gpurun_waitall(size_t count, gpurun_request* requests, gpurun_stream stream,
                             gpurun_message_status* ret_statuses) {
    const api::CallScope call(__func__, {.count = count});
    return api::report(api::ignore_value(api::complete_all(count, requests, stream, true, ret_statuses)));
}

gpurun_status gpurun_waitany(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_index,
                             gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = count});
    return api::report(api::ignore_value(api::complete_one(count, requests, stream, true, ret_index, ret_status)));
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
    return api::report_done(api::complete_all(count, requests, stream, false, ret_statuses), ret_done);
}

gpurun_status gpurun_testany(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_index,
                             int* ret_done, gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {.count = count});
    if (auto checked = api::check_output(ret_done, "ret_done"); !checked)
        return api::report(std::move(checked));
    return api::report_done(api::complete_one(count, requests, stream, false, ret_index, ret_status), ret_done);
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
