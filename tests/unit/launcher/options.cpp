// The command line.
#include "options.hpp"
#include "support/unit.hpp"

#include <initializer_list>

using namespace gpurun::launcher;
using gpurun::base::Status;
using gpurun::test::detail_of;
using gpurun::test::must;

namespace {

gpurun::base::Result<ParsedOptions> parse(std::initializer_list<const char*> words) {
    std::vector<const char*> argv{"gpurun"};
    argv.insert(argv.end(), words);
    return parse_options(static_cast<int>(argv.size()), argv.data());
}

using Words = std::vector<std::string>;

} // namespace

TEST_SUITE_BEGIN("options");

TEST_CASE("a program alone leaves every default") {
    const Options options = must(parse({"./app"})).options;
    CHECK_FALSE(options.ranks.has_value());
    CHECK(options.device.kind == DeviceKind::kAuto);
    CHECK_FALSE(options.device.given);
    CHECK(options.bind_to == BindTo::kCore);
    CHECK(options.mps == MpsChoice::kAuto);
    CHECK_FALSE(options.oversubscribe);
    CHECK_FALSE(options.ending.keep_going);
    CHECK(options.command == Words{"./app"});
}

TEST_CASE("options end at the program, whose own are its own") {
    const Options options = must(parse({"-n", "2", "./app", "-n", "9", "--help", "--", "-x"})).options;
    CHECK(options.ranks == 2u);
    CHECK(options.command == Words{"./app", "-n", "9", "--help", "--", "-x"});
}

TEST_CASE("two dashes end the options too") {
    CHECK(must(parse({"--keep-going", "--", "-odd-name", "-n"})).options.command == Words{"-odd-name", "-n"});
}

TEST_CASE("all options, in each of their spellings") {
    const Options options = must(parse({"--ranks=3", "--device=emulated:2", "--oversubscribe", "--bind-to", "none",
                                        "--keep-going", "--mps=off", "app"}))
                                .options;
    CHECK(options.ranks == 3u);
    CHECK(options.device.kind == DeviceKind::kEmulated);
    CHECK(options.device.count == 2u);
    CHECK(options.device.given);
    CHECK(options.bind_to == BindTo::kNone);
    CHECK(options.oversubscribe);
    CHECK(options.ending.keep_going);
    CHECK(options.mps == MpsChoice::kOff);
    CHECK(must(parse({"--mps", "on", "app"})).options.mps == MpsChoice::kOn);
    CHECK(must(parse({"--mps=auto", "app"})).options.mps == MpsChoice::kAuto);
    CHECK(must(parse({"-n256", "app"})).options.ranks == 256u);
    CHECK(must(parse({"--device", "cuda", "app"})).options.device.kind == DeviceKind::kCuda);
    CHECK(must(parse({"--device", "emulated", "app"})).options.device.count == std::nullopt);
}

TEST_CASE("options of output and input") {
    const OutputOptions none = must(parse({"app"})).options.output;
    CHECK_FALSE(none.tag);
    CHECK_FALSE(none.timestamp);
    CHECK(none.folder.empty());
    CHECK(none.shown.has(255));
    CHECK(none.readers.has(0));
    CHECK_FALSE(none.readers.has(1));
    const OutputOptions some =
        must(parse({"--tag-output", "--timestamp", "--output-dir=logs", "--filter=0,2-3", "--stdin=all", "app"}))
            .options.output;
    CHECK(some.tag);
    CHECK(some.timestamp);
    CHECK(some.folder == "logs");
    CHECK_FALSE(some.shown.has(1));
    CHECK(some.shown.has(2));
    CHECK(some.readers.has(7));
    const RankSet third = must(parse({"--stdin", "3", "app"})).options.output.readers;
    CHECK(third.has(3));
    CHECK_FALSE(third.has(0));
    CHECK_FALSE(must(parse({"--stdin=none", "app"})).options.output.readers.has(0));
}

TEST_CASE("options of the end") {
    const EndingOptions none = must(parse({"app"})).options.ending;
    CHECK(none.grace_ms == 2000);
    CHECK_FALSE(none.timeout_ms.has_value());
    const EndingOptions some = must(parse({"--grace=0.25", "--timeout", "90", "app"})).options.ending;
    CHECK(some.grace_ms == 250);
    CHECK(some.timeout_ms == 90'000);
    CHECK(must(parse({"--grace=0", "app"})).options.ending.grace_ms == 0);
}

TEST_CASE("a command line that cannot be followed is an error in one line") {
    const std::initializer_list<std::initializer_list<const char*>> bad = {
        {},
        {"-n", "2"},
        {"-n"},
        {"-n", "0", "app"},
        {"-n", "-3", "app"},
        {"-n-3", "app"},
        {"-n", "257", "app"},
        {"-n", "two", "app"},
        {"-n", "2x", "app"},
        {"-n", "99999999999999999999", "app"},
        {"-n", "", "app"},
        {"-n", "1", "-n", "2", "app"},
        {"--bogus", "app"},
        {"-x", "app"},
        {"--device=gpu", "app"},
        {"--device=emulated:", "app"},
        {"--device=emulated:0", "app"},
        {"--device=emulated:4:4", "app"},
        {"--device=cuda:1", "app"},
        {"--device=", "app"},
        {"--bind-to=socket", "app"},
        {"--mps=yes", "app"},
        {"--mps=", "app"},
        {"--mps"},
        {"--oversubscribe=maybe", "app"},
        {"--filter=", "app"},
        {"--filter=3-1", "app"},
        {"--filter=some", "app"},
        {"--stdin=0,1", "app"},
        {"--stdin=0-1", "app"},
        {"--stdin=", "app"},
        {"--stdin=256", "app"},
        {"--output-dir=", "app"},
        {"--timeout=0", "app"},
        {"--timeout=soon", "app"},
        {"--timeout=", "app"},
        {"--timeout=1e9999", "app"},
        {"--timeout=nan", "app"},
        {"--grace=-1", "app"},
        {"--grace=inf", "app"},
        {"--grace=2s", "app"},
        {"--", "--"},
    };
    for (const auto& words : bad) {
        std::string all;
        for (const char* word : words)
            all += std::string(word) + " ";
        CAPTURE(all);
        const auto parsed = parse(words);
        if (all == "-- -- ") { // a program of that name is odd, but a name
            CHECK(static_cast<bool>(parsed));
            continue;
        }
        CHECK_STATUS(parsed, Status::kArgument);
        CHECK(detail_of(parsed).find('\n') == std::string::npos);
    }
}

TEST_CASE("an error names what was written") {
    CHECK(detail_of(parse({"-n", "0", "app"})).find("'0'") != std::string::npos);
    CHECK(detail_of(parse({"--bogus", "app"})).find("--bogus") != std::string::npos);
    CHECK(detail_of(parse({"--device=gpu", "app"})).find("'gpu'") != std::string::npos);
    CHECK(detail_of(parse({"--mps=yes", "app"})).find("'yes'") != std::string::npos);
}

TEST_CASE("help and version need no program") {
    CHECK(must(parse({"--help"})).to_print.starts_with("Usage: gpurun"));
    CHECK(must(parse({"-h"})).to_print.starts_with("Usage: gpurun"));
    CHECK(must(parse({"--version"})).to_print.starts_with("gpurun "));
}

TEST_SUITE_END();
