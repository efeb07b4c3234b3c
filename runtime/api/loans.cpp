// Loans: lending, which starts a request, borrowing and giving back.
#include "api/call.hpp"
#include "base/format.hpp"

#include <algorithm>
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
              static_cast<int>(LoanKind::kShared) == GPURUN_LOAN_SHARED);

Result<LoanKind> check_kind(gpurun_loan_kind kind) {
    if (kind < GPURUN_LOAN_READ_ONLY || kind > GPURUN_LOAN_SHARED)
        return base::error(Status::kArgument,
                           "{} is no kind of loan: use GPURUN_LOAN_READ_ONLY, GPURUN_LOAN_EXCLUSIVE or "
                           "GPURUN_LOAN_SHARED",
                           static_cast<int>(kind));
    return static_cast<LoanKind>(kind);
}

const char* what_is(const device::Buffer& where) {
    switch (where.placement) {
    case Placement::kPageable: return "host memory";
    case Placement::kPinned: return "pinned host memory";
    case Placement::kManaged: return "managed memory";
    case Placement::kElsewhere: return "memory of another device";
    case Placement::kDevice: break;
    }
    return "memory of cudaMallocAsync(), or that was mapped or imported";
}

// Another process can map only what the device exports.
Result<void> check_lendable(const Operand& lent) {
    if (lent.bytes == 0 || (lent.where.placement == Placement::kDevice && lent.where.exportable))
        return {};
    return base::error(Status::kUnsupported,
                       "{} is {}, which other processes cannot map: lend memory of gpurun_malloc() or cudaMalloc(), or "
                       "send this with gpurun_send()",
                       static_cast<const void*>(lent.address), what_is(lent.where));
}

Result<void> fill_order(Operand& order, Runtime& runtime, gpurun_stream stream, const char* what) {
    GPURUN_TRY(fill_operand(order, runtime, Access::kRead, nullptr, 0, stream));
    return refuse_captured(order, what);
}

} // namespace

// The one that a tensor's bytes lie in, from the first of them on.
static Result<size_t> allocation_of(Runtime& runtime, comm::TensorList& list, const comm::TensorList::Extent& extent,
                                    bool to_self) {
    const std::byte* const end = extent.first + extent.bytes;
    std::vector<comm::TensorList::Allocation>& known = list.allocations();
    for (size_t i = known.size(); i-- > 0;) { // the last one is the likeliest
        const auto* const base = static_cast<const std::byte*>(known[i].operand.where.base);
        if (base == nullptr || extent.first < base || end > base + known[i].operand.where.size)
            continue;
        known[i].first = std::min(known[i].first, extent.first);
        known[i].end = std::max(known[i].end, end);
        return i;
    }
    Operand operand;
    GPURUN_TRY(fill_operand(operand, runtime, Access::kRead, extent.first, extent.bytes, GPURUN_HOST));
    if (!to_self)
        GPURUN_TRY(check_lendable(operand));
    if (operand.where.base != nullptr) {
        operand.address = static_cast<std::byte*>(operand.where.base);
        operand.bytes = operand.where.size;
    }
    known.push_back({operand, extent.first, end});
    return known.size() - 1;
}

