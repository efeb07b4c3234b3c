// Loans: lending, which starts a request, borrowing and giving back.
#include "api/call.hpp"
#include "base/format.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;
using comm::Arrived;
using device::Placement;
using transfer::LoanKind;
using transfer::Operand;

static_assert(static_cast<int>(LoanKind::kReadOnly) == GPURUN_LOAN_READ_ONLY &&
              static_cast<int>(LoanKind::kExclusive) == GPURUN_LOAN_EXCLUSIVE &&
              static_cast<int>(LoanKind::kShared) == GPURUN_LOAN_SHARED &&
              static_cast<int>(LoanKind::kReadOrCopy) == GPURUN_LOAN_READ_OR_COPY &&
              static_cast<int>(LoanKind::kCopy) == GPURUN_LOAN_COPY);

Result<LoanKind> check_kind(gpurun_loan_kind kind) {
    if (kind < GPURUN_LOAN_READ_ONLY || kind > GPURUN_LOAN_READ_OR_COPY)
        return base::error(Status::kArgument,
                           "{} is no kind in which memory is lent: use GPURUN_LOAN_READ_ONLY, "
                           "GPURUN_LOAN_EXCLUSIVE, GPURUN_LOAN_SHARED or GPURUN_LOAN_READ_OR_COPY",
                           static_cast<int>(kind));
    return static_cast<LoanKind>(kind);
}

const char* what_is(const device::Buffer& where) {
    switch (where.placement) {
    case Placement::kPageable: return "host memory";
    case Placement::kPinned:
        return "pinned host memory that has no descriptor: not of gpurun_malloc_host(), or beyond a quarter of the "
               "limit of open files (ulimit -n)";
    case Placement::kManaged: return "managed memory";
    case Placement::kElsewhere: return "memory of another device";
    case Placement::kDevice: break;
    }
    return "memory of cudaMallocAsync(), or imported, or of cuMemMap() without descriptors for other processes";
}

// Nothing that is borrowed of a rank of one job goes to a rank of another, who knows no owner of it; and what is lent
// in one job is not lent exclusively in another.
Result<void> check_other_jobs(const Call& call, transfer::LoanKind kind, const void* address, size_t bytes) {
    if (bytes == 0 || call.runtime->joint_worlds().empty()) [[likely]]
        return {};
    return call.runtime->for_each_engine([&](comm::Engine& each) -> Result<void> {
        if (&each == call.engine)
            return {};
        if (each.loans().has_borrowed(address, bytes))
            return base::error(Status::kLoan,
                               "{} is borrowed in another job: it can be lent on there, and sent here as a message",
                               address);
        return kind == LoanKind::kExclusive ? each.loans().check_not_lent(address, bytes) : Result<void>();
    });
}

// Another process can map only what the device exports, here or at the rank that this one has borrowed it of.
Result<void> check_lendable(const Call& call, const Operand& lent) {
    if (lent.bytes == 0 || lent.where.exportable || call.engine->loans().has_borrowed(lent.address, lent.bytes))
        return {};
    return base::error(
        Status::kUnsupported,
        "{} is {}, which other processes cannot map: lend memory of gpurun_malloc(), "
        "gpurun_malloc_host() or cudaMalloc(), send this with gpurun_send(), or lend it as GPURUN_LOAN_READ_OR_COPY",
        static_cast<const void*>(lent.address), what_is(lent.where));
}

Result<void> fill_order(Operand& order, Runtime& runtime, gpurun_stream stream, const char* what) {
    GPURUN_TRY(fill_operand(order, runtime, Access::kRead, nullptr, 0, stream));
    return refuse_captured(order, what);
}

} // namespace

// The allocations of a loan's tensors, by address, while the tensors are added.
class AllocationFinder {
  public:
    // `any_kind`: the memory need not be mapped by others.
    AllocationFinder(const Call& call, LoanKind kind, comm::TensorList& list, bool any_kind)
        : call_(call), kind_(kind), list_(list), any_kind_(any_kind) {}

