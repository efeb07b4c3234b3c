// A collective of a program on one rank. What it gives and what it must get follow from the program, the rank and the
// number of ranks.
#pragma once

#include "stress/execute.hpp"

#include <vector>

namespace gpurun::stress {

class JointCall {
  public:
    JointCall(const Joint& joint, gpurun_comm comm);

    // Fills the buffers and makes the call, or starts it, in the order domain.
    void begin(gpurun_stream order);
    // Completes what was started.
    void end(gpurun_stream order);
    // ---- by parts: fills the buffers; calls it, or starts or prepares a request; takes the result behind its end
    void fill(gpurun_stream order);
    gpurun_status call(gpurun_stream order) const;
    gpurun_status start(gpurun_stream order, gpurun_request* ret_request) const;
    gpurun_status prepare(gpurun_stream order, gpurun_request* ret_request) const;
    void take(gpurun_stream order);
    // Once every stream has come to its end.
    void check() const;

  private:
    using Numbers = std::vector<uint32_t>;

    Numbers given_by(int rank) const;
    Numbers result() const;
    bool has_result() const;

    const Joint& joint_;
    gpurun_comm comm_;
    int rank_ = 0, size_ = 0;
    Numbers given_, got_;
    test::Memory send_, recv_;
    gpurun_request request_ = GPURUN_REQUEST_NULL;
};

} // namespace gpurun::stress
