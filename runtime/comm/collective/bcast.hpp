// Broadcast: directly, along a binomial tree, or in pieces (algorithms.hpp).
#pragma once

#include "comm/collective/algorithms.hpp"
#include "comm/collective/parts.hpp"

namespace gpurun::comm {

struct Broadcast {
    Schedule::Buffer buffer;
    Rank root;
    AlgorithmWish wish = {};
};

namespace bcast {

inline void build_direct(Schedule& schedule, const Broadcast& work) {
    const Others others(schedule.comm());
    if (schedule.comm().rank() != work.root) {
        schedule.set_received(schedule.receive(work.root, 0, work.buffer));
        return;
    }
    for (int i = 0; i < others.count(); ++i)
        schedule.send(others.after(i), 0, work.buffer);
}

// A rank receives from its parent, then serves all its children at once (where the target pulls, they do so from its
// buffer side by side).
inline void build_tree(Schedule& schedule, const Broadcast& work) {
    const Communicator& comm = schedule.comm();
    const int size = comm.size();
    const int position = (comm.rank().value - work.root.value + size) % size; // in the tree, whose root is 0
    const auto rank_at = [&](int at) { return Rank{(at + work.root.value) % size}; };
    int reach = 1; // the lowest bit of the position: our children are position + 1, 2, 4 ... below it
    while (reach < size && (position & reach) == 0)
        reach <<= 1;
    if (position != 0)
        schedule.set_received(schedule.receive(rank_at(position - reach), 0, work.buffer));
    for (int step = reach >> 1; step > 0; step >>= 1) { // the child with the largest subtree first
        if (position + step >= size)
            continue;
        if (const auto received = schedule.received())
            schedule.pass_on(rank_at(position + step), 0, work.buffer, *received);
        else
            schedule.send(rank_at(position + step), 0, work.buffer);
    }
}

// The root sends every other rank a piece of its own, and these send theirs to each other. So no rank sends or receives
// more than the buffer. That is a reduction of each piece, of what the root alone contributes: its result may be
// written at once where the others want it, since they say where that is.
class Pieces {
  public:
    Pieces(Schedule& schedule, const Broadcast& work)
        : schedule_(schedule), work_(work), size_(schedule.comm().size()), self_(schedule.comm().rank()) {
        const size_t pieces = receivers();
        length_ = ((work.buffer.bytes + pieces - 1) / pieces + kAlignment - 1) / kAlignment * kAlignment;
    }
    void build() {
        if (self_ == work_.root)
            send_all();
        else
            receive_all();
    }

  private:
    static constexpr size_t kAlignment = 256;

    size_t receivers() const { return static_cast<size_t>(size_) - 1; }
    // By their distance from the root, beginning behind it.
    Rank receiver(size_t index) const {
        return Rank{static_cast<int>((static_cast<size_t>(work_.root.value) + 1 + index) % static_cast<size_t>(size_))};
    }
    // The receivers beginning with this one, which is number 0.
    size_t other(size_t i) const {
        const auto own = static_cast<size_t>((self_.value - work_.root.value - 1 + size_) % size_);
        return (own + i) % receivers();
    }
    // Of a receiver; empty behind the buffer's end.
    Schedule::Buffer piece(size_t receiver) const {
        const size_t begin = std::min(receiver * length_, work_.buffer.bytes);
        return work_.buffer.part(begin, std::min(length_, work_.buffer.bytes - begin));
    }
    void send_all() {
        for (size_t i = 0; i < receivers(); ++i)
            if (const Schedule::Buffer part = piece(i); part.bytes != 0)
                schedule_.contribute(receiver(i), 0, part, transfer::Reduced::kPassedOn);
    }
    void receive_all() {
        std::vector<Schedule::StepId> offered(receivers()); // to whoever has a piece to pass on
        for (size_t i = 1; i < receivers(); ++i)
            if (piece(other(i)).bytes != 0)
                offered[i] = schedule_.contribute(receiver(other(i)), 0, {}, transfer::Reduced::kPassedOn);
        std::vector<Schedule::StepId> passed_on;
        if (const Schedule::Buffer own = piece(other(0)); own.bytes != 0)
            passed_on.push_back(pass_on(own));
        for (size_t i = 1; i < receivers(); ++i)
            if (const Schedule::Buffer part = piece(other(i)); part.bytes != 0) {
                auto after = passed_on; // nobody has sent it before
                Schedule::note(after, offered[i]);
                schedule_.receive_answer(receiver(other(i)), 1, part, offered[i], after);
            }
    }
    Schedule::StepId pass_on(const Schedule::Buffer& own) {
        constexpr base::Reduction kAsItIs{base::Type::kUint8, base::Op::kMax, 0};
        std::vector<Schedule::StepId> offers(receivers()), come;
        Schedule::note(come, schedule_.receive_all(work_.root, 0, own));
        for (size_t i = 1; i < receivers(); ++i) {
            offers[i] = schedule_.receive_all(receiver(other(i)), 0, {});
            Schedule::note(come, offers[i]);
        }
        const Schedule::StepId made = schedule_.reduce(kAsItIs, own, {&own, 1}, come);
        for (size_t i = 1; i < receivers(); ++i)
            schedule_.send_answer(receiver(other(i)), 1, own, offers[i], {made});
        return made;
    }

    Schedule& schedule_;
    const Broadcast& work_;
    const int size_;
    const Rank self_;
    size_t length_; // of a piece
};

} // namespace bcast

// Directly or by a tree it gives the message's true length; at the root nothing, since it receives none.
inline void build_bcast(Schedule& schedule, const Broadcast& work) {
    const Algorithm algorithm = choose_algorithm({.collective = base::Collective::kBcast,
                                                  .ranks = schedule.comm().size(),
                                                  .bytes = work.buffer.bytes,
                                                  .wish = work.wish});
    schedule.set_algorithm(algorithm);
    if (algorithm == Algorithm::kDirect || schedule.comm().size() == 1)
        bcast::build_direct(schedule, work);
    else if (algorithm == Algorithm::kPieces)
        bcast::Pieces(schedule, work).build();
    else
        bcast::build_tree(schedule, work);
}

} // namespace gpurun::comm
