#include "transfer/protocol/loan_part.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "transfer/protocol/pull.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using base::Status;

bool LoanPart::waits_to_map(const RemoteBuffer& lent) {
    ImportCache* const imports = peer_.memory().open_imports();
    return lent.exportable != 0 && imports != nullptr && !imports->can_open(lent) && imports->can_open_later(lent);
}

Result<const std::byte*> LoanPart::map(const RemoteBuffer& lent) {
    if (peer_.to_self())
        return reinterpret_cast<const std::byte*>(lent.address);
    Registration& memory = peer_.memory();
    if (const Reach reach = memory.reach(); !is_direct(reach))
        return base::error(Status::kUnsupported,
                           "the memory that rank {} lends cannot be borrowed here, since {}: receive it with "
                           "gpurun_recv(), which copies it and gives the loan back",
                           peer_.rank().value,
                           reach == Reach::kNoPeerAccess ? "this rank's device has no access to the other's"
                                                         : "a test of direct copies between the devices has failed");
    if (!memory.maps(lent))
        return base::error(Status::kDevice,
                           "the memory that rank {} lends could not be mapped (GPURUN_LOG=warn tells why): receive it "
                           "with gpurun_recv(), which copies it and gives the loan back",
                           peer_.rank().value);
    GPURUN_ASSIGN(ImportCache * imports, memory.imports());
    return imports->borrow(lent);
}

void LoanPart::unmap(const Taken& loan, const std::optional<CompletionPoint>& end) {
    if (!loan.mapped)
        return;
    peer_.memory().open_imports()->give_back(loan.allocation_id, end);
    if (peer_.memory().has_revoked())
        peer_.attend(PullPart::kProtocol);
}

void LoanPart::tell(uint64_t serial, const LoanAnswer& answer) {
    if (peer_.lost())
        return;
    peer_.tell(Record(RecordKind::kToSend, kProtocol, serial).with(answer),
               answer.what == LoanAnswer::What::kBorrowed ? Notify::kIfSleeping : Notify::kAlways);
}

Result<void> LoanPart::give_back(const Taken& loan, std::span<const Taken> others,
                                 std::optional<device::Stream> stream) {
    if (!stream) {
        end(loan, others, {}, std::nullopt);
        return {};
    }
    resources_.exchanges.launch(); // before what this may let the lender's stream wait for
    GPURUN_ASSIGN(const uint64_t name, resources_.device.name(*stream));
    GPURUN_ASSIGN(Fence * fence, peer_.fence_out());
    GPURUN_ASSIGN(const std::optional<Slot> slot, slots_.take(*fence, name));
    if (!slot) {
        GPURUN_ASSIGN(const Marker marker, resources_.pools.markers.set(*stream));
        returning_.push_back({loan, {others.begin(), others.end()}, marker});
        ++resources_.returning;
        peer_.attend(kProtocol);
        return {};
    }
    GPURUN_TRY(fence->signal(Edge::kForward, *slot, *stream));
    end(loan, others, *slot, CompletionPoint::at(*fence, Edge::kForward, *slot));
    return {};
}

void LoanPart::end(const Taken& loan, std::span<const Taken> others, const Slot& edge,
                   const std::optional<CompletionPoint>& end) {
    unmap(loan, end);
    for (const Taken& each : others)
        unmap(each, end);
    tell(loan.serial, {LoanAnswer::What::kGivenBack, edge});
}

bool LoanPart::progress() {
    const size_t before = returning_.size();
    std::erase_if(returning_, [&](Returning& each) {
        auto passed = resources_.device.query(each.marker->event);
        if (passed && !*passed)
            return false;
        if (!passed)
            base::log(base::LogLevel::kWarn, "giving back to rank {}: {}", peer_.rank().value, passed.error().detail);
        resources_.pools.markers.give_back(each.marker);
        --resources_.returning;
        end(each.loan, each.others, {}, std::nullopt);
        return true;
    });
    return returning_.size() != before;
}

} // namespace gpurun::transfer
