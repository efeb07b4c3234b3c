// The steps of a collective of small device messages in a stream, done as they are added to its schedule.
//
// All that the host does for such a collective is to post a record to each peer, to take theirs out of the rings, and
// to launch one kernel, which puts the mails and takes or combines what comes (transfer/protocol/exchanges.hpp).
// Operations and a run of the schedule cost as much again for each peer. So each step is done when it is added, as for
// small host memory (comm/immediate_steps.hpp): sends are collected; a receive waits for a moment for the record of its
// message, whose mail is then read by the reduction that wants it, or in the end. From the first step on that is
// unusual in any way, all steps are kept, and run as always.
//
// What one kernel does has no order but for its reduction, so a step that touches what another one writes is unusual,
// and so is one that comes after a reduction.
//
// While steps are done no other record is taken in, since nothing else knows yet that the collective has begun. One a
// rank, owned by Schedules; used under the engine lock, which is held from begin() until the run has started.
#pragma once

#include "comm/messages.hpp"
#include "comm/schedule.hpp"
#include "transfer/protocol/mailbox.hpp"

#include <vector>

namespace gpurun::comm {

class ImmediateMails final : private Schedule::Now {
  public:
    ImmediateMails(Core& core, Waiter& waiter) : core_(core), waiter_(waiter) {}

    // Whether it is worth trying for a collective in the order of this buffer.
    bool admits(const Communicator& comm, const transfer::Operand& buffer) GPURUN_REQUIRES(engine_lock);
    // As of ImmediateSteps. What is done is launched by end().
    void begin(Schedule& schedule, uint32_t early, const transfer::Operand& order) GPURUN_REQUIRES(engine_lock);
    uint32_t end(Schedule& schedule) GPURUN_REQUIRES(engine_lock);

  private:
    struct Arrived {
        transfer::PlainMail mail;
        Schedule::Buffer into;
    };
    struct Touched {
        const std::byte* begin;
        const std::byte* end;
        bool is_written;
    };

    bool send(Rank to, int tag, const Schedule::Buffer& buffer, transfer::Reduced reduced) override;
    bool receive(Rank from, int tag, const Schedule::Buffer& buffer) override;
    bool copy(const Schedule::Buffer& to, const Schedule::Buffer& from) override;
    bool reduce(const base::Reduction& reduction, const Schedule::Buffer& result,
                std::span<const Schedule::Buffer> operands) override;
    void move_scratch(std::span<std::byte> to) override;

    uint64_t longest(const Communicator& comm, transfer::Reduced reduced) const;
    bool is_carried(size_t bytes) const { return bytes != 0 && bytes <= most_; }
    static bool is_reached(const Schedule::Buffer& buffer);
    bool may_touch(const Schedule::Buffer& buffer, bool writes);
    bool is_expected(const transfer::Record& record, const transfer::Envelope& envelope) const;
    bool is_of_this(const transfer::Record& record) const;
    bool take_next(transfer::Peer& from, const transfer::Envelope& envelope, const Schedule::Buffer& into)
        GPURUN_REQUIRES(engine_lock);
    bool take_unexpected(transfer::Peer& from, const transfer::Envelope& envelope, const Schedule::Buffer& into)
        GPURUN_REQUIRES(engine_lock);
    const transfer::Record* await_record(transfer::Peer& from) GPURUN_REQUIRES(engine_lock);
    bool others_need_nothing() GPURUN_REQUIRES(engine_lock);
    bool note_arrived(transfer::Peer& from, const transfer::Record& record, const Schedule::Buffer& into);
    std::byte* aside() const { return core_.resources().workspace.view().aside(); }
    void take(const Arrived& each, std::byte* into) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Waiter& waiter_;
    const Communicator* comm_ = nullptr;
    uint16_t sequence_ = 0;
    uint64_t signature_ = 0;
    uint32_t early_ = 0;
    uint64_t most_ = 0; // bytes of a message
    transfer::Operand order_;
    bool has_reduced_ = false;
    std::vector<Arrived> arrived_; // that are to be read
    std::vector<Touched> touched_;
};

} // namespace gpurun::comm
