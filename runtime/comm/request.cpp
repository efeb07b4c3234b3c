#include "comm/request.hpp"

#include "base/format.hpp"

namespace gpurun::comm {

base::Error no_request(uint64_t name) {
    return base::error(base::Status::kRequest,
                       "{} is not a request of this process: it was completed or freed before, or never started", name);
}

void RequestTable::add() {
    Request& made = all_.emplace_back();
    made.name = by_index_.size();
    by_index_.push_back(&made);
    unused_.reserve(all_.size()); // so that release() never allocates
    unused_.push_back(&made);
}

void RequestTable::abandon(Request& request) {
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

} // namespace gpurun::comm
