#include "environment.hpp"

#include "base/format.hpp"
#include "mps_limits.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

// The value of a variable, if it is set.
std::optional<std::string> find(const char* const* environment, std::string_view name) {
    for (; *environment != nullptr; ++environment)
        if (const std::string_view entry = *environment; name_of(entry) == name && entry.size() > name.size())
            return std::string(entry.substr(name.size() + 1));
    return std::nullopt;
}

// What a rank gets unless the user has set it.
std::vector<Variable> defaults(const RankFacts& facts) {
    return {
        // Ordinals then mean the same to gpurun and to every program.
        {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
        // As many hardware queues as the GPU has for each of its ranks: streams that share a queue hold each other up.
        {"CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(queues_per_rank(facts.ranks_on_device))},
        // Without it each rank starts a thread for every core of the machine.
        {"OMP_NUM_THREADS", std::to_string(facts.threads)},
    };
}

// How torch.distributed finds its first process. Kept if the user has set it, but not if another gpurun has, in a rank
// of which this one runs.
std::vector<Variable> master_address(const RankFacts& facts) {
    const NodeShare share = facts.share.value_or(NodeShare());
    return {{"MASTER_ADDR", share.master}, {"MASTER_PORT", std::to_string(facts.port)}};
}

// A rank's number among those of its node, and how many these are.
struct LocalNumbers {
    std::string rank;
    std::string size;
};
LocalNumbers local_numbers(const RankFacts& facts) {
    const NodeShare share = facts.share.value_or(NodeShare{0, facts.size, facts.size, "", ""});
    return {std::to_string(facts.rank - share.first), std::to_string(share.ranks)};
}

// By these, programs written for torchrun, Open MPI, Intel MPI, MPICH and MVAPICH know their rank.
std::vector<Variable> other_names(const RankFacts& facts) {
    const std::string rank = std::to_string(facts.rank);
    const std::string size = std::to_string(facts.size);
    const LocalNumbers local = local_numbers(facts);
    return {
        {"RANK", rank},
        {"WORLD_SIZE", size},
        {"LOCAL_RANK", local.rank},
        {"LOCAL_WORLD_SIZE", local.size},
        {"OMPI_COMM_WORLD_RANK", rank},
        {"OMPI_COMM_WORLD_SIZE", size},
        {"OMPI_COMM_WORLD_LOCAL_RANK", local.rank},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", local.size},
        {"MPI_LOCALRANKID", local.rank},
        {"MPI_LOCALNRANKS", local.size},
        {"MV2_COMM_WORLD_LOCAL_RANK", local.rank},
    };
}

} // namespace

base::Result<std::vector<Variable>> rank_variables(const char* const* inherited, const RankFacts& facts,
                                                   std::span<const Setting> settings) {
    const std::string rank = std::to_string(facts.rank);
    const std::string size = std::to_string(facts.size);
    const LocalNumbers local = local_numbers(facts);
    std::vector<Variable> variables = {
        {"GPURUN_RANK", rank},
        {"GPURUN_SIZE", size},
        {"GPURUN_LOCAL_RANK", local.rank},
        {"GPURUN_LOCAL_SIZE", local.size},
        {"GPURUN_DEVICE", facts.device},
    };
    for (const Variable& fallback : defaults(facts))
        if (!find(inherited, fallback.name))
            variables.push_back(fallback);
    if (facts.compat) {
        set_variables(variables, other_names(facts));
        const bool nested = find(inherited, "GPURUN_CONTROL_FD").has_value();
        for (const Variable& fallback : master_address(facts))
            if (facts.port != 0 && (nested || !find(inherited, fallback.name)))
                variables.push_back(fallback);
    }
    if (!facts.fabric.empty())
        variables.push_back({"GPURUN_FABRIC", facts.fabric});
    if (facts.share && !facts.share->address.empty())
        variables.push_back({"GPURUN_NODE_ADDRESS", facts.share->address});
    if (!facts.visible.empty())
        variables.push_back({"CUDA_VISIBLE_DEVICES", facts.visible});
    for (const Setting& setting : settings) {
        const std::optional<std::string> value = setting.value ? setting.value : find(inherited, setting.name);
        if (!value)
            return base::error(base::Status::kArgument,
                               "--env {}: it is not set here, so ranks cannot get it: write --env {}=VALUE",
                               setting.name, setting.name);
        const Variable wanted[] = {{setting.name, *value}};
        set_variables(variables, wanted);
    }
    return variables;
}

std::optional<std::string> value_for_rank(const char* const* inherited, std::span<const Variable> set,
                                          std::string_view name) {
    for (const Variable& variable : set)
        if (variable.name == name)
            return variable.value;
    return find(inherited, name);
}

void set_variables(std::vector<Variable>& variables, std::span<const Variable> more) {
    for (const Variable& wanted : more) {
        const auto same = std::find_if(variables.begin(), variables.end(),
                                       [&](const Variable& known) { return known.name == wanted.name; });
        if (same == variables.end())
            variables.push_back(wanted);
        else
            same->value = wanted.value;
    }
}

std::vector<std::string> environment_with(const char* const* inherited, std::span<const Variable> own) {
    std::vector<std::string> result;
    for (; *inherited != nullptr; ++inherited) {
        const std::string_view name = name_of(*inherited);
        if (std::none_of(own.begin(), own.end(), [&](const Variable& mine) { return mine.name == name; }))
            result.emplace_back(*inherited);
    }
    for (const Variable& mine : own)
        result.push_back(base::format("{}={}", mine.name, mine.value));
    return result;
}

} // namespace gpurun::launcher
