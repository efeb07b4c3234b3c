// Broadcast along a binomial tree: a rank receives from its parent, then serves all its children at once (on the
// direct path they pull from its buffer side by side).
#include "comm/collective/collective.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace gpurun::comm {

using base::Result;
using transfer::Envelope;
using transfer::Operand;
using transfer::Outgoing;

namespace {

constexpr int kTag = 0; // collectives match in call order, each within its communicator's context
constexpr size_t kMostChildren = 8;
static_assert((1u << kMostChildren) >= platform::kMaxRanks);

} // namespace

Result<size_t> bcast(Engine& engine, const Communicator& comm, const Operand& buffer, int root) {
    const int position = (comm.rank - root + comm.size) % comm.size; // in the tree, whose root is 0
    const auto rank_at = [&](int place) { return (place + root) % comm.size; };
    size_t length = buffer.bytes;
    int reach = 1; // the lowest bit of the position: our children are position + 1, 2, 4 ... below it
    while (reach < comm.size && (position & reach) == 0)
        reach <<= 1;
    if (position != 0) {
        Receive receive(engine.context(), buffer, Pattern{comm.collective_context(), rank_at(position - reach), kTag},
                        false);
        GPURUN_TRY(engine.complete({}, &receive));
        length = static_cast<size_t>(receive.envelope.bytes);
    }
    Operand passed_on = buffer;
    passed_on.bytes = std::min(length, buffer.bytes);
    std::array<std::optional<Outgoing>, kMostChildren> outgoing;
    std::array<Outgoing*, kMostChildren> sends{};
    size_t children = 0;
    // In a graph the stream waits for the children, once it has served them all.
    const transfer::SendMode mode{buffer.captured ? transfer::Ending::kJoined : transfer::Ending::kInStream, false};
    for (int step = reach >> 1; step > 0; step >>= 1) { // the child with the largest subtree first
        if (position + step >= comm.size)
            continue;
        outgoing[children].emplace(engine.context(), engine.link(rank_at(position + step)), passed_on,
                                   Envelope{comm.collective_context(), kTag, passed_on.bytes}, mode);
        sends[children] = &*outgoing[children];
        ++children;
    }
    GPURUN_TRY(engine.complete(std::span(sends.data(), children), nullptr));
    if (buffer.captured)
        for (Outgoing* send : std::span(sends.data(), children))
            GPURUN_TRY(engine.join(*send, buffer.stream));
    return length;
}

} // namespace gpurun::comm
