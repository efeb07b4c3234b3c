#include "comm/loans.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/loan.hpp"

#include <algorithm>
#include <cstdint>

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::LoanAnswer;
using transfer::LoanPart;
using transfer::Operand;

Loans::Loans(Core& core, Waiter& waiter, Alarms& alarms, Messages& messages, Requests& requests, PeerFailure& failure,
             OrphanedLoans& orphaned, Background& background)
    : core_(core), waiter_(waiter), alarms_(alarms), messages_(messages), requests_(requests), failure_(failure),
      background_(background) {
    orphaned.on_ask([this](const transfer::LoanOrigin& loan) {
        assume_engine_lock();
        return has_of(loan);
    });
}

// ------------------------------------------------------------------------------------------------------- the table

Loans::Entry& Loans::add() {
    if (unused_.empty()) {
        unused_.push_back(&entries_.emplace_back());
        unused_.back()->name = core_.names().first() + entries_.size(); // from place 1 on
    }
    Entry& entry = *unused_.back();
    unused_.pop_back();
    entry.name += Names::kUse;
    entry.open = true;
    entry.borrowed = {};
    entry.borrowed.loan = entry.name;
    entry.borrowed.since_ns = platform::now_ns();
    entry.taken = {};
    entry.copy = nullptr;
    return entry;
}

uint32_t Loans::most_uses() {
    const EngineLock lock(core_.mutex());
    uint32_t most = 0;
    for (const Entry& each : entries_)
        most = std::max(most, Names::use_of(each.name));
    return most;
}

void Loans::enter_spans(Entry& entry) {
    for (const transfer::Borrowing::Part& each : entry.taken.parts) {
        Borrowed span = entry.borrowed;
        span.address = each.first;
        span.bytes = each.bytes;
        span.placement = each.lent.placement;
        entry.spans.push_back(span);
    }
    if (entry.copy != nullptr)
        entry.spans.push_back(entry.borrowed);
    for (const Borrowed& span : entry.spans) {
        mapped_.add(span.address, span.bytes, span);
        if (!transfer::is_read_only(span.kind))
            writable_.add(span.address, span.bytes, span);
    }
    any_mapped_.store(!mapped_.empty(), std::memory_order_relaxed);
}

void Loans::remove(Entry& entry) {
    for (const Borrowed& span : entry.spans) {
        mapped_.remove(span.address, span);
        writable_.remove(span.address, span);
    }
    entry.spans.clear();
    entry.tensors.reset();
    any_mapped_.store(!mapped_.empty(), std::memory_order_relaxed);
    entry.open = false;
    unused_.push_back(&entry);
}

Result<Loans::Entry*> Loans::find_entry(uint64_t name) {
    const uint64_t index = name & Names::kPlace;
    if (index == 0 || index > entries_.size() || !entries_[index - 1].open || entries_[index - 1].name != name)
        return base::error(Status::kLoan,
                           "{} is no loan that this rank has: it was given back before, or never borrowed", name);
    return &entries_[index - 1];
}

Result<Loans::Borrowed> Loans::find(uint64_t name) {
    const EngineLock lock(core_.mutex());
    GPURUN_ASSIGN(const Entry* entry, find_entry(name));
    return entry->borrowed;
}

// -------------------------------------------------------------------------------------------------------- borrowing

transfer::Peer& Loans::owner_of(transfer::Peer& lender, const transfer::RemoteBuffer& lent,
                                const transfer::LoanOrigin& origin) {
    const bool is_lent_on = lent.exporter == transfer::Exporter::kOwner && !lender.to_self();
    return is_lent_on ? core_.peer(WorldRank{origin.owner}) : lender;
}

bool Loans::waits_to_map(const Unexpected& message) {
    if (message.record.protocol != LoanPart::kProtocol)
        return false;
    const auto ready = message.record.as<transfer::ReadyToSend>();
    return owner_of(core_.peer(message.source), ready.source, ready.origin).part<LoanPart>().waits_to_map(ready.source);
}

