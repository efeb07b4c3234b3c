// What the hardware and CUDA take for the steps of a message between two GPUs, measured without gpurun: a figure of
// gpurun-perf that comes near one of these is at its limit.
//
//     device_limits [--one [--mps]] [--rounds N] [--only REGEX]
//
// Two ranks, processes with a GPU each (both on GPU 0 with --one: under an MPS daemon that the caller has started, or
// without, and then only what does not wait in kernels; --mps says that there is one, where the driver does not know).
// They are forked before any call of CUDA, and watched by the process that has started them, which never calls it.
// Cases of a kind take turns, a round of each (--rounds, default 3); --only picks those whose title has a match. Each
// median of a round is printed at once; last comes the table: median and least of all samples, and how far the medians
// of the rounds lie apart.
//
// Ranks are not bound to CPUs; taskset and numactl can do that. Exits 0, 1 if something has failed (contents of
// messages are checked, and waits have bounds), and 77 without two GPUs. How long things take fails nothing.
#include "limits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include <poll.h>
#include <sys/syscall.h>

namespace {

using namespace limits;

constexpr double kCasesSeconds = 50; // no case begins later
constexpr double kMoreRoundsSeconds = 12;
constexpr double kLastSeconds = 15; // for the case that is under way then
constexpr double kGraceSeconds = 3; // for a rank whose partner has failed

[[noreturn]] void usage(const char* why) {
    fprintf(stderr, "device_limits: %s\nUsage: device_limits [--one [--mps]] [--rounds N] [--only REGEX]\n", why);
    exit(2);
}

Options parsed(int argc, char** argv) {
    Options options;
    const char* const ranks = getenv("GPURUN_SIZE");
    if (ranks != nullptr && atoi(ranks) > 1) // they would use the same two GPUs at once
        usage("it starts its two ranks itself: start it without gpurun, or with gpurun -n 1");
    for (int i = 1; i < argc; i++) {
        const std::string option = argv[i];
        const bool has_value = option == "--rounds" || option == "--only";
        if (has_value && i + 1 == argc)
            usage((option + " needs a value").c_str());
        if (option == "--one")
            options.one = true;
        else if (option == "--mps")
            options.mps = true;
        else if (option == "--rounds")
            options.rounds = atoi(argv[++i]);
        else if (option == "--only")
            options.only = argv[++i];
        else
            usage(("no option " + option).c_str());
    }
    if (options.rounds < 1 || options.rounds > 50)
        usage("--rounds is 1 to 50");
    try {
        const std::regex tried(options.only);
    } catch (const std::regex_error&) {
        usage("--only is no regular expression");
    }
    options.until = now_seconds() + kCasesSeconds + kMoreRoundsSeconds * std::max(0, options.rounds - 3);
    return options;
}

struct Memory {
    Shared* shared;
    unsigned char* rings;
};

Memory shared_memory() {
    void* memory =
        mmap(nullptr, kSharedBytes + kRings * kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("device_limits: mmap");
        exit(1);
    }
    return {new (memory) Shared(), static_cast<unsigned char*>(memory) + kSharedBytes};
}

[[noreturn]] void be_rank(int rank, const Options& options, const Memory& memory) {
    // A kernel that is loaded at its first launch waits for those that run, which may wait for it.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    {
        Pair pair(rank, options, *memory.shared, memory.rings);
        Report report(pair);
        host_order(pair, report);
        kernel_messages(pair, report);
        calls(pair, report);
        if (!options.one) { // these ask nothing of two ranks, or of a link
            clocks(pair, report);
            copies(pair, report);
        }
        report.print();
        pair.meet(); // neither goes before the other has measured
    }
    fflush(stdout);
    _exit(0);
}

pid_t start_rank(int rank, const Options& options, const Memory& memory) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
        perror("device_limits: fork");
        exit(1);
    }
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    be_rank(rank, options, memory);
}

// Until both have ended: one whose partner has failed is released, then killed. False if not both have ended well.
bool watch(const std::array<pid_t, 2>& ranks, double until, Shared& shared) {
    std::array<pollfd, 2> ends{};
    for (int i = 0; i < 2; i++) {
        ends[i] = {static_cast<int>(syscall(SYS_pidfd_open, ranks[i], 0)), POLLIN, 0};
        if (ends[i].fd < 0) {
            perror("device_limits: pidfd_open");
            exit(1); // the ranks die with this process
        }
    }
    bool good = true, killed = false;
    for (int left = 2; left > 0;) {
        const double rest_s = until - now_seconds();
        if (rest_s <= 0) {
            if (killed)
                return false; // stuck in the driver
            printf("device_limits: stopped, out of time\n");
            good = false;
            killed = true;
            shared.end();
            for (int i = 0; i < 2; i++)
                if (ends[i].fd >= 0)
                    kill(ranks[i], SIGKILL);
            until = now_seconds() + kGraceSeconds;
            continue;
        }
        if (poll(ends.data(), ends.size(), static_cast<int>(rest_s * 1e3) + 1) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++) {
            if (ends[i].fd < 0 || ends[i].revents == 0)
                continue;
            int status = 0;
            waitpid(ranks[i], &status, 0);
            close(ends[i].fd);
            ends[i].fd = -1;
            --left;
            if (status == 0)
                continue;
            printf("device_limits: rank %d has failed (status 0x%x)\n", i, static_cast<unsigned>(status));
            good = false;
            shared.end();
            until = std::min(until, now_seconds() + kGraceSeconds);
        }
    }
    return good;
}

} // namespace

int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (const auto devices = facts::counted_devices(argc, argv))
        return *devices;
    const Options options = parsed(argc, argv);
    int devices = 0;
    if (!facts::count_devices("/proc/self/exe", devices)) {
        printf("the GPUs cannot be counted\n");
        return 1;
    }
    if (devices < (options.one ? 1 : 2)) {
        printf("%d GPUs: nothing to measure\n", devices);
        return 77;
    }
    const Memory memory = shared_memory();
    const std::array<pid_t, 2> ranks = {start_rank(0, options, memory), start_rank(1, options, memory)};
    return watch(ranks, options.until + kLastSeconds, *memory.shared) ? 0 : 1;
}
