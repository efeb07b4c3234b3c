#include "standard_outputs.hpp"

#include "base/format.hpp"
#include "platform/pseudo_terminal.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace gpurun::launcher {

namespace {

base::Result<std::vector<platform::Pipe>> open_all(base::Result<platform::Pipe> (*open)(), uint32_t ranks) {
    std::vector<platform::Pipe> opened;
    while (opened.size() < ranks) {
        GPURUN_ASSIGN(platform::Pipe next, open());
        opened.push_back(std::move(next));
    }
    return opened;
}

bool is_of(std::string_view entry, std::string_view name) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

// Whether the user wants colours wherever they get to.
bool forces_colours(const std::vector<std::string>& environment) {
    return std::any_of(environment.begin(), environment.end(), [](const std::string& entry) {
        for (const char* name : {"FORCE_COLOR", "CLICOLOR_FORCE"})
            if (is_of(entry, name))
                return !entry.ends_with("=") && !entry.ends_with("=0");
        return false;
    });
}

struct Change {
    const char* name;
    const char* value; // null: it must not be set
};

} // namespace

base::Result<StandardOutputs> open_standard_outputs(PtyChoice choice, uint32_t ranks) {
    StandardOutputs outputs;
    if (choice != PtyChoice::kOff) {
        auto terminals = open_all(platform::create_pseudo_terminal, ranks);
        outputs.terminals = static_cast<bool>(terminals);
        if (terminals) {
            outputs.of_ranks = std::move(*terminals);
            return outputs;
        }
        if (choice == PtyChoice::kOn)
            return base::error(terminals.error().status, "--pty=on: {}", terminals.error().detail);
        outputs.notice = base::format("no pseudo-terminals, so ranks print to pipes: lines may come late, and are lost "
                                      "when a rank is killed (--pty=off accepts that): {}",
                                      terminals.error().detail);
    }
    GPURUN_ASSIGN(outputs.of_ranks, open_all(platform::create_pipe, ranks));
    return outputs;
}

void describe_terminal(std::vector<std::string>& environment, std::span<const Variable> chosen, bool has_colours) {
    std::vector<Change> changes = {{"PAGER", "cat"}, {"GIT_PAGER", "cat"}};
    if (!has_colours && !forces_colours(environment))
        changes.insert(changes.end(), {{"TERM", "dumb"}, {"NO_COLOR", "1"}, {"COLORTERM", nullptr}});
    for (const Change& change : changes) {
        if (std::any_of(chosen.begin(), chosen.end(), [&](const Variable& set) { return set.name == change.name; }))
            continue;
        std::erase_if(environment, [&](const std::string& entry) { return is_of(entry, change.name); });
        if (change.value != nullptr)
            environment.push_back(base::format("{}={}", change.name, change.value));
    }
}

} // namespace gpurun::launcher
