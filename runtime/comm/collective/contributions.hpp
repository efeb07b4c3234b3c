// Reductions of contributions: each rank sends every other rank what that one reduces, receives what all others
// contribute to its own part side by side, and combines it in the order of the ranks. All reductions are made of this;
// with every step in the same order, a result has the same bits wherever and however often it is computed.
#pragma once

#include "comm/collective/parts.hpp"

#include <algorithm>
#include <numeric>

namespace gpurun::comm {

constexpr size_t kMostScratchBytes = size_t{64} << 20; // for what others contribute; more goes in segments
constexpr int kMostSegments = 1 << (base::kRoundBits - 1);

// The steps that combine the operands in order. Only the last of them writes the result, which may be an operand.
inline Schedule::StepId combine(Schedule& schedule, const base::Reduction& reduction, const Schedule::Buffer& result,
                                std::vector<Schedule::Buffer> operands, std::vector<Schedule::StepId> after) {
    base::Reduction partial = reduction;
    partial.divisor = 0;
    while (operands.size() > base::kMostOperands) {
        const auto first = std::span(operands).first(base::kMostOperands);
        const Schedule::Buffer sum = schedule.scratch(result.bytes);
        after.push_back(schedule.reduce(partial, sum, first, after));
        operands.erase(operands.begin() + 1, operands.begin() + base::kMostOperands);
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
    int rounds = 0; // that the messages have
};

class ContributionSteps {
  public:
    ContributionSteps(Schedule& schedule, const Contributions& what)
        : schedule_(schedule), what_(what), others_(schedule.comm()), self_(schedule.comm().rank().value) {}

    Contributed build() {
        const size_t segment = segment_bytes();
        for (int i = 0; i < what_.contributors && what_.result.bytes != 0; ++i)
            slots_.push_back(i == self_ ? Schedule::Buffer()
                                        : schedule_.scratch(std::min(segment, what_.result.bytes)));
        for (size_t begin = 0; begin < what_.longest; begin += segment)
            add_segment(begin, segment);
        return std::move(done_);
    }

  private:
    size_t segment_bytes() const {
        const size_t unit = std::lcm(size_t{256}, base::size_of_type(static_cast<int>(what_.reduction.type)));
        const size_t room = kMostScratchBytes / static_cast<size_t>(std::max(others_.count(), 1));
        const size_t least = what_.longest / kMostSegments + 1;
        return (std::max(room, least) + unit - 1) / unit * unit;
    }
    static Schedule::Buffer segment_of(const Schedule::Buffer& part, size_t begin, size_t segment) {
        return begin < part.bytes ? part.part(begin, std::min(segment, part.bytes - begin)) : part.part(0, 0);
    }

    static void note(std::vector<Schedule::StepId>& steps, Schedule::StepId step) {
        if (step != Schedule::kDone) // nothing has to wait for that
            steps.push_back(step);
    }
    // It begins when the scratch memory of the one before is free again.
    void add_segment(size_t begin, size_t segment) {
        const int round = done_.rounds++;
        const std::vector<Schedule::StepId> before =
            done_.reduced.empty() ? std::vector<Schedule::StepId>() : std::vector{done_.reduced.back()};
        std::vector<Schedule::StepId> sent, received;
        for (int i = 0; i < others_.count(); ++i)
            if (const auto part = segment_of(what_.input[others_.after(i).value], begin, segment); part.bytes != 0)
                note(sent, schedule_.send(others_.after(i), round, part, before));
        done_.sent.insert(done_.sent.end(), sent.begin(), sent.end());
        const Schedule::Buffer result = segment_of(what_.result, begin, segment);
        if (result.bytes == 0 || what_.contributors == 0)
            return;
        std::vector<Schedule::Buffer> operands(static_cast<size_t>(what_.contributors));
        for (int i = 0; i < others_.count(); ++i)
            if (const Rank from = others_.before(i); from.value < what_.contributors) {
                const auto index = static_cast<size_t>(from.value);
                operands[index] = slots_[index].part(0, result.bytes);
                note(received, schedule_.receive_all(from, round, operands[index], before));
            }
        if (self_ < what_.contributors)
            operands[static_cast<size_t>(self_)] = segment_of(what_.input[self_], begin, segment);
        if (what_.result_is_sent)
            received.insert(received.end(), sent.begin(), sent.end());
        note(done_.reduced, combine(schedule_, what_.reduction, result, std::move(operands), std::move(received)));
    }

    Schedule& schedule_;
    const Contributions& what_;
    const Others others_;
    const int self_;
    std::vector<Schedule::Buffer> slots_; // by rank
    Contributed done_;
};

inline Contributed add_contributions(Schedule& schedule, const Contributions& what) {
    return ContributionSteps(schedule, what).build();
}

} // namespace gpurun::comm
