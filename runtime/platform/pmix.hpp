// PMIx, by libpmix.so.2, which is loaded only where a process asks.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>

namespace gpurun::platform {

struct PmixJob {
    uint32_t size = 0;
    uint32_t local_size = 0; // of its ranks, how many are on this node
    uint32_t local_rank = 0; // which one of these it is
};

// The process is a client of the PMIx server that has started it as long as this lives, unless an MPI library has made
// it one for longer. kLauncher or kUnsupported if it cannot be asked.
class PmixClient {
  public:
    static base::Result<PmixClient> start();
    PmixClient(PmixClient&& other) noexcept;
    PmixClient& operator=(PmixClient&&) = delete;
    ~PmixClient();

    base::Result<PmixJob> job();
    // What rank 0 gives, in all ranks once each has called this; in the first program of each. kLauncher, too, if one
    // does not in time.
    base::Result<std::string> share(uint32_t rank, const std::string& value, int timeout_s);
    // Until the process ends: for an MPI library that starts later.
    void stay();

  private:
    PmixClient() = default;
    bool leaves_ = true;
};

} // namespace gpurun::platform
