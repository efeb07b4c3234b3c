// Probes: looking at the message that a receive would take, and taking it out for one receive alone.
#include "comm/engine.hpp"

namespace gpurun::comm {

using base::Result;

Result<std::optional<Matcher::Found>> Engine::probe(const Pattern& pattern, bool may_wait, uint64_t* ret_taken) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    std::optional<Matcher::Found> found;
    const auto met = [&] {
        found = matcher_.peek(pattern);
        return found || hopeless(pattern);
    };
    if (may_wait) {
        const Awaiting what{.kind = Awaiting::Kind::kProbe, .pattern = &pattern};
        GPURUN_TRY(wait(lock, what, met, [] { return Result<void>(); }));
    } else if (!met()) {
        (void)progress();
        (void)met();
    }
    if (!found && hopeless(pattern))
        return died(pattern.source);
    if (found && ret_taken != nullptr)
        *ret_taken = matcher_.take(pattern);
    return found;
}

bool Engine::has_taken(uint64_t number) {
    const Lock lock(mutex_);
    return matcher_.has_taken(number);
}

Result<void> Engine::receive_taken(uint64_t number, Receive& receive) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    begin_taken(number, receive);
    return wait_and_end(lock, {}, &receive);
}

} // namespace gpurun::comm
