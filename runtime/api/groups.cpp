// Groups of calls.
#include "api/call.hpp"
#include "base/format.hpp"

#include <algorithm>

namespace gpurun::api {

using base::Result;
using base::Status;
using comm::Arrived;
using comm::Task;

base::Error not_in_group(const char* call, const char* advice) {
    return base::error(Status::kUnsupported,
                       "{}() cannot be called between gpurun_group_begin() and gpurun_group_end(): {}", call, advice);
}

Result<void> OpenGroup::run() {
    if (engine_ == nullptr)
        return {};
    if (of_several_)
        return base::error(Status::kUnsupported,
                           "the group has calls on communicators of two jobs, and none of them was made: open a group "
                           "for each job");
    if (is_in_turn())
        return run_in_turn();
    comm::Engine& engine = *engine_;
    Result<void> first;
    for (Collective& each : collectives_)
        each.request = each.making.start();
    engine.call_groups().run(calls_, [&](size_t index, Result<Arrived> result) {
        auto settled = settle(index, std::move(result));
        if (!settled && first)
            first = name_call(index, settled.error());
    });
    for (Collective& each : collectives_) {
        auto completed = complete(engine, each);
        if (!completed && first)
            first = name_call(each, completed.error());
    }
    return first;
}

// All ranks call the collectives of a communicator in the same order. So a group that has nothing else, in one stream,
// needs no requests: none of its calls waits for another rank that waits for a later one.
bool OpenGroup::is_in_turn() const {
    return calls_.empty() && std::all_of(collectives_.begin(), collectives_.end(), [&](const Collective& each) {
               const Collective& first = collectives_.front();
               return each.comm == first.comm && each.order.on_stream() && each.order.stream == first.order.stream;
           });
}

Result<void> OpenGroup::run_in_turn() {
    Result<void> first;
    for (const Collective& each : collectives_) {
        const auto ran = each.making.run();
        if (!ran && first)
            first = name_call(each, ran.error());
    }
    return first;
}

base::Error OpenGroup::name_call(const Collective& collective, const base::Error& error) {
    return base::error(error.status, "gpurun_{}() of the group: {}", base::name_of(collective.kind), error.detail);
}

base::Error OpenGroup::name_call(size_t index, const base::Error& error) const {
    const Task& task = calls_[index].task;
    const char* const direction = task.kind == Task::Kind::kSend ? "to" : "from";
    const auto other = task.peer == GPURUN_ANY_SOURCE ? "any rank" : base::format("rank {}", task.peer);
    return base::error(error.status, "{}() {} {}, number {} of the group: {}", calls_[index].call, direction, other,
                       index + 1, error.detail);
}

Result<void> OpenGroup::complete(comm::Engine& engine, Collective& collective) {
    Result<void> result;
    const comm::Requests::Ask ask{.names = {&collective.request, 1}, .order = collective.order};
    GPURUN_TRY(engine.requests().complete(
        ask, [&](size_t, const comm::Request& done) { result = api::settle(done, nullptr); }));
    return result;
}

Result<void> OpenGroup::settle(size_t index, Result<Arrived> result) {
    const Task& task = calls_[index].task;
    const auto type = static_cast<gpurun_datatype>(task.type);
    if (task.kind == Task::Kind::kSend)
        return result ? Result<void>() : Result<void>(std::move(result).error());
    if (result)
        return deliver(*result, task.operand.bytes, type, ret_statuses_[index]);
    if (ret_statuses_[index] != nullptr)
        fill_status(Arrived{task.peer, task.tag, 0}, type, result.error().status, false, *ret_statuses_[index]);
    return std::move(result).error();
}

// Kept, with the memory that it has.
static OpenGroup& own_group() {
    static thread_local OpenGroup group;
    return group;
}

static Result<void> begin_group() {
    GPURUN_TRY(runtime());
    of_thread::open_group = &own_group();
    of_thread::open_group->enter();
    return {};
}

static Result<void> end_group() {
    OpenGroup* const group = of_thread::open_group;
    if (group == nullptr) {
        GPURUN_TRY(runtime());
        return base::error(Status::kArgument, "no group is open: gpurun_group_begin() was not called in this thread");
    }
    if (!group->leave())
        return {};
    of_thread::open_group = nullptr;
    auto found = runtime();
    auto ended = found ? group->run() : Result<void>(std::move(found).error());
    group->clear();
    return ended;
}

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_group_begin(void) {
    const api::CallScope call(__func__);
    return api::report(api::begin_group());
}

gpurun_status gpurun_group_end(void) {
    const api::CallScope call(__func__);
    return api::report(api::end_group());
}

} // extern "C"
