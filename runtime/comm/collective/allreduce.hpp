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
    bool captured = false;
    AlgorithmWish wish = {};

    bool in_place() const { return input.address == result.address; }
    size_t element() const { return base::size_of_type(static_cast<int>(reduction.type)); }
};

// ---- in pieces

// Of whole elements, at boundaries of 16 bytes where there are enough of them; the last ones may be empty, and the one
// of the rank that has none is.
inline std::vector<Parts::Part> pieces_of(size_t bytes, size_t element, int ranks, std::optional<Rank> has_none) {
    const size_t unit = std::lcm(size_t{16}, element);
    const auto number = static_cast<size_t>(ranks - (has_none ? 1 : 0));
    const size_t length = ((bytes + number - 1) / number + unit - 1) / unit * unit;
    std::vector<Parts::Part> pieces;
    size_t begin = 0;
    for (int i = 0; i < ranks; ++i) {
        const size_t own = has_none == Rank{i} ? 0 : std::min(length, bytes - begin);
        pieces.push_back({begin, own});
        begin += own;
    }
    return pieces;
}

// Each rank reduces its piece, and sends that to the root, or to all: the answer to what they have contributed. A root
// reduces none, since it gets all the others' besides: so no rank sends or receives more than the buffer. A long buffer
// goes in chunks, one after another.
class ByPieces {
  public:
    ByPieces(Schedule& schedule, const WholeReduction& work, std::optional<Rank> root)
        : schedule_(schedule), work_(work), root_(root), self_(schedule.comm().rank()), size_(schedule.comm().size()),
          segment_(segment_bytes(size_ - (root ? 0 : 1), work.reduction.type, work.input.bytes / reducers())),
          contributions_(schedule, work_.reduction, size_, segment_, true) {}

    void build() {
        const size_t chunk = segment_ * reducers();
        int round = 0;
        for (size_t begin = 0; begin < work_.input.bytes; begin += chunk, round += 2)
            add_chunk(begin, std::min(chunk, work_.input.bytes - begin), round);
    }

  private:
    using Segment = ContributionSteps::Segment;

    bool has_result(Rank rank) const { return !root_ || *root_ == rank; }
    size_t reducers() const { return static_cast<size_t>(size_) - (root_ ? 1 : 0); }

    void add_chunk(size_t begin, size_t bytes, int round) {
        const auto pieces = pieces_of(bytes, work_.element(), size_, root_);
        const Parts input = Parts::listed(work_.input.part(begin, bytes), pieces);
        if (!has_result(self_)) {
            if (own_.bytes == 0) // the first piece is as long as any
                own_ = schedule_.scratch(input[self_.value].bytes);
            const Schedule::Buffer own = own_.part(0, input[self_.value].bytes);
            for (const Schedule::StepId each :
                 send_answers(contributions_.add(input, own, round, false), own, round + 1))
                contributions_.wait_for(each);
            return;
        }
        const Parts result = Parts::listed(work_.result.part(begin, bytes), pieces);
        const Segment made = contributions_.add(input, result[self_.value], round, false);
        send_answers(made, result[self_.value], round + 1);
        for (const auto& [from, contributed] : made.sent) {
            // In place, a piece is sent before it is replaced. And nothing waits for an answer before it gives its own.
            std::vector<Schedule::StepId> after = {contributed};
            if (made.reduced)
                after.push_back(*made.reduced);
            schedule_.receive_answer(from, round + 1, result[from.value], contributed, after);
        }
    }
    std::vector<Schedule::StepId> send_answers(const Segment& made, const Schedule::Buffer& own, int round) {
        std::vector<Schedule::StepId> sent;
        for (const auto& [to, received] : made.received)
            if (has_result(to))
                sent.push_back(schedule_.send_answer(to, round, own, received, {*made.reduced}));
        return sent;
    }

    Schedule& schedule_;
    const WholeReduction& work_;
    const std::optional<Rank> root_;
    const Rank self_;
    const int size_;
    const size_t segment_;
    ContributionSteps contributions_;
    Schedule::Buffer own_; // what this rank reduces for the root, of one chunk after another
};

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
    const Algorithm algorithm = choose_algorithm(
        {base::Collective::kAllreduce, size, bytes, rounds_once(work.reduction), work.captured, work.wish});
    schedule.set_algorithm(algorithm);
    if (algorithm == Algorithm::kDoubling)
        Doubling(schedule, work).build();
    else if (algorithm == Algorithm::kPieces)
        ByPieces(schedule, work, std::nullopt).build();
    else
        (void)add_contributions(schedule,
                                {work.reduction, Parts::same(work.input), work.result, size, bytes, work.in_place()});
}

inline void build_reduce(Schedule& schedule, const WholeReduction& work, Rank root) {
    const Communicator& comm = schedule.comm();
    const size_t bytes = work.input.bytes;
    if (bytes == 0)
        return;
    const Algorithm algorithm = choose_algorithm(
        {base::Collective::kReduce, comm.size(), bytes, rounds_once(work.reduction), work.captured, work.wish});
    schedule.set_algorithm(algorithm);
    if (algorithm == Algorithm::kPieces && comm.size() > 1) {
        ByPieces(schedule, work, root).build();
        return;
    }
    std::vector<Parts::Part> parts(static_cast<size_t>(comm.size()), Parts::Part{0, 0});
    parts[static_cast<size_t>(root.value)].bytes = bytes;
    const Schedule::Buffer result = comm.rank() == root ? work.result : Schedule::Buffer{};
    (void)add_contributions(
        schedule, {work.reduction, Parts::listed(work.input, std::move(parts)), result, comm.size(), bytes, false});
}

} // namespace gpurun::comm
