// PMI-1, which mpiexec.hydra and others serve: lines of text over the descriptor PMI_FD.
#pragma once

#include "base/status.hpp"

#include <string>
#include <string_view>

namespace gpurun::platform {

struct Pmi1Job {
    std::string name;    // that of its key-value space
    std::string mapping; // of ranks to nodes, as the launcher writes it; empty: it does not
};

// Whether a launcher may be at the other end of a descriptor.
bool may_be_pmi1(int fd);

// Asks the launcher at the other end. Where `leaves`, it then knows that the process no longer uses PMI, and its death
// alone does not end the others; nobody in the process can use PMI from then on. kLauncher if it does not answer as it
// should.
base::Result<Pmi1Job> ask_pmi1(int fd, bool leaves);

// Whether a mapping, "(vector,(FIRST NODE,NODES,RANKS A NODE),...)", is of one node. True for one that cannot be read.
bool is_one_node(std::string_view mapping);

} // namespace gpurun::platform
