// All-reduce and reduce: directly, by recursive doubling, in pieces of the buffer, or by nodes (algorithms.hpp).
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
// goes in chunks, one after another. Without a root it may be done among some ranks.
class ByPieces {
  public:
    ByPieces(Schedule& schedule, const WholeReduction& work, const Among& among, std::optional<Rank> root)
        : schedule_(schedule), work_(work), among_(among), root_(root),
          segment_(segment_bytes(among.size() - (root ? 0 : 1), work.reduction.type, work.input.bytes / reducers())),
          contributions_(schedule, work_.reduction, among, among.size(), segment_, true) {}

    void build() {
        const size_t chunk = segment_ * reducers();
        int round = 0;
        for (size_t begin = 0; begin < work_.input.bytes; begin += chunk, round += kRounds)
            (void)add_chunk(begin, std::min(chunk, work_.input.bytes - begin), round);
    }

    static constexpr int kRounds = 2; // of a chunk
    // The next chunk begins after the step.
    void wait_for(Schedule::StepId step) { contributions_.wait_for(step); }
    // The steps after which this rank has the result of these bytes.
    std::vector<Schedule::StepId> add_chunk(size_t begin, size_t bytes, int round) {
        const auto pieces = pieces_of(bytes, work_.element(), among_.size(), root_);
        const Parts input = Parts::listed(work_.input.part(begin, bytes), pieces);
        const int self = among_.self();
        if (!has_result(self)) {
            if (own_.bytes == 0) // the first piece is as long as any
                own_ = schedule_.scratch(input[self].bytes);
            const Schedule::Buffer own = own_.part(0, input[self].bytes);
            for (const Schedule::StepId each :
                 send_answers(contributions_.add(input, own, round, false), own, round + 1))
                contributions_.wait_for(each);
            return {};
        }
        const Parts result = Parts::listed(work_.result.part(begin, bytes), pieces);
        const Segment made = contributions_.add(input, result[self], round, false);
        send_answers(made, result[self], round + 1);
        std::vector<Schedule::StepId> done;
        if (made.reduced)
            Schedule::note(done, *made.reduced);
        for (const auto& [from, contributed] : made.sent) {
            // In place, a piece is sent before it is replaced. And nothing waits for an answer before it gives its own.
            std::vector<Schedule::StepId> after = {contributed};
            if (made.reduced)
                after.push_back(*made.reduced);
            Schedule::note(done,
                           schedule_.receive_answer(among_.rank(from), round + 1, result[from], contributed, after));
        }
        return done;
    }

  private:
    using Segment = ContributionSteps::Segment;

    bool has_result(int number) const { return !root_ || root_->value == number; }
    size_t reducers() const { return static_cast<size_t>(among_.size()) - (root_ ? 1 : 0); }

    std::vector<Schedule::StepId> send_answers(const Segment& made, const Schedule::Buffer& own, int round) {
        std::vector<Schedule::StepId> sent;
        for (const auto& [to, received] : made.received)
            if (has_result(to))
                sent.push_back(schedule_.send_answer(among_.rank(to), round, own, received, {*made.reduced}));
        return sent;
    }

    Schedule& schedule_;
    const WholeReduction& work_;
    const Among among_;
    const std::optional<Rank> root_;
    const size_t segment_;
    ContributionSteps contributions_;
    Schedule::Buffer own_; // what this rank reduces for the root, of one chunk after another
};

// ---- by nodes

// Each node reduces the buffer, in as many pieces as the smallest node has ranks, one rank each. The ranks of all nodes
// that have the same piece reduce that among themselves, in pieces of it, and give their result to the others of their
// nodes. So each node sends and receives no more than with one rank on each.
class ByNodes {
  public:
    ByNodes(Schedule& schedule, const WholeReduction& work, const NodeLayout& nodes)
        : schedule_(schedule), work_(work), node_(nodes.node_of(schedule.comm().rank())), pieces_(nodes.fewest()),
          mates_(nodes.first(node_), nodes.ranks(node_), schedule.comm().rank().value - nodes.first(node_)),
          segment_(segment_bytes(nodes.most() + nodes.count(), work.reduction.type,
                                 kRounds / ByPieces::kRounds * (work.input.bytes / static_cast<size_t>(pieces_)))),
          partial_(partial(work.reduction)),
          here_(schedule, partial_, mates_, mates_.size(), segment_, false), reduced_here_{work.reduction, work.result,
                                                                                           work.result} {
        if (mates_.self() < pieces_)
            across_.emplace(schedule, reduced_here_, Among::across(nodes, mates_.self(), node_), std::nullopt);
    }

    void build() {
        const size_t chunk = segment_ * static_cast<size_t>(pieces_);
        int round = 0;
        for (size_t begin = 0; begin < work_.input.bytes; begin += chunk, round += kRounds)
            add_chunk(begin, std::min(chunk, work_.input.bytes - begin), round);
    }

  private:
    static constexpr int kRounds = ByPieces::kRounds + 2;

    static base::Reduction partial(base::Reduction reduction) {
        reduction.divisor = 0;
        return reduction;
    }

    void add_chunk(size_t begin, size_t bytes, int round) {
        auto pieces = pieces_of(bytes, work_.element(), pieces_, std::nullopt);
        pieces.resize(static_cast<size_t>(mates_.size()), {0, 0});
        const Parts input = Parts::listed(work_.input.part(begin, bytes), pieces);
        const Parts result = Parts::listed(work_.result.part(begin, bytes), pieces);
        const Schedule::Buffer own = result[mates_.self()];
        const auto made = here_.add(input, own, round, false);
        if (own.bytes != 0) {
            across_->wait_for(*made.reduced);
            const auto done =
                across_->add_chunk(begin + pieces[static_cast<size_t>(mates_.self())].offset, own.bytes, round + 1);
            for (int i = 0; i < mates_.others(); ++i)
                schedule_.send(mates_.rank(mates_.after(i)), round + 1 + ByPieces::kRounds, own, done);
        }
        for (const auto& [from, contributed] : made.sent) // in place, a piece is sent before it is replaced
            schedule_.receive_all(mates_.rank(from), round + 1 + ByPieces::kRounds, result[from], {contributed});
    }

    Schedule& schedule_;
    const WholeReduction& work_;
    const int node_;
    const int pieces_;
    const Among mates_; // the ranks of this node
    const size_t segment_;
    const base::Reduction partial_;
    ContributionSteps here_;
    const WholeReduction reduced_here_;
    std::optional<ByPieces> across_; // if this rank has a piece
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
        ByPieces(schedule, work, Among(schedule.comm()), std::nullopt).build();
    else if (algorithm == Algorithm::kNodes)
        ByNodes(schedule, work, *schedule.comm().nodes()).build();
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
        ByPieces(schedule, work, Among(comm), root).build();
        return;
    }
    std::vector<Parts::Part> parts(static_cast<size_t>(comm.size()), Parts::Part{0, 0});
    parts[static_cast<size_t>(root.value)].bytes = bytes;
    const Schedule::Buffer result = comm.rank() == root ? work.result : Schedule::Buffer{};
    (void)add_contributions(
        schedule, {work.reduction, Parts::listed(work.input, std::move(parts)), result, comm.size(), bytes, false});
}

} // namespace gpurun::comm
