// Random command lines: whatever is written, gpurun refuses it in one line, or makes a plan that keeps the rules.
//
// Each command line comes from its seed alone, which a failure prints.
#include "machines.hpp"
#include "options.hpp"
#include "placement.hpp"

#include <cstdlib>
#include <random>
#include <set>

namespace gpurun::test::options_fuzz {

using namespace launcher;
using gpurun::base::Status;

namespace {

using Words = std::vector<std::string>;
using Random = std::mt19937_64;

constexpr uint64_t kCommandLines = 6000;

template <typename T, size_t N>
const T& one_of(Random& random, const T (&choices)[N]) {
    return choices[random() % N];
}

// Mostly what an option could take, so that many command lines are good, and then something spoilt.
const char* const kOptions[] = {"-n",
                                "--ranks",
                                "--env",
                                "--chdir",
                                "--device",
                                "--gpus",
                                "--map-by",
                                "--map",
                                "--ranks-per-gpu",
                                "--bind-to",
                                "--membind",
                                "--gpu-visible",
                                "--mps",
                                "--oversubscribe",
                                "--topology",
                                "--json",
                                "--dry-run",
                                "--topo",
                                "--keep-going",
                                "--report-bindings",
                                "--no-compat-env",
                                "--tag-output",
                                "--timestamp",
                                "--output-dir",
                                "--filter",
                                "--debug",
                                "--stdin",
                                "--pty",
                                "--timeout",
                                "--hang-timeout",
                                "--grace",
                                "--help",
                                "--version",
                                "--bogus",
                                "-x"};
const char* const kValues[] = {"1",       "2",     "4",        "7",           "256",         "0-3",
                               "1,0",     "0,0",   "gpu",      "numa",        "list:0,1",    "list:3",
                               "core",    "none",  "bind",     "own",         "job",         "auto",
                               "off",     "cuda",  "emulated", "emulated:3",  "A=1",         "B",
                               "A==:",    "0:0-3", "0:0,1:1",  "1:4+5:1",     "18:00.0:0-1", "GPU-00000001",
                               "86:00.0", "/tmp",  "MIG-0",    "0:0-3,1:9:0", "all",         "0.5"};
const char* const kSpoilers[] = {"",   ",",   "-", ":", "=", "--", "\n", "\xff", "99999999999999999999",
                                 "-1", "0x1", " ", "+"};

std::string spoilt(Random& random, std::string word) {
    const size_t at = word.empty() ? 0 : random() % (word.size() + 1);
    switch (random() % 3) {
    case 0: return word.insert(at, one_of(random, kSpoilers));
    case 1: return word.substr(0, at);
    default: return word + word;
    }
}

std::string value(Random& random) {
    std::string word = one_of(random, kValues);
    return random() % 6 == 0 ? spoilt(random, std::move(word)) : word;
}

Words command_line(Random& random) {
    Words words;
    const size_t programs = random() % 4 == 0 ? 1 + random() % 3 : 1;
    for (size_t program = 0; program < programs; ++program) {
        if (program > 0)
            words.push_back(":");
        for (size_t left = random() % 5; left > 0; --left) {
            std::string option = one_of(random, kOptions);
            if (random() % 20 == 0)
                option = spoilt(random, std::move(option));
            if (random() % 3 == 0) {
                words.push_back(option + "=" + value(random));
                continue;
            }
            words.push_back(option);
            if (random() % 4 != 0)
                words.push_back(value(random));
        }
        if (programs > 1 && random() % 4 != 0)
            words.insert(words.end(), {"-n", std::to_string(1 + random() % 3)});
        if (random() % 8 == 0)
            words.push_back("--");
        if (random() % 8 != 0)
            words.insert(words.end(), {"app", value(random), "--gpus"});
    }
    return words;
}

bool is_one_line(const std::string& text) { return !text.empty() && text.find('\n') == std::string::npos; }

// Programs are what is left of the words, untouched.
void check_programs(const Words& words, const Options& options) {
    const Words& last = options.programs.back().command;
    REQUIRE(last.size() <= words.size());
    CHECK(std::equal(last.rbegin(), last.rend(), words.rbegin()));
    for (const Program& program : options.programs) {
        CHECK((!program.command.empty() || options.report.dry_run || options.report.topology));
        CHECK((options.programs.size() == 1 || program.ranks.has_value()));
        if (program.ranks)
            CHECK((*program.ranks >= 1 && *program.ranks <= 256));
    }
}

// Whether there is one.
bool check_plan(const Options& options, const Surroundings& there) {
    auto placement = place_job(options, there);
    if (!placement) {
        CHECK_STATUS(placement, Status::kArgument);
        CHECK_FALSE(placement.error().detail.empty());
        return false;
    }
    REQUIRE_FALSE(placement->ranks.empty());
    CHECK(placement->ranks.size() <= 256);
    std::set<int> taken;
    for (const RankPlan& rank : placement->ranks) {
        CHECK(rank.program < options.programs.size());
        CHECK(rank.binding.threads >= 1);
        for (const int cpu : rank.binding.cpus) {
            CHECK((cpu >= 0 && cpu < 16));
            const bool fresh = taken.insert(cpu).second;
            if (placement->ranks.size() <= 8 && !options.placement.oversubscribe)
                CHECK(fresh);
        }
    }
    return true;
}

} // namespace

TEST_SUITE_BEGIN("options");

TEST_CASE("random command lines are refused in one line, or planned by the rules") {
    const Surroundings there = on_machine(OWN_TOPOLOGIES "/5gpu-2numa.xml");
    size_t good = 0;
    size_t bad = 0;
    size_t planned = 0;
    for (uint64_t seed = 1; seed <= kCommandLines; ++seed) {
        Random random(seed);
        const Words words = command_line(random);
        std::string all;
        std::vector<const char*> argv{"gpurun"};
        for (const std::string& word : words) {
            all += " '" + word + "'";
            argv.push_back(word.c_str());
        }
        CAPTURE(seed);
        CAPTURE(all);
        auto parsed = parse_options(static_cast<int>(argv.size()), argv.data());
        if (!parsed) {
            CHECK_STATUS(parsed, Status::kArgument);
            CHECK((is_one_line(parsed.error().detail) || all.find('\n') != std::string::npos));
            ++bad;
        } else if (parsed->to_print.empty()) {
            check_programs(words, parsed->options);
            ++good;
            planned += check_plan(parsed->options, there) ? 1 : 0;
        }
    }
    // All are met often enough to mean something.
    CAPTURE(good);
    CAPTURE(planned);
    CHECK(bad > kCommandLines / 4);
    CHECK(good - planned > kCommandLines / 60);
    CHECK(planned > kCommandLines / 20);
}

TEST_SUITE_END();

} // namespace gpurun::test::options_fuzz
