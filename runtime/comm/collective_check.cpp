#include "comm/collective_check.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::comm {

using transfer::Peer;
using transfer::Record;
using StepKind = Schedule::Step::Kind;

namespace {

constexpr uint32_t plain(uint32_t context) { return context & ~transfer::kCapturedContexts; }

// A collective that has no place in the order of its communicator's: it is among some of its ranks.
constexpr bool has_place(base::Collective kind) { return kind != base::Collective::kNewGroupComm; }

constexpr uint64_t bit_of(WorldRank rank) { return uint64_t{1} << rank.value % 64; }

// Whether it is a collective in the order of that communicator's.
bool is_of(const ScheduleRun& run, uint32_t context) {
    return has_place(run.schedule().kind()) && run.schedule().comm().collective_context() == context;
}

constexpr bool is_before(uint16_t sequence, uint16_t other) { return static_cast<int16_t>(other - sequence) > 0; }

template <typename Note>
Note note_of(std::span<const std::byte> payload) {
    static_assert(std::is_trivially_copyable_v<Note>);
    GPURUN_ASSERT(payload.size() == sizeof(Note));
    Note note;
    std::memcpy(&note, payload.data(), sizeof note);
    return note;
}

} // namespace

CollectiveCheck::CollectiveCheck(Core& core, Progress& progress, base::List<ScheduleRun, Running>& running)
    : core_(core), progress_(progress), running_(running) {
    progress.on_collective(
        [this](Peer& source, uint64_t ordinal, const Record& record, std::span<const std::byte> payload) {
            assume_engine_lock();
            return arrive(source, ordinal, record, payload);
        });
}

// ------------------------------------------------------------------------------------------------------ what comes

bool CollectiveCheck::arrive(Peer& source, uint64_t ordinal, const Record& record, std::span<const std::byte> payload) {
    const transfer::Envelope& envelope = record.envelope;
    const base::Collective kind = base::collective_of(envelope.tag);
    const Place place{plain(envelope.context), base::sequence_of(envelope.tag)};
    if (place.context == kLetGoContext || !has_place(kind) || core_.communicators().has_ended(place.context))
        return false;
    const Mismatch::Call call{record.signature(), envelope.bytes, source.rank()};
    const bool is_note = kind == base::Collective::kCallNote || kind == base::Collective::kMismatchNote;
    bool is_over = true; // the message is for nobody
    const Communicator* const comm = core_.communicators().of_context(place.context);
    if (ScheduleRun* const run = find(place))
        is_over = arrive_for(*run, call, record, payload);
    else if (comm == nullptr || !comm->has_counted(place.sequence))
        is_over = arrive_early(place, call, record, payload);
    else
        arrive_late(*comm, place, call, record, payload);
    if (is_note)
        transfer::take_inline(source, payload, {});
    else if (is_over && (envelope.context & transfer::kCapturedContexts) == 0)
        progress_.drop(source, ordinal, record, payload);
    else
        return false;
    return true;
}

bool CollectiveCheck::arrive_for(ScheduleRun& run, const Mismatch::Call& call, const Record& record,
                                 std::span<const std::byte> payload) {
    const uint64_t own = run.schedule().signature().bits();
    switch (base::collective_of(record.envelope.tag)) {
    case base::Collective::kMismatchNote: break_off(run, note_of<Mismatch>(payload), true); return true;
    case base::Collective::kCallNote: compare(run, call, note_of<CallNote>(payload)); return true;
    default: break;
    }
    run.count_arrived();
    if (call.signature != 0 && call.signature != own)
        break_off(run, Mismatch{{own, 0, core_.self()}, call}, false);
    return run.is_broken();
}

bool CollectiveCheck::arrive_early(const Place& place, const Mismatch::Call& call, const Record& record,
                                   std::span<const std::byte> payload) {
    switch (base::collective_of(record.envelope.tag)) {
    case base::Collective::kMismatchNote:
        early(place).mismatch = note_of<Mismatch>(payload);
        early(place).told = true;
        return true;
    case base::Collective::kCallNote:
        if (core_.resources().settings.check) // else its messages will say
            early_calls_.push_back({place, call, note_of<CallNote>(payload)});
        return true;
    default: break;
    }
    ask(place, call.rank);
    Early& of = early(place);
    of.sources |= bit_of(call.rank);
    if (of.messages++ == 0)
        of.first = call;
    else if (of.first.signature != call.signature && !of.mismatch)
        of.mismatch = Mismatch{of.first, call};
    return false;
}