// Null: nobody can send one any more.
Result<const Unexpected*> Loans::wait_for_loan(EngineLock& lock, const Pattern& pattern) {
    const Unexpected* message = nullptr;
    const auto met = [&] {
        assume_engine_lock();
        message = core_.matcher().peek(pattern);
        return message != nullptr ? !waits_to_map(*message) : failure_.is_hopeless(pattern);
    };
    GPURUN_TRY(waiter_.wait(lock, WaitReason{.kind = WaitReason::Kind::kProbe, .pattern = &pattern}, met, [&] {
        assume_engine_lock();
        if (message != nullptr)
            alarms_.look_again();
        return Result<void>();
    }));
    return message;
}

Result<std::byte*> Loans::map(Entry& entry, const transfer::RemoteBuffer& lent, size_t bytes) {
    transfer::Peer& owner = owner_of(*entry.taken.lender, lent, entry.taken.origin);
    if (&owner != entry.taken.lender && owner.lost())
        return lost(owner);
    GPURUN_ASSIGN(const std::byte* const mapped, owner.part<LoanPart>().map(lent));
    auto* const address = const_cast<std::byte*>(mapped);
    if (!entry.taken.lender->to_self())
        entry.taken.parts.push_back({address, bytes, lent, &owner});
    return address;
}

Result<Arrived> Loans::take_message(EngineLock& lock, const Wanted& wanted, const Operand& into, bool borrows) {
    LocalReceive home;
    PostedReceive receive(core_.resources(), home, into, wanted.pattern, {.call = wanted.call, .borrows = borrows});
    PostedReceive* const receives[] = {&receive};
    if (wanted.reserved != 0)
        messages_.start_taken(wanted.reserved, receive);
    else
        messages_.start(receive); // takes the message that was found
    GPURUN_TRY(messages_.finish_together(lock, {}, receives));
    if (receive.error() != nullptr)
        return *receive.error();
    return receive.arrived();
}

// As a receive does, so that the loan has come back then. Without memory for it the message stays.
Result<Arrived> Loans::take_copy(EngineLock& lock, Entry& entry, const Wanted& wanted) {
    GPURUN_ASSIGN(
        transfer::ScratchPool::Block * block,
        core_.resources().pools.scratch.take(transfer::ScratchPool::Kind::kDevice, entry.borrowed.bytes, wanted.order));
    return take_copy_into(lock, *block, entry, wanted);
}

Result<Arrived> Loans::take_copy_into(EngineLock& lock, transfer::ScratchPool::Block& block, Entry& entry,
                                      const Wanted& wanted) {
    Operand into = wanted.order;
    into.address = block.data;
    into.bytes = entry.borrowed.bytes;
    into.where = block.where;
    auto arrived = take_message(lock, wanted, into, false);
    if (!arrived) {
        core_.resources().pools.scratch.give_back(block, wanted.order);
        return arrived;
    }
    entry.copy = &block;
    entry.borrowed.address = block.data;
    entry.borrowed.kind = transfer::LoanKind::kCopy;
    ++copies_;
    copied_bytes_ += entry.borrowed.bytes;
    return arrived;
}

Result<Arrived> Loans::take_mapped(EngineLock& lock, Entry& entry, const Wanted& wanted) {
    auto arrived = take_message(lock, wanted, wanted.order, true);
    if (!arrived) {
        for (const transfer::Borrowing::Part& each : entry.taken.parts)
            each.owner->part<LoanPart>().unmap(each.lent.allocation_id, std::nullopt);
        return arrived;
    }
    if (entry.borrowed.kind == transfer::LoanKind::kReadOrCopy)
        entry.borrowed.kind = transfer::LoanKind::kReadOnly;
    entry.taken.lender->part<LoanPart>().tell(entry.taken.serial, {.what = LoanAnswer::What::kBorrowed});
    return arrived;
}

