#include "comm/request.hpp"

namespace gpurun::comm {

namespace {

// A name: the use of a place above, the place (from 1) below.
constexpr uint64_t kUse = uint64_t{1} << 32;
constexpr uint64_t kPlace = kUse - 1;

} // namespace

Request& RequestTable::take() {
    const std::lock_guard lock(mutex_);
    if (unused_.empty()) {
        Request& made = all_.emplace_back();
        made.id = all_.size();
        unused_.reserve(all_.size()); // so that release() never allocates
        unused_.push_back(&made);
    }
    Request& request = *unused_.back();
    unused_.pop_back();
    request.id += kUse;
    return request;
}

void RequestTable::release(Request& request) {
    CHECK(!request.active && !request.send && !request.receive);
    const std::lock_guard lock(mutex_);
    request.id += kUse; // no lookup finds it until it is taken again
    unused_.push_back(&request);
}

Request* RequestTable::find(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const uint64_t place = id & kPlace;
    if (place == 0 || place > all_.size())
        return nullptr;
    Request& request = all_[place - 1];
    return request.id == id ? &request : nullptr;
}

} // namespace gpurun::comm
