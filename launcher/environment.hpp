// The environment that a rank starts with: gpurun's own, what tells the runtime who it is, and what tells programs
// that were written for other launchers. Pure functions.
#pragma once

#include "program_options.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

struct Variable {
    std::string name;
    std::string value;
};

// Which of a job's ranks run on this node: so many from the first on.
struct NodeShare {
    uint32_t first = 0;
    uint32_t ranks = 1;
    uint32_t job_size = 1;
    std::string master = "127.0.0.1"; // for MASTER_ADDR: the address of the node of rank 0
    std::string address = "";         // of this node, for GPURUN_NODE_ADDRESS; "": not known
};

struct RankFacts {
    uint32_t rank = 0;
    uint32_t size = 1;
    std::string device;  // for GPURUN_DEVICE
    std::string visible; // for CUDA_VISIBLE_DEVICES; "": it stays as it is
    size_t threads = 1;
    bool compat = true; // names of other launchers, too
    uint16_t port = 0;  // for MASTER_PORT; 0: none is to be had
    size_t ranks_on_device = 1;
    std::optional<NodeShare> share; // none: all ranks of the job are on this node
    std::string fabric;             // for GPURUN_FABRIC; "": it stays as it is
};

// The variable's value for a rank: as it is set, or else as it is inherited.
std::optional<std::string> value_for_rank(const char* const* inherited, std::span<const Variable> set,
                                          std::string_view name);

// What is set for a rank, as far as it is known before the rank starts. Each name once. `settings` (--env) take
// precedence. kArgument if one of them has no value and `inherited` has none either.
base::Result<std::vector<Variable>> rank_variables(const char* const* inherited, const RankFacts& facts,
                                                   std::span<const Setting> settings);

// Sets `more` in `variables`, in place of what had the same names.
void set_variables(std::vector<Variable>& variables, std::span<const Variable> more);

// `inherited`, which ends with a null pointer as environ does, with `own` in place of what had the same names.
std::vector<std::string> environment_with(const char* const* inherited, std::span<const Variable> own);

} // namespace gpurun::launcher
