// Loans: lending, and what calls may do with memory that is lent or borrowed.
#include "base/format.hpp"
#include "comm/loans.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/loan.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using base::Status;

namespace {

base::Error is_lent(const void* address, const Request& loan, const char* advice) {
    return base::error(Status::kLoan, "the memory at {} is lent to rank {} with tag {}: {}", address, loan.task.peer,
                       loan.task.tag, advice);
}

constexpr const char* kWaitFirst = "complete its request with gpurun_wait() first";

bool lends_some_of(const Request& loan, const void* address, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(address);
    const auto overlaps = [&](const std::byte* begin, const std::byte* end) {
        return begin < first + bytes && end > first;
    };
    if (!loan.description)
        return overlaps(loan.task.operand.address, loan.task.operand.address + loan.task.operand.bytes);
    const auto& allocations = loan.description->tensors.allocations();
    return std::any_of(allocations.begin(), allocations.end(),
                       [&](const TensorList::Allocation& each) { return overlaps(each.first, each.end); });
}

// "rank 1 with tag 3, rank 2 with tag 3": to whom some of the bytes are lent.
std::string borrowers_of(const LentMemory& lent, const void* address, size_t bytes) {
    constexpr size_t kMostNamed = 16;
    std::vector<const Request*> loans;
    lent.for_each([&](const Request& each) {
        if (lends_some_of(each, address, bytes) && std::find(loans.begin(), loans.end(), &each) == loans.end() &&
            loans.size() <= kMostNamed)
            loans.push_back(&each);
    });
    std::string text;
    for (const Request* each : std::span(loans).first(std::min(loans.size(), kMostNamed)))
        text += base::format("{}rank {} with tag {}", text.empty() ? "" : ", ", each->task.peer, each->task.tag);
    return loans.size() > kMostNamed ? text + ", and more" : text;
}

} // namespace

// What this rank has lent and then borrowed itself, from whoever has it lent on, is its to use and to lend.
const Request* Loans::find_lent(const void* address, size_t bytes, bool any_kind, const Borrowed* since) const {
    const LentMemory& lent = core_.requests().lent();
    const Request* found = any_kind ? lent.find(address, bytes) : lent.find_exclusive(address, bytes);
    if (found == nullptr || since == nullptr || found->lent.since_ns >= since->since_ns)
        return found;
    found = nullptr;
    const auto visit = [&](const Request& each) {
        if (each.lent.since_ns >= since->since_ns && lends_some_of(each, address, bytes))
            found = &each;
    };
    any_kind ? lent.for_each(visit) : lent.for_each_exclusive(visit);
    return found;
}

const Loans::Borrowed* Loans::find_span(const void* address, size_t bytes, bool writable) const {
    const auto first = reinterpret_cast<uintptr_t>(address);
    const SpanSet<Borrowed>& spans = writable ? writable_ : mapped_;
    const auto* const span = spans.furthest(first + 1);
    if (span == nullptr || span->end < first + bytes)
        return nullptr;
    const Borrowed* found = span->owner;
    if (!core_.requests().lent().lends_on(found->loan))
        return found;
    // It may have been lent on to here: the latest loan counts.
    spans.for_each([&](const Borrowed& each) {
        if (each.since_ns > found->since_ns && each.address <= address &&
            static_cast<const std::byte*>(address) + bytes <= each.address + each.bytes)
            found = &each;
    });
    return found;
}

bool Loans::has_borrowed(const void* address, size_t bytes) {
    const EngineLock lock(core_.mutex());
    return find_span(address, bytes, false) != nullptr;
}

