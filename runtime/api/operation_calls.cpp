// The program's own operations: gpurun_op_create() and gpurun_op_free().
#include "api/call.hpp"

namespace gpurun::api {

using base::Result;
using base::Status;

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
