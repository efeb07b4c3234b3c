// The program's own operations (gpurun_op_create), by their handles. Any thread.
//
// A handle is never given twice, so one that was freed is known as that. The numbers below kFirst are the library's own
// operations.
#pragma once

#include "base/reduction.hpp"
#include "base/status.hpp"

#include <gpurun/gpurun.h>

#include <mutex>
#include <unordered_map>

namespace gpurun::api {

class Operations {
  public:
    static constexpr uint64_t kFirst = 256;

    gpurun_op add(gpurun_op_function* function);
    // kOp if there is none with this handle, or the library's own.
    base::Result<base::ProgramOperation> find(gpurun_op op);
    base::Result<void> erase(gpurun_op op);

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, gpurun_op_function*> functions_;
    uint64_t next_ = kFirst;
};

inline bool is_of_program(gpurun_op op) { return op.id >= Operations::kFirst; }

} // namespace gpurun::api
