#include "api/operations.hpp"

#include "api/call.hpp"
#include "base/format.hpp"

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

namespace {

Result<void> create(gpurun_op_function* function, gpurun_op* ret_op) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_op, "ret_op"));
    if (function == nullptr)
        return base::error(Status::kArgument, "function is NULL: pass the function that combines elements");
    *ret_op = found->operations().add(function);
    return {};
}

Result<void> free_operation(gpurun_op* op) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (op == nullptr)
        return base::error(Status::kArgument, "op is NULL: pass the address of the operation");
    GPURUN_TRY(found->operations().erase(*op));
    *op = GPURUN_OP_NULL;
    return {};
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_op_create(gpurun_op_function* function, int commutes, gpurun_op* ret_op) {
    (void)commutes; // all operations combine in the order of the ranks
    return api::report(api::create(function, ret_op), __func__);
}

gpurun_status gpurun_op_free(gpurun_op* op) { return api::report(api::free_operation(op), __func__); }

} // extern "C"
