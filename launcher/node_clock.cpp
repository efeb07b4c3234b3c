#include "node_clock.hpp"

#include <algorithm>
#include <cmath>

namespace gpurun::launcher {

namespace {

// What comes from another machine may be any number.
int64_t sum(int64_t one, int64_t other) {
    return static_cast<int64_t>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
}
int64_t difference(int64_t one, int64_t other) {
    return static_cast<int64_t>(static_cast<uint64_t>(one) - static_cast<uint64_t>(other));
}

} // namespace

void NodeClock::add(Series series, int64_t sent_ns, int64_t node_ns, int64_t received_ns) {
    const int64_t half_ns = (received_ns - sent_ns) / 2;
    Reading& best = best_[series];
    if (!best.there() || half_ns < best.error_ns)
        best = {node_ns, difference(sent_ns + half_ns, node_ns), half_ns};
}

int64_t NodeClock::to_head_ns(int64_t node_ns) const {
    const auto& [start, end] = best_;
    const int64_t ahead_ns = start.there() ? start.ahead_ns : end.ahead_ns;
    const int64_t between_ns = difference(end.node_ns, start.node_ns);
    if (!start.there() || !end.there() || between_ns <= 0)
        return sum(node_ns, ahead_ns);
    const double drift =
        static_cast<double>(difference(end.ahead_ns, start.ahead_ns)) / static_cast<double>(between_ns);
    constexpr double kMost = 9e18; // that is a number of nanoseconds
    const double more_ns = drift * static_cast<double>(difference(node_ns, start.node_ns));
    return sum(node_ns, sum(ahead_ns, std::llround(std::clamp(more_ns, -kMost, kMost))));
}

int64_t NodeClock::error_ns() const { return std::max<int64_t>({0, best_[kStart].error_ns, best_[kEnd].error_ns}); }

} // namespace gpurun::launcher