Result<const Loans::Borrowed*> Loans::check_may_lend(transfer::LoanKind kind, const void* address, size_t bytes) {
    using transfer::LoanKind;
    if (bytes == 0)
        return nullptr;
    const Borrowed* source = find_span(address, bytes, !transfer::is_read_only(kind));
    if (source == nullptr && find_span(address, bytes, false) != nullptr)
        return base::error(Status::kLoan, "the memory at {} is borrowed read-only: lend it on read-only", address);
    if (source != nullptr && kind == LoanKind::kExclusive && source->kind != kind)
        return base::error(Status::kLoan,
                           "the memory at {} is borrowed shared, and others may use it: lend it on shared or read-only",
                           address);
    if (const Request* const other = find_lent(address, bytes, kind == LoanKind::kExclusive, source))
        return is_lent(address, *other, kWaitFirst);
    return source;
}

// What is lent on has come by one loan.
Result<void> Loans::find_source(const Task& task, LoanTask& lent, const LoanDescription* description) {
    const Borrowed* source = nullptr;
    if (description == nullptr) {
        GPURUN_ASSIGN(source, check_may_lend(lent.loan.kind, task.operand.address, task.operand.bytes));
    } else {
        for (const TensorList::Allocation& each : description->tensors.allocations()) {
            GPURUN_ASSIGN(const Borrowed* const of,
                          check_may_lend(lent.loan.kind, each.first, static_cast<size_t>(each.end - each.first)));
            if (of != nullptr && source != nullptr && of->loan != source->loan)
                return base::error(Status::kLoan,
                                   "the tensors were borrowed by several loans: lend on those of each loan apart");
            source = of != nullptr ? of : source;
        }
    }
    if (source == nullptr) {
        lent.origin = {++last_number_, static_cast<uint16_t>(core_.self().value), 0};
        return {};
    }
    GPURUN_ASSIGN(const Entry* entry, find_entry(source->loan));
    if (entry->copy != nullptr)
        return base::error(
            Status::kUnsupported,
            "the memory at {} is the copy of a loan: copy it to memory of gpurun_malloc(), and lend that",
            static_cast<const void*>(source->address));
    if (entry->taken.origin.depth == kMostLentOn)
        return base::error(Status::kUnsupported, "the memory at {} has been lent on {} times: give it back first",
                           static_cast<const void*>(source->address), kMostLentOn);
    if (const WorldRank owner{entry->taken.origin.owner}; core_.peer(owner).lost())
        return base::error(Status::kPeerLost, "rank {}, whose memory is at {}, has died: give it back", owner.value,
                           static_cast<const void*>(source->address));
    lent.origin = entry->taken.origin;
    ++lent.origin.depth;
    lent.loan_of = source->loan;
    lent.lent_on = task.comm->group().world(Rank{task.peer}) == core_.self() ? nullptr : &entry->taken;
    return {};
}

Request& Loans::start(const Task& task, const LoanTask& lent, std::unique_ptr<LoanDescription> description) {
    Request& request = core_.requests().take(task);
    request.lent = lent;
    request.description = std::move(description);
    requests_.begin(request);
    return request;
}

// Whoever asks what is lent is told who has borrowed it, although this rank may make no call for long.
void Loans::keep_watch() {
    background_.keep_watch();
    if (!background_.on_duty())
        background_.leave_to();
}

std::optional<base::Error> Loans::take_refusal(Request& request) {
    const base::Error* const error = request.error();
    if (error == nullptr || error->status != Status::kUnsupported)
        return std::nullopt;
    std::optional<base::Error> refused = *error;
    core_.requests().end(request);
    core_.requests().release(request);
    return refused;
}

Result<uint64_t> Loans::lend(const Task& task, transfer::Loan what, std::unique_ptr<LoanDescription> description) {
    const EngineLock lock(core_.mutex());
    LoanTask lent{.loan = what};
    if (task.peer != kProcNull)
        GPURUN_TRY(find_source(task, lent, description.get()));
    Request& request = start(task, lent, std::move(description));
    if (auto refused = take_refusal(request))
        return *std::move(refused);
    keep_watch();
    return request.name;
}

Result<void> Loans::check_reaches_all(const Group& group) {
    for (const WorldRank each : group.members())
        if (!core_.peer(each).to_self() && !core_.peer(each).channel().shares_memory())
            return transfer::cannot_be_lent(core_.peer(each));
    return {};
}