    // The one that a tensor's bytes lie in, from the first of them on.
    Result<size_t> find(const comm::TensorList::Extent& extent) {
        GPURUN_TRY(check_other_jobs(call_, kind_, extent.first, extent.bytes));
        if (const std::optional<size_t> index = find_known(extent)) {
            comm::TensorList::Allocation& known = list_.allocations()[*index];
            known.first = std::min(known.first, extent.first);
            known.end = std::max(known.end, extent.first + extent.bytes);
            return *index;
        }
        Operand operand;
        GPURUN_TRY(fill_operand(operand, *call_.runtime, Access::kRead, extent.first, extent.bytes, GPURUN_HOST));
        if (!any_kind_)
            GPURUN_TRY(check_lendable(call_, operand));
        const size_t index = list_.allocations().size();
        if (operand.where.base != nullptr) {
            operand.address = static_cast<std::byte*>(operand.where.base);
            operand.bytes = operand.where.size;
            by_base_.insert_or_assign(operand.address, index); // of several that are in pieces, the longest
        }
        list_.allocations().push_back({operand, extent.first, extent.first + extent.bytes});
        return index;
    }

  private:
    // Allocations do not overlap, unless they are in pieces: then one that would do may not be found.
    std::optional<size_t> find_known(const comm::TensorList::Extent& extent) const {
        const auto next = by_base_.upper_bound(extent.first);
        if (next == by_base_.begin())
            return std::nullopt;
        const auto& [base, index] = *std::prev(next);
        const size_t offset = static_cast<size_t>(extent.first - base);
        const size_t bytes = list_.allocations()[index].operand.bytes;
        return offset <= bytes && extent.bytes <= bytes - offset ? std::optional(index) : std::nullopt;
    }

    const Call& call_;
    const LoanKind kind_;
    comm::TensorList& list_;
    const bool any_kind_;
    std::map<const std::byte*, size_t> by_base_;
};

// A receive of a single tensor without gaps gets a copy, as that of a buffer. Of others it gets their order alone.
static Result<void> fill_received(Operand& operand, Runtime& runtime, std::span<const DLTensor> tensors,
                                  gpurun_stream stream) {
    if (tensors.size() != 1)
        return {};
    GPURUN_ASSIGN(const comm::TensorList::Extent extent, comm::TensorList::extent_of(tensors[0]));
    if (extent.bytes == 0 || !extent.compact)
        return {};
    return fill_operand(operand, runtime, Access::kRead, extent.first, extent.bytes, stream);
}

static Result<void> add_tensors(const Call& call, LoanKind kind, comm::TensorList& list,
                                std::span<const DLTensor> tensors, const char* const* names, bool any_kind) {
    AllocationFinder allocations(call, kind, list, any_kind);
    for (size_t i = 0; i < tensors.size(); ++i) {
        auto extent = comm::TensorList::extent_of(tensors[i]);
        if (!extent)
            return base::error(extent.error().status, "tensor {} cannot be lent: {}", i, extent.error().detail);
        size_t allocation = comm::TensorList::kNowhere;
        if (extent->bytes != 0) {
            GPURUN_ASSIGN(allocation, allocations.find(*extent));
        }
        list.add(tensors[i], names != nullptr ? names[i] : nullptr, allocation);
    }
    return {};
}

// What a call that lends gives, but the memory.
struct Lending {
    gpurun_loan_kind kind;
    int dest;
    int tag;
    gpurun_comm comm;
    gpurun_stream stream;
    gpurun_request* ret_request;
};

// Checks all of it but the stream, which the memory is looked up with.
static Result<comm::Task> begin_lending(Call& call, LoanKind& kind, const Lending& how, const char* name) {
    GPURUN_TRY(refuse_in_group(name));
    GPURUN_TRY(enter(call, how.comm));
    GPURUN_TRY(check_output(how.ret_request, "ret_request"));
    if (how.dest != GPURUN_ALL_RANKS)
        GPURUN_TRY(check_rank(call, how.dest, "destination", false));
    GPURUN_TRY(check_tag(how.tag, false));
    comm::Task task{.kind = comm::Task::Kind::kLend,
                    .type = static_cast<int>(GPURUN_BYTE),
                    .peer = how.dest,
                    .tag = how.tag,
                    .comm = call.comm};
    GPURUN_ASSIGN(kind, check_kind(how.kind));
    if (how.dest == GPURUN_ALL_RANKS && kind == LoanKind::kExclusive)
        return base::error(Status::kArgument,
                           "what is lent exclusively has one borrower: lend it to all ranks read-only "
                           "or shared, or to one rank");
    return task;
}

// To itself, or to nobody, a rank lends memory of any kind.
static bool stays_here(const Call& call, int dest) {
    if (dest == GPURUN_ALL_RANKS)
        return call.comm->size() == 1;
    return dest == GPURUN_PROC_NULL || call.comm->group().world(comm::Rank{dest}) == call.engine->self();
}

