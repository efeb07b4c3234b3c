#include "node_options.hpp"

#include "base/format.hpp"
#include "option_reader.hpp"
#include "option_values.hpp"
#include "platform/byte_stream.hpp"

#include <iterator>
#include <sstream>
#include <utility>

namespace gpurun::launcher {

namespace {
std::vector<std::string> default_agent() { return {"ssh", "-x", "-oBatchMode=yes"}; }
} // namespace

void NodeWords::add_to(OptionReader& reader) {
    reader.add_option("--hosts", hosts);
    reader.add_option("--hostfile", hostfile);
    reader.add_option("--ppn", per_node);
    reader.add_option("--agent", agent);
    reader.add_option("--fabric", fabric);
}

base::Result<NodeOptions> understand(const NodeWords& words) {
    NodeOptions options;
    if (words.hosts && words.hostfile)
        return base::error(base::Status::kArgument, "--hosts and --hostfile both name hosts: leave one of them out");
    if (words.hosts) {
        GPURUN_ASSIGN(options.hosts, parse_hosts(*words.hosts));
    }
    options.hostfile = words.hostfile.value_or("");
    if (words.hostfile && options.hostfile.empty())
        return base::error(base::Status::kArgument, "--hostfile needs the name of a file");
    if (words.per_node) {
        GPURUN_ASSIGN(options.per_node, parse_count(*words.per_node, "--ppn"));
    }
    std::istringstream agent(words.agent.value_or(""));
    options.agent.assign(std::istream_iterator<std::string>(agent), {});
    if (words.agent && options.agent.empty())
        return base::error(base::Status::kArgument, "--agent needs a command");
    options.fabric = words.fabric.value_or("");
    if (words.fabric && options.fabric.empty())
        return base::error(base::Status::kArgument, "--fabric needs the name of a provider of libfabric");
    return options;
}

base::Result<std::vector<Host>> read_hosts(const NodeOptions& options, std::optional<uint32_t> wanted,
                                           const Lookup& environment) {
    std::vector<Host> hosts = options.hosts;
    if (!options.hostfile.empty()) {
        auto text = platform::read_file(options.hostfile);
        if (!text)
            return base::error(base::Status::kArgument, "--hostfile {}", text.error().detail);
        GPURUN_ASSIGN(hosts, parse_hostfile(*text, options.hostfile));
    }
    if (!options.named()) {
        GPURUN_ASSIGN(hosts, slurm_hosts(environment, wanted));
        if (options.per_node) // rather than Slurm's tasks
            for (Host& host : hosts)
                host.slots.reset();
    }
    for (const auto& [given, name] :
         {std::pair{options.per_node.has_value(), "--ppn"}, std::pair{!options.agent.empty(), "--agent"},
          std::pair{!options.fabric.empty(), "--fabric"}})
        if (hosts.empty() && given)
            return base::error(base::Status::kArgument, "{} is for several nodes: name them with --hosts or --hostfile",
                               name);
    for (Host& host : hosts)
        if (!host.slots)
            host.slots = options.per_node;
    return hosts;
}

AgentCommand choose_agent(const NodeOptions& options, const Lookup& environment) {
    if (!options.agent.empty())
        return {options.agent};
    if (environment("SLURM_JOB_ID") != nullptr)
        return {slurm_agent(), false};
    return {default_agent()};
}

} // namespace gpurun::launcher
