#include "comm/schedules.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Operand;

namespace {

// In the order of the operand's domain, without its bytes.
Operand order_of(const Operand& operand) {
    Operand order;
    order.domain = operand.domain;
    order.stream = operand.stream;
    return order;
}

} // namespace

Schedules::Schedules(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, Messages& messages,
                     PeerFailure& failure, Background& background)
    : core_(core), batch_(batch), waiter_(waiter), alarms_(alarms), messages_(messages), failure_(failure),
      background_(background), check_(core, progress, running_), immediate_(core, waiter),
      immediate_mails_(core, waiter) {
    progress.on_run([this] {
        assume_engine_lock();
        return advance();
    });
    alarms.also_set([this](bool all) {
        assume_engine_lock();
        return arm(all);
    });
    background.mind({.under_way =
                         [this] {
                             assume_engine_lock();
                             return !all_done() || check_.has_untold();
                         },
                     .needs_hand =
                         [this] {
                             assume_engine_lock();
                             return any_awaits_device();
                         }});
    // A collective in which a dead rank takes part fails on every rank, whether the rank needed the dead one or not.
    failure.on_lost([this](WorldRank dead) {
        running_.for_each([&](ScheduleRun& each) {
            assume_engine_lock();
            if (each.schedule().members().rank_of(dead))
                each.fail(lost(core_.peer(dead)));
        });
    });
}

ScheduleRun& Schedules::take(const Communicator& comm) {
    if (unused_.empty()) {
        unused_.reserve(all_.size() + 1); // so that one goes back without an allocation
        unused_.push_back(&all_.emplace_back(
            [this](ScheduleRun& each) {
                assume_engine_lock();
                take_back(each);
            },
            core_, messages_, failure_));
    }
    ScheduleRun& run = *unused_.back();
    unused_.pop_back();
    comm.hold();
    return run;
}

ScheduleRun& Schedules::take(const Signature& call, const Communicator& comm) {
    ScheduleRun& run = take(comm);
    run.schedule().reset(call.kind(), comm);
    run.schedule().set_signature(call);
    return run;
}

ScheduleRun& Schedules::make(const Signature& call, const Communicator& comm, Build build) {
    ScheduleRun& run = take(call, comm);
    build(run.schedule());
    return run;
}

void Schedules::count(const Schedule& schedule, const Operand& buffer) {
    if (core_.resources().settings.report.collectives)
        tally_.add(schedule, buffer.bytes);
}

std::string Schedules::report() {
    const EngineLock lock(core_.mutex());
    return tally_.report(core_.self());
}

void Schedules::take_back(ScheduleRun& run) {
    running_.remove(run);
    check_.end(run);
    run.schedule().comm().let_go();
    unused_.push_back(&run);
}

bool Schedules::all_done() const {
    return running_.find([](const ScheduleRun& each) { return !each.done(); }) == nullptr;
}

Result<void> Schedules::arm(bool all) const {
    Result<void> armed;
    running_.for_each([&](const ScheduleRun& each) {
        assume_engine_lock();
        if (armed && (all ? !each.done() : each.awaits_device()))
            armed = each.arm(alarms_);
    });
    return armed;
}

bool Schedules::any_awaits_device() const {
    return running_.find([](const ScheduleRun& each) { return each.awaits_device(); }) != nullptr;
}

bool Schedules::advance() {
    bool moved = false;
    running_.for_each([&](ScheduleRun& each) {
        assume_engine_lock();
        moved |= each.advance();
        check_.look(each);
    });
    check_.post_notes();
    return moved;
}

void Schedules::begin(ScheduleRun& run, const Operand& order, transfer::Ending ending) {
    running_.push_back(run);
    check_.begin(run);
    run.start(order, ending);
    check_.look(run);
}

void Schedules::run_here(EngineLock& lock, ScheduleRun& run, const Operand& order) {
    begin(run, order, transfer::Ending::kInStream);
    batch_.launch(); // of requests that have found no room before
    const WaitReason reason{.kind = WaitReason::Kind::kMessages, .collective = &run};
    const auto done = [&] {
        assume_engine_lock();
        (void)run.advance();
        check_.look(run);
        return run.done();
    };
    auto waited = waiter_.wait(lock, reason, done, [&] {
        assume_engine_lock();
        return run.arm(alarms_);
    });
    if (!waited) {
        run.abandon(waited.error());
        check_.look(run);
    }
}

