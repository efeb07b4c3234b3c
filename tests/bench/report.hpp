// Everything that a run found out, and its three forms. Rank 0 only; pure.
#pragma once

#include "figures.hpp"
#include "options.hpp"
#include "plan.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gpurun::bench {

struct RankDevice {
    int ordinal = 0;
    bool emulated = false;
    std::string name;
    std::string pci_bus_id; // empty on emulated devices
};

// Where and when: enough to know what the numbers say, nothing that names a machine.
struct Machine {
    std::string version; // gpurun's
    std::string date;    // UTC, ISO 8601
    std::string system;
    std::string driver; // empty: none
    int processors = 0;
    bool share_device = false; // the two ranks of a pair, in any pair
    std::vector<RankDevice> ranks;
    std::vector<std::pair<std::string, std::string>> settings; // from the environment
};

struct Named {
    std::string name;
    std::string text; // how a reference moves bytes; or why it is left out
};

// One task: gpurun's figures first, then those of the references that measure it.
struct Row {
    Task task;
    std::vector<Reference> against;
    std::vector<std::vector<double>> figures;

    double headline_of(size_t contender) const { return figures[contender][headline(task.test)]; }
    // To the reference `against[i]`; 0: there is none.
    double ratio_to(size_t i) const {
        return is_nothing(task, figures[i + 1]) ? 0 : ratio(task.test, headline_of(0), headline_of(i + 1));
    }
};

struct Report {
    Options options;
    Machine machine;
    std::vector<Named> references;
    std::vector<Named> left_out;
    std::vector<Row> rows;
};

std::string text_head(const Report& report);
// The columns first if `row` is another table's than the one before (null: none).
std::string text_row(const Row& row, const Row* before);
std::string json(const Report& report);
std::string svg(const Report& report);

} // namespace gpurun::bench
