#include "option_reader.hpp"

#include "base/format.hpp"
#include "option_hints.hpp"
#include "option_values.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cctype>
#include <set>

namespace gpurun::launcher {

namespace {

// The option that `word` names, with or without its value; null if none, or if it is one of the short ones in a row.
const CLI::Option* named_option(const CLI::App& app, const std::string& word) {
    return app.get_option_no_throw(word.substr(0, word.find('=')));
}

// -nolocal is not -n with the value "olocal".
bool is_n_with_word(const std::string& word) {
    return word.size() > 2 && word.starts_with("-n") && std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

} // namespace

OptionReader::OptionReader() : app_(std::make_unique<CLI::App>("", "gpurun")) {
    app_->set_help_flag();
    app_->prefix_command();
}
OptionReader::~OptionReader() = default;

void OptionReader::add_flag(const char* names, bool& given) { app_->add_flag(names, given); }
void OptionReader::add_flag(const char* names, std::optional<std::string>& value) { app_->add_flag(names, value); }
void OptionReader::add_option(const char* names, std::optional<std::string>& value) { app_->add_option(names, value); }
void OptionReader::add_option(const char* names, std::vector<std::string>& values) {
    app_->add_option(names, values)->allow_extra_args(false);
}

base::Result<void> OptionReader::read(std::vector<std::string>& words) {
    GPURUN_TRY(check_values(words));
    std::vector<const char*> argv{"gpurun"};
    for (const std::string& word : words)
        argv.push_back(word.c_str());
    try {
        app_->parse(static_cast<int>(argv.size()), argv.data());
    } catch (const CLI::ParseError& error) {
        return base::error(base::Status::kArgument, "{}{}", error.what(), kSeeHelp);
    }
    words = app_->remaining();
    if (!words.empty() && words[0] == "--")
        words.erase(words.begin());
    else if (!words.empty() && words[0].starts_with('-')) // CLI11 leaves unknown options before PROGRAM
        return unknown_option(words[0]);
    return {};
}

// CLI11 would take the next word for a value that is empty: the program, in --trace=$UNSET ./app.
base::Result<void> OptionReader::check_values(const std::vector<std::string>& words) const {
    std::set<const CLI::Option*> given;
    for (size_t i = 0; i < words.size() && words[i].starts_with('-') && words[i] != "--"; ++i) {
        const std::string& word = words[i];
        const CLI::Option* const option = named_option(*app_, word);
        const size_t equals = word.find('=');
        // CLI11 may understand the beginning: -np 4, -nolocal.
        if (option == nullptr && (is_n_with_word(word) || !hint_of_other_launchers(word.substr(0, equals)).empty()))
            return unknown_option(word);
        if (option == nullptr)
            continue;
        const bool takes_value = option->get_items_expected_min() > 0;
        if (equals + 1 == word.size() || (takes_value && equals == std::string::npos && i + 1 == words.size()))
            return base::error(base::Status::kArgument, "{} needs a value{}", word.substr(0, equals), kSeeHelp);
        if (takes_value && option->get_expected_max() == 1 && !given.insert(option).second)
            return base::error(base::Status::kArgument, "{} is given twice: leave one of the two out",
                               word.substr(0, equals));
        if (takes_value && equals == std::string::npos)
            ++i;
    }
    return {};
}

base::Error OptionReader::unknown_option(const std::string& word) const {
    const std::string name = word.substr(0, word.find('='));
    std::string hint = hint_of_other_launchers(name);
    if (hint.empty()) {
        std::vector<std::string> names;
        for (const CLI::Option* option : app_->get_options())
            names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
        if (const std::string nearest = nearest_name(name, names); !nearest.empty())
            hint = base::format("did you mean --{}?", nearest);
    }
    return base::error(base::Status::kArgument, "unknown option {}{}{}{}", name, hint.empty() ? "" : ": ", hint,
                       kSeeHelp);
}

} // namespace gpurun::launcher