static Result<void> lend_tensors(const Lending& how, std::span<const DLTensor> tensors, const char* const* names,
                                 std::span<const std::byte> metadata) {
    Call call;
    transfer::Loan loan{.has_tensors = true};
    GPURUN_ASSIGN(comm::Task task, begin_lending(call, loan.kind, how, "gpurun_lend_tensors"));
    if (tensors.size() > GPURUN_LOAN_TENSORS_MAX || metadata.size() > GPURUN_LOAN_METADATA_MAX)
        return base::error(Status::kCount, "{} tensors and {} bytes of metadata: a loan has up to {} and {}",
                           tensors.size(), metadata.size(), GPURUN_LOAN_TENSORS_MAX, GPURUN_LOAN_METADATA_MAX);
    if ((tensors.data() == nullptr && !tensors.empty()) || (metadata.data() == nullptr && !metadata.empty()))
        return base::error(Status::kArgument, "tensors, or metadata, is NULL, but should have some");
    GPURUN_TRY(fill_order(task.operand, *call.runtime, how.stream, "lending"));
    auto description = std::make_unique<comm::LoanDescription>();
    GPURUN_TRY(fill_received(task.operand, *call.runtime, tensors, how.stream));
    const bool is_copied = loan.kind == LoanKind::kReadOrCopy && task.operand.bytes != 0;
    GPURUN_TRY(
        add_tensors(call, loan.kind, description->tensors, tensors, names, is_copied || stays_here(call, how.dest)));
    description->tensors.set_metadata(metadata);
    comm::Loans& loans = call.engine->loans();
    GPURUN_ASSIGN(how.ret_request->id, how.dest == GPURUN_ALL_RANKS ? loans.lend_to_all(task, loan, description.get())
                                                                    : loans.lend(task, loan, std::move(description)));
    return {};
}

static Result<void> lend(const Lending& how, void* buffer, size_t bytes) {
    Call call;
    transfer::Loan loan;
    GPURUN_ASSIGN(comm::Task task, begin_lending(call, loan.kind, how, "gpurun_lend"));
    GPURUN_TRY(fill_operand(task.operand, *call.runtime, Access::kRead, buffer, bytes, how.stream));
    GPURUN_TRY(refuse_captured(task.operand, "lending"));
    GPURUN_TRY(check_other_jobs(call, loan.kind, buffer, bytes));
    if (!stays_here(call, how.dest) && loan.kind != LoanKind::kReadOrCopy)
        GPURUN_TRY(check_lendable(call, task.operand));
    comm::Loans& loans = call.engine->loans();
    GPURUN_ASSIGN(how.ret_request->id,
                  how.dest == GPURUN_ALL_RANKS ? loans.lend_to_all(task, loan) : loans.lend(task, loan));
    return {};
}

static Result<void> borrow(int source, int tag, gpurun_comm comm, gpurun_stream stream, gpurun_loan* ret_loan,
                           gpurun_message_status* ret_status, platform::TraceEvent* event) {
    GPURUN_TRY(refuse_in_group("gpurun_borrow"));
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_loan, "ret_loan"));
    GPURUN_TRY(check_rank(call, source, "source", true));
    GPURUN_TRY(check_tag(tag, true));
    Operand order;
    GPURUN_TRY(fill_order(order, *call.runtime, stream, "borrowing"));
    Arrived from;
    gpurun_loan loan = GPURUN_LOAN_NULL;
    if (source != GPURUN_PROC_NULL) {
        const comm::CommunicatorUse use(*call.comm);
        comm::Loans& loans = call.engine->loans();
        const auto pattern = comm::Pattern::of(call.comm->group(), call.comm->user_context(), source, tag);
        GPURUN_ASSIGN(loan.id, loans.borrow(pattern, order, event, from));
    }
    *ret_loan = loan;
    if (ret_status != nullptr)
        fill_status(from, GPURUN_BYTE, Status::kOk, false, *ret_status);
    return {};
}

static Result<void> loan_buffer(gpurun_loan loan, void** ret_buffer, size_t* ret_bytes, gpurun_loan_kind* ret_kind) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_buffer, "ret_buffer"));
    GPURUN_ASSIGN(const comm::Loans::Borrowed borrowed, found->engine_of(loan.id).loans().find(loan.id));
    *ret_buffer = borrowed.address;
    if (ret_bytes != nullptr)
        *ret_bytes = borrowed.bytes;
    if (ret_kind != nullptr)
        *ret_kind = static_cast<gpurun_loan_kind>(borrowed.kind);
    return {};
}

