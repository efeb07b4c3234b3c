// Runs the suite on the device that GPURUN_TEST_DEVICE names, or, started by a test, plays the other process.
// Exit status 77: that device is not here, so nothing was tested.
#define DOCTEST_CONFIG_IMPLEMENT
#include "subject.hpp"

#include "other_process.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

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
    const int failed = context.run();
    if (failed != 0 && seed() != 0)
        std::fprintf(stderr, "GPURUN_TEST_SEED=%llu replays these delays\n", static_cast<unsigned long long>(seed()));
    close_subject();
    return failed;
}
