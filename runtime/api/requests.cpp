// Requests: starting messages that outlive the call, and completing them.
#include "api/call.hpp"
#include "base/format.hpp"

#include <algorithm>
#include <vector>

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;
using comm::Engine;
using comm::Order;
using comm::Outcome;
using comm::Request;

// ---------------------------------------------------------------------------------------------------- starting

struct Start {
    Request::Kind kind;
    const void* buffer;
    size_t count;
    gpurun_datatype type;
    int peer;
    int tag;
    gpurun_comm comm;
    gpurun_stream stream;
    bool synchronous = false;
};

Result<Request*> prepare(Runtime& runtime, const comm::Communicator& comm, const Start& what) {
    const bool receives = what.kind == Request::Kind::kReceive;
    GPURUN_TRY(check_rank(comm, what.peer, receives ? "source" : "destination", receives));
    GPURUN_TRY(check_tag(what.tag, receives));
    GPURUN_ASSIGN(const transfer::Operand buffer, operand(runtime, what.buffer, what.count, what.type, what.stream));
    Request& request = runtime.engine().requests().take();
    request.kind = what.kind;
    request.operand = buffer;
    request.peer = what.peer;
    request.tag = what.tag;
    request.type = static_cast<int>(what.type);
    request.context = comm.user_context();
    request.synchronous = what.synchronous;
    request.persistent = false;
    request.taken = 0;
    return &request;
}

