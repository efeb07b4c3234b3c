// PMI-1, which mpiexec.hydra and others serve: lines of text over the descriptor PMI_FD.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::platform {

// Whether a launcher may be at the other end of a descriptor.
bool may_be_pmi1(int fd);

// A conversation with the launcher at the other end. kLauncher if it does not answer as it should.
class Pmi1Client {
  public:
    static base::Result<Pmi1Client> start(int fd);

    const std::string& job() const { return job_; }         // the name of its key-value space
    const std::string& mapping() const { return mapping_; } // of ranks to nodes, as it writes it; empty: it does not
    // What rank 0 gives, in all ranks once each has called this. `value` has no spaces, and less than 1,024 characters.
    // kLauncher, too, if another rank does not call in time.
    base::Result<std::string> share(uint32_t rank, const std::string& value, int timeout_s);
    // It then knows that the process no longer uses PMI, and its death alone does not end the others. Nobody in the
    // process can use PMI from then on.
    base::Result<void> leave();

  private:
    explicit Pmi1Client(int fd) : fd_(fd) {}
    base::Result<std::string> ask(const std::string& question, std::string_view answer, int timeout_s) const;

    int fd_;
    std::string job_;
    std::string mapping_;
};

// The node of each of `size` ranks, numbered as "(vector,(FIRST NODE,NODES,RANKS A NODE),...)" does, which begins again
// where it has fewer. Empty if that cannot be read.
std::vector<uint32_t> nodes_of_mapping(std::string_view mapping, uint32_t size);

} // namespace gpurun::platform
