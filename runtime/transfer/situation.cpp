// How far each half of a message is: for people, and for those who look for deadlocks.
//
// Read by a thread that is not in a call, under the engine lock, while streams run: it looks at the numbers of edges,
// and asks the device nothing, which might wait.
#include "transfer/incoming.hpp"
#include "transfer/outgoing.hpp"

namespace gpurun::transfer {

namespace standing = platform::standing;
using standing::Entry;

namespace {

void name_message(Entry& entry, const Operand& operand, std::optional<Path> path) {
    entry.bytes = operand.bytes;
    if (operand.on_stream)
        entry.flags |= standing::kOnStream;
    if (operand.captured)
        entry.flags |= standing::kCaptured;
    if (path)
        entry.call_it(kPathNames[static_cast<size_t>(*path)]);
}

// `own_edge` is the one that this side signals.
void say_edge(Entry& entry, const Awaited& awaited, Edge own_edge) {
    entry.state = awaited.on_event ? standing::State::kDevice : standing::State::kEdge;
    if (awaited.on_event)
        return;
    entry.slot = awaited.slot;
    entry.all = awaited.value;
    entry.done = platform::reached_value(awaited.fence->counter(awaited.edge, awaited.slot).load());
    if (awaited.edge == Edge::kBackward)
        entry.flags |= standing::kBackward;
    if (awaited.edge != own_edge)
        entry.flags |= standing::kPeerEdge;
}

void say_relay(Entry& entry, const Relay& relay, bool first) {
    entry.state = first ? standing::State::kRelay : standing::State::kTurn;
    entry.done = relay.moved();
    entry.all = relay.chunks();
}

} // namespace

Entry Outgoing::situation() const {
    Entry entry;
    entry.what = standing::What::kSend;
    entry.peer = static_cast<int32_t>(link_.peer);
    entry.tag = envelope_.tag;
    name_message(entry, operand_, path_);
    if (mode_.synchronous)
        entry.flags |= standing::kSynchronous;
    switch (state_) {
    case State::kNew: entry.state = standing::State::kNoRoom; break;
    case State::kUnanswered:
        entry.state = shared_                                   ? standing::State::kCopying
                      : base::List<Outgoing, Owing>::has(*this) ? standing::State::kWantsEdge
                                                                : standing::State::kUnmatched;
        break;
    case State::kRelay:
        if (relay_)
            say_relay(entry, *relay_, link_.relay_out.front() == this);
        break;
    case State::kDraining:
        if (awaited_)
            say_edge(entry, *awaited_, Edge::kForward);
        break;
    case State::kDone: break;
    }
    return entry;
}

Entry Incoming::situation() const {
    Entry entry;
    entry.what = standing::What::kReceive;
    name_message(entry, operand_, path_);
    switch (state_) {
    case State::kNew: entry.state = standing::State::kUnmatched; break;
    case State::kEdgeless: entry.state = standing::State::kWantsEdge; break;
    case State::kToShare: entry.state = standing::State::kTurn; break;
    case State::kReading: entry.state = standing::State::kCopying; break;
    case State::kInDoubt: entry.state = standing::State::kInDoubt; break;
    case State::kCovered: entry.state = standing::State::kDevice; break;
    case State::kRelay:
        if (relay_)
            say_relay(entry, *relay_, link_->relay_in.front() == this);
        break;
    case State::kBeforeCopy:
    case State::kDraining:
        if (awaited_)
            say_edge(entry, *awaited_, Edge::kBackward);
        break;
    case State::kCaptured:
    case State::kDone: break;
    }
    return entry;
}

} // namespace gpurun::transfer
