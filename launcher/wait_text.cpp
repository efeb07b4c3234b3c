#include "wait_text.hpp"

#include "base/collectives.hpp"
#include "base/format.hpp"
#include "deadlock.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;
using wait_report::Entry;
using wait_report::State;
using wait_report::What;

namespace {

std::string lent_ago(const Entry& entry, int64_t now_ns) {
    return base::format(", lent {:.1f} s ago",
                        static_cast<double>(std::max<int64_t>(now_ns - entry.since_ns, 0)) * 1e-9);
}

std::string describe_operation(const Entry& entry) {
    std::string text = entry.has(wait_report::kLoan)  ? "loan"
                       : entry.what == What::kSend    ? entry.has(wait_report::kSynchronous) ? "ssend" : "send"
                       : entry.what == What::kReceive ? "recv"
                       : entry.what == What::kProbe   ? "probe"
                                                      : "-";
    if (entry.has(wait_report::kCaptured))
        return text + " in graph";
    return text != "-" && entry.has(wait_report::kOnStream) ? text + " on stream" : text;
}

} // namespace

std::string describe_edge(const Entry& entry) {
    return base::format("fence edge {} of slot {} (at {}, wants {})",
                        entry.has(wait_report::kBackward) ? "backward" : "forward", entry.slot, entry.done, entry.all);
}

std::string cause(const Entry& entry, int64_t now_ns) {
    const bool sends = entry.what == What::kSend;
    const std::string peer = base::format("rank {}", entry.peer);
    if (entry.has(wait_report::kHeldBack) && entry.peer != wait_report::kAnySource)
        return "a connection to " + peer + ", or room in it: what was sent there has not left yet";
    switch (entry.what) {
    case What::kProbe: return "a matching message";
    case What::kStream: return base::format("stream {:#x}", entry.bytes);
    case What::kEvent: return base::format("event {:#x}", entry.bytes);
    case What::kRank:
        if (entry.has(wait_report::kLoan))
            return peer + " to unmap memory of this rank";
        if (entry.has(wait_report::kJoint))
            return peer + " to leave the joint job: gpurun_comm_free()";
        return peer + (entry.has(wait_report::kCollective) ? " to call this collective" : " to call gpurun_finalize()");
    default: break;
    }
    switch (entry.state) {
    case State::kNoRoom: return "space in the ring to " + peer + ", which has not read earlier messages";
    case State::kLent: return peer + " to give this back" + lent_ago(entry, now_ns);
    case State::kUnmatched:
        if (entry.has(wait_report::kLoan))
            return peer + " to borrow or receive this" + lent_ago(entry, now_ns);
        return sends ? peer + " to receive this" : "a matching message";
    case State::kWantsEdge: return "matched; a free fence slot";
    case State::kCopying: return "matched; the end of a copy by a CPU";
    case State::kTurn: return "matched; earlier messages to move first";
    case State::kRelay:
        return base::format("matched; {} to {} chunk {} of {}", peer, sends ? "drain" : "fill",
                            std::min(entry.done + 1, entry.all), entry.all);
    case State::kEdge:
        return base::format("matched; {} stream: {}", entry.has(wait_report::kPeerEdge) ? peer + "'s" : "its own",
                            describe_edge(entry));
    case State::kDevice: return "matched; work on its own device";
    case State::kInDoubt: return "gpurun to say whether " + peer + " has died";
    case State::kRun:
        return base::format("{}'s graph to {} this in its run {}", peer, sends ? "take" : "send", entry.all);
    case State::kUnknown: break;
    }
    return "its completion";
}

std::string format_time(int64_t since_ns, int64_t now_ns) {
    if (since_ns == 0)
        return "-";
    return base::format("{:.1f} s", static_cast<double>(std::max<int64_t>(now_ns - since_ns, 0)) * 1e-9);
}

EntryWords words_of(const Entry& entry) {
    const bool is_message = entry.what == What::kSend || entry.what == What::kReceive || entry.what == What::kProbe;
    const bool has_peer = is_message || entry.what == What::kRank;
    EntryWords words;
    words.does = describe_operation(entry);
    words.peer = !has_peer ? "-" : entry.peer == wait_report::kAnySource ? "any" : std::to_string(entry.peer);
    words.tag = !is_message                           ? "-"
                : entry.has(wait_report::kCollective) ? base::collective_name(entry.tag)
                : entry.tag == wait_report::kAnyTag   ? "any"
                                                      : std::to_string(entry.tag);
    words.communicator = is_message && entry.comm != 0 ? format_comm(entry) : "-";
    words.bytes = is_message && entry.what != What::kProbe ? std::to_string(entry.bytes) : "-";
    words.path = entry.name[0] != '\0' ? entry.name : "-";
    return words;
}

} // namespace gpurun::launcher
