// The command line.
#include "options.hpp"
#include "base/format.hpp"
#include "support/unit.hpp"

#include <initializer_list>

namespace gpurun::test::options {

using namespace launcher;
using gpurun::base::Status;

namespace {

gpurun::base::Result<ParsedOptions> parse(std::initializer_list<const char*> words) {
    std::vector<const char*> argv{"gpurun"};
    argv.insert(argv.end(), words);
    return parse_options(static_cast<int>(argv.size()), argv.data());
}

using Words = std::vector<std::string>;

// Each of these command lines is refused in one line.
void check_refused(std::initializer_list<std::initializer_list<const char*>> all_of_them) {
    for (const auto& words : all_of_them) {
        std::string all;
        for (const char* word : words)
            all += std::string(word) + " ";
        CAPTURE(all);
        const auto parsed = parse(words);
        CHECK_STATUS(parsed, Status::kArgument);
        CHECK(detail_of(parsed).find('\n') == std::string::npos);
    }
}

} // namespace

TEST_SUITE_BEGIN("options");

TEST_CASE("a program alone leaves every default") {
    const Options options = must(parse({"./app"})).options;
    REQUIRE(options.programs.size() == 1);
    CHECK_FALSE(options.programs[0].ranks.has_value());
    CHECK_FALSE(options.programs[0].folder.has_value());
    CHECK(options.programs[0].command == Words{"./app"});
    CHECK(options.placement.device.kind == DeviceKind::kAuto);
    CHECK_FALSE(options.placement.device.given);
    CHECK(options.placement.map_by == MapBy::kGpu);
    CHECK(options.placement.bind_to == BindTo::kCore);
    CHECK_FALSE(options.placement.membind.has_value());
    CHECK(options.placement.gpu_visible == GpuVisible::kJob);
    CHECK_FALSE(options.placement.oversubscribe);
    CHECK(options.mps == MpsChoice::kAuto);
    CHECK(options.compat_environment);
    CHECK_FALSE(options.report.bindings);
    CHECK_FALSE(options.report.dry_run);
    CHECK_FALSE(options.ending.keep_going);
}

TEST_CASE("options end at the program, whose own are its own") {
    const Options options = must(parse({"-n", "2", "./app", "-n", "9", "--help", "--", "-x"})).options;
    CHECK(options.programs[0].ranks == 2u);
    CHECK(options.programs[0].command == Words{"./app", "-n", "9", "--help", "--", "-x"});
}

TEST_CASE("two dashes end the options too") {
    CHECK(must(parse({"--keep-going", "--", "-odd-name", "-n"})).options.programs[0].command ==
          Words{"-odd-name", "-n"});
}

TEST_CASE("all options, in each of their spellings") {
    const Options options =
        must(parse({"--ranks=3", "--device=emulated:2", "--oversubscribe", "--bind-to", "none", "--keep-going",
                    "--mps=off", "--no-compat-env", "--report-bindings", "--json", "--dry-run", "app"}))
            .options;
    CHECK(options.programs[0].ranks == 3u);
    CHECK(options.placement.device.kind == DeviceKind::kEmulated);
    CHECK(options.placement.device.count == 2u);
    CHECK(options.placement.device.given);
    CHECK(options.placement.bind_to == BindTo::kNone);
    CHECK(options.placement.oversubscribe);
    CHECK(options.ending.keep_going);
    CHECK(options.mps == MpsChoice::kOff);
    CHECK_FALSE(options.compat_environment);
    CHECK(options.report.bindings);
    CHECK(options.report.json);
    CHECK(options.report.dry_run);
    CHECK(must(parse({"--mps", "on", "app"})).options.mps == MpsChoice::kOn);
    CHECK(must(parse({"--mps=auto", "app"})).options.mps == MpsChoice::kAuto);
    CHECK(must(parse({"-n256", "app"})).options.programs[0].ranks == 256u);
    CHECK(must(parse({"--device", "cuda", "app"})).options.placement.device.kind == DeviceKind::kCuda);
    CHECK(must(parse({"--device", "emulated", "app"})).options.placement.device.count == std::nullopt);
}

TEST_CASE("ranks print to terminals where there are some, unless it is said otherwise") {
    CHECK(must(parse({"app"})).options.output.pty == PtyChoice::kAuto);
    CHECK(must(parse({"--pty=auto", "app"})).options.output.pty == PtyChoice::kAuto);
    CHECK(must(parse({"--pty", "on", "app"})).options.output.pty == PtyChoice::kOn);
    CHECK(must(parse({"--pty=off", "app"})).options.output.pty == PtyChoice::kOff);
    CHECK(detail_of(parse({"--pty=yes", "app"})) == "--pty must be auto, on or off, not 'yes'");
}

TEST_CASE("where ranks run can be said in many ways") {
    const auto placement = [](std::initializer_list<const char*> words) {
        return must(parse(words)).options.placement;
    };
    CHECK(placement({"--gpus", "0,GPU-a", "app"}).gpus == "0,GPU-a");
    CHECK(placement({"--map-by=gpu", "app"}).map_by == MapBy::kGpu);
    CHECK(placement({"--map-by", "numa", "app"}).map_by == MapBy::kNuma);
    CHECK(placement({"--map-by=list:3,1", "app"}).map_by == MapBy::kList);
    CHECK(placement({"--map-by=list:3,1", "app"}).list == "3,1");
    CHECK(placement({"--ranks-per-gpu=4", "app"}).ranks_per_gpu == 4u);
    CHECK(placement({"--bind-to=numa", "app"}).bind_to == BindTo::kNuma);
    CHECK(placement({"--membind", "app"}).membind == Membind::kBind);
    CHECK(placement({"--membind=prefer", "app"}).membind == Membind::kPrefer);
    CHECK(placement({"--membind=none", "app"}).membind == Membind::kNone);
    CHECK(placement({"--gpu-visible=own", "app"}).gpu_visible == GpuVisible::kOwn);
}

TEST_CASE("a map names GPU, CPUs and perhaps a node for each rank, and a PCI address may be the GPU") {
    const auto map = must(parse_map("0:0-3+8,GPU-a:4:1,0000:1b:00.0:5-6:0,43:00.0:7,MIG-1/2/3:9"));
    REQUIRE(map.size() == 5);
    CHECK(map[0].gpu == "0");
    CHECK(map[0].cpus == std::vector<int>{0, 1, 2, 3, 8});
    CHECK_FALSE(map[0].node.has_value());
    CHECK(map[1].gpu == "GPU-a");
    CHECK(map[1].node == 1);
    CHECK(map[2].gpu == "0000:1b:00.0");
    CHECK(map[2].cpus == std::vector<int>{5, 6});
    CHECK(map[2].node == 0);
    CHECK(map[3].gpu == "43:00.0");
    CHECK(map[3].cpus == std::vector<int>{7});
    CHECK(map[4].gpu == "MIG-1/2/3");
}

TEST_CASE("commas in a map separate ranks, unless what follows can only be CPUs") {
    const auto map = must(parse_map("0:0-3,8-11:1,1:4,6,12-13,2:5,7:9"));
    REQUIRE(map.size() == 4);
    CHECK(map[0].cpus == std::vector<int>{0, 1, 2, 3, 8, 9, 10, 11});
    CHECK(map[0].node == 1);
    CHECK(map[1].cpus == std::vector<int>{4, 6, 12, 13});
    CHECK(map[2].cpus == std::vector<int>{5});
    CHECK(map[3].gpu == "7");
}

TEST_CASE("several programs are cut at colons, each with its own ranks, settings and folder") {
    const Options options =
        must(parse({"--keep-going", "-n",    "1",    "--env", "A=1", "--env=B", "./a", "x",  ":", "-n3", "--chdir",
                    "/tmp",         "--env", "C=:=", "./b",   "-n",  "7",       ":",   "-n", "2", "--",  "-c"}))
            .options;
    REQUIRE(options.programs.size() == 3);
    CHECK(options.ending.keep_going);
    CHECK(options.programs[0].ranks == 1u);
    CHECK(options.programs[0].command == Words{"./a", "x"});
    REQUIRE(options.programs[0].settings.size() == 2);
    CHECK(options.programs[0].settings[0].name == "A");
    CHECK(options.programs[0].settings[0].value == "1");
    CHECK_FALSE(options.programs[0].settings[1].value.has_value());
    CHECK(options.programs[1].ranks == 3u);
    CHECK(options.programs[1].folder == "/tmp");
    CHECK(options.programs[1].settings[0].value == ":=");
    CHECK(options.programs[1].command == Words{"./b", "-n", "7"});
    CHECK(options.programs[2].command == Words{"-c"});
}

TEST_CASE("a program of several that lacks something is an error that says what") {
    CHECK(detail_of(parse({"-n", "1", "./a", ":", "./b"})).find("how many ranks run ./b?") != std::string::npos);
    CHECK(detail_of(parse({"./a", ":", "-n", "1", "./b"})).find("how many ranks run ./a?") != std::string::npos);
    CHECK(detail_of(parse({"-n", "1", "./a", ":"})).find("after each ':'") != std::string::npos);
    CHECK(detail_of(parse({":", "-n", "1", "./b"})).find("which program") != std::string::npos);
    CHECK(detail_of(parse({"-n1", "./a", ":", "-n1", "--gpus=1", "./b"})).find("whole job") != std::string::npos);
    CHECK(detail_of(parse({"-n1", "./a", ":", "-n1", "--help"})).find("whole job") != std::string::npos);
}

TEST_CASE("a dry run needs no program, and a recorded machine makes one") {
    CHECK(must(parse({"--dry-run"})).options.report.bindings);
    const Options options = must(parse({"--topology", "there.xml", "-n", "2"})).options;
    CHECK(options.report.record == "there.xml");
    CHECK(options.report.dry_run);
    CHECK(options.report.bindings);
    const ReportOptions topo = must(parse({"--topo", "--json"})).options.report;
    CHECK(topo.topology);
    CHECK_FALSE(topo.bindings);
    CHECK(must(parse({"--topo", "--topology=there.xml"})).options.report.record == "there.xml");
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
    CHECK_FALSE(some.tag_host);
    CHECK(must(parse({"--tag-output=host", "app"})).options.output.tag_host);
    CHECK_STATUS(parse({"--tag-output=moon", "app"}), base::Status::kArgument);
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
    CHECK_FALSE(none.hang_timeout_ms.has_value());
    CHECK(must(parse({"--hang-timeout=1.5", "app"})).options.ending.hang_timeout_ms == 1500);
}

TEST_CASE("a command line that cannot be followed is an error in one line") {
    const std::initializer_list<std::initializer_list<const char*>> bad = {
        {},
        {"-n", "2"},
        {"-n"},
        {"-n", "0", "app"},
        {"-n", "-3", "app"},
        {"-n-3", "app"},
        {"-n", "10001", "app"},
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
        {"--stdin=10000", "app"},
        {"--output-dir=", "app"},
        {"--timeout=0", "app"},
        {"--timeout=soon", "app"},
        {"--hang-timeout=0", "app"},
        {"--hang-timeout=never", "app"},
        {"--timeout=", "app"},
        {"--timeout=1e9999", "app"},
        {"--timeout=nan", "app"},
        {"--grace=-1", "app"},
        {"--grace=inf", "app"},
        {"--grace=2s", "app"},
    };
    check_refused(bad);
    CHECK(static_cast<bool>(parse({"--", "--"}))); // a program of that name is odd, but a name
}

TEST_CASE("a placement, a setting or a report that cannot be followed is an error in one line") {
    check_refused({
        {"--map-by=core", "app"},
        {"--map-by=list:", "app"},
        {"--map-by=list:0", "--ranks-per-gpu=2", "app"},
        {"--ranks-per-gpu=0", "app"},
        {"--membind=strict", "app"},
        {"--gpu-visible=none", "app"},
        {"--map=", "app"},
        {"--map=0", "app"},
        {"--map=0:", "app"},
        {"--map=:0", "app"},
        {"--map=0:0,", "app"},
        {"--map=0:x", "app"},
        {"--map=0:3-1", "app"},
        {"--map=0:0:0:0", "app"},
        {"--map=0:0:0-1", "app"},
        {"--map=8,0:0", "app"},
        {"--map=0:0:1,8", "app"},
        {"--map=0:0:1,8-9:1", "app"},
        {"--map=0:99999", "app"},
        {"--map=1b:00.0", "app"},
        {"--map=0:0", "--gpus=0", "app"},
        {"--map=0:0", "--bind-to=core", "app"},
        {"--env", "=1", "app"},
        {"--env", "", "app"},
        {"--env", "GPURUN_RANK=1", "app"},
        {"--env=CUDA_VISIBLE_DEVICES=1", "app"},
        {"--env"},
        {"--json", "app"},
        {"--topo", "--report-bindings"},
    });
}

TEST_CASE("an option without its value does not take the program for it") {
    check_refused({{"--trace=", "./app", "argument"},
                   {"--output-dir=", "./app", "argument"},
                   {"-n", "1", "./app", ":", "-n", "1", "--chdir=", "./app", "argument"},
                   {"--membind=", "./app"},
                   {"./app", ":", "-n"},
                   {"-n"}});
    CHECK(detail_of(parse({"--trace=", "./app", "argument"})).starts_with("--trace needs a value"));
    CHECK(detail_of(parse({"-n"})).starts_with("-n needs a value"));
    CHECK(must(parse({"--env=A=", "./app", "--trace="})).options.programs[0].command == Words{"./app", "--trace="});
    CHECK(must(parse({"--chdir", "", "./app"})).options.programs[0].folder == "");
    CHECK(detail_of(parse({"--hostfile", "", "./app"})) == "--hostfile needs the name of a file"); // as of "$UNSET"
    CHECK(detail_of(parse({"--fabric", "", "./app"})).starts_with("--fabric needs the name of a provider"));
}

TEST_CASE("a value that is said twice, mpirun's -np and a program without a name are told apart") {
    CHECK(detail_of(parse({"-n", "2", "--ranks=3", "./app"})).starts_with("--ranks is given twice"));
    CHECK(detail_of(parse({"-np", "2", "./app"})).find("mpirun") != std::string::npos);
    CHECK(detail_of(parse({"-n", "p", "2", "./app"})).find("'p'") != std::string::npos);
    CHECK(detail_of(parse({""})).starts_with("which program"));
    CHECK(must(parse({"-n2", "--tag-output", "--tag-output", "--env", "A", "--env", "B", "./app"}))
              .options.programs[0]
              .settings.size() == 2);
}

TEST_CASE("options of other launchers are answered with ours") {
    const std::pair<const char*, const char*> others[] = {{"-np", "-n RANKS"},
                                                          {"--np", "-n RANKS"},
                                                          {"-N", "-n RANKS"},
                                                          {"-ppn", "--ppn RANKS"},
                                                          {"-npernode", "--ppn RANKS"},
                                                          {"-v", "--report-bindings"},
                                                          {"-q", "leave it out"},
                                                          {"--nproc-per-node", "-n "},
                                                          {"--nproc_per_node", "-n "},
                                                          {"-x", "--env"},
                                                          {"-wdir", "--chdir"},
                                                          {"-H", "--hosts HOST"},
                                                          {"-hostfile", "--hostfile FILE"},
                                                          {"--label", "--tag-output"},
                                                          {"--output-filename", "--output-dir"},
                                                          {"--time", "--timeout"},
                                                          {"-t", "torchrun's --tee write --output-dir"},
                                                          {"-r", "torchrun's --redirects write --output-dir"},
                                                          {"--cwd", "--chdir"},
                                                          {"-genvall", "leave it out"},
                                                          {"--merge-stderr-to-stdout", "2>&1"},
                                                          {"--rankfile", "--map GPU:CPUS"},
                                                          {"-rf", "--map GPU:CPUS"},
                                                          {"--app", "-n RANKS ./a : -n RANKS ./b"},
                                                          {"-configfile", "-n RANKS ./a : -n RANKS ./b"},
                                                          {"--multi-prog", "-n RANKS ./a : -n RANKS ./b"},
                                                          {"--launch-agent", "--agent COMMAND"},
                                                          {"-launcher", "--agent COMMAND"},
                                                          {"--wait", "--keep-going"},
                                                          {"--distribution", "--map-by"},
                                                          {"--bynode", "--hosts HOST:RANKS"},
                                                          {"--byslot", "leave it out"},
                                                          {"--bind-to-core", "--bind-to core"},
                                                          {"--role", "leave it out"},
                                                          {"--local-ranks-filter", "--filter RANKS"},
                                                          {"--local_ranks_filter", "--filter RANKS"},
                                                          {"--display-devel-map", "--report-bindings"},
                                                          {"-nolocal", "--hosts HOST"},
                                                          {"-V", "--version"},
                                                          {"--mca", "gpurun_environment(7)"},
                                                          {"-m", "python3 -m"},
                                                          {"--master_port", "MASTER_PORT"},
                                                          {"--cpu-bind", "--bind-to"},
                                                          {"-c", "share of the cores"},
                                                          {"--cpus-per-task", "--map GPU:CPUS"},
                                                          {"--pernode", "--ppn 1"},
                                                          {"--prefix", "leave it out"},
                                                          {"--gpu-bind", "--gpus"},
                                                          {"--mem", "does not limit memory: leave it out"},
                                                          {"--exclusive", "salloc"},
                                                          {"-J", "sbatch"},
                                                          {"-p", "sbatch"},
                                                          {"--tee", "--output-dir"},
                                                          {"--redirects", "--output-dir"},
                                                          {"--max-restarts", "--keep-going"},
                                                          {"--mpi", "leave it out"},
                                                          {"--no-python", "leave it out"},
                                                          {"--allow-run-as-root", "leave it out"}};
    for (const auto& [theirs, ours] : others) {
        for (const std::string& detail :
             {detail_of(parse({theirs, "4", "./app"})), detail_of(parse({"-n", "2", theirs, "4", "./app"})),
              detail_of(parse({base::format("{}=4", theirs).c_str(), "./app"}))}) {
            CAPTURE(detail);
            CHECK(detail.starts_with(base::format("unknown option {}: ", theirs)));
            CHECK(detail.find(ours) != std::string::npos);
        }
    }
    CHECK(detail_of(parse({"--map-by", "ppr:2:gpu", "./app"})).find("--ranks-per-gpu N") != std::string::npos);
    CHECK(detail_of(parse({"--map-by", "slot:PE=4", "./app"})).find("--map GPU:CPUS") != std::string::npos);
    CHECK(detail_of(parse({"--map-by", "slot:span", "./app"})).find("leave it out") != std::string::npos);
    CHECK(detail_of(parse({"--bind-to", "hwthread", "./app"})).find("leave it out") != std::string::npos);
    CHECK(detail_of(parse({"-N2", "./app"})).starts_with("unknown option -N2: on one node write -n RANKS"));
    CHECK(detail_of(parse({"-c4", "./app"})).starts_with("unknown option -c4: each rank gets its share"));
    CHECK(detail_of(parse({"-nosuch", "./app"})).starts_with("unknown option -nosuch"));
    CHECK(must(parse({"-n4", "./app"})).options.programs[0].ranks == 4);
    CHECK(must(parse({"./app", "-np", "4"})).options.programs[0].command == Words{"./app", "-np", "4"});
}

TEST_CASE("a typing error is answered with the nearest option, if there is one") {
    const auto meant = [](const char* word) {
        const std::string detail = detail_of(parse({word, "4", "./app"}));
        const size_t at = detail.find("did you mean ");
        return at == std::string::npos ? "" : detail.substr(at + 13, detail.find('?') - at - 13);
    };
    CHECK(meant("--timout") == "--timeout");
    CHECK(meant("--tiemout=5") == "--timeout");
    CHECK(meant("-timeout") == "--timeout");
    CHECK(meant("--tag_output") == "--tag-output");
    CHECK(meant("--Gpus") == "--gpus");
    CHECK(meant("--gpu") == "--gpus");
    CHECK(meant("--oversub") == "--oversubscribe");
    CHECK(meant("--keepgoing") == "--keep-going");
    CHECK(meant("--ranks-per-gpus") == "--ranks-per-gpu");
    CHECK(meant("--rank") == "--ranks");
    CHECK(meant("--bogus") == "");
    CHECK(meant("--t") == "");
    CHECK(meant("--out") == "--output-dir");
    CHECK(meant("-q") == "");
}

TEST_CASE("an error names what was written") {
    CHECK(detail_of(parse({"-n", "0", "app"})).find("'0'") != std::string::npos);
    CHECK(detail_of(parse({"--bogus", "app"})).find("--bogus") != std::string::npos);
    CHECK(detail_of(parse({"--device=gpu", "app"})).find("'gpu'") != std::string::npos);
    CHECK(detail_of(parse({"--mps=yes", "app"})).find("'yes'") != std::string::npos);
    CHECK(detail_of(parse({"--bind-to=l3", "app"})) == "--bind-to must be core, numa or none, not 'l3'");
    CHECK(detail_of(parse({"--map=0:0,7:x", "app"})).find("'7:x'") != std::string::npos);
}

TEST_CASE("help and version need no program") {
    CHECK(must(parse({"--help"})).to_print.starts_with("Usage: gpurun"));
    CHECK(must(parse({"-h"})).to_print.starts_with("Usage: gpurun"));
    CHECK(must(parse({"--version"})).to_print.starts_with("gpurun "));
}

TEST_SUITE_END();

} // namespace gpurun::test::options
