// A collective as steps with dependencies: what is sent to whom, received from whom, and worked on locally.
//
// A schedule says nothing of when and where it runs: the same one runs in a blocking call, as a request, in the host's
// order, in a stream, or captured into a graph (comm/schedules.hpp). Its memory is used again.
#pragma once

#include "base/collectives.hpp"
#include "base/status.hpp"
#include "comm/communicator.hpp"
#include "transfer/operand.hpp"

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
    };
    struct Step {
        enum class Kind : uint8_t { kSend, kReceive, kLocal };

        Kind kind = Kind::kLocal;
        Rank peer{};
        int round = 0;
        Buffer buffer;
        std::optional<StepId> bytes_of; // of a send: a receive step; as many bytes are sent as have come there
        Work work;
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
    StepId send(Rank to, int round, const Buffer& buffer, std::initializer_list<StepId> after = {}) {
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer}, after);
    }
    StepId receive(Rank from, int round, const Buffer& buffer, std::initializer_list<StepId> after = {}) {
        return add({.kind = Step::Kind::kReceive, .peer = from, .round = round, .buffer = buffer}, after);
    }
    StepId local(Work work, std::initializer_list<StepId> after = {}) {
        return add({.kind = Step::Kind::kLocal, .work = std::move(work)}, after);
    }
    // A send of what `received` has received.
    StepId pass_on(Rank to, int round, const Buffer& buffer, StepId received) {
        return add({.kind = Step::Kind::kSend, .peer = to, .round = round, .buffer = buffer, .bytes_of = received},
                   {received});
    }

    base::Collective kind() const { return kind_; }
    const Communicator& comm() const { return *comm_; }
    // Who takes part. Of a part of the communicator, the caller's: not after the end of its run.
    const Group& members() const { return members_ != nullptr ? *members_ : comm_->group(); }
    int tag(const Step& step) const { return base::collective_tag(kind_, sequence_, step.round); }
    const std::vector<Step>& steps() const { return steps_; }
    std::span<const StepId> before(const Step& step) const {
        return std::span(befores_).subspan(step.first_before, step.befores);
    }

  private:
    void reset(base::Collective kind, const Communicator& comm, uint16_t sequence) {
        kind_ = kind;
        comm_ = &comm;
        sequence_ = sequence;
        steps_.clear();
        befores_.clear();
    }
    StepId add(Step step, std::initializer_list<StepId> after) {
        step.first_before = befores_.size();
        step.befores = after.size();
        befores_.insert(befores_.end(), after);
        steps_.push_back(std::move(step));
        return static_cast<StepId>(steps_.size() - 1);
    }

    base::Collective kind_{};
    const Communicator* comm_ = nullptr;
    const Group* members_ = nullptr; // null: all
    uint16_t sequence_ = 0;          // among the communicator's collectives
    std::vector<Step> steps_;
    std::vector<StepId> befores_;
};

} // namespace gpurun::comm
