// A collective as steps with dependencies: what is sent to whom, received from whom, copied and reduced locally.
//
// A schedule says nothing of when and where it runs: the same one runs in a blocking call, as a request, in the host's
// order, in a stream, or captured into a graph (comm/schedules.hpp). Scratch memory is a part of each run: steps name
// places in it. A schedule's own memory is used again. A collective is a function that adds its steps
// (comm/collective/).
#pragma once

#include "base/collectives.hpp"
#include "base/reduction.hpp"
#include "base/status.hpp"
#include "comm/communicator.hpp"
#include "comm/signature.hpp"
#include "transfer/operand.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace gpurun::comm {

class Schedule {
  public:
    using StepId = uint32_t;
    // Local work in the order domain of `order`: it enqueues the work in its stream, or, in the host's order, does it.
    using Work = std::function<base::Result<void>(const transfer::Operand& order)>;

    struct Buffer {
        std::byte* address = nullptr;
        size_t bytes = 0;
        device::Buffer where;
        std::optional<size_t> scratch; // an offset in the run's scratch memory, instead of an address

        Buffer part(size_t offset, size_t length) const {
            Buffer of = *this;
            of.bytes = length;
            if (scratch)
                *of.scratch += offset;
            else
                of.address += offset;
            return of;
        }
    };
    // The steps that come before another.
    class After {
      public:
        After(std::initializer_list<StepId> steps) : steps_(steps.begin(), steps.size()) {}
        After(const std::vector<StepId>& steps) : steps_(steps) {}
        std::span<const StepId> steps() const { return steps_; }

      private:
        std::span<const StepId> steps_; // that live during the call
    };
    struct Step {
        enum class Kind : uint8_t { kSend, kReceive, kLocal, kCopy, kReduce };

        Kind kind = Kind::kLocal;
        Rank peer{};
        int round = 0;
        Buffer buffer;
        std::optional<StepId> bytes_of; // of a send: a receive step; as many bytes are sent as have come there
        bool exact = false;             // of a receive: another length than the buffer's is a mistake
        bool contributes = false;       // of a send: its target reduces it
        // Of a send of what a reduction made of the other's contribution, the step that received that; of a receive,
        // the step that sent this rank's. The answer may be written at once, by the reduction; else it is a message.
        std::optional<StepId> answers;
        std::optional<StepId> answered_by; // of a contribution: that receive
        base::Reduction reduction;
        size_t first_operand = 0; // in operands_: of a reduction, or of a copy
        size_t operands = 0;
        Work work;
        size_t dependents = 0;   // steps that come after it
        StepId dependent = 0;    // the last of them
        size_t first_before = 0; // in befores_
        size_t befores = 0;
    };

    // An empty one, for a collective of the communicator.
    void reset(base::Collective kind, const Communicator& comm) {
        reset(kind, comm, comm.count_collective());
        members_ = nullptr;
    }
    // One in which only these of its processes take part, who know it from others by the number.
    void reset(base::Collective kind, const Communicator& comm, uint16_t number, const Group& members) {
        reset(kind, comm, number);
        members_ = &members;
    }