Result<uint64_t> Loans::borrow(const Pattern& pattern, const Operand& order, platform::TraceEvent* call,
                               Arrived& ret_from) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    GPURUN_ASSIGN(const Unexpected* const message, wait_for_loan(lock, pattern));
    if (message == nullptr)
        return failure_.why_hopeless(pattern);
    transfer::Peer& lender = core_.peer(message->source);
    const transfer::Envelope envelope = message->record.envelope;
    if (message->record.protocol != LoanPart::kProtocol)
        return base::error(Status::kLoan,
                           "the message from rank {} with tag {} is no loan: receive it with gpurun_recv()",
                           pattern.rank_of(lender.rank()), envelope.tag);
    const auto ready = message->record.as<transfer::ReadyToSend>();
    // It may have been given up already (OrphanedLoans), or be about to be.
    if (lender.channel().is_gone() && (ready.origin.depth != 0 || lender.channel().is_unwatched()))
        return lost(lender);
    background_.keep_watch();
    Entry& entry = add();
    entry.taken = {&lender, message->record.serial, ready.origin, {}};
    entry.borrowed.kind = ready.source.loan.kind;
    entry.borrowed.bytes = envelope.bytes;
    entry.tag = envelope.tag;
    entry.context = envelope.context;
    auto taken = take(lock, entry, ready, {pattern, order, call});
    if (!taken) {
        remove(entry);
        return std::move(taken).error();
    }
    ret_from = *taken;
    enter_spans(entry);
    return entry.name;
}

// The description comes first, since the lender may have it forgotten once it has the loan back. Nobody gets the loan
// meanwhile.
Result<Arrived> Loans::take_copied_tensor(EngineLock& lock, Entry& entry, const Wanted& wanted) {
    const Communicator* const comm = core_.communicators().of_context(wanted.pattern.context);
    transfer::ScratchPool& pool = core_.resources().pools.scratch;
    GPURUN_ASSIGN(transfer::ScratchPool::Block * block,
                  pool.take(transfer::ScratchPool::Kind::kDevice, entry.borrowed.bytes, wanted.order));
    const uint64_t reserved = core_.matcher().take(wanted.pattern);
    if (comm != nullptr)
        comm->hold();
    if (auto received = receive_description(lock, entry, wanted.pattern); !received) {
        core_.matcher().give_back(core_.matcher().release_taken(reserved));
        if (comm != nullptr)
            comm->let_go();
        pool.give_back(*block, wanted.order);
        return std::move(received).error();
    }
    GPURUN_ASSIGN(const Arrived arrived,
                  take_copy_into(lock, *block, entry, {wanted.pattern, wanted.order, wanted.call, reserved}));
    unpack_tensors(entry, {entry.tensors->base_of_copy(entry.borrowed.address)});
    return arrived;
}

// An error leaves the message, or has given the loan back.
Result<Arrived> Loans::take(EngineLock& lock, Entry& entry, const transfer::ReadyToSend& ready, const Wanted& wanted) {
    const bool has_tensors = ready.source.loan.has_tensors;
    if (entry.borrowed.bytes != 0) {
        auto mapped = map(entry, ready.source, entry.borrowed.bytes);
        if (!mapped && entry.borrowed.kind != transfer::LoanKind::kReadOrCopy)
            return std::move(mapped).error();
        if (!mapped)
            return has_tensors ? take_copied_tensor(lock, entry, wanted) : take_copy(lock, entry, wanted);
        entry.borrowed.address = *mapped;
    }
    GPURUN_ASSIGN(const Arrived arrived, take_mapped(lock, entry, wanted));
    if (!has_tensors)
        return arrived;
    auto received = receive_description(lock, entry, wanted.pattern);
    if (received)
        received = map_tensors(lock, entry, wanted.pattern);
    if (received)
        return arrived;
    (void)entry.taken.lender->part<LoanPart>().give_back(entry.taken, std::nullopt);
    base::Error error = std::move(received).error();
    error.detail += "; this loan has been given back";
    return error;
}

// With graphs in the job, an old mapping that is in the way is closed once no stream of this rank waits for another
// rank. The stream of this very loan does, until the lender's has come to it.
Result<void> Loans::wait_to_map(EngineLock& lock, transfer::Peer& owner, const transfer::RemoteBuffer& lent,
                                const Pattern& pattern) {
    const auto can = [&] {
        assume_engine_lock();
        return !owner.part<LoanPart>().waits_to_map(lent);
    };
    if (can())
        return {};
    return waiter_.wait(lock, WaitReason{.kind = WaitReason::Kind::kProbe, .pattern = &pattern}, can, [&] {
        assume_engine_lock();
        alarms_.look_again();
        return Result<void>();
    });
}

