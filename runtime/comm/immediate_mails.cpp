#include "comm/immediate_mails.hpp"

#include "platform/clock.hpp"

#include <algorithm>
#include <array>

namespace gpurun::comm {

using transfer::Envelope;
using transfer::MailboxPart;
using transfer::Operand;
using transfer::Peer;
using transfer::Record;

bool ImmediateMails::admits(const Communicator& comm, const Operand& buffer) {
    return buffer.on_stream() && !buffer.captured() && comm.size() > 1 &&
           comm.size() <= static_cast<int>(base::kMostOperands) && core_.resources().exchanges.can_reduce() &&
           buffer.bytes <= static_cast<uint64_t>(comm.size()) * longest(comm, transfer::Reduced::kNot);
}

uint64_t ImmediateMails::longest(const Communicator& comm, transfer::Reduced reduced) const {
    return transfer::longest_plain_mail(core_.resources(), reduced, static_cast<uint32_t>(comm.size()) - 1);
}

void ImmediateMails::begin(Schedule& schedule, uint32_t early, const Operand& order) {
    for (const Arrived& each : arrived_) // the run before has ended before it had memory for them
        transfer::drop_plain_mail(each.mail);
    comm_ = &schedule.comm();
    sequence_ = schedule.sequence();
    signature_ = schedule.signature().bits();
    early_ = early;
    most_ = longest(*comm_, transfer::Reduced::kNot);
    order_ = order;
    has_reduced_ = false;
    arrived_.clear();
    touched_.clear();
    schedule.do_now(this);
}

uint32_t ImmediateMails::end(Schedule& schedule) {
    schedule.do_now(nullptr);
    const bool all_done = schedule.steps().empty();
    std::erase_if(arrived_, [&](const Arrived& each) {
        assume_engine_lock();
        const bool is_left = each.into.scratch && !all_done; // for move_scratch()
        GPURUN_ASSERT(!each.into.scratch || is_left || each.into.bytes <= transfer::kAsideBytes);
        if (!is_left)
            take(each, each.into.scratch ? aside() : each.into.address);
        return !is_left;
    });
    core_.resources().exchanges.launch(); // before what comes after these steps
    return early_;
}

void ImmediateMails::move_scratch(std::span<std::byte> to) {
    assume_engine_lock();
    for (const Arrived& each : arrived_)
        take(each, to.data() + *each.into.scratch);
    arrived_.clear();
    core_.resources().exchanges.launch();
}

void ImmediateMails::take(const Arrived& each, std::byte* into) {
    transfer::Resources& resources = core_.resources();
    resources.exchanges.take({transfer::open_plain_mail(resources, each.mail, order_.stream), into, each.into.bytes},
                             order_.stream);
}

// ---------------------------------------------------------------------------------------------------------- buffers

bool ImmediateMails::is_reached(const Schedule::Buffer& buffer) { return !buffer.scratch && buffer.in({}).by_device(); }

// Whether nothing that was done before makes a difference to it, nor it to that. It is done from now on.
bool ImmediateMails::may_touch(const Schedule::Buffer& buffer, bool writes) {
    const Touched now{buffer.address, buffer.address + buffer.bytes, writes};
    for (const Touched& each : touched_)
        if ((writes || each.is_written) && now.begin < each.end && each.begin < now.end)
            return false;
    touched_.push_back(now);
    return true;
}

// ------------------------------------------------------------------------------------------------------------ steps

// Nothing writes to scratch memory here, so what is sent from there carries nothing: it says that this rank has come.
bool ImmediateMails::send(Rank to, int tag, const Schedule::Buffer& buffer, transfer::Reduced reduced) {
    assume_engine_lock();
    Operand from = buffer.in(order_);
    if (buffer.scratch) {
        if (!arrived_.empty() || buffer.bytes > transfer::kAsideBytes)
            return false;
        from.address = aside();
    }
    Peer& target = core_.peer(comm_->group().world(to));
    const bool is_short =
        is_carried(buffer.bytes) && (reduced == transfer::Reduced::kNot || buffer.bytes <= longest(*comm_, reduced));
    if (has_reduced_ || reduced == transfer::Reduced::kPassedOn || !is_short || !target.unposted.empty() ||
        target.channel().is_gone())
        return false;
    if (!buffer.scratch && (!is_reached(buffer) || !may_touch(buffer, false)))
        return false;
    return transfer::put_plain_mail(core_.resources(), target, from, {comm_->collective_context(), tag, buffer.bytes},
                                    signature_);
}

bool ImmediateMails::receive(Rank from, int tag, const Schedule::Buffer& buffer) {
    assume_engine_lock();
    if (has_reduced_ || !is_carried(buffer.bytes) ||
        (!buffer.scratch && (!is_reached(buffer) || !may_touch(buffer, true))))
        return false;
    Peer& source = core_.peer(comm_->group().world(from));
    const Envelope envelope{comm_->collective_context(), tag, buffer.bytes};
    return early_ != 0 ? take_unexpected(source, envelope, buffer) : take_next(source, envelope, buffer);
}

bool ImmediateMails::copy(const Schedule::Buffer& to, const Schedule::Buffer& from) {
    if (has_reduced_ || !is_carried(to.bytes) || !is_reached(to) || !is_reached(from) || !may_touch(from, false) ||
        !may_touch(to, true))
        return false;
    core_.resources().exchanges.copy({to.address, from.address, to.bytes}, order_.stream);
    return true;
}

// Of everything that has come, and what this rank has.
bool ImmediateMails::reduce(const base::Reduction& reduction, const Schedule::Buffer& result,
                            std::span<const Schedule::Buffer> operands) {
    if (arrived_.empty() && operands.size() == 1 && reduction.divisor <= 1) // nothing is to be combined
        return copy(result, operands.front());
    if (has_reduced_ || arrived_.empty() || !is_reached(result))
        return false;
    std::array<const Arrived*, base::kMostOperands> mails{};
    size_t found = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
        const auto mail = std::find_if(arrived_.begin(), arrived_.end(),
                                       [&](const Arrived& each) { return each.into.is_at(operands[i]); });
        if (mail != arrived_.end())
            mails[i] = &*mail, ++found;
        else if (!is_reached(operands[i]))
            return false;
    }
    if (found != arrived_.size())
        return false;
    transfer::Resources& resources = core_.resources();
    std::array<device::FusedReduction::Operand, base::kMostOperands> given;
    for (size_t i = 0; i < operands.size(); ++i)
        if (mails[i] != nullptr)
            given[i].mail = transfer::open_plain_mail(resources, mails[i]->mail, order_.stream);
        else
            given[i].buffer = operands[i].address;
    resources.exchanges.reduce({reduction, result.bytes / base::size_of_type(static_cast<int>(reduction.type)),
                                result.address, std::span(given).first(operands.size())},
                               order_.stream);
    arrived_.clear();
    has_reduced_ = true;
    return true;
}