// What is sent for one collective comes before what is sent for the next, unless both are under way at the source.
void CollectiveCheck::ask(const Place& place, WorldRank source) {
    running_.for_each([&](ScheduleRun& each) {
        assume_engine_lock();
        if (is_of(each, place.context) && is_before(each.schedule().sequence(), place.sequence))
            ask(each, source);
    });
}

void CollectiveCheck::ask(ScheduleRun& run, WorldRank source) {
    const Schedule& schedule = run.schedule();
    if (run.is_broken() || !run.awaits(source) || !run.note_asked(source))
        return;
    post_note(schedule.comm(), base::collective_tag(base::Collective::kCallNote, schedule.sequence(), 0), source,
              schedule.signature().bits(), CallNote{});
}

void CollectiveCheck::ask_who_is_ahead(ScheduleRun& run, const Place& place, uint64_t come) {
    for (const Early& each : early_) {
        const bool is_ahead = each.place.context == place.context && is_before(place.sequence, each.place.sequence);
        if (!is_ahead || (each.sources & ~come) == 0)
            continue;
        for (const WorldRank source : run.schedule().comm().group().members())
            if ((each.sources & ~come & bit_of(source)) != 0)
                ask(run, source);
    }
}

// This rank's part was over. Unless it has failed, all that it needs of others had come.
void CollectiveCheck::arrive_late(const Communicator& comm, const Place& place, const Mismatch::Call& call,
                                  const Record& record, std::span<const std::byte> payload) {
    const base::Collective kind = base::collective_of(record.envelope.tag);
    const uint64_t own = comm.signature_of(place.sequence);
    if (own == 0)
        return;
    if (kind == base::Collective::kMismatchNote) {
        if (const auto mismatch = note_of<Mismatch>(payload); !mismatch.is_for_those_who_wait())
            note_late(comm, place.sequence, mismatch, true);
        return;
    }
    const bool is_answered = kind == base::Collective::kCallNote && call.signature == own; // by what was sent before
    if (call.signature != 0 && !is_answered)
        note_late(comm, place.sequence, Mismatch{call, {own, 0, core_.self()}}, false);
}

void CollectiveCheck::note_late(const Communicator& comm, uint16_t sequence, const Mismatch& mismatch, bool told) {
    if (!told)
        tell(comm, sequence, mismatch);
    comm.note_signature(sequence, 0); // said once
    ScheduleRun* const next = running_.find([&](const ScheduleRun& each) {
        return is_of(each, comm.collective_context()) && is_before(sequence, each.schedule().sequence());
    });
    if (next != nullptr)
        next->note_mismatch(mismatch.error());
    else if (late_of(comm) == late_.end())
        late_.push_back({comm.collective_context(), mismatch.error()});
}

ScheduleRun* CollectiveCheck::find(const Place& place) const {
    return running_.find([&](const ScheduleRun& each) {
        return is_of(each, place.context) && each.schedule().sequence() == place.sequence;
    });
}

CollectiveCheck::Early& CollectiveCheck::early(const Place& place) {
    const auto found = // among the latest
        std::find_if(early_.rbegin(), early_.rend(), [&](const Early& each) { return each.place == place; });
    return found != early_.rend() ? *found : early_.emplace_back(Early{.place = place, .mismatch = std::nullopt});
}

// ----------------------------------------------------------------------------------------------------- of this rank

void CollectiveCheck::begin(ScheduleRun& run) {
    const Schedule& schedule = run.schedule();
    if (!has_place(schedule.kind()))
        return;
    const Communicator& comm = schedule.comm();
    const Place place{comm.collective_context(), schedule.sequence()};
    comm.note_signature(place.sequence, schedule.signature().bits());
    if (const auto late = take_late(comm))
        run.note_mismatch(*late);
    if (core_.resources().settings.check && comm.size() > 1)
        exchange_calls(run, place);
    const uint64_t come = take_early(run, place);
    ask_who_is_ahead(run, place, come);
}

std::vector<CollectiveCheck::Late>::iterator CollectiveCheck::late_of(const Communicator& comm) {
    return std::find_if(late_.begin(), late_.end(),
                        [&](const Late& each) { return each.context == comm.collective_context(); });
}