static Result<void> loan_tensors(gpurun_loan loan, const DLTensor** ret_tensors, const char* const** ret_names,
                                 size_t* ret_count) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_tensors, "ret_tensors"));
    GPURUN_TRY(check_output(ret_count, "ret_count"));
    GPURUN_ASSIGN(const comm::Loans::Borrowed borrowed, found->engine_of(loan.id).loans().find(loan.id));
    const comm::BorrowedTensors* const tensors = borrowed.tensors;
    *ret_tensors = tensors != nullptr ? tensors->tensors().data() : nullptr;
    *ret_count = tensors != nullptr ? tensors->tensors().size() : 0;
    if (ret_names != nullptr)
        *ret_names = tensors != nullptr ? tensors->names().data() : nullptr;
    return {};
}

static Result<void> loan_metadata(gpurun_loan loan, const void** ret_metadata, size_t* ret_bytes) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_metadata, "ret_metadata"));
    GPURUN_TRY(check_output(ret_bytes, "ret_bytes"));
    GPURUN_ASSIGN(const comm::Loans::Borrowed borrowed, found->engine_of(loan.id).loans().find(loan.id));
    const auto metadata = borrowed.tensors != nullptr ? borrowed.tensors->metadata() : std::span<const std::byte>();
    *ret_metadata = metadata.empty() ? nullptr : metadata.data();
    *ret_bytes = metadata.size();
    return {};
}

static Result<void> give_back(gpurun_loan* loan, gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (loan == nullptr)
        return base::error(Status::kArgument, "loan is NULL: pass the address of the loan");
    Operand order;
    GPURUN_TRY(fill_order(order, *found, stream, "giving a loan back"));
    if (loan->id == GPURUN_LOAN_NULL.id)
        return {};
    auto given = found->engine_of(loan->id).loans().give_back(loan->id, {order.domain, order.stream});
    if (given || given.error().status == Status::kPeerLost)
        *loan = GPURUN_LOAN_NULL;
    return given;
}

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_lend(void* buffer, size_t bytes, gpurun_loan_kind kind, int dest, int tag, gpurun_comm comm,
                          gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {dest, tag, static_cast<int>(GPURUN_BYTE), bytes});
    return api::report(api::lend({kind, dest, tag, comm, stream, ret_request}, buffer, bytes));
}

gpurun_status gpurun_lend_tensors(const struct DLTensor* tensors, const char* const* names, size_t count,
                                  const void* metadata, size_t metadata_bytes, gpurun_loan_kind kind, int dest, int tag,
                                  gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = dest, .tag = tag, .count = count});
    return api::report(api::lend_tensors({kind, dest, tag, comm, stream, ret_request}, {tensors, count}, names,
                                         {static_cast<const std::byte*>(metadata), metadata_bytes}));
}

gpurun_status gpurun_borrow(int source, int tag, gpurun_comm comm, gpurun_stream stream, gpurun_loan* ret_loan,
                            gpurun_message_status* ret_status) {
    const api::CallScope call(__func__, {source, tag});
    return api::report(api::borrow(source, tag, comm, stream, ret_loan, ret_status, call.event()));
}

gpurun_status gpurun_loan_buffer(gpurun_loan loan, void** ret_buffer, size_t* ret_bytes, gpurun_loan_kind* ret_kind) {
    const api::CallScope call(__func__);
    return api::report(api::loan_buffer(loan, ret_buffer, ret_bytes, ret_kind));
}

gpurun_status gpurun_loan_tensors(gpurun_loan loan, const struct DLTensor** ret_tensors, const char* const** ret_names,
                                  size_t* ret_count) {
    const api::CallScope call(__func__);
    return api::report(api::loan_tensors(loan, ret_tensors, ret_names, ret_count));
}

gpurun_status gpurun_loan_metadata(gpurun_loan loan, const void** ret_metadata, size_t* ret_bytes) {
    const api::CallScope call(__func__);
    return api::report(api::loan_metadata(loan, ret_metadata, ret_bytes));
}

gpurun_status gpurun_give_back(gpurun_loan* loan, gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::give_back(loan, stream));
}

} // extern "C"
