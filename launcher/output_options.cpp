#include "output_options.hpp"

#include "base/format.hpp"
#include "option_reader.hpp"
#include "option_values.hpp"

namespace gpurun::launcher {

namespace {

constexpr const char* kFilter = "--filter";
constexpr const char* kInput = "--stdin";
constexpr const char* kPty = "--pty";
constexpr const char* kTag = "--tag-output";
constexpr Choice<bool> kTags[] = {{"rank", false}, {"host", true}};
constexpr Choice<PtyChoice> kPtyChoices[] = {
    {"auto", PtyChoice::kAuto}, {"on", PtyChoice::kOn}, {"off", PtyChoice::kOff}};

base::Result<RankSet> parse_readers(const std::string& text) {
    auto readers = RankSet::parse(text, kInput);
    if (!readers || text.find_first_of(",-") != std::string::npos)
        return base::error(base::Status::kArgument, "--stdin must be a rank, all or none, not '{}'", text);
    return readers;
}

} // namespace

void add_output_options(OptionReader& reader, OutputWords& words) {
    reader.add_flag("--tag-output{rank}", words.tag);
    reader.add_flag("--timestamp", words.timestamp);
    reader.add_option("--output-dir", words.folder);
    reader.add_option(kFilter, words.filter);
    reader.add_option(kInput, words.input);
    reader.add_option(kPty, words.pty);
}

base::Result<OutputOptions> understand(const OutputWords& words) {
    OutputOptions options;
    options.tag = words.tag.has_value();
    if (words.tag) {
        GPURUN_ASSIGN(options.tag_host, parse_choice(*words.tag, kTag, kTags));
    }
    options.timestamp = words.timestamp;
    if (words.folder && words.folder->empty())
        return base::error(base::Status::kArgument, "--output-dir needs the name of a folder");
    options.folder = words.folder.value_or("");
    if (words.filter) {
        GPURUN_ASSIGN(options.shown, RankSet::parse(*words.filter, kFilter));
    }
    if (words.pty) {
        GPURUN_ASSIGN(options.pty, parse_choice(*words.pty, kPty, kPtyChoices));
    }
    if (words.input) {
        GPURUN_ASSIGN(options.readers, parse_readers(*words.input));
    }
    return options;
}

base::Result<void> check_ranks(const OutputOptions& options, uint32_t ranks) {
    GPURUN_TRY(options.shown.check(ranks, kFilter));
    return options.readers.check(ranks, kInput);
}

} // namespace gpurun::launcher
