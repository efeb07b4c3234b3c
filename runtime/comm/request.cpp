#include "comm/request.hpp"

#include "base/format.hpp"
#include "transfer/protocol/loan_part.hpp"

namespace gpurun::comm {

const Task kNoTask;

base::Error no_request(uint64_t name) {
    return base::error(base::Status::kRequest,
                       "{} is not a request of this process: it was completed or freed before, or never started", name);
}

void RequestTable::add() {
    Request& made = all_.emplace_back();
    made.name = first_name_ + by_index_.size();
    by_index_.push_back(&made);
    unused_.reserve(all_.size()); // so that release() never allocates
    unused_.push_back(&made);
}

void RequestTable::abandon(Request& request) {
    request.name += Names::kUse;
    abandoned_.push_back(request);
    reap();
}

void RequestTable::reap() {
    abandoned_.for_each([&](Request& request) {
        request.enqueue_left();
        if (!request.done())
            return;
        abandoned_.remove(request);
        end(request);
        release(request);
    });
}

void RequestTable::end_loan(Request& request) {
    lent_.note_back(request.lent.loan_of);
    request.lent = {};
    if (!request.description) {
        lent_.remove(request.task.operand.address, request);
        return;
    }
    for (const TensorList::Allocation& each : request.description->tensors.allocations())
        lent_.remove(each.first, request);
    if (transfer::Send* const send = request.description->send; send != nullptr) {
        transfer::Peer& target = send->target();
        if (!request.send->borrowed() && !target.lost())
            target.tell(
                transfer::Record(transfer::RecordKind::kNotice, transfer::LoanPart::kProtocol)
                    .with(transfer::LoanNotice{transfer::LoanNotice::What::kForget, request.description->serial}));
        if (!send->done())
            send->fail(base::Error{base::Status::kInternal, "nobody has borrowed the tensors"});
        sends_.destroy(send);
    }
    request.description.reset();
}

} // namespace gpurun::comm
