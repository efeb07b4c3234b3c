#include "comm/loan_to_all.hpp"

#include "comm/alarms.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;

bool LoanToAll::done() const {
    return std::all_of(loans_.begin(), loans_.end(), [](const Request* each) { return each->done(); });
}

bool LoanToAll::enqueued() const {
    return std::all_of(loans_.begin(), loans_.end(), [](const Request* each) { return each->enqueued(); });
}

Result<void> LoanToAll::complete_into(device::Stream stream) {
    for (Request* const each : loans_)
        GPURUN_TRY(each->complete_into(stream));
    return {};
}

const base::Error* LoanToAll::error() const {
    for (const Request* const each : loans_)
        if (const base::Error* const error = each->error())
            return error;
    return nullptr;
}

Result<void> LoanToAll::arm(Alarms& alarms) const {
    for (const Request* const each : loans_)
        if (!each->done())
            GPURUN_TRY(alarms.set_for(*each->send));
    return {};
}

void LoanToAll::for_each_message(base::FunctionRef<void(const transfer::Send&)> send,
                                 base::FunctionRef<void(const PostedReceive&)>) const {
    for (const Request* const each : loans_)
        if (!each->done())
            send(*each->send);
}

void LoanToAll::for_each_loan(base::FunctionRef<void(transfer::Send&)> loan) {
    for (Request* const each : loans_)
        loan(*each->send);
}

bool LoanToAll::was_cancelled() const {
    return std::all_of(loans_.begin(), loans_.end(), [](const Request* each) { return each->was_cancelled(); });
}

void LoanToAll::release() {
    for (Request* const each : loans_) {
        table_.end(*each);
        table_.release(*each);
    }
    loans_.clear();
}

} // namespace gpurun::comm