std::optional<base::Error> CollectiveCheck::take_late(const Communicator& comm) {
    const auto found = late_of(comm);
    if (found == late_.end())
        return std::nullopt;
    const base::Error error = std::move(found->error);
    late_.erase(found);
    return error;
}

std::optional<uint32_t> CollectiveCheck::begin_now(const Schedule& schedule) {
    const Communicator& comm = schedule.comm();
    if (core_.resources().settings.check || late_of(comm) != late_.end())
        return std::nullopt;
    const uint64_t own = schedule.signature().bits();
    uint32_t messages = 0;
    if (!early_.empty()) {
        const Place place{comm.collective_context(), schedule.sequence()};
        const auto found =
            std::find_if(early_.begin(), early_.end(), [&](const Early& each) { return each.place == place; });
        if (found != early_.end()) {
            if (found->mismatch || (found->messages != 0 && found->first.signature != own))
                return std::nullopt;
            messages = found->messages;
            early_.erase(found);
        }
    }
    comm.note_signature(schedule.sequence(), own);
    return messages;
}

// From whom something has come.
uint64_t CollectiveCheck::take_early(ScheduleRun& run, const Place& place) {
    const auto found =
        std::find_if(early_.begin(), early_.end(), [&](const Early& each) { return each.place == place; });
    if (found == early_.end())
        return 0;
    const Early of = *found;
    early_.erase(found);
    run.count_arrived(of.messages);
    const uint64_t own = run.schedule().signature().bits();
    if (of.mismatch)
        break_off(run, *of.mismatch, of.told);
    else if (of.messages != 0 && of.first.signature != 0 && of.first.signature != own)
        break_off(run, Mismatch{{own, 0, core_.self()}, of.first}, false);
    return of.sources;
}

void CollectiveCheck::look(ScheduleRun& run) {
    if (const auto found = run.take_found())
        break_off(run, *found, false);
    const Schedule& schedule = run.schedule();
    if (const auto failed = run.take_failure(); failed && has_place(schedule.kind()))
        tell(schedule.comm(), schedule.sequence(),
             Mismatch::failure(schedule.signature().bits(), core_.self(), *failed));
}

void CollectiveCheck::end(ScheduleRun& run) {
    const Schedule& schedule = run.schedule();
    if (!has_place(schedule.kind()))
        return;
    const Communicator& comm = schedule.comm();
    if (const auto found = run.take_found())
        tell(comm, schedule.sequence(), *found);
    if (!run.ended_well())
        comm.note_signature(schedule.sequence(), 0);
    if (!run.has_surplus())
        return;
    const auto surplus = drop_unexpected({comm.collective_context(), schedule.sequence()});
    if (run.ended_well() && surplus)
        note_late(comm, schedule.sequence(), Mismatch{*surplus, {schedule.signature().bits(), 0, core_.self()}}, false);
}

void CollectiveCheck::break_off(ScheduleRun& run, const Mismatch& mismatch, bool told) {
    const Schedule& schedule = run.schedule();
    if (run.is_broken())
        return;
    run.break_off(mismatch.error());
    (void)drop_unexpected({schedule.comm().collective_context(), schedule.sequence()});
    if (!told)
        tell(schedule.comm(), schedule.sequence(), mismatch);
    core_.note_change();
}

void CollectiveCheck::tell(const Communicator& comm, uint16_t sequence, const Mismatch& mismatch) {
    const int tag = base::collective_tag(base::Collective::kMismatchNote, sequence, 0);
    for (const WorldRank each : comm.group().members())
        if (each != core_.self())
            post_note(comm, tag, each, 0, mismatch);
}

std::optional<Mismatch::Call> CollectiveCheck::drop_unexpected(const Place& place) {
    std::optional<Mismatch::Call> first;
    std::vector<std::pair<WorldRank, int>> found;
    (void)core_.matcher().for_each_unexpected(SIZE_MAX, [&](const Unexpected& each) {
        const transfer::Envelope& envelope = each.record.envelope;
        if (envelope.context == place.context && base::sequence_of(envelope.tag) == place.sequence &&
            has_place(base::collective_of(envelope.tag))) {
            found.emplace_back(each.source, envelope.tag);
            if (!first)
                first = Mismatch::Call{each.record.signature(), envelope.bytes, each.source};
        }
    });
    for (const auto& [source, tag] : found)
        progress_.drop_unexpected(Pattern{place.context, false, source, tag, nullptr});
    return first;
}

