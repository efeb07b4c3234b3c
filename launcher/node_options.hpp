// What the command line says of several nodes.
#pragma once

#include "base/status.hpp"
#include "hosts.hpp"
#include "slurm.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

class OptionReader;

struct NodeOptions {
    std::vector<Host> hosts;
    std::string hostfile;             // read by read_hosts(); "": none
    std::optional<uint32_t> per_node; // ranks of a host that does not say how many
    std::vector<std::string> agent;   // its words; none: the default
    std::string fabric;               // libfabric's provider, for GPURUN_FABRIC; "": it stays as it is
    bool named() const { return !hosts.empty() || !hostfile.empty(); }
};

// What starts a program on another host: words, to which the name of the host and what is to run there are added.
struct AgentCommand {
    std::vector<std::string> words;
    bool runs_shell = true; // on the other host, as ssh does
};

// The words as written.
struct NodeWords {
    std::optional<std::string> hosts;
    std::optional<std::string> hostfile;
    std::optional<std::string> per_node;
    std::optional<std::string> agent;
    std::optional<std::string> fabric;

    void add_to(OptionReader& reader);
};

base::Result<NodeOptions> understand(const NodeWords& words);

// The hosts of the job, each with its slots where they are known: those that are named, else those of the allocation
// that this process is in. None: it runs here. `wanted` is what -n asks for.
base::Result<std::vector<Host>> read_hosts(const NodeOptions& options, std::optional<uint32_t> wanted,
                                           const Lookup& environment);

// That of --agent, else srun in an allocation of Slurm, else ssh.
AgentCommand choose_agent(const NodeOptions& options, const Lookup& environment);

} // namespace gpurun::launcher
