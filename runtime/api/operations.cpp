#include "api/operations.hpp"

#include "base/format.hpp"
#include "base/operation.hpp"

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

static_assert(base::kOps < Operations::kFirst);

base::Error no_such_operation(gpurun_op op) {
    return base::error(Status::kOp, "{} is not an operation of this process: it was freed before, or never made",
                       op.id);
}

base::ProgramOperation operation_of(gpurun_op_function* function) {
    const auto call = [](base::AnyFunction any, const void* in, void* inout, size_t count, base::Type type) {
        reinterpret_cast<gpurun_op_function*>(any)(in, inout, count, static_cast<gpurun_datatype>(type));
    };
    return {call, reinterpret_cast<base::AnyFunction>(function)};
}

} // namespace

gpurun_op Operations::add(gpurun_op_function* function) {
    const std::lock_guard lock(mutex_);
    functions_.emplace(next_, function);
    return gpurun_op{next_++};
}

Result<base::ProgramOperation> Operations::find(gpurun_op op) {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(op.id);
    if (found == functions_.end())
        return no_such_operation(op);
    return operation_of(found->second);
}

Result<void> Operations::erase(gpurun_op op) {
    if (op.id != 0 && op.id < base::kOps)
        return base::error(Status::kOp,
                           "GPURUN_{} is an operation of the library's own, and stays: free those of "
                           "gpurun_op_create()",
                           base::kOpNames[op.id]);
    const std::lock_guard lock(mutex_);
    return functions_.erase(op.id) != 0 ? Result<void>() : Result<void>(no_such_operation(op));
}

} // namespace gpurun::api
