#include "program_options.hpp"

#include "base/settings.hpp"
#include "option_reader.hpp"
#include "option_values.hpp"

namespace gpurun::launcher {

namespace {

bool is_gpuruns_own(const std::string& name) {
    for (const base::SettingInfo& setting : base::settings_table())
        if (setting.by_launcher && name == setting.name)
            return true;
    return false;
}

base::Result<Setting> parse_setting(const std::string& text) {
    const size_t equals = text.find('=');
    Setting setting{text.substr(0, equals), std::nullopt};
    if (equals != std::string::npos)
        setting.value = text.substr(equals + 1);
    if (setting.name.empty())
        return base::error(base::Status::kArgument, "--env must be NAME=VALUE or NAME, not '{}'", text);
    if (is_gpuruns_own(setting.name))
        return base::error(base::Status::kArgument, "--env {}: gpurun itself tells each rank its {}", text,
                           setting.name);
    if (setting.name == "CUDA_VISIBLE_DEVICES")
        return base::error(base::Status::kArgument,
                           "--env {}: ranks would not see their GPUs; choose them with --gpus, or set it for gpurun",
                           text);
    return setting;
}

} // namespace

void ProgramWords::add_to(OptionReader& reader) {
    reader.add_option("-n,--ranks", ranks);
    reader.add_option("--env", settings);
    reader.add_option("--chdir", folder);
}

base::Result<Program> understand(const ProgramWords& words, std::vector<std::string> command) {
    Program program;
    program.command = std::move(command);
    program.folder = words.folder;
    if (words.ranks) {
        GPURUN_ASSIGN(program.ranks, parse_count(*words.ranks, "the number of ranks (-n)", platform::kMaxJobRanks));
    }
    for (const std::string& text : words.settings) {
        GPURUN_ASSIGN(Setting setting, parse_setting(text));
        program.settings.push_back(std::move(setting));
    }
    return program;
}

std::vector<std::vector<std::string>> split_programs(int argc, const char* const* argv) {
    std::vector<std::vector<std::string>> parts(1);
    for (int i = 1; i < argc; ++i) {
        if (std::string word = argv[i]; word != ":")
            parts.back().push_back(std::move(word));
        else
            parts.emplace_back();
    }
    return parts;
}

std::optional<uint32_t> wanted_ranks(const std::vector<Program>& programs) {
    std::optional<uint32_t> wanted;
    for (const Program& program : programs)
        if (program.ranks)
            wanted = wanted.value_or(0) + *program.ranks;
    return wanted;
}

} // namespace gpurun::launcher
