// Ranks that wait for each other, made up for tests.
#pragma once

#include "wait_reports.hpp"

#include <vector>

namespace gpurun::test {

using launcher::RankReport;
using launcher::ThreadReport;
using platform::wait_report::Entry;
namespace wait_report = platform::wait_report;

constexpr int64_t kSecondNs = 1'000'000'000;

inline Entry wants(wait_report::What what, int peer, int tag = 7, uint64_t bytes = 64) {
    Entry entry;
    entry.topic = wait_report::Topic::kAwaited;
    entry.what = what;
    entry.state = wait_report::State::kUnmatched;
    entry.peer = peer;
    entry.tag = tag;
    entry.bytes = bytes;
    return entry;
}
inline Entry receives(int peer, int tag = 7) { return wants(wait_report::What::kReceive, peer, tag); }
inline Entry sends(int peer, int tag = 7) { return wants(wait_report::What::kSend, peer, tag); }
inline Entry leaves(int peer) { return wants(wait_report::What::kRank, peer); }
inline Entry in_state(Entry entry, wait_report::State state) {
    entry.state = state;
    return entry;
}

// In a call since second 1 of its clock.
inline RankReport in_call(const char* call, std::vector<Entry> awaited, bool any = false) {
    RankReport rank;
    rank.presence = RankReport::Presence::kAnswered;
    rank.end.phase = wait_report::Phase::kRunning;
    rank.end.threads = 1;
    rank.end.flags = wait_report::kLookedAll;
    rank.system = "sleeps";
    const auto number = static_cast<uint32_t>(awaited.size());
    rank.threads.push_back(ThreadReport{100, call, kSecondNs, any, number, std::move(awaited), 0, false, true});
    return rank;
}
inline RankReport receiving(int peer, int tag = 7) { return in_call("gpurun_recv", {receives(peer, tag)}); }
inline RankReport computing() {
    RankReport rank = in_call("", {});
    rank.threads[0].since_ns = 0;
    rank.threads[0].settled = false;
    rank.system = "runs";
    return rank;
}
inline RankReport has(RankReport rank, int source, int tag, uint64_t bytes = 64) {
    Entry entry = wants(wait_report::What::kReceive, source, tag, bytes);
    entry.topic = wait_report::Topic::kUnexpected;
    entry.state = wait_report::State::kUnknown;
    rank.unexpected.push_back(entry);
    rank.end.unexpected = static_cast<uint32_t>(rank.unexpected.size());
    return rank;
}

} // namespace gpurun::test
