#include "comm/requests.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/inline.hpp"
#include "transfer/protocol/loan.hpp"

#include <algorithm>
#include <array>

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::Ending;
using transfer::Envelope;

namespace {

// Whether it can be completed into `order` now. In the host's order that takes what was left to the completion.
bool is_ready(Request& request, const Order& order) {
    if (order.on_stream())
        return request.enqueued();
    request.enqueue_left();
    return request.done();
}

} // namespace

// Whether what a call wants of several requests is there. Remembers how far it has looked. A request that has been
// released meanwhile (another thread has completed it, which is a mistake of the program) counts as complete.
class Requests::Goal {
  public:
    Goal(Core& core, const Ask& ask) : core_(core), ask_(ask) {}

    bool is_met() GPURUN_REQUIRES(engine_lock) {
        if (seen_ == core_.changes())
            return false; // nothing has changed since the last look
        seen_ = core_.changes();
        return ask_.need == Need::kAll ? are_all_ready() : is_any_ready();
    }
    // The requests that the call waits for now.
    std::span<const uint64_t> awaited() const {
        return ask_.need == Need::kAll ? std::span<const uint64_t>(ask_.names).subspan(first_open_, 1) : ask_.names;
    }

  private:
    Request* find_open(uint64_t name) const GPURUN_REQUIRES(engine_lock) {
        Request* const request = core_.requests().find(name);
        return request != nullptr && request->active ? request : nullptr;
    }
    bool are_all_ready() GPURUN_REQUIRES(engine_lock) {
        for (; first_open_ < ask_.names.size(); ++first_open_) {
            Request* const request = find_open(ask_.names[first_open_]);
            if (request != nullptr && !is_ready(*request, ask_.order))
                return false;
        }
        return true;
    }
    bool is_any_ready() const GPURUN_REQUIRES(engine_lock) {
        bool any_open = false;
        for (const uint64_t name : ask_.names) {
            Request* const request = find_open(name);
            if (request != nullptr && is_ready(*request, ask_.order))
                return true;
            any_open |= request != nullptr;
        }
        return !any_open;
    }

    Core& core_;
    const Ask& ask_;
    size_t first_open_ = 0;
    std::optional<uint64_t> seen_;
};

// ------------------------------------------------------------------------------------------------------- starting

uint64_t Requests::make(const Task& task) {
    const EngineLock lock(core_.mutex());
    Request& request = core_.requests().take(task);
    return request.name;
}

uint64_t Requests::start(const Task& task, int64_t entered_ns) {
    uint64_t name = 0;
    {
        EngineLock lock(core_.mutex());
        Request& request = core_.requests().take(task);
        begin(request, entered_ns);
        if (task.operand.captured()) [[unlikely]] {
            Request* const requests[] = {&request};
            enqueue_captured(lock, requests);
        }
        name = request.name;
    }
    batch_.leave_series();
    return name;
}

Request* Requests::find(uint64_t name) {
    const EngineLock lock(core_.mutex());
    return core_.requests().find(name);
}

// The mails that they put into a stream go by one kernel. Captured messages are no mails, and may have to wait.
void Requests::start_again(std::span<Request* const> requests, int64_t entered_ns) {
    start_all(requests, entered_ns);
    batch_.leave_series();
}

void Requests::start_all(std::span<Request* const> requests, int64_t entered_ns) {
    EngineLock lock(core_.mutex());
    if (batch_.series().is_of_collectives())
        batch_.end();
    batch_.begin_held(); // another thread's, too: they are no part of what is collected
    transfer::Exchanges& exchanges = core_.resources().exchanges;
    core_.resources().pools.markers.begin_sharing();
    const bool some_captured = std::any_of(requests.begin(), requests.end(),
                                           [](const Request* each) { return each->task.operand.captured(); });
    exchanges.collect(requests.size() > 1 && !some_captured);
    for (Request* const each : requests)
        begin(*each, entered_ns);
    if (some_captured)
        enqueue_captured(lock, requests);
    core_.resources().pools.markers.end_sharing();
    exchanges.collect(false);
    exchanges.launch();
}

void Requests::hold(Request& request) {
    const EngineLock lock(core_.mutex());
    request.active = true;
}

