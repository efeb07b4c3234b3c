// Reductions of contributions: each rank sends every other rank what that one reduces, receives what all others
// contribute to its own part side by side, and combines it in the order of the ranks. All reductions are made of this;
// with every step in the same order, a result has the same bits wherever and however often it is computed.
#pragma once

#include "base/few.hpp"
#include "comm/collective/parts.hpp"

#include <numeric>
#include <optional>

namespace gpurun::comm {

constexpr size_t kMostScratchBytes = size_t{64} << 20; // for what others contribute; more goes in segments
constexpr int kMostSegments = 1 << (base::kRoundBits - 1);
constexpr size_t kFewRanks = 8; // whose contributions are noted without memory of the heap

// The steps that combine the operands, whose list is used for what is combined, in order. Only the last of them writes
// the result, which may be an operand.
inline Schedule::StepId combine(Schedule& schedule, const base::Reduction& reduction, const Schedule::Buffer& result,
                                std::span<Schedule::Buffer> operands, std::vector<Schedule::StepId> after) {
    base::Reduction partial = reduction;
    partial.divisor = 0;
    while (operands.size() > base::kMostOperands) {
        const Schedule::Buffer sum = schedule.scratch(result.bytes);
        after.push_back(schedule.reduce(partial, sum, operands.first(base::kMostOperands), after));
        operands = operands.subspan(base::kMostOperands - 1);
        operands.front() = sum;
    }
    return schedule.reduce(reduction, result, operands, after);
}

struct Contributions {
    base::Reduction reduction;
    Parts input;             // what this rank contributes to each rank
    Schedule::Buffer result; // of this rank
    int contributors;        // the first so many ranks contribute to the result; what is not sent has no bytes
    size_t longest;          // bytes of the longest part of any rank, which all ranks know
    bool result_is_sent;     // the result is a part of what others get
};
struct Contributed {
    std::vector<Schedule::StepId> reduced;
    std::vector<Schedule::StepId> sent;
};

// How long a segment of each part may be, if scratch memory has so many of them.
inline size_t segment_bytes(int at_once, base::Type type, size_t longest) {
    const size_t unit = std::lcm(size_t{256}, base::size_of_type(static_cast<int>(type)));
    const size_t room = kMostScratchBytes / static_cast<size_t>(std::max(at_once, 1));
    const size_t least = longest / kMostSegments + 1;
    return (std::max(room, least) + unit - 1) / unit * unit;
}

// One segment after another: each begins when the scratch memory of the one before is free again.
class ContributionSteps {
  public:
    struct Step {
        int with; // the number of the other one
        Schedule::StepId id;
    };
    struct Segment {
        base::Few<Step, kFewRanks> sent, received;
        std::optional<Schedule::StepId> reduced; // if this rank has a result
    };

    // `passes_on`: they send each other what they reduce.
    ContributionSteps(Schedule& schedule, const base::Reduction& reduction, const Among& among, int contributors,
                      size_t segment, bool passes_on)
        : schedule_(schedule), reduction_(reduction), among_(among), self_(among.self()), contributors_(contributors),
          segment_(segment), passes_on_(passes_on) {}

    // The next segments begin after the step.
    void wait_for(Schedule::StepId step) { Schedule::note(before_, step); }

    // What is sent and received in the round, and combined into the result. `result_is_sent`: see above.
    Segment add(const Parts& input, const Schedule::Buffer& result, int round, bool result_is_sent) {
        Segment made;
        std::vector<Schedule::StepId> after;
        const bool reduces = result.bytes != 0 && contributors_ != 0;
        const auto reduced = passes_on_ ? transfer::Reduced::kPassedOn
                             : reduces  ? transfer::Reduced::kInTrade
                                        : transfer::Reduced::kThere;
        for (int i = 0; i < among_.others(); ++i)
            if (const int to = among_.after(i); input[to].bytes != 0) {
                made.sent.push_back({to, schedule_.contribute(among_.rank(to), round, input[to], reduced, before_)});
                if (result_is_sent)
                    Schedule::note(after, made.sent.back().id);
            }
        if (!reduces)
            return made;
        if (slots_.empty())
            take_slots(result.bytes);
        base::Few<Schedule::Buffer, kFewRanks> operands(static_cast<size_t>(contributors_));
        for (int i = 0; i < among_.others(); ++i)
            if (const int from = among_.before(i); from < contributors_) {
                const auto index = static_cast<size_t>(from);
                operands[index] = slots_[index].part(0, result.bytes);
                made.received.push_back(
                    {from, schedule_.receive_all(among_.rank(from), round, operands[index], before_)});
                Schedule::note(after, made.received.back().id);
            }
        if (self_ < contributors_)
            operands[static_cast<size_t>(self_)] = input[self_];
        made.reduced = combine(schedule_, reduction_, result, {operands.begin(), operands.size()}, std::move(after));
        before_.clear();
        Schedule::note(before_, *made.reduced);
        return made;
    }

  private:
    // The first segment is as long as any.
    void take_slots(size_t bytes) {
        for (int i = 0; i < contributors_; ++i)
            slots_.push_back(i == self_ ? Schedule::Buffer() : schedule_.scratch(std::min(segment_, bytes)));
    }

    Schedule& schedule_;
    const base::Reduction& reduction_;
    const Among among_;
    const int self_;
    const int contributors_;
    const size_t segment_;
    const bool passes_on_;
    base::Few<Schedule::Buffer, kFewRanks> slots_; // by number
    std::vector<Schedule::StepId> before_;
};

inline Contributed add_contributions(Schedule& schedule, const Contributions& what) {
    const size_t segment = segment_bytes(schedule.comm().size() - 1, what.reduction.type, what.longest);
    ContributionSteps steps(schedule, what.reduction, Among(schedule.comm()), what.contributors, segment, false);
    Contributed done;
    int round = 0;
    for (size_t begin = 0; begin < what.longest; begin += segment) {
        const Schedule::Buffer result = Parts::segment_of(what.result, begin, segment);
        const auto made = steps.add(what.input.segments(begin, segment), result, round++, what.result_is_sent);
        for (const auto& each : made.sent)
            Schedule::note(done.sent, each.id);
        if (made.reduced)
            Schedule::note(done.reduced, *made.reduced);
    }
    return done;
}

} // namespace gpurun::comm
