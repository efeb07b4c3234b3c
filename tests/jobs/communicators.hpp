// A communicator of a test, freed at its end.
#pragma once

#include "support/job.hpp"

#include <utility>

namespace gpurun::test {

class Comm {
  public:
    explicit Comm(gpurun_comm comm) : comm_(comm) {}
    Comm(Comm&& other) noexcept : comm_(std::exchange(other.comm_, GPURUN_COMM_NULL)) {}
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    Comm& operator=(Comm&&) = delete;
    ~Comm() { free(); }

    static Comm dup(gpurun_comm of = GPURUN_COMM_WORLD) {
        gpurun_comm made = GPURUN_COMM_NULL;
        REQUIRE_OK(gpurun_comm_dup(of, &made));
        return Comm(made);
    }
    static Comm split(int colour, int key, gpurun_comm of = GPURUN_COMM_WORLD) {
        gpurun_comm made = GPURUN_COMM_WORLD;
        REQUIRE_OK(gpurun_comm_split(of, colour, key, &made));
        return Comm(made);
    }

    operator gpurun_comm() const { return comm_; }
    bool is_null() const { return comm_.id == 0; }
    void free() {
        if (!is_null())
            (void)gpurun_comm_free(&comm_);
    }
    int rank() const {
        int rank = -1;
        REQUIRE_OK(gpurun_comm_rank(comm_, &rank));
        return rank;
    }
    int size() const {
        int size = -1;
        REQUIRE_OK(gpurun_comm_size(comm_, &size));
        return size;
    }

  private:
    gpurun_comm comm_;
};

} // namespace gpurun::test