// Without the time it belongs to no series.
void Requests::begin(Request& request, std::optional<int64_t> entered_ns) {
    request.active = true;
    request.cancelled = false;
    request.series = 0;
    request.capture = request.task.operand.captured() ? capture_of(request.task.operand.stream) : 0;
    if (request.task.peer == kProcNull) {
        if (entered_ns)
            batch_.pass_in_series(*entered_ns);
        return;
    }
    if (entered_ns && request.task.kind != Task::Kind::kLend && request.task.operand.on_stream())
        request.series = batch_.add_to_series(request.task.operand, *entered_ns);
    batch_.go_on();
    const bool defers = batch_.may_defer() || batch_.series().is_held();
    if (request.task.kind == Task::Kind::kLend) {
        begin_lend(request);
    } else if (request.task.kind == Task::Kind::kSend) {
        if (!begin_send(request))
            return;
    } else {
        begin_receive(request);
    }
    if (request.done())
        return;
    const transfer::Operation* const operation = request.operation();
    if (operation == nullptr) { // a receive in the host's order that waits for its message
        if (!request.task.operand.by_cpu())
            batch_.count_posted();
        if (!background_.on_duty()) [[unlikely]]
            background_.leave_to();
        return;
    }
    batch_.count_start();
    const bool deferred = batch_.after_start(defers);
    if (!background_.on_duty() || (operation->needs_hand() && !deferred))
        background_.leave_to();
    batch_.note_start();
}

// False if its message was sent at once.
bool Requests::begin_send(Request& request) {
    const Task& task = request.task;
    const WorldRank dest = task.comm->group().world(Rank{task.peer});
    const Envelope envelope{task.comm->user_context(), task.tag, task.operand.bytes};
    if (!task.synchronous && transfer::goes_inline(core_.resources().settings, task.operand) &&
        messages_.try_send_now(dest, task.operand.address, envelope, nullptr))
        return false;
    RequestTable& table = core_.requests();
    table.note_started();
    const transfer::Send::Mode mode{Ending::kByCompletion, task.synchronous, nullptr};
    request.send = table.sends().make(core_.resources(), core_.peer(dest), task.operand, envelope, mode);
    if (task.operand.captured())
        background_.keep_watch();
    if (request.send->target().channel().is_gone())
        messages_.start(*request.send); // which fails it
    else
        batch_.start_send(*request.send);
    if (batch_.fills_kernel()) {
        progress_.poll_all();
        batch_.begin_part();
    }
    return true;
}

void Requests::begin_lend(Request& request) {
    const Task& task = request.task;
    LoanTask& lent = request.lent;
    lent.since_ns = platform::now_ns();
    RequestTable& table = core_.requests();
    table.note_started();
    transfer::Peer& target = core_.peer(task.comm->group().world(Rank{task.peer}));
    request.send = table.sends().make(
        core_.resources(), target, task.operand, Envelope{task.comm->user_context(), task.tag, task.operand.bytes},
        transfer::Send::Mode{
            .ending = Ending::kByCompletion, .loan = lent.loan, .origin = lent.origin, .lent_on = lent.lent_on});
    if (lent.loan_of != 0)
        table.lent().note_lent_on(lent.loan_of);
    // A rank that lends to itself goes on using it, as the borrower.
    const bool exclusive = lent.loan.kind == transfer::LoanKind::kExclusive && !target.to_self();
    if (request.description) {
        for (const TensorList::Allocation& each : request.description->tensors.allocations())
            table.lent().add(each.first, static_cast<size_t>(each.end - each.first), exclusive, request);
        if (auto described = describe_loan(request); !described) {
            request.send->fail(std::move(described).error());
            return;
        }
    } else if (task.operand.bytes != 0) {
        table.lent().add(task.operand.address, task.operand.bytes, exclusive, request);
    }
    messages_.start(*request.send);
}

// Starts the message in front of a loan of tensors.
Result<void> Requests::describe_loan(Request& request) {
    LoanDescription& description = *request.description;
    transfer::Peer& target = request.send->target();
    std::vector<transfer::RemoteBuffer> remote;
    for (const TensorList::Allocation& each : description.tensors.allocations()) {
        const transfer::Operand& lent = each.operand;
        const transfer::Borrowing* const borrowed = request.lent.lent_on;
        const auto* const part = borrowed != nullptr ? borrowed->find(lent.address, lent.bytes) : nullptr;
        remote.push_back(part != nullptr ? transfer::Borrowing::describe(*part, lent.address)
                                         : target.memory().describe_lent(lent));
        const bool may_copy = request.lent.loan.kind == transfer::LoanKind::kReadOrCopy &&
                              request.task.operand.bytes != 0 && target.channel().shares_memory();
        if (!remote.back().exportable() && !may_copy && !target.to_self())
            return transfer::cannot_be_lent(target);
    }
    description.packed = description.tensors.pack(remote);
    description.serial = request.send->serial();
    transfer::Operand operand;
    operand.address = description.packed.data();
    operand.bytes = description.packed.size();
    description.send = core_.requests().sends().make(
        core_.resources(), target, operand,
        Envelope{kDescriptionContext, LoanDescription::tag_of(description.serial), operand.bytes},
        transfer::Send::Mode{.ending = Ending::kByCompletion});
    messages_.start(*description.send);
    return {};
}

