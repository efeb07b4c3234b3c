// Requests of the engine: starting, cancelling, giving up.
#include "comm/engine.hpp"

#include "base/format.hpp"

namespace gpurun::comm {

using base::Status;
using transfer::Ending;
using transfer::Envelope;
using transfer::Outgoing;
using transfer::SendMode;

uint64_t Engine::make(const Task& task) {
    const Lock lock(mutex_);
    return requests_.take(task).id;
}

uint64_t Engine::start(const Task& task) {
    Lock lock(mutex_);
    Request& request = requests_.take(task);
    begin(request);
    enqueue_captured(lock, request);
    return request.id;
}

Request* Engine::find(uint64_t name) {
    const Lock lock(mutex_);
    return request_of(name);
}

Request* Engine::request_of(uint64_t name) {
    Named* const named = requests_.find(name);
    if (named == nullptr || named->request != nullptr)
        return named == nullptr ? nullptr : named->request;
    return &promote(*named);
}

Request& Engine::promote(Named& named) {
    Request& request = requests_.promote(named);
    if (named.kind == Task::Kind::kSend)
        return request;
    request.operand.address = named.into;
    request.operand.bytes = named.room;
    request.peer = named.pattern.source;
    request.tag = named.pattern.tag;
    request.context = named.pattern.context;
    if (!named.open) {
        request.came_at_once = named.arrived;
        return request;
    }
    request.receive.emplace(context_, request.operand, named.pattern, false, Ending::kJoined);
    matcher_.promoted(named, *request.receive);
    ++active_requests_;
    return request;
}

void Engine::start_again(Request& request) {
    Lock lock(mutex_);
    begin(request);
    enqueue_captured(lock, request);
}

// A captured send that finds no room, which graphs that end are about to make, waits for it in the call that starts
// it: a graph is not guarded against two threads that add to it.
void Engine::enqueue_captured(Lock& lock, Request& request) {
    if (!request.operand.captured || !request.send || request.enqueued())
        return;
    const Attendance attendance(*this);
    Request* const one[] = {&request};
    const Awaiting what{.kind = Awaiting::Kind::kRequests, .into_stream = true, .requests = one};
    auto waited = wait(
        lock, what, [&] { return request.enqueued(); }, [&] { return arm(one); });
    if (!waited)
        request.send->fail(std::move(waited).error());
}

void Engine::begin(Request& request) {
    request.active = true;
    request.cancelled = false;
    if (request.peer == kProcNull)
        return;
    if (request.kind == Task::Kind::kSend) {
        const Envelope envelope{request.context, request.tag, request.operand.bytes};
        const SendMode mode{Ending::kJoined, request.synchronous};
        if (Outgoing::fits_inline(context_, request.operand, mode) &&
            push_short(request.peer, request.operand.address, envelope))
            return;
        ++active_requests_;
        request.send.emplace(context_, link(request.peer), request.operand, envelope, mode);
        begin_send(request);
    } else {
        ++active_requests_;
        request.receive.emplace(context_, request.operand, Pattern{request.context, request.peer, request.tag}, false,
                                Ending::kJoined);
        if (request.taken == 0)
            begin(*request.receive);
        else
            begin_taken(request.taken, *request.receive);
    }
    const bool puts_off = may_put_off();
    ++starts_in_a_row_;
    if (!puts_off)
        launch_mails();
    else if (!context_.mails.empty() || put_off_until_ns_ != 0)
        put_off();
    if (!background_on_duty_ || (request.needs_hand() && put_off_until_ns_ == 0))
        leave_to_background();
}

void Engine::begin_send(Request& request) {
    transfer::Link& to = link(request.peer);
    Outgoing& send = *request.send;
    if (!may_share_kernel(send) || !may_put_off() || context_.job.is_gone(to.peer)) {
        begin(send);
        return;
    }
    if (auto kept = send.keep_place(); !kept) {
        send.fail(std::move(kept).error());
        watch(send);
        return;
    }
    to.unposted.push_back(send);
    if (to.unposted.size() >= device::kMostMails)
        post_waiting(to);
    if (!to.unposted.empty())
        put_off();
}

// One in a stream counts in its row even if it goes at once.
bool Engine::may_share_kernel(const Outgoing& send) {
    return send.may_share_kernel() && (!send.on_stream() || context_.places.puts_off_send());
}

void Engine::cancel(Request& request) {
    const Lock lock(mutex_);
    (void)progress(); // a message that is there is matched: who only starts and takes back gets it in the end
    if (!request.receive || request.receive->incoming.started() || request.receive->incoming.done())
        return;
    matcher_.withdraw(*request.receive);
    request.receive->incoming.fail(base::Error{Status::kInternal, "the receive was cancelled"});
    request.cancelled = true;
    changed();
}

base::Result<void> Engine::abandon(Request& request) {
    const Lock lock(mutex_);
    if (!request.active) {
        requests_.release(request);
        return {};
    }
    if (in_capture(request))
        return base::error(base::Status::kUnsupported,
                           "the request was started under capture: it becomes part of the graph when it is waited for, "
                           "and cannot be freed before");
    abandoned_.push_back(request);
    reap_abandoned();
    return {};
}

void Engine::reap_abandoned() {
    abandoned_.for_each([&](Request& request) {
        if (!request.done())
            return;
        abandoned_.remove(request);
        deactivate(request);
        requests_.release(request);
    });
}

void Engine::deactivate(Request& request) {
    CHECK(request.active && request.done());
    if (request.send)
        moving_out_.remove(*request.send);
    if (request.receive)
        moving_in_.remove(request.receive->incoming);
    if (request.under_way())
        --active_requests_;
    request.send.reset();
    request.receive.reset();
    request.came_at_once.reset();
    request.active = false;
}

// Nobody makes a call any more: what has not found its other side never will.
void Engine::end_receives() {
    matcher_.for_each_posted([&](Receive& receive) {
        matcher_.withdraw(receive);
        receive.incoming.fail(base::Error{Status::kInternal, "gpurun_finalize() was called before a message came"});
    });
}

void Engine::end_sends() {
    const auto fail = [&](Outgoing& send) {
        send.fail(base::Error{Status::kInternal, "gpurun_finalize() was called before the message was received"});
        watch(send);
    };
    for (auto& each : links_) {
        each->unposted.for_each(fail);
        each->unanswered.for_each([&](Outgoing& send) {
            if (!send.matched()) // else its target only has to learn where it is
                fail(send);
        });
    }
}

} // namespace gpurun::comm
