#include "comm/leftovers.hpp"

#include "base/format.hpp"
#include "transfer/protocol/loan_part.hpp"

namespace gpurun::comm {

namespace {

constexpr const char* kNotCompleted = "has not completed";
constexpr const char* kNotFreed = "has not freed";

std::string name_of(const Communicator& comm) {
    return comm.name().empty() ? base::format("a communicator of {} ranks", comm.size()) : comm.name();
}

// The peer as the program names it: by its rank in the communicator.
std::string envelope(const char* direction, int peer, int tag, const Communicator& comm) {
    const std::string rank = peer == kProcNull    ? "nobody"
                             : peer == kAnySource ? "any rank"
                                                  : base::format("rank {}", peer);
    const std::string number = tag == kAnyTag ? "any tag" : base::format("tag {}", tag);
    return base::format(" {} {}, {}, {}", direction, rank, number, name_of(comm));
}

int rank_in(const Communicator& comm, WorldRank process) {
    return comm.group().rank_of(process).value_or(Rank{kProcNull}).value;
}

} // namespace

void Leftovers::count(const char* omission, const char* what, const std::string& which, uint64_t bytes) {
    Tally& tally = found_[{omission, what, which}];
    ++tally.number;
    tally.bytes += bytes;
}

void Leftovers::note_request(const Request& request) {
    const Task& task = request.task;
    if (!request.active) {
        count(kNotFreed, "persistent request", " of " + name_of(*task.comm));
        return;
    }
    const auto which = [&](const char* direction) { return envelope(direction, task.peer, task.tag, *task.comm); };
    switch (task.kind) {
    case Task::Kind::kSend: count(kNotCompleted, "send", which("to")); return;
    case Task::Kind::kReceive: count(kNotCompleted, "receive", which("from")); return;
    case Task::Kind::kCollective:
        count(kNotCompleted, "collective", base::format(": {}, {}", request.collective->name(), name_of(*task.comm)));
        return;
    case Task::Kind::kLend:
        if (request.collective != nullptr)
            count(kNotCompleted, "loan", base::format(" to all ranks, tag {}, {}", task.tag, name_of(*task.comm)));
        else
            count(kNotCompleted, "loan", which("to"));
        return;
    }
}

void Leftovers::note_open() {
    core_.requests().for_each(SIZE_MAX, [&](const Request& each) {
        assume_engine_lock();
        const bool is_held = each.active || (each.task.persistent && each.task.comm != nullptr);
        if (is_held && !RequestTable::is_abandoned(each) && !each.lent.together)
            note_request(each);
    });
    loans_.for_each_borrowed([&](WorldRank lender, int tag, uint32_t context) {
        if (const Communicator* const comm = core_.communicators().of_context(context))
            count("has not given back", "loan", envelope("from", rank_in(*comm, lender), tag, *comm));
    });
    core_.communicators().for_each_open([&](const Communicator& each) {
        if (each.id() != kWorldId && each.id() != kSelfId)
            count(kNotFreed, "communicator",
                  each.name().empty() ? base::format(" of {} ranks", each.size()) : base::format(" {}", each.name()));
    });
}

void Leftovers::note_unreceived() {
    const auto note = [&](const Unexpected& each) {
        const uint32_t context = each.record.envelope.context;
        const Communicator* const comm = core_.communicators().of_context(context);
        if (comm == nullptr || core_.communicators().is_closed(*comm) || (context & kCollectiveContexts) != 0 ||
            each.record.protocol == transfer::LoanPart::kProtocol)
            return;
        count("has not received", "message",
              envelope("from", rank_in(*comm, each.source), each.record.envelope.tag, *comm),
              each.record.envelope.bytes);
    };
    core_.matcher().for_each_unexpected(SIZE_MAX, note);
    core_.matcher().for_each_taken(note);
}

std::string Leftovers::report() const {
    std::string text;
    size_t lines = 0;
    for (const auto& [words, tally] : found_) {
        if (lines++ == kMostLines)
            break;
        const auto& [omission, what, which] = words;
        const std::string bytes = tally.bytes != 0 ? base::format(", {} bytes", tally.bytes) : "";
        text += base::format("gpurun: rank {} {} {} {}{}{}{}\n", core_.self().value, omission, tally.number, what,
                             tally.number == 1 ? "" : "s", which, bytes);
    }
    if (found_.size() > kMostLines)
        text += base::format("gpurun: rank {} has left {} more kinds of these\n", core_.self().value,
                             found_.size() - kMostLines);
    return text;
}

} // namespace gpurun::comm
