#include "comm/schedules.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Operand;

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
                             return !all_enqueued() || check_.has_untold();
                         },
                     .needs_hand =
                         [this] {
                             assume_engine_lock();
                             return any_awaits_device();
                         }});
    batch.on_begin_held([this] {
        assume_engine_lock();
        while (!held_.empty())
            begin_held(*held_.front(), false);
    });
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
        unused_.push_back(&all_.emplace_back(ScheduleRun::Hooks{.take_back =
                                                                    [this](ScheduleRun& each) {
                                                                        assume_engine_lock();
                                                                        take_back(each);
                                                                    },
                                                                .begin =
                                                                    [this](ScheduleRun& each) {
                                                                        assume_engine_lock();
                                                                        begin_in_place(each);
                                                                    }},
                                             core_, messages_, failure_));
    }
    ScheduleRun& run = *unused_.back();
    unused_.pop_back();
    comm.hold();
    return run;
}

void Schedules::note_call(ScheduleRun& run, const Signature& call, const Communicator& comm) {
    run.schedule().reset(call.kind(), comm);
    run.schedule().set_signature(call);
}

void Schedules::begin_all_held() {
    if (held_.empty())
        return;
    batch_.end();
    batch_.begin_held(); // also of a series that another thread completes
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

bool Schedules::all_enqueued() const {
    return running_.find([](const ScheduleRun& each) { return !each.enqueued(); }) == nullptr;
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

void Schedules::begin(ScheduleRun& run, const Operand& order) {
    running_.push_back(run);
    check_.begin(run);
    run.start(order);
    check_.look(run);
}

void Schedules::run_here(EngineLock& lock, ScheduleRun& run, const Operand& order) {
    begin(run, order);
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
    begin_all_held();
    ScheduleRun& run = take(comm);
    note_call(run, call, comm);
    if (is_for_stream(run.schedule(), buffer))
        run.try_stream();
    const Operand order = run.has_stream() ? buffer.in_stream(run.stream()) : buffer;
    if (!order.by_cpu())
        batch_.end();
    else if (!batch_.is_deferring())
        batch_.forget_starts();
    const bool done = build_now(run, order, build);
    count(run.schedule(), buffer);
    if (!done || run.has_stream()) // of its own: the host waits for its end
        return finish(lock, run, order);
    comm.let_go();
    unused_.push_back(&run);
    if (const auto late = check_.take_late(comm))
        return *late;
    return run.received_bytes();
}

// Steps that are done make no progress for requests: the background thread has to.
bool Schedules::may_do_now(const Communicator& comm, const Operand& buffer) {
    const bool has_hand = background_.on_duty() || !core_.requests().any_under_way();
    return has_hand && (buffer.by_cpu() || immediate_mails_.admits(comm, buffer)) &&
           core_.resources().trace == nullptr && !batch_.is_deferring() && !failure_.any_lost(comm.group());
}

bool Schedules::build_now(ScheduleRun& run, const Operand& buffer, Build build) {
    if (!may_do_now(run.schedule().comm(), buffer)) {
        build(run.schedule());
        return false;
    }
    return is_done_now(run, buffer, build);
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
        immediate_mails_.begin(schedule, *early, buffer.without_bytes());
        build(schedule);
        unexpected = immediate_mails_.end(schedule);
    }
    run.count_arrived(unexpected);
    return schedule.steps().empty() && unexpected == 0;
}

Result<size_t> Schedules::run_among(const Group& members, base::Collective kind, const Communicator& comm,
                                    uint16_t number, Build build) {
    EngineLock lock(core_.mutex());
    begin_all_held();
    ScheduleRun& run = take(comm);
    run.schedule().reset(kind, comm, number, members);
    build(run.schedule());
    return finish(lock, run, Operand{});
}

Result<size_t> Schedules::finish(EngineLock& lock, ScheduleRun& run, const Operand& buffer) {
    const Background::Attendance attendance(background_);
    run_here(lock, run, buffer.without_bytes());
    Result<size_t> result =
        run.error() != nullptr ? Result<size_t>(*run.error()) : Result<size_t>(run.received_bytes());
    run.release();
    return result;
}

uint64_t Schedules::start(const Signature& call, const Communicator& comm, const Operand& buffer, OwnBuild build,
                          std::optional<int64_t> entered_ns) {
    uint64_t name = 0;
    {
        const EngineLock lock(core_.mutex());
        const Task task{.kind = Task::Kind::kCollective, .comm = &comm, .operand = buffer};
        Request& request = core_.requests().take(task);
        start(request, call, std::move(build), entered_ns);
        name = request.name;
    }
    batch_.leave_series();
    return name;
}

void Schedules::start_again(Request& request, const Signature& call, const Operand& buffer, OwnBuild build,
                            int64_t entered_ns) {
    {
        const EngineLock lock(core_.mutex());
        request.task.operand = buffer;
        start(request, call, std::move(build), entered_ns);
    }
    batch_.leave_series();
}

void Schedules::start(Request& request, const Signature& call, OwnBuild build, std::optional<int64_t> entered_ns) {
    const Operand& buffer = request.task.operand;
    const Communicator* const comm = request.task.comm;
    if (!buffer.on_stream())
        entered_ns.reset();
    batch_.make_way(buffer, entered_ns, comm);
    request.series = entered_ns ? batch_.add_to_series(buffer, *entered_ns, comm) : 0;
    ScheduleRun& run = take(*comm);
    request.active = true;
    request.cancelled = false;
    request.collective = &run;
    core_.requests().note_started();
    if (request.series != 0 && batch_.series().is_held() && run.hold({call, comm, buffer, build})) {
        held_.push_back(run);
        (void)batch_.after_start(true);
        if (!background_.on_duty())
            background_.leave_to();
    } else {
        begin_all_held();
        note_call(run, call, *comm);
        begin_request(run, buffer, build, false);
    }
}

// `in_place`: in the program's stream; else in one of its own, if it is in the order of a stream.
void Schedules::begin_request(ScheduleRun& run, const Operand& buffer, Build build, bool in_place) {
    if (!in_place && buffer.on_stream())
        run.take_stream(buffer.without_bytes());
    else if (!in_place && is_for_stream(run.schedule(), buffer))
        run.try_stream();
    // What peers answer meanwhile need not wake the thread, as in the call that begins it in place. They do not answer
    // small messages.
    std::optional<Background::Attendance> attendance;
    if (!in_place && buffer.bytes > core_.resources().settings.eager_bytes)
        attendance.emplace(background_, Background::Attendance::Batches::kGoOn);
    if (in_place || run.has_stream())
        (void)build_now(run, in_place ? buffer : buffer.in_stream(run.stream()), build);
    else
        build(run.schedule());
    count(run.schedule(), buffer);
    begin(run, buffer.without_bytes());
    batch_.launch();
    if (!in_place && !attendance && !run.done())
        background_.leave_to();
}

void Schedules::begin_in_place(ScheduleRun& run) {
    while (held_.front() != &run)
        begin_held(*held_.front(), false);
    begin_held(run, true);
}

void Schedules::begin_held(ScheduleRun& run, bool in_place) {
    held_.remove(run);
    const ScheduleRun::Held held = run.end_hold(in_place);
    note_call(run, held.call, *held.comm);
    begin_request(run, held.buffer, held.build, in_place);
}

} // namespace gpurun::comm