    // Add a step, which starts when all of `after` are complete.
    StepId send(Rank to, int round, const Buffer& buffer, After after = {}) {
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer}, after);
    }
    StepId receive(Rank from, int round, const Buffer& buffer, After after = {}) {
        return add({.kind = Step::Kind::kReceive, .peer = from, .round = round, .buffer = buffer}, after);
    }
    // A message of exactly so many bytes. With another one the collective goes on, so that nobody waits for ever, and
    // fails in the end.
    StepId receive_all(Rank from, int round, const Buffer& buffer, After after = {}) {
        return add({.kind = Step::Kind::kReceive, .peer = from, .round = round, .buffer = buffer, .exact = true},
                   after);
    }
    // A send of what the other rank reduces.
    StepId contribute(Rank to, int round, const Buffer& buffer, After after = {}) {
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer, .contributes = true},
                   after);
    }
    // A message that need not be sent, or received, if the reduction has written it.
    StepId send_answer(Rank to, int round, const Buffer& buffer, StepId received, After after) {
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer, .answers = received},
                   after);
    }
    StepId receive_answer(Rank from, int round, const Buffer& buffer, StepId contributed, After after) {
        const StepId id = add({.kind = Step::Kind::kReceive,
                               .peer = from,
                               .round = round,
                               .buffer = buffer,
                               .exact = true,
                               .answers = contributed},
                              after);
        steps_[contributed].answered_by = id;
        return id;
    }
    StepId copy(const Buffer& to, const Buffer& from, After after = {}) {
        return add({.kind = Step::Kind::kCopy, .buffer = to}, after, {&from, 1});
    }
    // Of up to base::kMostOperands, one of which may be the result.
    StepId reduce(const base::Reduction& reduction, const Buffer& result, std::span<const Buffer> operands,
                  After after = {}) {
        return add({.kind = Step::Kind::kReduce, .buffer = result, .reduction = reduction}, after, operands);
    }
    StepId local(Work work, After after = {}) {
        return add({.kind = Step::Kind::kLocal, .work = std::move(work)}, after);
    }
    // A send of what `received` has received.
    StepId pass_on(Rank to, int round, const Buffer& buffer, StepId received) {
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer, .bytes_of = received},
                   {received});
    }

    // More scratch memory, whose contents last as long as the run.
    Buffer scratch(size_t bytes) {
        Buffer place;
        place.bytes = bytes;
        place.scratch = scratch_bytes_;
        scratch_bytes_ += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
        return place;
    }
    size_t scratch_bytes() const { return scratch_bytes_; }

    // The receive step whose message's true length is what the collective gives its caller.
    void set_received(StepId step) { received_ = step; }
    std::optional<StepId> received() const { return received_; }

    // What the other ranks have to call alike; as long as this is not said, no more than the function.
    void set_signature(const Signature& signature) { signature_ = signature; }
    const Signature& signature() const { return signature_; }

    base::Collective kind() const { return signature_.kind(); }
    uint16_t sequence() const { return sequence_; }
    const Communicator& comm() const { return *comm_; }
    // Who takes part. Of a part of the communicator, the caller's: not after the end of its run.
    const Group& members() const { return members_ != nullptr ? *members_ : comm_->group(); }
    int tag(const Step& step) const { return base::collective_tag(kind(), sequence_, step.round); }
    const std::vector<Step>& steps() const { return steps_; }
    std::span<const StepId> before(const Step& step) const {
        return std::span(befores_).subspan(step.first_before, step.befores);
    }

    std::span<const Buffer> operands(const Step& step) const {
        return std::span(operands_).subspan(step.first_operand, step.operands);
    }
    // Whether the step receives into scratch memory what nothing but one reduction reads.
    bool is_operand(const Step& step) const {
        return step.exact && step.buffer.scratch && step.dependents == 1 &&
               steps_[step.dependent].kind == Step::Kind::kReduce;
    }
    // Whether the reduction that reads it comes after messages to other ranks.
    bool is_read_after_sends(const Step& operand) const {
        const auto all = before(steps_[operand.dependent]);
        return std::any_of(all.begin(), all.end(), [&](StepId each) { return steps_[each].kind == Step::Kind::kSend; });
    }
    // Calls with each buffer of the program's.
    template <typename Visit>
    void for_each_buffer(const Visit& visit) const {
        for (const Step& each : steps_)
            if (!each.buffer.scratch)
                visit(each.buffer);
        for (const Buffer& each : operands_)
            if (!each.scratch)
                visit(each);
    }

  private:
    static constexpr size_t kScratchAlignment = 256;

    void reset(base::Collective kind, const Communicator& comm, uint16_t sequence) {
        signature_ = kind;
        comm_ = &comm;
        sequence_ = sequence;
        received_.reset();
        steps_.clear();
        befores_.clear();
        operands_.clear();
        scratch_bytes_ = 0;
    }
    StepId add(Step step, After after, std::span<const Buffer> operands = {}) {
        step.first_before = befores_.size();
        step.befores = after.steps().size();
        befores_.insert(befores_.end(), after.steps().begin(), after.steps().end());
        step.first_operand = operands_.size();
        step.operands = operands.size();
        operands_.insert(operands_.end(), operands.begin(), operands.end());
        const auto id = static_cast<StepId>(steps_.size());
        for (const StepId each : after.steps()) {
            ++steps_[each].dependents;
            steps_[each].dependent = id;
        }
        steps_.push_back(std::move(step));
        return id;
    }

    Signature signature_ = base::Collective::kBarrier;
    const Communicator* comm_ = nullptr;
    const Group* members_ = nullptr; // null: all
    uint16_t sequence_ = 0;          // among the communicator's collectives
    std::optional<StepId> received_;
    std::vector<Step> steps_;
    std::vector<StepId> befores_;
    std::vector<Buffer> operands_;
    size_t scratch_bytes_ = 0;
};

} // namespace gpurun::comm
