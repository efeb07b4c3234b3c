// The steps of a collective on small host memory, done as they are added to its schedule.
//
// A small message between host memory needs no operation: its bytes are in its record. So a blocking collective of such
// messages needs no run of its schedule either, which costs ten times what the messages do. Each step is done when it
// is added: a message is sent from the buffer, or taken out of the ring, for which this looks for a moment; elements
// are copied or combined. From the first step on that is unusual in any way (no room, a larger message, a peer that
// does not come, another message in front) all steps are kept, and run as always (comm/schedule_run.hpp).
//
// While steps are done no other record is taken in, since nothing else knows yet that the collective has begun. One a
// rank, owned by Schedules; used under the engine lock, which is held from begin() to end().
#pragma once

#include "comm/messages.hpp"
#include "comm/schedule.hpp"

#include <array>
#include <memory>

namespace gpurun::comm {

class ImmediateSteps final : private Schedule::Now {
  public:
    ImmediateSteps(Core& core, Waiter& waiter) : core_(core), waiter_(waiter) {}

    // The steps that are added to the empty schedule, whose signature is set, are done from now on. `early`: so many of
    // its messages have been taken in before, and are unexpected.
    void begin(Schedule& schedule, uint32_t early) GPURUN_REQUIRES(engine_lock);
    // Steps that are added are kept. How many of the early messages are still unexpected.
    uint32_t end(Schedule& schedule) GPURUN_REQUIRES(engine_lock);

  private:
    static constexpr size_t kScratchBytes = size_t{64} << 10;

    bool send(Rank to, int tag, const Schedule::Buffer& buffer, transfer::Reduced reduced) override;
    bool receive(Rank from, int tag, const Schedule::Buffer& buffer) override;
    bool copy(const Schedule::Buffer& to, const Schedule::Buffer& from) override;
    bool reduce(const base::Reduction& reduction, const Schedule::Buffer& result,
                std::span<const Schedule::Buffer> operands) override;
    void move_scratch(std::span<std::byte> to) override;

    bool is_expected(const transfer::Record& record, const transfer::Envelope& envelope) const {
        return record.protocol == transfer::InlinePart::kProtocol && record.envelope.bytes == envelope.bytes &&
               record.signature() == signature_;
    }
    bool take_next(transfer::Peer& from, const transfer::Envelope& envelope, std::span<std::byte> into)
        GPURUN_REQUIRES(engine_lock);
    bool take_unexpected(transfer::Peer& from, const transfer::Envelope& envelope, std::span<std::byte> into)
        GPURUN_REQUIRES(engine_lock);
    // Null if the CPU cannot use it, or if it is too large.
    std::byte* address_of(const Schedule::Buffer& buffer) const;

    Core& core_;
    Waiter& waiter_;
    const Communicator* comm_ = nullptr;
    uint64_t signature_ = 0;
    uint32_t early_ = 0;
    const std::unique_ptr<std::byte[]> scratch_ = std::make_unique<std::byte[]>(kScratchBytes);
};

} // namespace gpurun::comm