// ------------------------------------------------------------------------------------------------------------ notes

// What this rank's steps send to each of the others, and expect of it.
void CollectiveCheck::exchange_calls(ScheduleRun& run, const Place& place) {
    const Schedule& schedule = run.schedule();
    const Communicator& comm = schedule.comm();
    std::vector<CallNote> notes(static_cast<size_t>(comm.size()));
    for (const Schedule::Step& each : schedule.steps()) {
        CallNote& note = notes[static_cast<size_t>(each.peer.value)];
        if (each.kind == StepKind::kSend) {
            ++note.sends;
            note.sent_bytes += each.buffer.bytes;
        } else if (each.kind == StepKind::kReceive) {
            ++note.receives;
            const bool exact = each.exact && note.received_bytes != CallNote::kAnyLength;
            note.received_bytes = exact ? note.received_bytes + each.buffer.bytes : CallNote::kAnyLength;
        }
    }
    const int tag = base::collective_tag(base::Collective::kCallNote, place.sequence, 0);
    for (int rank = 0; rank < comm.size(); ++rank)
        if (Rank{rank} != comm.rank())
            run.await_call(comm.group().world(Rank{rank}), notes[static_cast<size_t>(rank)]);
    for (int rank = 0; rank < comm.size(); ++rank)
        if (Rank{rank} != comm.rank())
            post_note(comm, tag, comm.group().world(Rank{rank}), schedule.signature().bits(),
                      notes[static_cast<size_t>(rank)]);
    for (const EarlyCall& each : early_calls_)
        if (each.place == place)
            compare(run, each.call, each.note);
    std::erase_if(early_calls_, [&](const EarlyCall& each) { return each.place == place; });
}

void CollectiveCheck::compare(ScheduleRun& run, const Mismatch::Call& call, const CallNote& theirs) {
    const std::optional<CallNote> own = run.take_awaited_call(call.rank);
    const uint64_t signature = run.schedule().signature().bits();
    if (call.signature != 0 && call.signature != signature)
        break_off(run, Mismatch{{signature, 0, core_.self()}, call}, false);
    else if (!own)
        return; // it has broken off, or its lengths are not compared
    else if (!theirs.brings(*own))
        break_off(run,
                  Mismatch{{signature, theirs.sent_bytes, call.rank}, {signature, own->received_bytes, core_.self()}},
                  false);
    else if (!own->brings(theirs))
        break_off(run,
                  Mismatch{{signature, own->sent_bytes, core_.self()}, {signature, theirs.received_bytes, call.rank}},
                  false);
    core_.note_change();
}

template <typename Note>
void CollectiveCheck::post_note(const Communicator& comm, int tag, WorldRank to, uint64_t signature, const Note& note) {
    static_assert(std::is_trivially_copyable_v<Note> && sizeof(Note) <= sizeof(Untold::payload));
    Untold made{to, {comm.collective_context(), tag, sizeof(Note)}, signature, {}};
    std::memcpy(made.payload.data(), &note, sizeof note);
    if (!post(made))
        untold_.push_back(made);
}

void CollectiveCheck::post_notes() {
    std::erase_if(untold_, [&](const Untold& each) {
        assume_engine_lock();
        return post(each);
    });
}

// False if there is no room. Not in traces: nobody receives it. It goes whatever GPURUN_EAGER_BYTES says of messages.
// What ends collectives waits for no credit, which might be that of messages that are received behind them.
bool CollectiveCheck::post(const Untold& note) {
    Peer& peer = core_.peer(note.to);
    if (peer.lost() || peer.channel().is_gone())
        return true;
    const bool in_turn = base::collective_of(note.envelope.tag) != base::Collective::kMismatchNote;
    if ((in_turn && (!peer.unposted.empty() || !peer.part<transfer::InlinePart>().has_credit(peer, 0))) ||
        !transfer::post_inline(peer, note.payload.data(), note.envelope, note.signature))
        return false;
    peer.channel().notify(platform::Notify::kAlways);
    return true;
}

} // namespace gpurun::comm
