// gpurun-perf: how fast messages between two ranks and collectives of all ranks are, next to what the hardware gives
// without the runtime. See gpurun-perf(1). An ordinary program of the public API.
#include "call.hpp"
#include "captured.hpp"
#include "options.hpp"
#include "session.hpp"

#include <algorithm>
#include <cstdlib>

namespace {

using namespace gpurun::bench;

int say(const Refusal& refusal) {
    if (refusal.exit_status == 0)
        std::fputs(refusal.text.c_str(), stdout);
    else
        std::fprintf(stderr, "gpurun-perf: %s (gpurun-perf --help lists the options)\n", refusal.text.c_str());
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

// Before anything is measured; 0 if the job can be asked for what the options want.
int refuse_job(const Options& options, const Pair& pair) {
    if (pair.size() < 2) {
        std::fprintf(stderr, "gpurun-perf: messages need two ranks, and this job has one; start it with "
                             "gpurun -n 2 gpurun-perf (and --oversubscribe where there is one GPU)\n");
        return 2;
    }
    if (options.orders[0] != Order::kGraph)
        return 0;
    const bool any_two = std::any_of(options.tests.begin(), options.tests.end(), of_whole_job);
    const std::string reason = why_not_captured(pair, any_two);
    if (!reason.empty() && pair.rank() == 0)
        std::fprintf(stderr, "gpurun-perf: --order=graph cannot be measured here, --order=stream can: %s\n",
                     reason.c_str());
    return reason.empty() ? 0 : 2;
}

} // namespace

int main(int argc, char** argv) {
    const auto outcome = parse_options(argc, argv);
    if (const auto* refusal = std::get_if<Refusal>(&outcome))
        return refuse(*refusal);
    CALL(gpurun_init());
    const auto& options = std::get<Options>(outcome);
    const int refused = refuse_job(options, Pair::of_this_rank());
    if (refused == 0) {
        Session session(options);
        session.run();
    } // its memory and streams go before the job is left
    CALL(gpurun_finalize());
    return refused;
}
