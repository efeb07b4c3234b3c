// Runs the suite on the device that GPURUN_TEST_DEVICE names, or, started by a test, plays the other process. Tests of
// what the device lacks are left out.
// Exit status 77: that device is not here, so nothing was tested.
#define DOCTEST_CONFIG_IMPLEMENT
#include "subject.hpp"

#include "other_process.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gpurun::conformance {

namespace {

// The suites of one capability, or of several; all others are the core's.
struct SuiteOf {
    const char* suite;
    std::initializer_list<device::Capability> needs;
};
using enum device::Capability;
const SuiteOf kSuites[] = {
    {"chains", {kMails, kFencedCopies}},
    {"channel waits", {kChannels}},
    {"channels", {kChannels}},
    {"channels of the dead", {kChannels}},
    {"clock", {kClock}},
    {"counters", {kCounters}},
    {"elsewhere", {kOrderedMemory, kOtherDevices}},
    {"fenced copies", {kFencedCopies}},
    {"fused-reduce", {kFusedReduce}},
    {"graph-reduce", {kFusedReduce, kChannels}},
    {"graphs", {kGraphs}},
    {"mails", {kMails}},
    {"ordered memory", {kOrderedMemory}},
    {"reduce", {kReduce}},
    {"run logs", {kChannels, kClock}},
    {"shared channels", {kChannels}},
    {"shared counters", {kCounters}},
    {"times", {kMails, kFencedCopies, kClock}},
};

// Null if the device has all.
const device::CapabilityInfo* missing(const SuiteOf& of) {
    for (const device::Capability each : of.needs)
        if (!device::info_of(each).is_in(subject()))
            return &device::info_of(each);
    return nullptr;
}

void leave_out_missing(doctest::Context& context) {
    for (const SuiteOf& each : kSuites)
        if (const device::CapabilityInfo* const lacking = missing(each)) {
            std::printf("skipped: '%s', since %s lacks '%s'\n", each.suite, subject().info().name.c_str(),
                        lacking->name);
            context.addFilter("test-suite-exclude", each.suite);
        }
}

} // namespace

} // namespace gpurun::conformance

int main(int argc, char** argv) {
    using namespace gpurun::conformance;
    // As gpurun does for ranks: with fewer, one stream's wait may hold up what another was given later.
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (argc == 3 && std::strcmp(argv[1], kServeArgument) == 0)
        return serve(argv[2]);

    if (auto opened = open_subject(); !opened) {
        const bool missing = !is_emulated() && opened.error().status == Status::kDevice;
        std::fprintf(stderr, "%s: %s\n", missing ? "skipped" : "cannot open the device", opened.error().detail.c_str());
        return missing ? 77 : 1;
    }
    doctest::Context context;
    context.applyCommandLine(argc, argv);
    leave_out_missing(context);
    const int failed = context.run();
    if (failed != 0 && seed() != 0)
        std::fprintf(stderr, "GPURUN_TEST_SEED=%llu replays these delays\n", static_cast<unsigned long long>(seed()));
    close_subject();
    return failed;
}