void Requests::begin_receive(Request& request) {
    const Task& task = request.task;
    RequestTable& table = core_.requests();
    table.note_started();
    const int source = task.taken == 0 ? task.peer : kAnySource;
    request.receive.emplace(core_.resources(), table.receives(), task.operand,
                            Pattern::of(task.comm->group(), task.comm->user_context(), source, task.tag),
                            ReceiveMode{.ending = Ending::kByCompletion});
    if (task.taken == 0)
        messages_.start(*request.receive);
    else
        messages_.start_taken(task.taken, *request.receive);
}

// ------------------------------------------------------------------------------------------------------ completing

Result<void> Requests::check(const Ask& ask) {
    for (const uint64_t name : ask.names) {
        Request* const request = name == 0 ? nullptr : core_.requests().find(name);
        if (name != 0 && request == nullptr)
            return no_request(name);
        if (request != nullptr && (request->task.operand.captured() || ask.order.captured()))
            GPURUN_TRY(check_same_capture(*request, ask.order));
    }
    return {};
}

Result<bool> Requests::complete(const Ask& ask, Settle settle) {
    EngineLock lock(core_.mutex());
    GPURUN_TRY(check(ask));
    const bool waits_for_all = ask.need == Need::kAll && ask.may_wait && !ask.order.on_stream();
    if (waits_for_all && batch_.is_deferring())
        gather(ask);
    else if (!completes_series(ask))
        batch_.end();
    else if (batch_.series().is_held() && batch_.series().is_of_collectives())
        return complete_collectives(lock, ask, settle);
    else if (batch_.series().is_held())
        move_together(ask);
    else
        batch_.end_directly();
    if (waits_for_all)
        return complete_in_turn(lock, ask, settle);
    return complete_met(lock, ask, settle);
}

Result<bool> Requests::complete_met(EngineLock& lock, const Ask& ask, const Settle& settle) {
    auto met = wait_until_met(lock, ask);
    if (!core_.resources().fused.empty())
        batch_.launch(); // what had been left, and was looked for
    if (!met || !*met)
        return met;
    transfer::Exchanges& exchanges = core_.resources().exchanges;
    exchanges.begin_completion();
    auto completed = complete_each(ask, settle);
    exchanges.end_completion();
    if (ask.order.captured()) {
        auto launched = core_.resources().captured_exchange.launch();
        if (completed)
            completed = std::move(launched);
    }
    exchanges.launch(); // what was taken for the stream, or is awaited there
    GPURUN_TRY(std::move(completed));
    return true;
}

// One look at each: windows of small messages are as fast as this.
Result<bool> Requests::complete_in_turn(EngineLock& lock, const Ask& ask, const Settle& settle) {
    size_t next = 0;
    const auto are_all_complete = [&] {
        assume_engine_lock();
        for (; next < ask.names.size(); ++next) {
            Request* const request = core_.requests().find(ask.names[next]);
            if (request == nullptr) // another handle of it stands before this one
                ask.names[next] = 0;
            if (request == nullptr || !request->active)
                continue;
            if (!is_ready(*request, ask.order))
                return false;
            end(ask, next, *request, settle);
        }
        return true;
    };
    if (are_all_complete())
        return true;
    const Background::Attendance attendance(background_);
    const WaitReason reason{.kind = WaitReason::Kind::kRequests, .requests = ask.names};
    GPURUN_TRY(waiter_.wait(lock, reason, are_all_complete, [&] {
        assume_engine_lock();
        return arm(ask.names.subspan(next, 1));
    }));
    return true;
}

void Requests::end(const Ask& ask, size_t index, Request& request, const Settle& settle) {
    if (ask.tell_all || !request.ended_well())
        settle(index, request);
    core_.requests().end(request);
    if (!request.task.persistent) {
        core_.requests().release(request);
        ask.names[index] = 0;
    }
}

