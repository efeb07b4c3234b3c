#include "comm/request.hpp"

#include "base/format.hpp"

namespace gpurun::comm {

namespace {

// A name: the use of a place above, the place (from 1) below.
constexpr uint64_t kUse = uint64_t{1} << 32;
constexpr uint64_t kPlace = kUse - 1;

} // namespace

base::Error no_request(uint64_t name) {
    return base::error(base::Status::kRequest,
                       "{} is no request of this process: it was completed or freed before, or never started", name);
}

Request& RequestTable::take(const Task& task) {
    if (unused_.empty()) {
        Request& made = all_.emplace_back();
        made.id = all_.size();
        unused_.reserve(all_.size()); // so that release() never allocates
        unused_.push_back(&made);
    }
    Request& request = *unused_.back();
    unused_.pop_back();
    request.id += kUse;
    static_cast<Task&>(request) = task;
    return request;
}

void RequestTable::release(Request& request) {
    CHECK(!request.active && !request.under_way());
    request.id += kUse; // no lookup finds it until it is taken again
    unused_.push_back(&request);
}

Request* RequestTable::find(uint64_t id) {
    const uint64_t place = id & kPlace;
    if (place == 0 || place > all_.size())
        return nullptr;
    Request& request = all_[place - 1];
    return request.id == id ? &request : nullptr;
}

} // namespace gpurun::comm
