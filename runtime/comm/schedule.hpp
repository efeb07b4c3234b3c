// A collective as steps with dependencies: what is sent to whom, received from whom, copied and reduced locally.
//
// A schedule says nothing of when and where it runs: the same one runs in a blocking call, as a request, in the host's
// order, in a stream, or captured into a graph (comm/schedules.hpp). What can be done at once, as it is added, need not
// be kept (comm/immediate_steps.hpp); so a collective adds its steps in an order in which they can be done. Scratch
// memory is a part of each run: steps name places in it. A schedule's own memory is used again. A collective is a
// function that adds its steps (comm/collective/).
#pragma once

#include "base/algorithms.hpp"
#include "base/collectives.hpp"
#include "base/function_ref.hpp"
#include "base/reduction.hpp"
#include "base/status.hpp"
#include "comm/communicator.hpp"
#include "comm/signature.hpp"
#include "transfer/operand.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
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

        // As one side's of a message in that order domain. Of scratch memory only the length.
        transfer::Operand in(const transfer::Operand& order) const {
            transfer::Operand operand = order;
            operand.address = address;
            operand.bytes = bytes;
            operand.where = where;
            return operand;
        }
        bool is_at(const Buffer& other) const { return address == other.address && scratch == other.scratch; }
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
    // Who does steps as they are added. False: this one is to be kept, and so are all that follow.
    class Now {
      public:
        virtual bool send(Rank to, int tag, const Buffer& buffer, transfer::Reduced reduced) = 0;
        // Of exactly so many bytes.
        virtual bool receive(Rank from, int tag, const Buffer& buffer) = 0;
        virtual bool copy(const Buffer& to, const Buffer& from) = 0;
        virtual bool reduce(const base::Reduction& reduction, const Buffer& result,
                            std::span<const Buffer> operands) = 0;
        // What the steps that are done have left at the beginning of the scratch memory goes to that of the others.
        virtual void move_scratch(std::span<std::byte> to) = 0;

      protected:
        ~Now() = default;
    };
    static constexpr StepId kDone = UINT32_MAX; // in place of a step that has been done
    // Adds it to those that something has to wait for.
    static void note(std::vector<StepId>& steps, StepId step) {
        if (step != kDone)
            steps.push_back(step);
    }
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
        transfer::Reduced reduced = transfer::Reduced::kNot; // of a send
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
        if (does_now([&] { return now_->send(to, tag(round), buffer, transfer::Reduced::kNot); }))
            return kDone;
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer}, after);
    }
    StepId receive(Rank from, int round, const Buffer& buffer, After after = {}) {
        if (does_now([&] { return now_->receive(from, tag(round), buffer); })) {
            received_done_ = buffer.bytes;
            return kDone;
        }
        return add({.kind = Step::Kind::kReceive, .peer = from, .round = round, .buffer = buffer}, after);
    }
    // A message of exactly so many bytes. With another one the collective goes on, so that nobody waits for ever, and
    // fails in the end.
    StepId receive_all(Rank from, int round, const Buffer& buffer, After after = {}) {
        if (does_now([&] { return now_->receive(from, tag(round), buffer); }))
            return kDone;
        return add({.kind = Step::Kind::kReceive, .peer = from, .round = round, .buffer = buffer, .exact = true},
                   after);
    }
    // A send of what the other rank reduces.
    StepId contribute(Rank to, int round, const Buffer& buffer, transfer::Reduced reduced, After after = {}) {
        if (does_now([&] { return now_->send(to, tag(round), buffer, reduced); }))
            return kDone;
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer, .reduced = reduced},
                   after);
    }
    // A message that need not be sent, or received, if the reduction has written it; one that answers a step that is
    // done is always sent.
    StepId send_answer(Rank to, int round, const Buffer& buffer, StepId received, After after) {
        if (received == kDone)
            return send(to, round, buffer, after);
        now_ = nullptr;
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer, .answers = received},
                   after);
    }
    StepId receive_answer(Rank from, int round, const Buffer& buffer, StepId contributed, After after) {
        if (contributed == kDone)
            return receive_all(from, round, buffer, after);
        now_ = nullptr;
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
        if (does_now([&] { return now_->copy(to, from); }))
            return kDone;
        return add({.kind = Step::Kind::kCopy, .buffer = to}, after, {&from, 1});
    }
    // Of up to base::kMostOperands, one of which may be the result.
    StepId reduce(const base::Reduction& reduction, const Buffer& result, std::span<const Buffer> operands,
                  After after = {}) {
        if (does_now([&] { return now_->reduce(reduction, result, operands); }))
            return kDone;
        return add({.kind = Step::Kind::kReduce, .buffer = result, .reduction = reduction}, after, operands);
    }
    StepId local(Work work, After after = {}) {
        now_ = nullptr;
        return add({.kind = Step::Kind::kLocal, .work = std::move(work)}, after);
    }
    // A send of what `received` has received.
    StepId pass_on(Rank to, int round, const Buffer& buffer, StepId received) {
        if (received == kDone)
            return send(to, round, buffer);
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
    // Some steps were done as they were added. What they have left in scratch memory goes to that of the run.
    bool has_steps_done() const { return done_by_ != nullptr; }
    void move_scratch(std::span<std::byte> to) const {
        if (done_by_ != nullptr)
            done_by_->move_scratch(to);
    }

    // All steps use copies, in scratch memory, of those buffers of the program that this is true of: copied in before
    // the first step, as far as steps read what none has written, and out behind the last that writes them. False, and
    // nothing has changed, if there are none, or if so many bytes, for which scratch_bytes() has grown by then, are not
    // admitted. (comm/schedule_staging.cpp)
    bool stage(base::FunctionRef<bool(const Buffer&)> is_staged, base::FunctionRef<bool(size_t bytes)> admits);

    // From now on each step is done as it is added, as far as that is possible; null: none is.
    void do_now(Now* now) { now_ = now; }

    // The receive step whose message's true length is what the collective gives its caller.
    void set_received(StepId step) { received_ = step; }
    std::optional<StepId> received() const { return received_; }
    size_t received_done() const { return received_done_; } // if that step is done

    // What the other ranks have to call alike; as long as this is not said, no more than the function.
    void set_signature(const Signature& signature) { signature_ = signature; }
    const Signature& signature() const { return signature_; }

    // For reports: of a collective that has several.
    void set_algorithm(base::Algorithm algorithm) { algorithm_ = algorithm; }
    std::optional<base::Algorithm> algorithm() const { return algorithm_; }

    base::Collective kind() const { return signature_.kind(); }
    uint16_t sequence() const { return sequence_; }
    const Communicator& comm() const { return *comm_; }
    // Who takes part. Of a part of the communicator, the caller's: not after the end of its run.
    const Group& members() const { return members_ != nullptr ? *members_ : comm_->group(); }
    int tag(int round) const { return base::collective_tag(kind(), sequence_, round); }
    const std::vector<Step>& steps() const { return steps_; }
    std::span<const StepId> before(const Step& step) const {
        return std::span(befores_).subspan(step.first_before, step.befores);
    }

    std::span<const Buffer> operands(const Step& step) const {
        return std::span(operands_).subspan(step.first_operand, step.operands);
    }
    // Whether the step receives what nothing but one reduction reads: into scratch memory, or where the result will be.
    bool is_operand(const Step& step) const {
        if (!step.exact || step.dependents != 1 || steps_[step.dependent].kind != Step::Kind::kReduce)
            return false;
        return step.buffer.scratch || step.buffer.bytes == 0 || step.buffer.is_at(steps_[step.dependent].buffer);
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
        algorithm_.reset();
        received_.reset();
        steps_.clear();
        befores_.clear();
        operands_.clear();
        scratch_bytes_ = 0;
        done_by_ = nullptr;
        now_ = nullptr;
    }
    template <typename Do>
    bool does_now(const Do& does) {
        if (now_ == nullptr)
            return false;
        if (does())
            done_by_ = now_;
        else
            now_ = nullptr;
        return now_ != nullptr;
    }
    StepId add(Step step, After after, std::span<const Buffer> operands = {}) {
        step.first_before = befores_.size();
        std::remove_copy(after.steps().begin(), after.steps().end(), std::back_inserter(befores_), kDone);
        step.befores = befores_.size() - step.first_before;
        step.first_operand = operands_.size();
        step.operands = operands.size();
        operands_.insert(operands_.end(), operands.begin(), operands.end());
        const auto id = static_cast<StepId>(steps_.size());
        for (const StepId each : before(step)) {
            ++steps_[each].dependents;
            steps_[each].dependent = id;
        }
        steps_.push_back(std::move(step));
        return id;
    }

    Signature signature_ = base::Collective::kBarrier;
    std::optional<base::Algorithm> algorithm_;
    const Communicator* comm_ = nullptr;
    const Group* members_ = nullptr; // null: all
    uint16_t sequence_ = 0;          // among the communicator's collectives
    std::optional<StepId> received_;
    size_t received_done_ = 0;
    std::vector<Step> steps_;
    std::vector<StepId> befores_;
    std::vector<Buffer> operands_;
    size_t scratch_bytes_ = 0;
    Now* now_ = nullptr;     // null: steps are kept
    Now* done_by_ = nullptr; // null: all are; until the run has started
};

} // namespace gpurun::comm