// It is in front of the loan, so it is there.
Result<void> Loans::receive_description(EngineLock& lock, Entry& entry, const Pattern& call) {
    const Pattern pattern{.context = kDescriptionContext,
                          .source = entry.taken.lender->rank(),
                          .tag = LoanDescription::tag_of(entry.taken.serial),
                          .group = call.group};
    const Unexpected* const message = core_.matcher().peek(pattern);
    GPURUN_ASSERT(message != nullptr);
    std::vector<std::byte> packed(message->record.envelope.bytes);
    Operand into;
    into.address = packed.data();
    into.bytes = packed.size();
    LocalReceive home;
    PostedReceive receive(core_.resources(), home, into, pattern);
    PostedReceive* const receives[] = {&receive};
    messages_.start(receive);
    GPURUN_TRY(messages_.finish_together(lock, {}, receives));
    if (receive.error() != nullptr)
        return *receive.error();
    entry.tensors = std::make_unique<BorrowedTensors>(std::move(packed));
    return {};
}

Result<void> Loans::map_tensors(EngineLock& lock, Entry& entry, const Pattern& call) {
    std::vector<const std::byte*> bases;
    for (size_t i = 0; i < entry.tensors->allocations(); ++i) {
        const transfer::RemoteBuffer lent = entry.tensors->allocation(i);
        GPURUN_TRY(wait_to_map(lock, owner_of(*entry.taken.lender, lent, entry.taken.origin), lent, call));
        GPURUN_ASSIGN(const std::byte* const base, map(entry, lent, lent.allocation_bytes - lent.offset));
        bases.push_back(base);
    }
    unpack_tensors(entry, bases);
    return {};
}

void Loans::unpack_tensors(Entry& entry, const std::vector<const std::byte*>& bases) {
    const device::Identity& own = core_.device().info().identity;
    const bool is_cuda = own.kind == device::Kind::kCuda;
    entry.tensors->unpack(bases, {is_cuda ? kDlCuda : kDlCpu, static_cast<int32_t>(own.ordinal)},
                          entry.copy != nullptr);
    entry.borrowed.tensors = entry.tensors.get();
}

// ------------------------------------------------------------------------------------------------------ giving back

Result<void> Loans::give_back(uint64_t name, const Order& order) {
    const EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    GPURUN_ASSIGN(Entry * entry, find_entry(name));
    GPURUN_TRY(check_not_lent_on(*entry));
    const WorldRank lender = entry->taken.lender->rank();
    const WorldRank owner{entry->taken.origin.owner};
    const bool is_copy = entry->copy != nullptr;
    GPURUN_TRY(end(*entry, order));
    for (const WorldRank each : {lender, owner})
        if (!is_copy && core_.peer(each).lost())
            return lost(core_.peer(each));
    return {};
}

// What was lent on has to be given back, and its streams done with it, for no rank to have it any more.
bool Loans::has_of(const transfer::LoanOrigin& loan) {
    const auto is_of = [&](const transfer::Borrowing& each) {
        return each.origin.same_loan(loan) && each.origin.depth > loan.depth;
    };
    if (std::any_of(entries_.begin(), entries_.end(),
                    [&](const Entry& each) { return each.open && is_of(each.taken); }) ||
        core_.any_peer([&](const transfer::Peer& each) { return each.part<LoanPart>().any_returning(is_of); }))
        return true;
    forget_unused();
    return std::any_of(recent_.begin(), recent_.end(), is_of);
}

void Loans::forget_unused() {
    std::erase_if(recent_, [](const transfer::Borrowing& loan) {
        return std::none_of(loan.parts.begin(), loan.parts.end(), [](const transfer::Borrowing::Part& each) {
            return each.owner->part<LoanPart>().in_use_by_streams(each.lent.allocation_id);
        });
    });
}

