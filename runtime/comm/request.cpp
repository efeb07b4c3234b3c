#include "comm/request.hpp"

#include "base/format.hpp"

namespace gpurun::comm {

base::Error no_request(uint64_t name) {
    return base::error(base::Status::kRequest,
                       "{} is no request of this process: it was completed or freed before, or never started", name);
}

void RequestTable::add_name() {
    Named& named = named_.emplace_back();
    named.id = by_place_.size();
    by_place_.push_back(&named);
    unused_names_.reserve(named_.size()); // so that release() never allocates
    unused_names_.push_back(&named);
}

Request& RequestTable::take_request() {
    if (unused_.empty()) {
        Request& made = all_.emplace_back();
        unused_.reserve(all_.size());
        unused_.push_back(&made);
    }
    Request& request = *unused_.back();
    unused_.pop_back();
    return request;
}

Request& RequestTable::take(const Task& task) {
    Request& request = take_request();
    Named& named = take_name();
    named.request = &request;
    request.id = named.id;
    static_cast<Task&>(request) = task;
    return request;
}

Request& RequestTable::promote(Named& named) {
    CHECK(named.request == nullptr);
    Request& request = take_request();
    named.request = &request;
    request.id = named.id;
    request.active = true;
    request.cancelled = false;
    static_cast<Task&>(request) = Task{};
    request.kind = named.kind;
    request.type = named.type;
    return request;
}

void RequestTable::release(Request& request) {
    CHECK(!request.active && !request.under_way());
    Named* const named = find(request.id);
    CHECK(named != nullptr && named->request == &request);
    release(*named);
    unused_.push_back(&request);
}

} // namespace gpurun::comm
