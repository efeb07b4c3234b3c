#include "comm/loans.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/loan.hpp"

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::LoanAnswer;
using transfer::LoanPart;
using transfer::Operand;

// ------------------------------------------------------------------------------------------------------- the table

Loans::Entry& Loans::add() {
    if (unused_.empty()) {
        unused_.push_back(&entries_.emplace_back());
        unused_.back()->name = entries_.size();
    }
    Entry& entry = *unused_.back();
    unused_.pop_back();
    entry.name += kUse;
    entry.open = true;
    return entry;
}

void Loans::remove(Entry& entry) {
    for (const Borrowed& span : entry.spans)
        for (auto [each, end] = mapped_.equal_range(reinterpret_cast<uintptr_t>(span.address)); each != end; ++each)
            if (each->second == &span) {
                mapped_.erase(each);
                break;
            }
    entry.spans.clear();
    entry.parts.clear();
    entry.tensors.reset();
    any_mapped_.store(!mapped_.empty(), std::memory_order_relaxed);
    entry.open = false;
    unused_.push_back(&entry);
}

Result<Loans::Entry*> Loans::find_entry(uint64_t name) {
    const uint64_t index = name & kIndex;
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

// ---------------------------------------------------------------------------------------------------------- lending

namespace {

base::Error is_lent(const void* address, const Request& loan, const char* advice) {
    return base::error(Status::kLoan, "the memory at {} is lent to rank {} with tag {}: {}", address, loan.task.peer,
                       loan.task.tag, advice);
}

constexpr const char* kWaitFirst = "complete its request with gpurun_wait() first";

} // namespace

Result<void> Loans::check_free_for(transfer::LoanKind kind, const void* address, size_t bytes) {
    const LentMemory& lent = core_.requests().lent();
    const Request* const other =
        kind == transfer::LoanKind::kExclusive ? lent.find(address, bytes) : lent.find_exclusive(address, bytes);
    return other == nullptr ? Result<void>() : Result<void>(is_lent(address, *other, kWaitFirst));
}

Result<uint64_t> Loans::lend(const Task& task, std::unique_ptr<LoanDescription> description) {
    const EngineLock lock(core_.mutex());
    GPURUN_TRY(check_free_for(task.loan.kind, task.operand.address, task.operand.bytes));
    if (description)
        for (const TensorList::Allocation& each : description->tensors.allocations())
            GPURUN_TRY(check_free_for(task.loan.kind, each.first, static_cast<size_t>(each.end - each.first)));
    Request& request = core_.requests().take(task);
    request.description = std::move(description);
    requests_.begin(request);
    const base::Error* const error = request.error();
    if (error == nullptr || error->status != Status::kUnsupported)
        return request.name;
    base::Error refused = *error;
    core_.requests().end(request);
    core_.requests().release(request);
    return refused;
}

Result<void> Loans::check_not_lent(const void* address, size_t bytes) {
    const EngineLock lock(core_.mutex());
    const Request* const loan = core_.requests().lent().find(address, bytes);
    return loan == nullptr ? Result<void>() : Result<void>(is_lent(address, *loan, kWaitFirst));
}

Result<std::optional<device::Buffer>> Loans::look_up(const void* address, size_t bytes, bool writes) {
    std::optional<device::Buffer> found;
    const bool any_exclusive = core_.lends_exclusively();
    if (!any_exclusive && !any_mapped_.load(std::memory_order_relaxed))
        return found;
    const EngineLock lock(core_.mutex());
    if (const Request* const loan = core_.requests().lent().find_exclusive(address, bytes))
        return is_lent(address, *loan, "this rank must not use it until it has come back");
    const auto first = reinterpret_cast<uintptr_t>(address);
    bool read_only = false;
    const Borrowed* begun = nullptr; // has the first of the bytes, and not all
    for (auto each = mapped_.upper_bound(first); each != mapped_.begin();) {
        const Borrowed& loan = *(--each)->second;
        if (each->first + loan.bytes < first + bytes) {
            begun = first < each->first + loan.bytes ? &loan : begun;
            continue;
        }
        read_only = loan.kind == transfer::LoanKind::kReadOnly;
        found.emplace();
        found->placement = device::Placement::kDevice;
        found->base = loan.address;
        found->size = loan.bytes;
        if (!writes || !read_only)
            return found;
    }
    if (read_only)
        return base::error(Status::kBuffer, "the {} bytes at {} are borrowed read-only: copy them, and write the copy",
                           bytes, address);
    if (begun != nullptr)
        return base::error(Status::kBuffer,
                           "the {} bytes at {} reach past what is borrowed, {} bytes at {}: use no more", bytes,
                           address, begun->bytes, static_cast<const void*>(begun->address));
    return found;
}

// -------------------------------------------------------------------------------------------------------- borrowing

bool Loans::waits_to_map(const Unexpected& message) {
    return message.record.protocol == LoanPart::kProtocol &&
           part(message.source).waits_to_map(message.record.as<transfer::ReadyToSend>().source);
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

Result<uint64_t> Loans::borrow(const Pattern& pattern, const Operand& order, platform::TraceEvent* call,
                               Arrived& ret_from) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    GPURUN_ASSIGN(const Unexpected* const message, wait_for_loan(lock, pattern));
    if (message == nullptr)
        return PeerFailure::died(pattern);
    const WorldRank lender = message->source;
    const transfer::Record& record = message->record;
    if (record.protocol != LoanPart::kProtocol)
        return base::error(Status::kLoan,
                           "the message from rank {} with tag {} is no loan: receive it with gpurun_recv()",
                           pattern.rank_of(lender), record.envelope.tag);
    const transfer::RemoteBuffer lent = record.as<transfer::ReadyToSend>().source;
    const size_t bytes = record.envelope.bytes;
    const std::byte* address = nullptr;
    const bool mapped = bytes != 0 && !core_.peer(lender).to_self();
    if (bytes != 0) {
        GPURUN_ASSIGN(address, part(lender).map(lent));
    }
    const transfer::Taken taken{record.serial, lent.allocation_id, mapped};
    LocalReceive home;
    PostedReceive receive(core_.resources(), home, order, pattern, {.call = call, .borrows = true});
    PostedReceive* const receives[] = {&receive};
    messages_.start(receive); // takes the message that was found
    auto finished = messages_.finish_together(lock, {}, receives);
    if (finished && receive.error() != nullptr)
        finished = *receive.error();
    if (!finished) {
        part(lender).unmap(taken, std::nullopt);
        return std::move(finished).error();
    }
    part(lender).tell(taken.serial, {LoanAnswer::What::kBorrowed, {}});
    Entry& entry = add();
    entry.borrowed = {const_cast<std::byte*>(address), bytes, lent.loan.kind};
    ret_from = receive.arrived();
    entry.lender = lender;
    entry.taken = taken;
    entry.tag = ret_from.tag;
    entry.since_ns = platform::now_ns();
    if (mapped)
        entry.spans.push_back(entry.borrowed);
    if (lent.loan.has_tensors) {
        if (auto received = receive_tensors(lock, entry, *pattern.group); !received) {
            (void)end(entry, std::nullopt);
            return std::move(received).error();
        }
    }
    for (const Borrowed& each : entry.spans)
        mapped_.emplace(reinterpret_cast<uintptr_t>(each.address), &each);
    any_mapped_.store(!mapped_.empty(), std::memory_order_relaxed);
    return entry.name;
}

// The message that describes them is in front of the loan, so it is there. What fails gives the loan back.
Result<void> Loans::receive_tensors(EngineLock& lock, Entry& entry, const Group& group) {
    const Pattern pattern{.context = kDescriptionContext,
                          .source = entry.lender,
                          .tag = LoanDescription::tag_of(entry.taken.serial),
                          .group = &group};
    const Unexpected* const message = core_.matcher().peek(pattern);
    CHECK(message != nullptr);
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
    std::vector<const std::byte*> bases;
    for (size_t i = 0; i < entry.tensors->allocations(); ++i) {
        const transfer::RemoteBuffer lent = entry.tensors->allocation(i);
        GPURUN_ASSIGN(const std::byte* const base, part(entry.lender).map(lent));
        bases.push_back(base);
        if (core_.peer(entry.lender).to_self())
            continue;
        entry.parts.push_back({entry.taken.serial, lent.allocation_id, true});
        entry.spans.push_back({const_cast<std::byte*>(base), lent.allocation_bytes, entry.borrowed.kind});
    }
    entry.tensors->unpack(bases, core_.device().info().identity.ordinal);
    entry.borrowed.tensors = entry.tensors.get();
    return {};
}

// ------------------------------------------------------------------------------------------------------ giving back

Result<void> Loans::give_back(uint64_t name, const Order& order) {
    const EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    GPURUN_ASSIGN(Entry * entry, find_entry(name));
    const WorldRank lender = entry->lender;
    GPURUN_TRY(end(*entry, order.on_stream() ? std::optional(order.stream) : std::nullopt));
    return core_.peer(lender).lost() ? Result<void>(PeerFailure::died(lender)) : Result<void>();
}

// ---------------------------------------------------------------------------------------------------------- people

namespace {

double seconds_since(int64_t since_ns) { return static_cast<double>(platform::now_ns() - since_ns) * 1e-9; }

const char* state_of(const transfer::Send& loan) {
    if (loan.enqueued())
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
                             each.task.tag, seconds_since(each.task.since_ns), state_of(*each.send));
    });
    for (const Entry& each : entries_)
        if (each.open)
            text += base::format("gpurun: rank {} has borrowed {} bytes of rank {}, tag {}, {:.1f} s ago: not given "
                                 "back\n",
                                 core_.self().value, each.borrowed.bytes, each.lender.value, each.tag,
                                 seconds_since(each.since_ns));
    for (const auto& peer : core_.peers())
        if (const transfer::ImportCache* const imports = peer->memory().open_imports();
            imports != nullptr && imports->size() != 0)
            text += base::format("gpurun: rank {} has {} allocations of rank {} mapped, {} bytes\n", core_.self().value,
                                 imports->size(), peer->rank().value, imports->bytes());
    return text;
}

Result<void> Loans::end(Entry& entry, std::optional<device::Stream> stream) {
    GPURUN_TRY(part(entry.lender).give_back(entry.taken, entry.parts, stream));
    remove(entry);
    return {};
}

void Loans::give_back_all(EngineLock& lock) {
    if (unused_.size() == entries_.size())
        return;
    lock.unlock();
    auto idle = core_.device().synchronize_all();
    lock.lock();
    if (!idle)
        base::log(base::LogLevel::kWarn, "before borrowed memory is given back: {}", idle.error().detail);
    for (Entry& each : entries_)
        if (each.open)
            (void)end(each, std::nullopt); // in the host's order nothing fails
}

} // namespace gpurun::comm