// ---------------------------------------------------------------------------------------------------------- people

namespace {

double seconds_since(int64_t since_ns) { return static_cast<double>(platform::now_ns() - since_ns) * 1e-9; }

const char* state_of(const transfer::Send& loan) {
    if (loan.enqueued() && (loan.matched() || !loan.error())) // else it was refused
        return "given back, and its request not completed";
    return loan.matched() ? "borrowed, and not given back" : "not borrowed";
}

} // namespace

std::string Loans::report() {
    const EngineLock lock(core_.mutex());
    std::string text;
    core_.requests().lent().for_each([&](const Request& each) {
        text += base::format("gpurun: rank {} has lent {} bytes to rank {}, tag {}, {:.1f} s ago: {}\n",
                             core_.self().value, each.task.operand.bytes, each.send->target().rank().value,
                             each.task.tag, seconds_since(each.lent.since_ns), state_of(*each.send));
    });
    for (const Entry& each : entries_)
        if (each.open)
            text += base::format("gpurun: rank {} has borrowed {} bytes of rank {}, tag {}, {:.1f} s ago: {}not given "
                                 "back\n",
                                 core_.self().value, each.borrowed.bytes, each.taken.lender->rank().value, each.tag,
                                 seconds_since(each.borrowed.since_ns), each.copy != nullptr ? "a copy, " : "");
    if (copies_ != 0)
        text += base::format("gpurun: rank {} has read copies of {} loans that it could not map, {} bytes\n",
                             core_.self().value, copies_, copied_bytes_);
    for (const auto& peer : core_.peers())
        if (const transfer::ImportCache* const imports = peer->memory().open_imports();
            imports != nullptr && imports->size() != 0)
            text += base::format("gpurun: rank {} has {} allocations of rank {} mapped, {} bytes\n", core_.self().value,
                                 imports->size(), peer->rank().value, imports->bytes());
    return text;
}

Result<void> Loans::end(Entry& entry, const Order& order) {
    if (entry.copy != nullptr) {
        Operand use;
        use.domain = order.domain;
        use.stream = order.stream;
        core_.resources().pools.scratch.give_back(*entry.copy, use);
        remove(entry);
        return {};
    }
    GPURUN_TRY(entry.taken.lender->part<LoanPart>().give_back(
        entry.taken, order.on_stream() ? std::optional(order.stream) : std::nullopt));
    if (entry.taken.origin.depth != 0) {
        forget_unused();
        recent_.push_back(entry.taken);
    }
    remove(entry);
    return {};
}

void Loans::end_those_not_lent_on() {
    for (Entry& each : entries_) {
        bool is_lent_on = false;
        core_.requests().lent().for_each([&](const Request& request) {
            is_lent_on = is_lent_on || (request.lent.loan_of == each.name && !request.done());
        });
        if (each.open && !is_lent_on)
            (void)end(each, Order{}); // in the host's order nothing fails
    }
}

// What was lent on and nobody has received is taken back. The other borrowers are leaving, too, and give theirs back.
// Each loan goes as soon as it can: the rank that it goes to may need it to give back another one.
void Loans::give_back_all(EngineLock& lock) {
    if (unused_.size() == entries_.size())
        return;
    lock.unlock();
    auto idle = core_.device().synchronize_all();
    lock.lock();
    if (!idle)
        base::log(base::LogLevel::kWarn, "before borrowed memory is given back: {}", idle.error().detail);
    core_.requests().for_each(SIZE_MAX, [&](const Request& each) {
        assume_engine_lock();
        if (each.active && each.lent.loan_of != 0 && each.send != nullptr)
            requests_.withdraw(*each.send);
    });
    const auto all_given_back = [&] {
        assume_engine_lock();
        end_those_not_lent_on();
        return unused_.size() == entries_.size() || failure_.stuck();
    };
    (void)waiter_.wait(lock, WaitReason{.kind = WaitReason::Kind::kOwnMessages}, all_given_back, [&] {
        assume_engine_lock();
        return alarms_.set_for_moving(true);
    });
}

} // namespace gpurun::comm