LoanToAll& Loans::take_unused() {
    for (LoanToAll& each : to_all_)
        if (!each.in_use())
            return each;
    return to_all_.emplace_back(core_.requests());
}

// They differ in nothing but their rank, so what refuses the first one refuses all. What fails of a later one is told
// when the request is completed.
Result<uint64_t> Loans::lend_to_all(Task task, transfer::Loan what, const LoanDescription* description) {
    const EngineLock lock(core_.mutex());
    const Group& group = task.comm->group();
    GPURUN_TRY(check_reaches_all(group));
    std::vector<std::pair<Task, LoanTask>> loans;
    for (task.peer = 0; task.peer < group.size(); ++task.peer) {
        if (group.world(Rank{task.peer}) == core_.self())
            continue;
        auto& [of, lent] = loans.emplace_back(task, LoanTask{.loan = what, .together = true});
        GPURUN_TRY(find_source(of, lent, description));
    }
    LoanToAll& all = take_unused();
    for (const auto& [of, lent] : loans) {
        auto copy = description != nullptr ? std::make_unique<LoanDescription>() : nullptr;
        if (copy)
            copy->tensors = description->tensors;
        Request& request = start(of, lent, std::move(copy));
        if (!all.in_use())
            if (auto refused = take_refusal(request))
                return *std::move(refused);
        all.add(request);
    }
    task.peer = kProcNull;
    Request& request = core_.requests().take(task);
    request.lent = {.loan = what, .since_ns = platform::now_ns()};
    request.active = true;
    if (all.in_use()) { // else this rank is alone
        request.collective = &all;
        core_.requests().note_started();
    }
    keep_watch();
    return request.name;
}

Result<void> Loans::check_not_lent(const void* address, size_t bytes) {
    const EngineLock lock(core_.mutex());
    const LentMemory& lent = core_.requests().lent();
    if (lent.find(address, bytes) == nullptr)
        return {};
    return base::error(Status::kLoan,
                       "the allocation at {} is lent to {}: complete these loans with gpurun_wait() first", address,
                       borrowers_of(lent, address, bytes));
}

Result<void> Loans::check_not_lent_on(const Entry& entry) {
    const LentMemory& lent = core_.requests().lent();
    if (!lent.lends_on(entry.name))
        return {};
    const Request* on = nullptr;
    lent.for_each([&](const Request& each) { on = each.lent.loan_of == entry.name ? &each : on; });
    GPURUN_ASSERT(on != nullptr); // only memory of some bytes has a loan that it is lent on by
    return is_lent(entry.borrowed.address, *on, kWaitFirst);
}

Result<std::optional<device::Buffer>> Loans::look_up(const void* address, size_t bytes, bool writes) {
    std::optional<device::Buffer> found;
    const bool any_exclusive = core_.lends_exclusively();
    if (!any_exclusive && !any_mapped_.load(std::memory_order_relaxed))
        return found;
    const EngineLock lock(core_.mutex());
    if (const Request* const loan = find_lent(address, bytes, false, find_span(address, bytes, writes)))
        return is_lent(address, *loan, "this rank must not use it until it has come back");
    const auto first = reinterpret_cast<uintptr_t>(address);
    const auto* const span = mapped_.furthest(first + 1);
    if (span == nullptr || span->end <= first)
        return found;
    const Borrowed& loan = *span->owner;
    if (span->end < first + bytes)
        return base::error(Status::kBuffer,
                           "the {} bytes at {} reach past what is borrowed, {} bytes at {}: use no more", bytes,
                           address, loan.bytes, static_cast<const void*>(loan.address));
    if (const auto* const written = writes ? writable_.furthest(first + 1) : span;
        written == nullptr || written->end < first + bytes)
        return base::error(Status::kBuffer, "the {} bytes at {} are borrowed read-only: copy them, and write the copy",
                           bytes, address);
    found.emplace();
    found->placement = loan.placement;
    found->base = loan.address;
    found->size = loan.bytes;
    return found;
}

} // namespace gpurun::comm
