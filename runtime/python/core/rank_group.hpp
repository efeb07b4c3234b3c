/*
 * A group of ranks: processes in an order, local to this process.
 */
#pragma once

#include "python.hpp"

namespace gpurun::python {

class RankGroup {
  public:
    explicit RankGroup(gpurun_group handle) : handle_(handle) {}
    RankGroup(RankGroup&& other) noexcept : handle_(other.handle_) { other.handle_ = GPURUN_GROUP_NULL; }
    RankGroup& operator=(RankGroup&&) = delete;
    ~RankGroup() {
        if (handle_.id != 0 && gpurun_finalized() == 0)
            (void)gpurun_group_free(&handle_);
    }
    gpurun_group handle() const { return handle_; }

  private:
    gpurun_group handle_;
};

} // namespace gpurun::python
