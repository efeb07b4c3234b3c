#include "comm/immediate_steps.hpp"

#include "platform/clock.hpp"

#include <cstring>
#include <thread>

namespace gpurun::comm {

using transfer::Envelope;
using transfer::InlinePart;
using transfer::Peer;
using transfer::Record;

namespace {

// Gives the core to another rank, until `end_ns`, which the first call sets.
bool yields_on(int64_t& end_ns) {
    const int64_t now_ns = platform::now_ns();
    if (end_ns == 0)
        end_ns = now_ns + Waiter::kYieldNs;
    std::this_thread::yield();
    return now_ns < end_ns;
}

} // namespace

void ImmediateSteps::begin(Schedule& schedule, uint32_t early) {
    comm_ = &schedule.comm();
    signature_ = schedule.signature().bits();
    early_ = early;
    schedule.do_now(this);
}

uint32_t ImmediateSteps::end(Schedule& schedule) {
    schedule.do_now(nullptr);
    return early_;
}

std::byte* ImmediateSteps::address_of(const Schedule::Buffer& buffer) const {
    if (buffer.scratch)
        return *buffer.scratch + buffer.bytes <= kScratchBytes ? scratch_.get() + *buffer.scratch : nullptr;
    const bool on_host =
        buffer.where.placement == device::Placement::kPageable || buffer.where.placement == device::Placement::kPinned;
    return on_host ? buffer.address : nullptr;
}

bool ImmediateSteps::send(Rank to, int tag, const Schedule::Buffer& buffer, transfer::Reduced) {
    assume_engine_lock();
    Peer& target = core_.peer(comm_->group().world(to));
    const std::byte* const from = address_of(buffer);
    if ((from == nullptr && buffer.bytes != 0) || buffer.bytes > core_.resources().settings.eager_bytes ||
        !target.unposted.empty() || target.channel().is_gone() ||
        !target.part<InlinePart>().has_credit(target, buffer.bytes))
        return false;
    return transfer::post_inline(target, from, {comm_->collective_context(), tag, buffer.bytes}, signature_);
}

bool ImmediateSteps::receive(Rank from, int tag, const Schedule::Buffer& buffer) {
    assume_engine_lock();
    Peer& source = core_.peer(comm_->group().world(from));
    std::byte* const into = address_of(buffer);
    if ((into == nullptr && buffer.bytes != 0) || buffer.bytes > core_.resources().settings.eager_bytes)
        return false;
    const Envelope envelope{comm_->collective_context(), tag, buffer.bytes};
    return early_ != 0 ? take_unexpected(source, envelope, {into, buffer.bytes})
                       : take_next(source, envelope, {into, buffer.bytes});
}

bool ImmediateSteps::take_next(Peer& from, const Envelope& envelope, std::span<std::byte> into) {
    constexpr int kMostLooks = 1000; // as Messages::receive_now()
    transfer::PeerChannel& channel = from.channel();
    int looks = waiter_.spins() ? kMostLooks : 1;
    int64_t end_ns = 0; // of yielding
    std::span<const std::byte> payload;
    const Record* record = channel.front(payload);
    for (; record == nullptr; record = channel.front(payload))
        if (core_.mutex().is_wanted() || !(waiter_.yields() ? yields_on(end_ns) : --looks > 0))
            return false;
    if (record->kind != transfer::RecordKind::kMessage || record->envelope.context != envelope.context ||
        record->envelope.tag != envelope.tag || !is_expected(*record, envelope))
        return false;
    transfer::take_inline(from, payload, into);
    channel.pop();
    ++from.count_in.messages;
    core_.count_change();
    return true;
}

// One that came before this rank's call. Others of the collective may be in the ring: also those come in order, since
// each has a tag of its own.
bool ImmediateSteps::take_unexpected(Peer& from, const Envelope& envelope, std::span<std::byte> into) {
    const Pattern pattern{envelope.context, false, from.rank(), envelope.tag, &comm_->group()};
    const Unexpected* const found = core_.matcher().peek(pattern);
    if (found == nullptr)
        return take_next(from, envelope, into);
    if (!is_expected(found->record, envelope))
        return false;
    Unexpected& message = core_.matcher().take_now(pattern);
    transfer::take_inline(from, message.payload, into);
    core_.matcher().give_back(message);
    --early_;
    core_.count_change();
    return true;
}

void ImmediateSteps::move_scratch(std::span<std::byte> to) {
    std::memcpy(to.data(), scratch_.get(), std::min(to.size(), kScratchBytes));
}

bool ImmediateSteps::copy(const Schedule::Buffer& to, const Schedule::Buffer& from) {
    std::byte* const into = address_of(to);
    const std::byte* const source = address_of(from);
    if (into == nullptr || source == nullptr)
        return false;
    std::memcpy(into, source, to.bytes);
    return true;
}

bool ImmediateSteps::reduce(const base::Reduction& reduction, const Schedule::Buffer& result,
                            std::span<const Schedule::Buffer> operands) {
    std::array<const void*, base::kMostOperands> addresses;
    std::byte* const into = address_of(result);
    size_t given = 0;
    for (const Schedule::Buffer& each : operands)
        if ((addresses[given++] = address_of(each)) == nullptr)
            return false;
    if (into == nullptr)
        return false;
    base::reduce(reduction, result.bytes / base::size_of_type(static_cast<int>(reduction.type)), into,
                 std::span(addresses).first(given));
    return true;
}

} // namespace gpurun::comm