static Result<void> add_tensors(Runtime& runtime, comm::TensorList& list, std::span<const DLTensor> tensors,
                                const char* const* names, bool to_self) {
    for (size_t i = 0; i < tensors.size(); ++i) {
        auto extent = comm::TensorList::extent_of(tensors[i]);
        if (!extent)
            return base::error(extent.error().status, "tensor {} cannot be lent: {}", i, extent.error().detail);
        size_t allocation = comm::TensorList::kNowhere;
        if (extent->bytes != 0) {
            GPURUN_ASSIGN(allocation, allocation_of(runtime, list, *extent, to_self));
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
};

static Result<void> lend_tensors(const Lending& how, std::span<const DLTensor> tensors, const char* const* names,
                                 std::span<const std::byte> metadata, gpurun_request* ret_request) {
    GPURUN_TRY(refuse_in_group("gpurun_lend_tensors"));
    Call call;
    GPURUN_TRY(enter(call, how.comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_TRY(check_rank(*call.comm, how.dest, "destination", false));
    GPURUN_TRY(check_tag(how.tag, false));
    if (tensors.size() > GPURUN_LOAN_TENSORS_MAX || metadata.size() > GPURUN_LOAN_METADATA_MAX)
        return base::error(Status::kCount, "{} tensors and {} bytes of metadata: a loan has up to {} and {}",
                           tensors.size(), metadata.size(), GPURUN_LOAN_TENSORS_MAX, GPURUN_LOAN_METADATA_MAX);
    if ((tensors.data() == nullptr && !tensors.empty()) || (metadata.data() == nullptr && !metadata.empty()))
        return base::error(Status::kArgument, "tensors, or metadata, is NULL, but should have some");
    comm::Task task{.kind = comm::Task::Kind::kLend,
                    .type = static_cast<int>(GPURUN_BYTE),
                    .peer = how.dest,
                    .tag = how.tag,
                    .comm = call.comm};
    GPURUN_ASSIGN(task.loan.kind, check_kind(how.kind));
    task.loan.has_tensors = true;
    GPURUN_TRY(fill_order(task.operand, *call.runtime, how.stream, "lending"));
    comm::Engine& engine = call.runtime->engine();
    const bool to_self =
        how.dest == GPURUN_PROC_NULL || call.comm->group().world(comm::Rank{how.dest}) == engine.self();
    auto description = std::make_unique<comm::LoanDescription>();
    GPURUN_TRY(add_tensors(*call.runtime, description->tensors, tensors, names, to_self));
    description->tensors.set_metadata(metadata);
    GPURUN_ASSIGN(ret_request->id, engine.loans().lend(task, std::move(description)));
    return {};
}

static Result<void> lend(void* buffer, size_t bytes, gpurun_loan_kind kind, int dest, int tag, gpurun_comm comm,
                         gpurun_stream stream, gpurun_request* ret_request) {
    GPURUN_TRY(refuse_in_group("gpurun_lend"));
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_request, "ret_request"));
    GPURUN_TRY(check_rank(*call.comm, dest, "destination", false));
    GPURUN_TRY(check_tag(tag, false));
    comm::Task task{.kind = comm::Task::Kind::kLend,
                    .type = static_cast<int>(GPURUN_BYTE),
                    .peer = dest,
                    .tag = tag,
                    .comm = call.comm};
    GPURUN_ASSIGN(task.loan.kind, check_kind(kind));
    GPURUN_TRY(fill_operand(task.operand, *call.runtime, Access::kRead, buffer, bytes, stream));
    GPURUN_TRY(refuse_captured(task.operand, "lending"));
    comm::Engine& engine = call.runtime->engine();
    if (dest != GPURUN_PROC_NULL && call.comm->group().world(comm::Rank{dest}) != engine.self())
        GPURUN_TRY(check_lendable(task.operand));
    GPURUN_ASSIGN(ret_request->id, engine.loans().lend(task));
    return {};
}

static Result<void> borrow(int source, int tag, gpurun_comm comm, gpurun_stream stream, gpurun_loan* ret_loan,
                           gpurun_message_status* ret_status, platform::TraceEvent* event) {
    GPURUN_TRY(refuse_in_group("gpurun_borrow"));
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_loan, "ret_loan"));
    GPURUN_TRY(check_rank(*call.comm, source, "source", true));
    GPURUN_TRY(check_tag(tag, true));
    Operand order;
    GPURUN_TRY(fill_order(order, *call.runtime, stream, "borrowing"));
    Arrived from;
    gpurun_loan loan = GPURUN_LOAN_NULL;
    if (source != GPURUN_PROC_NULL) {
        const comm::CommunicatorUse use(*call.comm);
        comm::Loans& loans = call.runtime->engine().loans();
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
    GPURUN_ASSIGN(const comm::Loans::Borrowed borrowed, found->engine().loans().find(loan.id));
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
    GPURUN_ASSIGN(const comm::Loans::Borrowed borrowed, found->engine().loans().find(loan.id));
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
    GPURUN_ASSIGN(const comm::Loans::Borrowed borrowed, found->engine().loans().find(loan.id));
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
    auto given = found->engine().loans().give_back(loan->id, {order.domain, order.stream});
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
    return api::report(api::lend(buffer, bytes, kind, dest, tag, comm, stream, ret_request));
}

gpurun_status gpurun_lend_tensors(const struct DLTensor* tensors, const char* const* names, size_t count,
                                  const void* metadata, size_t metadata_bytes, gpurun_loan_kind kind, int dest, int tag,
                                  gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = dest, .tag = tag, .count = count});
    return api::report(api::lend_tensors({kind, dest, tag, comm, stream}, {tensors, count}, names,
                                         {static_cast<const std::byte*>(metadata), metadata_bytes}, ret_request));
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