// One kernel of a stream does what would be several operations, each of which the host waits for. Where most ranks have
// one message that gains nothing, and long ones that are not reduced go as fast by copy engines.
bool Schedules::is_for_stream(const Schedule& schedule, const Operand& buffer) {
    const base::Collective kind = schedule.signature().kind();
    const bool is_on_device = buffer.bytes != 0 && buffer.by_device() && !buffer.in_host_memory();
    if (buffer.on_stream() || !is_on_device || !core_.resources().releases_streams() || base::moves_at_root_alone(kind))
        return false;
    return base::reduces(kind) ? core_.device().reduce() != nullptr
                               : immediate_mails_.admits(schedule.comm(), buffer.in_stream({}));
}

Result<size_t> Schedules::run(const Signature& call, const Communicator& comm, const Operand& buffer, Build build) {
    EngineLock lock(core_.mutex());
    ScheduleRun& run = take(call, comm);
    if (is_for_stream(run.schedule(), buffer))
        run.try_stream();
    const Operand order = run.has_stream() ? buffer.in_stream(run.stream()) : buffer;
    // Steps that are done make no progress for requests: the background thread has to.
    const bool has_hand = background_.on_duty() || !core_.requests().any_under_way();
    const bool may_do_now = has_hand && (order.by_cpu() || immediate_mails_.admits(comm, order)) &&
                            core_.resources().trace == nullptr && !batch_.is_deferring() &&
                            !failure_.any_lost(comm.group());
    if (may_do_now && order.by_cpu())
        batch_.forget_starts();
    else if (may_do_now)
        batch_.end();
    bool done = false;
    if (may_do_now)
        done = is_done_now(run, order, build);
    else
        build(run.schedule());
    count(run.schedule(), buffer);
    if (!done || run.has_stream()) // of its own: the host waits for its end
        return finish(lock, run, order);
    comm.let_go();
    unused_.push_back(&run);
    if (const auto late = check_.take_late(comm))
        return *late;
    return run.received_bytes();
}

bool Schedules::is_done_now(ScheduleRun& run, const Operand& buffer, Build build) {
    Schedule& schedule = run.schedule();
    const auto early = check_.begin_now(schedule);
    if (!early) {
        build(schedule);
        return false;
    }
    uint32_t unexpected = 0;
    if (buffer.by_cpu()) {
        immediate_.begin(schedule, *early);
        build(schedule);
        unexpected = immediate_.end(schedule);
    } else {
        immediate_mails_.begin(schedule, *early, order_of(buffer));
        build(schedule);
        unexpected = immediate_mails_.end(schedule);
    }
    run.count_arrived(unexpected);
    return schedule.steps().empty() && unexpected == 0;
}

Result<size_t> Schedules::run_among(const Group& members, base::Collective kind, const Communicator& comm,
                                    uint16_t number, Build build) {
    EngineLock lock(core_.mutex());
    ScheduleRun& run = take(comm);
    run.schedule().reset(kind, comm, number, members);
    build(run.schedule());
    return finish(lock, run, Operand{});
}

Result<size_t> Schedules::finish(EngineLock& lock, ScheduleRun& run, const Operand& buffer) {
    const Background::Attendance attendance(background_);
    run_here(lock, run, order_of(buffer));
    Result<size_t> result =
        run.error() != nullptr ? Result<size_t>(*run.error()) : Result<size_t>(run.received_bytes());
    run.release();
    return result;
}

uint64_t Schedules::start(const Signature& call, const Communicator& comm, const Operand& buffer, Build build) {
    const EngineLock lock(core_.mutex());
    ScheduleRun& run = make(call, comm, build);
    Request& request = core_.requests().take(Task{.kind = Task::Kind::kCollective, .comm = &comm, .operand = buffer});
    start(request, run);
    return request.name;
}

void Schedules::start_again(Request& request, const Signature& call, const Operand& buffer, Build build) {
    const EngineLock lock(core_.mutex());
    request.task.operand = buffer;
    start(request, make(call, *request.task.comm, build));
}

void Schedules::start(Request& request, ScheduleRun& run) {
    count(run.schedule(), request.task.operand);
    request.active = true;
    request.cancelled = false;
    request.collective = &run;
    core_.requests().note_started();
    batch_.end(); // its messages come behind what was started before
    // What peers answer meanwhile need not wake the thread. They do not answer small messages.
    std::optional<Background::Attendance> attendance;
    if (request.task.operand.bytes > core_.resources().settings.eager_bytes)
        attendance.emplace(background_);
    if (is_for_stream(run.schedule(), request.task.operand))
        run.try_stream();
    begin(run, order_of(request.task.operand), transfer::Ending::kByCompletion);
    batch_.launch();
    if (!attendance && !run.done())
        background_.leave_to();
}

} // namespace gpurun::comm
