#include "transfer/protocol/loan_part.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "transfer/protocol/pull.hpp"

namespace gpurun::transfer {

using base::Result;
using base::Status;

bool LoanPart::waits_to_map(const RemoteBuffer& lent) {
    ImportCache* const imports = peer_.memory().open_imports();
    return lent.exportable() && imports != nullptr && !imports->can_open(lent) && imports->can_open_later(lent);
}

Result<const std::byte*> LoanPart::map(const RemoteBuffer& lent) {
    if (peer_.to_self()) // if it comes back as a loan, its address is that at the rank that has lent it on
        return reinterpret_cast<const std::byte*>(lent.exporter == Exporter::kOwner ? lent.allocation_base + lent.offset
                                                                                    : lent.address);
    Registration& memory = peer_.memory();
    if (!lent.exportable())
        return base::error(Status::kUnsupported, "the lent memory of rank {} cannot be mapped by other processes",
                           peer_.rank().value);
    if (peer_.channel().is_gone() && lent.needs_descriptors() && !memory.has_mapped(lent.allocation_id))
        return base::error(Status::kPeerLost, "rank {} has died, whose memory was lent and is not mapped here",
                           peer_.rank().value);
    if (!lent.in_host_memory() && !is_direct(memory.reach()))
        return base::error(Status::kUnsupported,
                           "the lent memory of rank {} cannot be borrowed here, since {}: receive it with "
                           "gpurun_recv(), which copies it and gives the loan back",
                           peer_.rank().value,
                           memory.reach() == Reach::kNoPeerAccess
                               ? "this rank's device has no access to the other's"
                               : "a test of direct copies between the devices has failed");
    if (!memory.maps(lent))
        return base::error(Status::kDevice,
                           "the lent memory of rank {} could not be mapped (GPURUN_LOG=warn tells why): receive it "
                           "with gpurun_recv(), which copies it and gives the loan back",
                           peer_.rank().value);
    GPURUN_ASSIGN(ImportCache * imports, memory.imports());
    if (memory.has_to_unmap()) // such as what the new mapping has shown to be stale
        peer_.attend(PullPart::kProtocol);
    return imports->borrow(lent);
}

void LoanPart::unmap(uint64_t allocation_id, const std::optional<CompletionPoint>& end) {
    if (peer_.to_self())
        return;
    peer_.memory().open_imports()->give_back(allocation_id, end);
    if (peer_.memory().has_to_unmap())
        peer_.attend(PullPart::kProtocol);
}

bool LoanPart::in_use_by_streams(uint64_t allocation_id) {
    const ImportCache* const imports = peer_.memory().open_imports();
    return imports != nullptr && imports->in_use_by_streams(allocation_id);
}

void LoanPart::tell(uint64_t serial, const LoanAnswer& answer) {
    if (peer_.lost() && peer_.channel().has_ended())
        return;
    peer_.tell(Record(RecordKind::kToSend, kProtocol, serial).with(answer));
}

Result<void> LoanPart::give_back(const Borrowing& loan, std::optional<device::Stream> stream) {
    if (!stream) {
        end(loan, {}, std::nullopt);
        return {};
    }
    if (peer_.lost()) // edges between them mean nothing any more
        return return_behind(loan, *stream);
    resources_.exchanges.launch(); // before what this may let the lender's stream wait for
    GPURUN_ASSIGN(const uint64_t name, resources_.device.name(*stream));
    GPURUN_ASSIGN(Fence * fence, peer_.fence_out());
    GPURUN_ASSIGN(const std::optional<Slot> slot, slots_.take(*fence, name));
    if (!slot)
        return return_behind(loan, *stream);
    GPURUN_TRY(fence->signal(Edge::kForward, *slot, *stream));
    end(loan, *slot, CompletionPoint::at(*fence, Edge::kForward, *slot));
    return {};
}

Result<void> LoanPart::return_behind(const Borrowing& loan, device::Stream stream) {
    GPURUN_ASSIGN(const Marker marker, resources_.pools.markers.set(stream));
    returning_.push_back({loan, marker});
    ++resources_.returning;
    peer_.attend(kProtocol);
    return {};
}

void LoanPart::end(const Borrowing& loan, const Slot& edge, const std::optional<CompletionPoint>& end) {
    for (const Borrowing::Part& each : loan.parts)
        each.owner->part<LoanPart>().unmap(each.lent.allocation_id, end);
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
        end(each.loan, {}, std::nullopt);
        return true;
    });
    return returning_.size() != before;
}

} // namespace gpurun::transfer