Result<bool> Requests::wait_until_met(EngineLock& lock, const Ask& ask) {
    Goal goal(core_, ask);
    if (goal.is_met())
        return true;
    const Background::Attendance attendance(background_);
    if (!ask.may_wait) {
        (void)progress_.run();
        return goal.is_met();
    }
    const WaitReason reason{.kind = WaitReason::Kind::kRequests,
                            .any = ask.need != Need::kAll,
                            .into_stream = ask.order.on_stream(),
                            .requests = ask.names};
    GPURUN_TRY(waiter_.wait(
        lock, reason,
        [&] {
            assume_engine_lock();
            return goal.is_met();
        },
        [&] {
            assume_engine_lock();
            return arm(goal.awaited());
        }));
    return true;
}

Result<void> Requests::complete_each(const Ask& ask, const Settle& settle) {
    if (ask.order.on_stream())
        expect_fused(ask);
    for (size_t i = 0; i < ask.names.size(); ++i) {
        Request* const request = core_.requests().find(ask.names[i]);
        if (request == nullptr) // as above
            ask.names[i] = 0;
        if (request == nullptr || !request->active || !is_ready(*request, ask.order))
            continue;
        if (ask.order.on_stream())
            GPURUN_TRY(request->complete_into(ask.order.stream));
        end(ask, i, *request, settle);
        if (ask.need == Need::kOne)
            break;
    }
    return {};
}

Request* Requests::find_in_series(uint64_t name) {
    Request* const found = core_.requests().find(name);
    const bool belongs = found != nullptr && found->active && found->series == batch_.series().number();
    return belongs ? found : nullptr;
}

bool Requests::completes_series(const Ask& ask) {
    const Series& series = batch_.series();
    if (!series.is_open() || !ask.order.on_stream() || ask.order.captured() || ask.need != Need::kAll || !ask.may_wait)
        return false;
    const auto members = std::count_if(ask.names.begin(), ask.names.end(), [&](uint64_t name) {
        assume_engine_lock();
        return find_in_series(name) != nullptr;
    });
    return series.is_completed(ask.order.stream, ask.entered_ns, static_cast<size_t>(members));
}

// What the call completes directly behind its start, and nothing of which is enqueued: as the calls of a group.
void Requests::move_together(const Ask& ask) {
    std::vector<Request*>& all = together_;
    all.clear();
    for (const uint64_t name : ask.names)
        if (Request* const each = find_in_series(name))
            all.push_back(each);
    for (Request* const each : all)
        each->end_together();
    pair_with_own(all);
    batch_.end_directly();
    for (Request* const each : all)
        if (each->is_left())
            (void)each->complete_into(ask.order.stream); // its errors are the request's
    batch_.enqueue_left();
    const auto have_started = [&] {
        return std::all_of(all.begin(), all.end(),
                           [](const Request* each) { return !each->receive || each->receive->started(); });
    };
    const auto are_enqueued = [&] {
        return std::all_of(all.begin(), all.end(), [](const Request* each) { return each->enqueued(); });
    };
    messages_.share_kernel(have_started, are_enqueued);
}

// In the host's order: what was deferred, and what peers send at the same time, goes by one kernel. Where they did not
// the last time, what is sent does not wait for them.
void Requests::gather(const Ask& ask) {
    batch_.end(Batch::Launch::kLater);
    size_t next = 0;
    const auto have_started = [&] {
        assume_engine_lock();
        for (; next < ask.names.size(); ++next) {
            const Request* const each = core_.requests().find(ask.names[next]);
            if (each != nullptr && each->active && each->receive && !each->receive->started() && !each->receive->done())
                return false;
        }
        return true;
    };
    if (peers_answer_) {
        batch_.launch();
        (void)progress_.run();
    } else {
        messages_.share_kernel(have_started, [] { return true; });
    }
    peers_answer_ = !have_started();
}

// What is not matched, in the orders in which it matches, if nothing else waits to be sent to this rank.
void Requests::pair_with_own(std::span<Request* const> all) {
    own_sends_.clear();
    core_.peer(core_.self()).unposted.for_each([&](transfer::Send& each) { own_sends_.push_back(&each); });
    const auto is_of_call = [&](const transfer::Send* own) {
        return std::any_of(all.begin(), all.end(), [&](const Request* each) { return each->send == own; });
    };
    if (own_sends_.empty() || !std::all_of(own_sends_.begin(), own_sends_.end(), is_of_call))
        return;
    receives_.clear();
    for (Request* const each : all)
        if (each->receive && !each->receive->started() && !each->receive->done())
            receives_.push_back(&*each->receive);
    std::sort(receives_.begin(), receives_.end(),
              [](const PostedReceive* one, const PostedReceive* other) { return one->turn < other->turn; });
    receives_.erase(std::unique(receives_.begin(), receives_.end()), receives_.end()); // named twice
    messages_.pair_with_own(own_sends_, receives_);
}