Result<void> start_new(const Start& what, gpurun_request* ret_request) {
    GPURUN_ASSIGN(const Call call, enter(what.comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_ASSIGN(Request * request, prepare(*call.runtime, *call.comm, what));
    call.runtime->engine().start(*request);
    *ret_request = gpurun_request{request->id};
    return {};
}

Result<void> make_persistent(const Start& what, gpurun_request* ret_request) {
    GPURUN_ASSIGN(const Call call, enter(what.comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_ASSIGN(Request * request, prepare(*call.runtime, *call.comm, what));
    request->persistent = true;
    *ret_request = gpurun_request{request->id};
    return {};
}

Result<Request*> find(Runtime& runtime, const gpurun_request* request) {
    GPURUN_TRY(check_output(request, "request"));
    Request* found = runtime.engine().requests().find(request->id);
    if (found == nullptr)
        return base::error(Status::kRequest,
                           "{} is no request of this process: it was completed or freed before, or never started",
                           request->id);
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
    GPURUN_ASSIGN(again->operand, operand(*found, again->operand.address, again->operand.bytes, stream));
    found->engine().start(*again);
    return {};
}

// -------------------------------------------------------------------------------------------------- completing

Result<Order> order_of(Runtime& runtime, gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return Order{};
    GPURUN_ASSIGN(const device::Stream native, device_stream(runtime, stream));
    return Order{true, native};
}

// One call that completes some of several requests.
class Completion {
  public:
    Completion(size_t count, gpurun_request* requests) : count_(count), names_(requests) {}

    // Nothing has happened if this fails.
    Result<void> prepare(gpurun_stream stream) {
        GPURUN_ASSIGN(runtime_, runtime());
        if (count_ != 0)
            GPURUN_TRY(check_output(names_, "requests"));
        GPURUN_ASSIGN(order_, order_of(*runtime_, stream));
        requests_.assign(count_, nullptr);
        outcomes_.resize(count_);
        for (size_t i = 0; i < count_; ++i) {
            if (names_[i].id != 0) {
                GPURUN_ASSIGN(requests_[i], find(*runtime_, &names_[i]));
            }
        }
        return {};
    }

    // False if it may not wait and would have to.
    Result<bool> run(Engine::Need need, bool may_wait) {
        return runtime_->engine().complete(requests_, order_, need, may_wait, outcomes_, completed_);
    }

    std::span<const size_t> completed() const { return completed_; }

    // Fills the status of the request at `index`, takes the request off the caller's list, and gives its error.
    Result<void> settle(size_t index, gpurun_message_status* ret_status) {
        Request* request = requests_[index];
        Outcome& outcome = outcomes_[index];
        const bool was_completed = std::binary_search(completed_.begin(), completed_.end(), index);
        if (request == nullptr || !was_completed) { // complete before the call
            fill_status(Outcome{}.arrived, GPURUN_BYTE, Status::kOk, false, ret_status);
            return {};
        }
        Result<void> result;
        if (outcome.error)
            result = std::move(*outcome.error);
        else if (request->kind == Request::Kind::kReceive && !outcome.cancelled)
            result = check_truncation(outcome.arrived.bytes, request->operand.bytes);
        fill_status(outcome.arrived, static_cast<gpurun_datatype>(request->type),
                    result ? Status::kOk : result.error().status, outcome.cancelled, ret_status);
        if (!request->persistent) {
            runtime_->engine().requests().release(*request);
            names_[index] = GPURUN_REQUEST_NULL;
        }
        return result;
    }

  private:
    size_t count_;
    gpurun_request* names_;
    Runtime* runtime_ = nullptr;
    Order order_;
    // The thread's own, so that a call allocates nothing once the thread has made one as large.
    struct Lists {
        std::vector<Request*> requests;
        std::vector<Outcome> outcomes;
        std::vector<size_t> completed;
    };
    static Lists& lists() {
        static thread_local Lists of_thread;
        return of_thread;
    }
    std::vector<Request*>& requests_ = lists().requests;
    std::vector<Outcome>& outcomes_ = lists().outcomes;
    std::vector<size_t>& completed_ = lists().completed;
};

Result<void> keep_first(Result<void> first, Result<void> next) { return first ? std::move(next) : std::move(first); }

Result<bool> complete_all(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait,
                          gpurun_message_status* ret_statuses) {
    Completion completion(count, requests);
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
    Completion completion(count, requests);
    GPURUN_TRY(completion.prepare(stream));
    GPURUN_TRY(check_output(ret_index, "ret_index"));
    GPURUN_ASSIGN(const bool done, completion.run(Engine::Need::kOne, may_wait));
    if (!done)
        return false;
    if (completion.completed().empty()) {
        *ret_index = GPURUN_UNDEFINED;
        fill_status(Outcome{}.arrived, GPURUN_BYTE, Status::kOk, false, ret_status);
        return true;
    }
    const size_t index = completion.completed().front();
    *ret_index = static_cast<int>(index);
    GPURUN_TRY(completion.settle(index, ret_status));
    return true;
}

Result<void> complete_some(size_t count, gpurun_request* requests, gpurun_stream stream, bool may_wait, int* ret_count,
                           int* ret_indices, gpurun_message_status* ret_statuses) {
    Completion completion(count, requests);
    GPURUN_TRY(completion.prepare(stream));
    GPURUN_TRY(check_output(ret_count, "ret_count"));
    if (count != 0)
        GPURUN_TRY(check_output(ret_indices, "ret_indices"));
    GPURUN_ASSIGN(const bool done, completion.run(Engine::Need::kSome, may_wait));
    const std::span<const size_t> completed = completion.completed();
    *ret_count = !done ? 0 : completed.empty() ? GPURUN_UNDEFINED : static_cast<int>(completed.size());
    Result<void> result;
    for (size_t i = 0; i < completed.size(); ++i) {
        ret_indices[i] = static_cast<int>(completed[i]);
        result = keep_first(std::move(result),
                            completion.settle(completed[i], ret_statuses == nullptr ? nullptr : &ret_statuses[i]));
    }
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
    if (cancelled->kind == Request::Kind::kSend)
        return base::error(Status::kUnsupported, "a send cannot be taken back: its receiver may have matched it");
    found->engine().cancel(*cancelled);
    return {};
}

Result<void> free_request(gpurun_request* request) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(Request * freed, find(*found, request));
    found->engine().abandon(*freed);
    *request = GPURUN_REQUEST_NULL;
    return {};
}

} // namespace

static Result<void> start_taken(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                                gpurun_stream stream, gpurun_request* ret_request) {
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_ASSIGN(const Taken taken, find_taken(message));
    const int source = taken.number == GPURUN_MESSAGE_NO_PROC.id ? GPURUN_PROC_NULL : GPURUN_ANY_SOURCE;
    GPURUN_ASSIGN(Request * request,
                  prepare(*taken.runtime, taken.runtime->world(),
                          {Request::Kind::kReceive, buffer, count, type, source, GPURUN_ANY_TAG, {}, stream}));
    if (source != GPURUN_PROC_NULL)
        request->taken = taken.number;
    taken.runtime->engine().start(*request);
    *ret_request = gpurun_request{request->id};
    *message = GPURUN_MESSAGE_NULL;
    return {};
}

} // namespace gpurun::api

namespace api = gpurun::api;
using gpurun::comm::Request;

extern "C" {

gpurun_status gpurun_isend(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                           gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(
        api::start_new({Request::Kind::kSend, buffer, count, type, dest, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_issend(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag, gpurun_comm comm,
                            gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(
        api::start_new({Request::Kind::kSend, buffer, count, type, dest, tag, comm, stream, true}, ret_request));
}

gpurun_status gpurun_irecv(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                           gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(
        api::start_new({Request::Kind::kReceive, buffer, count, type, source, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_imrecv(void* buffer, size_t count, gpurun_datatype type, gpurun_message* message,
                            gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(api::start_taken(buffer, count, type, message, stream, ret_request));
}

gpurun_status gpurun_send_init(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag,
                               gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(
        api::make_persistent({Request::Kind::kSend, buffer, count, type, dest, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_ssend_init(const void* buffer, size_t count, gpurun_datatype type, int dest, int tag,
                                gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(
        api::make_persistent({Request::Kind::kSend, buffer, count, type, dest, tag, comm, stream, true}, ret_request));
}

gpurun_status gpurun_recv_init(void* buffer, size_t count, gpurun_datatype type, int source, int tag, gpurun_comm comm,
                               gpurun_stream stream, gpurun_request* ret_request) {
    return api::report(
        api::make_persistent({Request::Kind::kReceive, buffer, count, type, source, tag, comm, stream}, ret_request));
}

gpurun_status gpurun_start(gpurun_request* request) { return api::report(api::start_again(request)); }

gpurun_status gpurun_startall(size_t count, gpurun_request* requests) {
    if (count != 0)
        if (auto checked = api::check_output(requests, "requests"); !checked)
            return api::report(std::move(checked));
    for (size_t i = 0; i < count; ++i)
        if (auto started = api::start_again(&requests[i]); !started)
            return api::report(std::move(started));
    return GPURUN_OK;
}

gpurun_status gpurun_wait(gpurun_request* request, gpurun_stream stream, gpurun_message_status* ret_status) {
    return api::report(api::ignore_value(api::complete_all(1, request, stream, true, ret_status)));
}

gpurun_status gpurun_waitall(size_t count, gpurun_request* requests, gpurun_stream stream,
                             gpurun_message_status* ret_statuses) {
    return api::report(api::ignore_value(api::complete_all(count, requests, stream, true, ret_statuses)));
}

gpurun_status gpurun_waitany(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_index,
                             gpurun_message_status* ret_status) {
    return api::report(api::ignore_value(api::complete_one(count, requests, stream, true, ret_index, ret_status)));
}

gpurun_status gpurun_waitsome(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_count,
                              int* ret_indices, gpurun_message_status* ret_statuses) {
    return api::report(api::complete_some(count, requests, stream, true, ret_count, ret_indices, ret_statuses));
}

gpurun_status gpurun_test(gpurun_request* request, gpurun_stream stream, int* ret_done,
                          gpurun_message_status* ret_status) {
    return gpurun_testall(1, request, stream, ret_done, ret_status);
}

gpurun_status gpurun_testall(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_done,
                             gpurun_message_status* ret_statuses) {
    if (auto checked = api::check_output(ret_done, "ret_done"); !checked)
        return api::report(std::move(checked));
    return api::report_done(api::complete_all(count, requests, stream, false, ret_statuses), ret_done);
}

gpurun_status gpurun_testany(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_index,
                             int* ret_done, gpurun_message_status* ret_status) {
    if (auto checked = api::check_output(ret_done, "ret_done"); !checked)
        return api::report(std::move(checked));
    return api::report_done(api::complete_one(count, requests, stream, false, ret_index, ret_status), ret_done);
}

gpurun_status gpurun_testsome(size_t count, gpurun_request* requests, gpurun_stream stream, int* ret_count,
                              int* ret_indices, gpurun_message_status* ret_statuses) {
    return api::report(api::complete_some(count, requests, stream, false, ret_count, ret_indices, ret_statuses));
}

gpurun_status gpurun_cancel(gpurun_request* request) { return api::report(api::cancel(request)); }

gpurun_status gpurun_request_free(gpurun_request* request) { return api::report(api::free_request(request)); }

} // extern "C"
