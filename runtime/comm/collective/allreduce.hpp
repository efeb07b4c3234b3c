// All-reduce and reduce: directly, by recursive doubling, or in pieces of the buffer (algorithms.hpp).
#pragma once

#include "comm/collective/algorithms.hpp"
#include "comm/collective/contributions.hpp"

namespace gpurun::comm {

// `input` is `result` where that is reduced in place. Of a reduce, only the root has a result.
struct WholeReduction {
    base::Reduction reduction;
    Schedule::Buffer input;
    Schedule::Buffer result;

    bool in_place() const { return input.address == result.address; }
    size_t element() const { return base::size_of_type(static_cast<int>(reduction.type)); }
};

// ---- in pieces

// Of whole elements, at boundaries of 16 bytes where there are enough of them; the last ones may be empty.
inline std::vector<Parts::Part> pieces_of(size_t bytes, size_t element, int ranks) {
    const size_t unit = std::lcm(size_t{16}, element);
    const auto number = static_cast<size_t>(ranks);
    const size_t length = ((bytes + number - 1) / number + unit - 1) / unit * unit;
    std::vector<Parts::Part> pieces;
    for (size_t i = 0; i < number; ++i) {
        const size_t begin = std::min(i * length, bytes);
        pieces.push_back({begin, std::min(length, bytes - begin)});
    }
    return pieces;
}

// Each rank reduces its piece, and sends it to the root, or to all.
inline void build_by_pieces(Schedule& schedule, const WholeReduction& work, std::optional<Rank> root) {
    const Communicator& comm = schedule.comm();
    const Rank self = comm.rank();
    const bool has_result = !root || *root == self;
    const auto pieces = pieces_of(work.input.bytes, work.element(), comm.size());
    const Parts input = Parts::listed(work.input, pieces);
    const Schedule::Buffer whole = has_result ? work.result : schedule.scratch(input[self.value].bytes);
    const Schedule::Buffer own = has_result ? Parts::listed(whole, pieces)[self.value] : whole;
    const Contributed first =
        add_contributions(schedule, {work.reduction, input, own, comm.size(), pieces.front().bytes, false});
    const Others others(comm);
    for (int i = 0; i < others.count() && own.bytes != 0; ++i)
        if (!root || others.after(i) == *root)
            schedule.send(others.after(i), first.rounds, own, first.reduced);
    // In place, a piece is sent before it is replaced.
    std::vector<Schedule::StepId> before = first.reduced;
    before.insert(before.end(), first.sent.begin(), first.sent.end());
    for (int i = 0; i < others.count() && has_result; ++i)
        if (const auto piece = Parts::listed(whole, pieces)[others.before(i).value]; piece.bytes != 0)
            schedule.receive_all(others.before(i), first.rounds, piece, before);
}

// ---- by recursive doubling

// The ranks beyond a power of two give their contribution to a neighbour, and get the result from it. Contributions of
// neighbours are combined first, so each sum is one of consecutive ranks, in their order.
class Doubling {
  public:
    Doubling(Schedule& schedule, const WholeReduction& work)
        : schedule_(schedule), work_(work), self_(schedule.comm().rank().value), size_(schedule.comm().size()),
          sum_(work.input), other_(schedule.scratch(work.input.bytes)) {}

    void build() {
        int power = 1;
        while (2 * power <= size_)
            power *= 2;
        const int beyond = size_ - power; // so many of the first ranks form pairs
        if (self_ < 2 * beyond && self_ % 2 == 0) {
            const auto sent = schedule_.send(Rank{self_ + 1}, 0, work_.input);
            schedule_.receive_all(Rank{self_ + 1}, kLastRound, work_.result, {sent});
            return;
        }
        if (self_ < 2 * beyond)
            add(Rank{self_ - 1}, 0, false, true, false);
        const int place = self_ < 2 * beyond ? self_ / 2 : self_ - beyond;
        for (int distance = 1, round = 1; distance < power; distance *= 2, ++round) {
            const int partner = place ^ distance;
            const Rank rank{partner < beyond ? 2 * partner + 1 : partner + beyond};
            add(rank, round, true, partner < place, 2 * distance == power);
        }
        if (self_ < 2 * beyond)
            schedule_.send(Rank{self_ - 1}, kLastRound, sum_, {*reduced_});
    }

  private:
    static constexpr int kLastRound = (1 << base::kRoundBits) - 1;

    // What the other has reduced, combined with what this rank has: the lower ranks' first.
    void add(Rank with, int round, bool both, bool other_first, bool last) {
        std::vector<Schedule::StepId> before;
        if (reduced_)
            before.push_back(*reduced_);
        std::vector<Schedule::StepId> after;
        if (both)
            after.push_back(schedule_.send(with, round, sum_, before));
        after.push_back(schedule_.receive_all(with, round, other_, before));
        base::Reduction reduction = work_.reduction;
        if (!last)
            reduction.divisor = 0;
        const Schedule::Buffer operands[] = {other_first ? other_ : sum_, other_first ? sum_ : other_};
        reduced_ = schedule_.reduce(reduction, work_.result, operands, after);
        sum_ = work_.result;
    }

    Schedule& schedule_;
    const WholeReduction& work_;
    const int self_;
    const int size_;
    Schedule::Buffer sum_; // what this rank has reduced so far
    const Schedule::Buffer other_;
    std::optional<Schedule::StepId> reduced_;
};

// ----

inline void build_allreduce(Schedule& schedule, const WholeReduction& work) {
    const int size = schedule.comm().size();
    const size_t bytes = work.input.bytes;
    if (bytes == 0 || (size == 1 && work.in_place()))
        return;
    const Algorithm algorithm =
        choose_algorithm({base::Collective::kAllreduce, size, bytes, rounds_once(work.reduction)});
    if (algorithm == Algorithm::kDoubling)
        Doubling(schedule, work).build();
    else if (algorithm == Algorithm::kPieces)
        build_by_pieces(schedule, work, std::nullopt);
    else
        (void)add_contributions(schedule,
                                {work.reduction, Parts::same(work.input), work.result, size, bytes, work.in_place()});
}

inline void build_reduce(Schedule& schedule, const WholeReduction& work, Rank root) {
    const Communicator& comm = schedule.comm();
    const size_t bytes = work.input.bytes;
    if (bytes == 0)
        return;
    const CollectiveShape shape{base::Collective::kReduce, comm.size(), bytes, rounds_once(work.reduction)};
    if (choose_algorithm(shape) == Algorithm::kPieces) {
        build_by_pieces(schedule, work, root);
        return;
    }
    std::vector<Parts::Part> parts(static_cast<size_t>(comm.size()), Parts::Part{0, 0});
    parts[static_cast<size_t>(root.value)].bytes = bytes;
    const Schedule::Buffer result = comm.rank() == root ? work.result : Schedule::Buffer{};
    (void)add_contributions(
        schedule, {work.reduction, Parts::listed(work.input, std::move(parts)), result, comm.size(), bytes, false});
}

} // namespace gpurun::comm