// The same of collectives, as if each were called by itself: the next begins once this one is enqueued, so that they
// are in the stream in one order on all ranks. Until all are complete, this call makes progress for them.
Result<bool> Requests::complete_collectives(EngineLock& lock, const Ask& ask, const Settle& settle) {
    const uint64_t series = batch_.series().number();
    batch_.end_directly();
    const Background::Attendance attendance(background_);
    for (uint64_t& name : ask.names) {
        const Request* const each = core_.requests().find(name);
        if (each == nullptr || !each->active || each->series != series)
            continue;
        each->collective->begin_in_place();
        const Ask one{.names = {&name, 1}, .order = ask.order};
        if (auto waited = wait_until_met(lock, one); !waited) {
            batch_.begin_held();
            return waited;
        }
    }
    batch_.begin_held(); // where one was named twice, another was not named
    return complete_met(lock, ask, settle);
}

// Several receives that share a kernel are awaited at once where the stream is to wait for all of them.
void Requests::expect_fused(const Ask& ask) {
    transfer::FusedMessages& fused = core_.resources().fused;
    fused.begin_completion();
    for (const uint64_t name : ask.names) {
        Request* const each = core_.requests().find(name);
        if (ask.need != Need::kOne && each != nullptr && each->active && each->receive && is_ready(*each, ask.order) &&
            each->receive->made_op() != nullptr)
            fused.expect(each->receive->made_op()->launch());
    }
}

Result<void> Requests::arm(std::span<const uint64_t> names) {
    for (const uint64_t name : names)
        if (const Request* const request = core_.requests().find(name); request != nullptr && request->active)
            GPURUN_TRY(arm(*request));
    return {};
}

Result<void> Requests::arm(const Request& request) {
    if (request.collective != nullptr)
        return request.collective->arm(alarms_);
    const transfer::Operation* const operation = request.operation();
    return operation != nullptr ? alarms_.set_for(*operation) : Result<void>();
}

// -------------------------------------------------------------------------------------------------------- giving up

// Its target alone knows whether it has been received.
void Requests::withdraw(transfer::Send& loan) {
    transfer::Peer& target = loan.target();
    if (loan.done() || loan.matched())
        return;
    if (base::List<transfer::Send, transfer::Unposted>::has(loan)) // nobody has heard of it
        loan.withdraw();
    else
        target.tell(transfer::Record(transfer::RecordKind::kNotice, transfer::LoanPart::kProtocol)
                        .with(transfer::LoanNotice{transfer::LoanNotice::What::kWithdraw, loan.serial()}));
    core_.note_change();
}

void Requests::cancel(Request& request) {
    const EngineLock lock(core_.mutex());
    (void)progress_.run(); // a message that has come is matched first, and the receive is not cancelled then
    if (request.task.kind == Task::Kind::kLend) {
        if (request.send != nullptr)
            withdraw(*request.send);
        else if (request.collective != nullptr)
            request.collective->for_each_loan([&](transfer::Send& each) {
                assume_engine_lock();
                withdraw(each);
            });
        return;
    }
    if (!request.receive || request.receive->started())
        return;
    if (!request.receive->done()) {
        messages_.fail(*request.receive, base::Error{Status::kInternal, "the receive was cancelled"});
    } else if (const base::Error* const error = request.receive->error();
               error != nullptr && error->status != Status::kFinalized && error->status != Status::kPeerLost) {
        return; // else no rank can send its message any more, and it is cancelled all the same
    }
    request.cancelled = true;
    core_.note_change();
}

Result<void> Requests::abandon(Request& request) {
    const EngineLock lock(core_.mutex());
    if (!request.active) {
        core_.requests().release(request);
        return {};
    }
    if (is_in_capture(request))
        return base::error(Status::kUnsupported,
                           "the request was started under capture: it becomes part of the graph when it is waited for, "
                           "and cannot be freed before");
    core_.requests().abandon(request);
    return {};
}

} // namespace gpurun::comm
