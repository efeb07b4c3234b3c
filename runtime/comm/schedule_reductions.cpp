// The reductions of a schedule's run: in memory, or of what comes as it comes.
#include "comm/local_reduction.hpp"
#include "comm/schedule_run.hpp"

#include <algorithm>
#include <array>

namespace gpurun::comm {

using base::Result;
using transfer::Operand;
using StepId = Schedule::StepId;

namespace {

// Of a reduction's result.
size_t elements_of(const Schedule::Step& step) {
    return step.buffer.bytes / base::size_of_type(static_cast<int>(step.reduction.type));
}

} // namespace

Result<void> ScheduleRun::start_reduction(StepId id) {
    const Schedule::Step& step = schedule_.steps()[id];
    const auto befores = schedule_.before(step);
    if (std::any_of(befores.begin(), befores.end(), [&](StepId each) { return is_left(each); })) {
        GPURUN_ASSIGN(const bool fused, order_.captured() ? fuse_in_graph(step) : fuse_reduction(step));
        if (fused)
            return {};
    }
    if (order_.captured())
        GPURUN_TRY(core_.resources().captured_exchange.launch());
    if (is_in_place(step))
        return {};
    std::array<Operand, base::kMostOperands> operands;
    const auto buffers = schedule_.operands(step);
    std::transform(buffers.begin(), buffers.end(), operands.begin(),
                   [&](const Schedule::Buffer& each) { return operand_of(each); });
    GPURUN_ASSIGN(states_[id].reduced, reduce_here(core_.resources(), order_,
                                                   {step.reduction, elements_of(step), operand_of(step.buffer),
                                                    std::span(operands).first(buffers.size())}));
    return {};
}

// Of one operand, which is where the result is to be: what others pass on.
bool ScheduleRun::is_in_place(const Schedule::Step& step) const {
    const auto buffers = schedule_.operands(step);
    return buffers.size() == 1 && buffers.front().is_at(step.buffer) && step.reduction.divisor == 0;
}

// Of operands that have come in mails, or that lie in the memory of peers, by the kernel that puts what this rank
// sends. False: these are in their places, and it is to be reduced in memory.
Result<bool> ScheduleRun::fuse_reduction(const Schedule::Step& step) {
    const auto befores = schedule_.before(step);
    const auto buffers = schedule_.operands(step);
    const bool reaches_all = is_reduced_by_device(step);
    std::array<device::FusedReduction::Operand, base::kMostOperands> operands;
    size_t number = buffers.size(); // and behind them, places for the answer
    bool fuses = false;
    for (const StepId each : befores) {
        if (!is_left(each))
            continue;
        const auto operand = reaches_all ? operand_from(each, step, number, operands.size()) : std::nullopt;
        transfer::Receive& receive = states_[each].receive->op();
        if (operand) {
            auto handed_over = receive.hand_over(order_.stream);
            if (!handed_over) {
                core_.resources().exchanges.abandon(operands);
                return std::move(handed_over).error();
            }
            operands[*operand] = *handed_over;
            states_[each].handed_over = fuses = true;
        } else {
            GPURUN_TRY(receive.complete_into(order_.stream)); // to its place in memory
        }
    }
    if (!fuses) {
        messages_.launch(); // before what reads that
        return false;
    }
    for (size_t i = 0; i < buffers.size(); ++i)
        if (!operands[i].is_mail() && !operands[i].is_peers())
            operands[i].buffer = operand_of(buffers[i]).address;
    core_.resources().exchanges.reduce(
        {step.reduction, elements_of(step), operand_of(step.buffer).address, std::span(operands).first(number)},
        order_.stream);
    return true;
}

// Of what has come for a graph, in words or where it lies, with what this rank has put there. False: as above.
Result<bool> ScheduleRun::fuse_in_graph(const Schedule::Step& step) {
    using Exchange = transfer::CapturedExchange;
    Exchange& exchange = core_.resources().captured_exchange;
    const auto buffers = schedule_.operands(step);
    const bool fuses = is_reduced_by_device(step) && Exchange::admits(buffers.size());
    std::array<Exchange::Operand, base::kMostOperands> operands;
    size_t number = buffers.size(); // and behind them, places for the answer
    struct HandedOver {
        StepId step;
        size_t operand;
    };
    std::vector<HandedOver> handed_over;
    for (const StepId each : schedule_.before(step)) {
        if (!is_left(each))
            continue;
        transfer::Receive& receive = states_[each].receive->op();
        const auto operand = fuses ? operand_from(each, step, number, device::kMostMet) : std::nullopt;
        if (!operand) {
            GPURUN_TRY(receive.complete_into(order_.stream)); // to its place in memory
            continue;
        }
        GPURUN_ASSIGN(operands[*operand], receive.hand_over_captured(order_.stream));
        handed_over.push_back({each, *operand});
    }
    if (handed_over.empty())
        return false;
    for (size_t i = 0; i < buffers.size(); ++i)
        if (!operands[i].channel)
            operands[i].buffer = operand_of(buffers[i]).address;
    GPURUN_TRY(exchange.reduce(
        {step.reduction, elements_of(step), operand_of(step.buffer).address, std::span(operands).first(number)},
        order_.stream));
    for (State& each : states_) // whose end is awaited together
        if (each.started && !each.complete && each.send && each.send->enqueued() && !each.send->error())
            GPURUN_TRY(each.send->complete_into(order_.stream));
    for (const auto& [each, operand] : handed_over)
        states_[each].handed_over = exchange.combines_as_it_comes() || !operands[operand].in_channel();
    GPURUN_TRY(exchange.launch());
    return true;
}

// In a graph, a send whose target reads the buffer itself ends behind all receives (settle_step), and a reduction that
// writes over that buffer begins behind the send. What was left to such a reduction goes to its place in memory first.
// True if there was any.
bool ScheduleRun::receive_before_sends_end() {
    if (!order_.captured() || !awaited_calls_.empty() || broken_)
        return false;
    bool any = false;
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        const Schedule::Step& step = schedule_.steps()[i];
        const auto before = schedule_.before(step);
        const auto awaits_taken = [&](StepId each) {
            const State& state = states_[each];
            return state.started && !state.complete && state.send && state.send->enqueued() &&
                   state.send->awaits_taken();
        };
        const auto waits_for_no_other = [&](StepId each) {
            return states_[each].complete || is_left(each) || awaits_taken(each);
        };
        if (step.kind != Schedule::Step::Kind::kReduce || states_[i].started ||
            std::none_of(before.begin(), before.end(), awaits_taken) ||
            !std::all_of(before.begin(), before.end(), waits_for_no_other))
            continue;
        for (const StepId each : before) {
            if (is_left(each)) {
                states_[each].receive->op().enqueue_left();
                any = true;
            }
        }
    }
    return any;
}

bool ScheduleRun::is_reduced_by_device(const Schedule::Step& step) const {
    const auto buffers = schedule_.operands(step);
    return operand_of(step.buffer).by_device() &&
           std::all_of(buffers.begin(), buffers.end(),
                       [&](const Schedule::Buffer& each) { return operand_of(each).by_device(); });
}

// Which operand of the reduction the receive step has brought, if it is as long as that. One that brings nothing but
// the place for an answer gets a number behind the others, if there is one.
std::optional<size_t> ScheduleRun::operand_from(StepId receive, const Schedule::Step& reduction, size_t& number,
                                                size_t most) const {
    const auto buffers = schedule_.operands(reduction);
    const Schedule::Buffer& into = schedule_.steps()[receive].buffer;
    if (into.bytes == 0)
        return bytes_of(receive) == 0 && number < most ? std::optional(number++) : std::nullopt;
    const auto operand =
        std::find_if(buffers.begin(), buffers.end(), [&](const Schedule::Buffer& of) { return of.is_at(into); });
    return operand != buffers.end() && bytes_of(receive) == into.bytes
               ? std::optional(static_cast<size_t>(operand - buffers.begin()))
               : std::nullopt;
}

} // namespace gpurun::comm
