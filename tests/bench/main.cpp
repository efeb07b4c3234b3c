// gpurun-perf: how fast messages are between two ranks, next to what the hardware gives without the runtime. See
// gpurun-perf(1). An ordinary program of the public API.
#include "call.hpp"
#include "options.hpp"
#include "session.hpp"

#include <cstdlib>

namespace {

using namespace gpurun::bench;

int say(const Refusal& refusal) {
    if (refusal.exit_status == 0)
        std::fputs(refusal.text.c_str(), stdout);
    else
        std::fprintf(stderr, "gpurun-perf: %s\n             gpurun-perf --help lists the options\n",
                     refusal.text.c_str());
    return refusal.exit_status;
}

// All ranks were given the same command line, and one of them says what is wrong with it. They join for that: a rank
// that left by itself could end the job before another has spoken.
int refuse(const Refusal& refusal) {
    int rank = 0;
    if (std::getenv("GPURUN_RANK") == nullptr || gpurun_init() != GPURUN_OK)
        return say(refusal);
    CALL(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (rank == 0)
        say(refusal);
    std::fflush(stdout);
    CALL(gpurun_finalize()); // waits for all ranks
    return refusal.exit_status;
}

} // namespace

int main(int argc, char** argv) {
    const auto outcome = parse_options(argc, argv);
    if (const auto* refusal = std::get_if<Refusal>(&outcome))
        return refuse(*refusal);
    CALL(gpurun_init());
    int size = 0;
    CALL(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    if (size < 2) {
        std::fprintf(stderr, "gpurun-perf: messages need two ranks, and this job has one; start it with "
                             "gpurun -n 2 gpurun-perf (and --oversubscribe where there is one GPU)\n");
        CALL(gpurun_finalize());
        return 2;
    }
    {
        Session session(std::get<Options>(outcome));
        session.run();
    } // its memory and streams go before the job is left
    CALL(gpurun_finalize());
    return 0;
}
