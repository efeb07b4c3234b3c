// The processes of the facts program and what they share: starting, killing and bounding them, and the few driver
// functions that it needs. No libcuda.so at link time.
#pragma once

#include "entry_point.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

// A step that only prepares: without it there is nothing to measure.
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t must_result = (call);                                                                        \
        if (must_result != cudaSuccess) {                                                                              \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(must_result));                       \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (false)

namespace facts {

constexpr size_t kPage = 4096;
constexpr double kReleaseSeconds = 1.0;   // how long a release may take before it counts as none
constexpr unsigned kSurvivorSeconds = 10; // one scenario, start-up included
constexpr double kAllSeconds = 27.0;

enum class Scenario : int { kCounters, kEventsBehindCounter, kEventsBehindKernel };

inline const char* name(Scenario scenario) {
    switch (scenario) {
    case Scenario::kCounters: return "counters and memory";
    case Scenario::kEventsBehindCounter: return "event behind a counter";
    case Scenario::kEventsBehindKernel: return "event behind a kernel";
    }
    return "?";
}

inline double now_seconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

inline void sleep_ms(long ms) {
    const timespec time{ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, nullptr);
}

inline bool fact(const char* where, const char* what, bool holds) {
    printf("%s: %s: %s\n", where, what, holds ? "yes" : "NO");
    return holds;
}

inline void value(const char* where, const char* what, double number) { printf("%s: %s: %.0f\n", where, what, number); }

// The page that survivor and victim share.
struct Shared {
    std::atomic<uint64_t> gate;     // holds the victim's stream; nobody writes it
    std::atomic<uint64_t> crossing; // by the victim's stream, awaited by the survivor's
    std::atomic<uint64_t> lost;     // awaited by the survivor's stream, stored by its CPU
    std::atomic<uint32_t> ready;    // by the victim, once the handles are written
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};
static_assert(sizeof(Shared) <= kPage, "one page");

class Segment {
  public:
    Segment() : Segment(make()) {}
    explicit Segment(int fd) : fd_(fd) {
        void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED) {
            perror("facts: mmap");
            _exit(1);
        }
        shared_ = static_cast<Shared*>(page);
    }
    int fd() const { return fd_; }
    Shared& shared() const { return *shared_; }

  private:
    static int make() {
        const int fd = memfd_create("facts", 0); // inherited by the victim
        if (fd < 0 || ftruncate(fd, kPage) != 0) {
            perror("facts: memfd");
            _exit(1);
        }
        return fd;
    }
    int fd_;
    Shared* shared_;
};

class MemoryOperations {
  public:
    MemoryOperations() {
        MUST(find_entry_point("cuStreamWriteValue64", write_));
        MUST(find_entry_point("cuStreamWaitValue64", wait_));
    }
    void write(cudaStream_t stream, std::atomic<uint64_t>* counter, uint64_t to) const {
        must(write_(stream, reinterpret_cast<CUdeviceptr>(counter), to, CU_STREAM_WRITE_VALUE_DEFAULT), "write");
    }
    void await(cudaStream_t stream, std::atomic<uint64_t>* counter, uint64_t at_least) const {
        must(wait_(stream, reinterpret_cast<CUdeviceptr>(counter), at_least, CU_STREAM_WAIT_VALUE_GEQ), "await");
    }

  private:
    using Operation = CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned);

    static void must(CUresult result, const char* what) {
        if (result != CUDA_SUCCESS) {
            printf("facts: counter %s: error %d\n", what, static_cast<int>(result));
            _exit(1);
        }
    }

    Operation write_ = nullptr;
    Operation wait_ = nullptr;
};

// Microseconds until the stream has nothing left to do; -1 if `limit_s` passes, or if it fails.
inline double released_after_us(cudaStream_t stream, double limit_s) {
    const double start = now_seconds();
    for (;;) {
        const cudaError_t state = cudaStreamQuery(stream);
        const double passed = now_seconds() - start;
        if (state == cudaSuccess)
            return passed * 1e6;
        if (state != cudaErrorNotReady || passed > limit_s)
            return -1;
        (void)cudaGetLastError();
    }
}

inline pid_t start(const char* program, const char* const* arguments) {
    pid_t pid = -1;
    if (posix_spawn(&pid, program, nullptr, nullptr, const_cast<char* const*>(arguments), environ) != 0) {
        printf("facts: cannot start %s\n", program);
        _exit(1);
    }
    return pid;
}

class Victim {
  public:
    Victim(const char* self, Scenario scenario, int device, int fd) {
        char numbers[3][16];
        snprintf(numbers[0], sizeof(numbers[0]), "%d", static_cast<int>(scenario));
        snprintf(numbers[1], sizeof(numbers[1]), "%d", device);
        snprintf(numbers[2], sizeof(numbers[2]), "%d", fd);
        const char* arguments[] = {self, "victim", numbers[0], numbers[1], numbers[2], nullptr};
        pid_ = start("/proc/self/exe", arguments);
    }
    ~Victim() { kill_and_reap(); }

    bool alive() const { return pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0; }
    // Returns when the kernel has taken the process apart, CUDA's part included.
    void kill_and_reap() {
        if (pid_ <= 0)
            return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

  private:
    pid_t pid_ = -1;
};

inline void die_with_survivor() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kSurvivorSeconds + 5);
}

inline void await_victim(const Shared& shared, const Victim& victim) {
    while (shared.ready.load(std::memory_order_acquire) == 0) { // pairs with the victim's release: handles follow
        if (!victim.alive()) {
            printf("facts: the victim ended early\n");
            _exit(1);
        }
        sleep_ms(1);
    }
}

// The exit status of a process of this program; -1 if it was killed or runs longer than `limit_s`.
inline int run_bounded(const char* const* arguments, double limit_s) {
    const pid_t pid = start("/proc/self/exe", arguments);
    const double begin = now_seconds();
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_seconds() - begin > limit_s) {
            kill(pid, SIGKILL);
            return -1; // not waited for: it may be stuck in the driver
        }
        sleep_ms(5);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Of the process that count_devices() starts, its exit status.
inline std::optional<int> counted_devices(int argc, char** argv) {
    if (argc != 2 || strcmp(argv[1], "count") != 0)
        return std::nullopt;
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

// In a process of its own: this one must not have used CUDA when it starts others.
inline bool count_devices(const char* self, int& devices) {
    const char* arguments[] = {self, "count", nullptr};
    devices = run_bounded(arguments, kSurvivorSeconds);
    return devices >= 0;
}

inline bool run_survivor(const char* self, Scenario scenario, bool two_devices) {
    char number[16];
    snprintf(number, sizeof(number), "%d", static_cast<int>(scenario));
    const char* arguments[] = {self, "survivor", number, two_devices ? "1" : "0", nullptr};
    const int status = run_bounded(arguments, kSurvivorSeconds + 1);
    if (status == -1)
        printf("%s, %s: stopped, out of time\n", name(scenario), two_devices ? "two GPUs" : "one GPU");
    return status == 0;
}

} // namespace facts
