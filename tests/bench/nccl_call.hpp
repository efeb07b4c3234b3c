// As call.hpp, for NCCL, and what both of its contenders need of it.
#pragma once

#include "nccl_library.hpp"
#include "pair.hpp"

#include <string>

namespace gpurun::bench {

// Ends the job if `result` is an error.
void must_nccl(int result, const char* what);

std::string nccl_version();

// A communicator of the first `ranks` ranks of the job. All ranks of the job make an object each, with the same number;
// ranks beyond it have no communicator.
class NcclRanks {
  public:
    NcclRanks(const Pair& job, int ranks);
    ~NcclRanks(); // after everything that was enqueued
    NcclRanks(const NcclRanks&) = delete;
    NcclRanks& operator=(const NcclRanks&) = delete;

    NcclComm comm() const { return comm_; }

  private:
    NcclComm comm_ = nullptr;
};

} // namespace gpurun::bench

#define MUST_NCCL(call) ::gpurun::bench::must_nccl((call), #call)
