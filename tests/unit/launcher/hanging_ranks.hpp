// Ranks that wait for each other, made up for tests.
#pragma once

#include "standings.hpp"

#include <vector>

namespace gpurun::test {

using launcher::RankStanding;
using launcher::ThreadStanding;
using platform::standing::Entry;
namespace standing = platform::standing;

constexpr int64_t kSecondNs = 1'000'000'000;

inline Entry wants(standing::What what, int peer, int tag = 7, uint64_t bytes = 64) {
    Entry entry;
    entry.topic = standing::Topic::kAwaited;
    entry.what = what;
    entry.state = standing::State::kUnmatched;
    entry.peer = peer;
    entry.tag = tag;
    entry.bytes = bytes;
    return entry;
}
inline Entry receives(int peer, int tag = 7) { return wants(standing::What::kReceive, peer, tag); }
inline Entry sends(int peer, int tag = 7) { return wants(standing::What::kSend, peer, tag); }
inline Entry leaves(int peer) { return wants(standing::What::kRank, peer); }
inline Entry in_state(Entry entry, standing::State state) {
    entry.state = state;
    return entry;
}

// In a call since second 1 of its clock.
inline RankStanding in_call(const char* call, std::vector<Entry> awaited, bool any = false) {
    RankStanding rank;
    rank.presence = RankStanding::Presence::kAnswered;
    rank.end.phase = standing::Phase::kRunning;
    rank.end.threads = 1;
    rank.end.flags = standing::kLookedAll;
    rank.system = "sleeps";
    const auto number = static_cast<uint32_t>(awaited.size());
    rank.threads.push_back(ThreadStanding{100, call, kSecondNs, any, number, std::move(awaited), 0, false, true});
    return rank;
}
inline RankStanding receiving(int peer, int tag = 7) { return in_call("gpurun_recv", {receives(peer, tag)}); }
inline RankStanding computing() {
    RankStanding rank = in_call("", {});
    rank.threads[0].since_ns = 0;
    rank.threads[0].settled = false;
    rank.system = "runs";
    return rank;
}
inline RankStanding has(RankStanding rank, int source, int tag, uint64_t bytes = 64) {
    Entry entry = wants(standing::What::kReceive, source, tag, bytes);
    entry.topic = standing::Topic::kUnexpected;
    entry.state = standing::State::kUnknown;
    rank.unexpected.push_back(entry);
    rank.end.unexpected = static_cast<uint32_t>(rank.unexpected.size());
    return rank;
}

} // namespace gpurun::test
