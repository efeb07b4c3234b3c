// stress FIRST COUNT [SECONDS]: random programs of the seeds FIRST, FIRST + 1, ... on all ranks of a job, at most COUNT
// of them, and none is begun after SECONDS.
//
// Every rank derives the same program from the seed, and so knows what it must get (program.hpp). What goes wrong is
// printed with the command that makes it come back; a program that hangs says where each thread is.
#define DOCTEST_CONFIG_IMPLEMENT
#include "stress/captured.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern char** environ;

namespace gpurun::stress {

namespace {

constexpr unsigned kProgramSeconds = 120; // longer than any program takes under a sanitizer

std::atomic<uint64_t> g_seed = 0;
int g_rank = 0, g_size = 1;
const char* g_program = "stress";

// The settings of the job, without what gpurun itself sets for a rank.
std::string settings() {
    static constexpr const char* kOfRank[] = {"RANK=", "SIZE=", "LOCAL_", "CONTROL_", "DEVICE="};
    std::string all;
    for (char** variable = environ; *variable != nullptr; variable++) {
        bool wanted = std::strncmp(*variable, "GPURUN_", 7) == 0;
        for (const char* const of_rank : kOfRank)
            wanted = wanted && std::strncmp(*variable + 7, of_rank, std::strlen(of_rank)) != 0;
        if (wanted)
            all += std::string(*variable) + " ";
    }
    return all;
}

std::string devices() {
    const char* device = std::getenv("GPURUN_DEVICE");
    const char* count = device == nullptr ? nullptr : std::strchr(device, '/');
    return std::string("--device=") + (count == nullptr ? "cuda" : std::string("emulated:") + (count + 1));
}

void print_replay() {
    std::fprintf(stderr, "seed %llu; again: %sgpurun -n %d %s --oversubscribe %s %llu 1\n",
                 static_cast<unsigned long long>(g_seed), settings().c_str(), g_size, devices().c_str(), g_program,
                 static_cast<unsigned long long>(g_seed));
}

// In a signal handler; what it calls is not safe there, and the process is lost anyway.
void say_where(int signal) {
    if (signal == SIGALRM)
        std::fprintf(stderr, "rank %d: still in its program after %u s\n", g_rank, kProgramSeconds);
    else
        std::fprintf(stderr, "rank %d: is ended in its program\n", g_rank);
    for (int thread = 0; thread < kMaxThreads; thread++)
        std::fprintf(stderr, "rank %d: thread %d: epoch %d, position %d, index %d: %s\n", g_rank, thread,
                     g_places[thread].epoch.load(), g_places[thread].position.load(), g_places[thread].index.load(),
                     g_places[thread].call.load());
    print_replay();
    _exit(signal == SIGALRM ? 124 : 128 + signal);
}

void fail_assertion(const doctest::AssertData& data) {
    fail(std::string(data.m_file) + ":" + std::to_string(data.m_line) + ": " + data.m_expr + ": " +
         gpurun_error_detail());
}

// Rank 0 decides whether there is time for another program.
bool goes_on(double until) {
    int decision = gpurun_wtime() < until ? 1 : 0;
    REQUIRE_OK(gpurun_bcast(&decision, 1, GPURUN_INT32, 0, test::kWorld, GPURUN_HOST));
    return decision == 1;
}

void run_all(uint64_t first, uint64_t count, double seconds) {
    Executor executor;
    const Capturable capturable = find_capturable();
    const double until = gpurun_wtime() + seconds;
    Moved moved;
    uint64_t programs = 0;
    while (programs < count && goes_on(until)) {
        g_seed = first + programs;
        alarm(kProgramSeconds);
        const Moved more = executor.run(make_program(g_seed, g_size, capturable));
        REQUIRE_OK(gpurun_barrier(test::kWorld, GPURUN_HOST)); // tags are used again by the next program
        alarm(0);
        moved.messages += more.messages;
        moved.bytes += more.bytes;
        programs++;
    }
    if (g_rank == 0)
        std::printf("%llu programs from seed %llu on; rank 0 received %llu messages, %.1f MiB\n",
                    static_cast<unsigned long long>(programs), static_cast<unsigned long long>(first),
                    static_cast<unsigned long long>(moved.messages), static_cast<double>(moved.bytes) / 1048576);
}

} // namespace

void fail(const std::string& what) {
    std::fprintf(stderr, "rank %d: %s\n", g_rank, what.c_str());
    for (int thread = 0; thread < kMaxThreads; thread++)
        if (g_places[thread].epoch != kNone)
            std::fprintf(stderr, "rank %d: thread %d: epoch %d, position %d: %s\n", g_rank, thread,
                         g_places[thread].epoch.load(), g_places[thread].position.load(), g_places[thread].call.load());
    print_replay();
    gpurun_abort(1);
}

} // namespace gpurun::stress

int main(int argc, char** argv) {
    using namespace gpurun;
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s FIRST COUNT [SECONDS]\n", argv[0]);
        return 2;
    }
    doctest::Context context;
    context.setAsDefaultForAssertsOutOfTestCases();
    context.setAssertHandler(stress::fail_assertion);
    REQUIRE_OK(gpurun_init());
    stress::g_rank = test::rank();
    stress::g_size = test::size();
    stress::g_program = argv[0];
    std::signal(SIGALRM, stress::say_where);
    std::signal(SIGTERM, stress::say_where); // by gpurun: --timeout, or another rank has failed
    stress::run_all(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10),
                    argc > 3 ? std::strtod(argv[3], nullptr) : 1e9);
    REQUIRE_OK(gpurun_finalize());
    return 0;
}
