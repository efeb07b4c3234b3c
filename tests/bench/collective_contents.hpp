// What the buffers of a collective hold before it, and must hold after it, in this rank.
#pragma once

#include "collective.hpp"
#include "contents.hpp"
#include "plan.hpp"

namespace gpurun::bench {

// Where a rank has what it gives, and what it gets: the same memory, or a part of it, in place.
struct CollectiveBuffers {
    unsigned char* out = nullptr;
    unsigned char* in = nullptr;
};

class CollectiveContents {
  public:
    CollectiveContents(int rank, int ranks) : rank_(rank), ranks_(ranks), contents_(rank) {}

    // Of collective `number`: no two have the same contents. Ends the job, and says which byte, if one is wrong.
    void write(const Task& task, const CollectiveBuffers& buffers, uint64_t number);
    void check(const Task& task, const CollectiveBuffers& buffers, uint64_t number);

  private:
    bool is_root() const { return rank_ == kRoot; }
    size_t block(const Task& task) const { return task.bytes / static_cast<size_t>(ranks_); }
    // Of the block for rank `to`, or of what all get.
    uint64_t message(uint64_t number, int to = 0) const {
        return number * static_cast<uint64_t>(ranks_) + static_cast<uint64_t>(to);
    }

    int rank_;
    int ranks_;
    Contents contents_;
};

} // namespace gpurun::bench