// ---------------------------------------------------------------------------------------------------------- records

bool ImmediateMails::is_expected(const Record& record, const Envelope& envelope) const {
    return record.kind == transfer::RecordKind::kMessage && record.protocol == MailboxPart::kProtocol &&
           record.envelope.context == envelope.context && record.envelope.tag == envelope.tag &&
           record.envelope.bytes == envelope.bytes && record.signature() == signature_;
}

bool ImmediateMails::is_of_this(const Record& record) const {
    return record.kind == transfer::RecordKind::kMessage && record.envelope.context == comm_->collective_context() &&
           base::sequence_of(record.envelope.tag) == sequence_;
}

// What others send for this collective waits; anything else may be what a peer waits for.
bool ImmediateMails::others_need_nothing() {
    std::span<const std::byte> payload;
    return !core_.any_peer([&](const Peer& each) {
        if (!each.channel().has_records())
            return false;
        const Record* const record = each.channel().front(payload);
        return record != nullptr && !is_of_this(*record);
    });
}

const Record* ImmediateMails::await_record(Peer& from) {
    std::span<const std::byte> payload;
    const Record* record = from.channel().front(payload);
    if (record != nullptr)
        return record;
    const int64_t end_ns = platform::now_ns() + Messages::longest_wait_ns(waiter_.spins());
    while (record == nullptr && !core_.mutex().is_wanted() && others_need_nothing() && platform::now_ns() < end_ns)
        record = from.channel().front(payload);
    return record;
}

bool ImmediateMails::note_arrived(Peer& from, const Record& record, const Schedule::Buffer& into) {
    const auto mail = transfer::find_plain_mail(from, record);
    if (mail)
        arrived_.push_back({*mail, into});
    return mail.has_value();
}

bool ImmediateMails::take_next(Peer& from, const Envelope& envelope, const Schedule::Buffer& into) {
    const Record* const record = await_record(from);
    if (record == nullptr || !is_expected(*record, envelope) || !note_arrived(from, *record, into))
        return false;
    from.channel().pop();
    ++from.count_in.messages;
    core_.count_change();
    return true;
}

// One that came before this rank's call. Others of the collective may be in the ring: also those come in order, since
// each has a tag of its own.
bool ImmediateMails::take_unexpected(Peer& from, const Envelope& envelope, const Schedule::Buffer& into) {
    const Pattern pattern{envelope.context, false, from.rank(), envelope.tag, &comm_->group()};
    const Unexpected* const found = core_.matcher().peek(pattern);
    if (found == nullptr)
        return take_next(from, envelope, into);
    if (!is_expected(found->record, envelope) || !note_arrived(from, found->record, into))
        return false;
    core_.matcher().give_back(core_.matcher().take_now(pattern));
    --early_;
    core_.count_change();
    return true;
}

} // namespace gpurun::comm
