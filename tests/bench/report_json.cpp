// The JSON document. Its keys are promised in gpurun-perf(1): names change only with `format`.

#include "report.hpp"
#include "tuning.hpp"

#include <nlohmann/json.hpp>

namespace gpurun::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

template <typename Values>
Json names(const Values& values) {
    Json all = Json::array();
    for (const auto& value : values)
        all.push_back(name(value));
    return all;
}

Json machine_json(const Machine& machine) {
    Json devices = Json::array();
    for (const RankDevice& device : machine.ranks)
        devices.push_back({{"rank", devices.size()},
                           {"device", device.ordinal},
                           {"kind", device.emulated ? "emulated" : "cuda"},
                           {"name", device.name},
                           {"pci_bus_id", device.pci_bus_id}});
    Json settings = Json::object();
    for (const auto& [setting, value] : machine.settings)
        settings[setting] = value;
    return {{"system", machine.system},
            {"driver", machine.driver},
            {"processors", machine.processors},
            {"pair_shares_device", machine.share_device},
            {"ranks", devices},
            {"settings", settings}};
}

Json options_json(const Options& options) {
    return {{"tests", names(options.tests)},     {"sizes_bytes", options.sizes},
            {"memory", names(options.memory)},   {"orders", names(options.orders)},
            {"against", names(options.against)}, {"window", options.window},
            {"iterations", options.iterations},  {"warmup", options.warmup},
            {"validate", options.validate},      {"collectives", names(options.collectives)},
            {"in_place", options.in_place}};
}

void add_figures(Json& into, Test test, const std::vector<double>& figures) {
    const auto all = metrics(test);
    for (size_t i = 0; i < all.size(); ++i)
        into[all[i].key] = figures[i];
}

Json row_json(const Row& row) {
    Json made{{"test", name(row.task.test)},
              {"order", name(row.task.order)},
              {"bytes", row.task.bytes},
              {"window", row.task.window},
              {"batch", row.task.batch},
              {"runs", row.task.runs},
              {"samples", row.task.samples * row.task.turns}};
    if (row.task.test == Test::kExchange || row.task.test == Test::kCollective)
        made["form"] = name(row.task.form);
    if (row.task.test == Test::kCollective) {
        made["collective"] = name(row.task.collective);
        made["in_place"] = row.task.in_place;
        made["ranks"] = row.task.ranks;
    }
    add_figures(made, row.task.test, row.figures[0]);
    Json references = Json::array();
    for (size_t i = 0; i < row.against.size(); ++i) {
        Json reference{{"name", name(row.against[i])}};
        add_figures(reference, row.task.test, row.figures[i + 1]);
        const double compares = row.ratio_to(i);
        reference["ratio"] = compares > 0 ? Json(compares) : Json();
        references.push_back(reference);
    }
    made["against"] = references;
    return made;
}

Json named_json(const std::vector<Named>& all, const char* text_key) {
    Json made = Json::array();
    for (const Named& each : all)
        made.push_back({{"name", each.name}, {text_key, each.text}});
    return made;
}

} // namespace

std::string json(const Report& report) {
    Json rows = Json::array();
    for (const Row& row : report.rows)
        rows.push_back(row_json(row));
    Json tuned = Json::object();
    for (const auto& [setting, value] : tuned_settings(report.rows))
        tuned[setting] = value;
    const Json document{{"program", "gpurun-perf"},
                        {"format", kFormat},
                        {"version", report.machine.version},
                        {"date", report.machine.date},
                        {"machine", machine_json(report.machine)},
                        {"options", options_json(report.options)},
                        {"references", named_json(report.references, "how")},
                        {"left_out", named_json(report.left_out, "reason")},
                        {"rows", rows},
                        {"tuned", tuned}};
    // A setting or a device name need not be UTF-8; the document is.
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gpurun::bench
