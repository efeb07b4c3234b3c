// The two ranks of device_limits: what they share, how they wait for each other, and what they measure.
//
// A rank is a process with a GPU. Both map Shared, which is pinned by both: CPUs store flags there, kernels and streams
// store what CPUs or the other rank's streams wait for. Every wait has a bound: a kernel's kKernelSeconds, a CPU's
// kWaitSeconds. Whoever gives up sets `over`, which ends all waits of both ranks; so does the process that has started
// them, when one dies. A rank has one thread.
#pragma once

#include "facts.hpp"

#include <cuda_runtime.h>

#include <array>
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace limits {

using facts::now_seconds;

constexpr double kKernelSeconds = 5;
constexpr double kWaitSeconds = 8; // kernels give up first, and say so
constexpr double kStartSeconds = 30;
constexpr uint64_t kPoison = uint64_t{1} << 62;
constexpr unsigned kMostPieces = 128; // with a wait and a signal for each: not more than fit into a stream at once
constexpr size_t kRingBytes = size_t{32} << 20;
constexpr int kRings = 2;

struct Options {
    bool one = false; // both ranks on GPU 0
    bool mps = false; // and the kernels of both run at once, whatever the driver says
    int rounds = 3;
    std::string only;
    double until = 0; // no case is started any more
};

struct alignas(64) Word {
    std::atomic<uint64_t> value;
    uint64_t* address() { return reinterpret_cast<uint64_t*>(&value); }
};
static_assert(sizeof(Word) == 64 && std::atomic<uint64_t>::is_always_lock_free, "a line each, and GPUs store there");

struct Shared {
    Word over;    // not 0: a rank has failed or died, or a kernel has waited in vain
    Word met[2];  // by the CPU of each rank: how often it has met the other
    Word flag[2]; // by the CPU of each rank: the number of its message
    Word done[2]; // by the GPU of each rank: the number of what it has done
    Word told[2]; // by the GPU of each rank, for the other's CPU
    Word go_on;
    std::atomic<uint64_t> filled[kMostPieces]; // by streams
    std::atomic<uint64_t> freed[kMostPieces];
    double numbers[2];
    cudaIpcMemHandle_t handles[2];

    // Ends whatever waits in a kernel, in a stream or on a CPU.
    void end() {
        over.value.store(1);
        for (unsigned i = 0; i < kMostPieces; i++) {
            filled[i].store(kPoison);
            freed[i].store(kPoison);
        }
    }
};
constexpr size_t kSharedBytes = facts::kPage;
static_assert(sizeof(Shared) <= kSharedBytes, "one page");

// The driver's functions whose cost is asked.
struct Driver {
    Driver();
    decltype(&::cuLaunchKernel) launch = nullptr;
    decltype(&::cuLaunchKernelEx) launch_ex = nullptr;
    decltype(&::cuStreamWriteValue64) write = nullptr;
    decltype(&::cuStreamWaitValue64) wait = nullptr;
    decltype(&::cuStreamBatchMemOp) batch = nullptr;
    decltype(&::cuStreamGetCtx) context_of = nullptr;
    decltype(&::cuStreamIsCapturing) is_capturing = nullptr;
    decltype(&::cuPointerGetAttributes) attributes = nullptr;
    decltype(&::cuCtxGetCurrent) current_context = nullptr;
};

class Pair {
  public:
    // `rings` are kRings of kRingBytes, shared by both and not pinned yet.
    Pair(int rank, const Options& options, Shared& shared, unsigned char* rings);

    bool leads() const { return rank_ == 0; }
    int rank() const { return rank_; }
    int other() const { return 1 - rank_; }
    const Options& options() const { return options_; }
    Shared& shared() const { return shared_; }
    unsigned char* ring(int number) const { return rings_ + number * kRingBytes; }
    const Driver& driver() const { return driver_; }
    bool spins() const { return spins_; } // kernels of both run at once, so that one may wait for the other's

    template <typename Come>
    void await(const char* what, const Come& come, double limit_s = kWaitSeconds) const {
        constexpr unsigned kLooksPerClock = 1024;
        double first = 0;
        for (unsigned looks = 1; !come(); looks++) {
            if (looks % kLooksPerClock != 0)
                continue;
            const double now = now_seconds();
            if (first == 0)
                first = now;
            if (shared_.over.value.load() != 0)
                fail(what, "the other rank has failed, or a kernel has waited in vain");
            if (now - first > limit_s)
                fail(what, "waited too long");
        }
    }
    void await(const char* what, const Word& word, uint64_t at_least) const {
        // Pairs with a release of a CPU, or with a fence of a GPU.
        await(what, [&] { return word.value.load(std::memory_order_acquire) >= at_least; });
    }
    void meet(double limit_s = kWaitSeconds);
    void finish(cudaStream_t stream) const;
    double larger(double mine); // of both; both call it
    bool agreed(bool yes);      // the leader decides; both call it
    void write(cudaStream_t stream, std::atomic<uint64_t>* counter, uint64_t value) const;
    void await_in(cudaStream_t stream, std::atomic<uint64_t>* counter, uint64_t at_least) const;
    void must(CUresult result, const char* what) const;
    [[noreturn]] void fail(const char* what, const char* why) const;

  private:
    int rank_;
    const Options& options_;
    Shared& shared_;
    unsigned char* rings_;
    Driver driver_;
    uint64_t met_ = 0;
    bool spins_ = true;
};

class Stream {
  public:
    Stream() { MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
    ~Stream() { cudaStreamDestroy(stream_); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator cudaStream_t() const { return stream_; }

  private:
    cudaStream_t stream_ = nullptr;
};

class Event {
  public:
    explicit Event(unsigned flags) { MUST(cudaEventCreateWithFlags(&event_, flags)); }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    operator cudaEvent_t() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

// Device memory of each rank that the other has mapped, all 0 at first. Made and given back by both together.
class Exported {
  public:
    Exported(Pair& pair, size_t bytes);
    ~Exported();
    Exported(const Exported&) = delete;
    Exported& operator=(const Exported&) = delete;
    unsigned char* own() const { return own_; }
    unsigned char* theirs() const { return theirs_; }

  private:
    Pair& pair_;
    unsigned char* own_ = nullptr;
    unsigned char* theirs_ = nullptr;
};

constexpr unsigned kRoundTrips = 32; // of a graph: a mailbox for each message
constexpr size_t kLargestMessage = 8192;
constexpr size_t kPlaceBytes = 2 * kLargestMessage;
constexpr size_t kMailboxBytes = 2 * kPlaceBytes; // a message uses its two places in turns

// A buffer that a message is sent from and received in, so that a round trip needs what came, and mailboxes.
class Arena {
  public:
    explicit Arena(Pair& pair) : pair_(pair), memory_(pair, kArenaBytes) {}

    unsigned char* data() const { return memory_.own(); }
    unsigned char* their_data() const { return memory_.theirs(); }
    unsigned char* mailbox(unsigned number) const { return memory_.own() + mailbox_at(number); }
    unsigned char* their_mailbox(unsigned number) const { return memory_.theirs() + mailbox_at(number); }

    // The leader's buffer has contents, the other's none; later both have them. Both call it.
    void begin();
    void check(size_t bytes);

  private:
    static constexpr size_t kArenaBytes = size_t{4} << 20; // an allocation of its own for CUDA IPC
    static_assert(kLargestMessage + kRoundTrips * kMailboxBytes <= kArenaBytes, "room for the mailboxes");
    static constexpr size_t mailbox_at(unsigned number) { return kLargestMessage + number * kMailboxBytes; }

    Pair& pair_;
    Exported memory_;
    std::vector<unsigned char> sent_;
    unsigned char turn_ = 0;
};

// A kernel, how it is launched, and with how much.
struct Kernel {
    CUfunction function = nullptr;
    unsigned grid = 1;
    unsigned threads = 1;
    bool early = false; // before what it follows in its stream has ended
};

template <typename Symbol>
Kernel kernel(Symbol* symbol, unsigned grid, unsigned threads, bool early = false) {
    Kernel made{nullptr, grid, threads, early};
    MUST(cudaGetFuncBySymbol(&made.function, reinterpret_cast<const void*>(symbol))); // loads it, too
    return made;
}

template <typename Arguments>
void launch(const Pair& pair, const Kernel& kernel, cudaStream_t stream, const Arguments& arguments) {
    void* parameters[] = {const_cast<Arguments*>(&arguments)};
    if (!kernel.early) {
        pair.must(pair.driver().launch(kernel.function, kernel.grid, 1, 1, kernel.threads, 1, 1, 0, stream, parameters,
                                       nullptr),
                  "cuLaunchKernel");
        return;
    }
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config{};
    config.gridDimX = kernel.grid;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = kernel.threads;
    config.hStream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    pair.must(pair.driver().launch_ex(&config, kernel.function, parameters, nullptr), "cuLaunchKernelEx");
}

// What `enqueue` puts into a stream, as a graph. None is made while a kernel waits for a peer.
class Graph {
  public:
    Graph(cudaStream_t stream, const std::function<void()>& enqueue);
    ~Graph() { cudaGraphExecDestroy(runs_); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    void launch(cudaStream_t stream) const { MUST(cudaGraphLaunch(runs_, stream)); }

  private:
    cudaGraphExec_t runs_ = nullptr;
};

using Samples = std::vector<double>;

struct Case {
    std::string title;
    const char* gpurun;               // what it does there
    std::function<Samples()> measure; // by both ranks at once; the leader's samples count
    const char* unit = "us";
    double bytes = 0;   // of a sample in us
    bool spins = false; // in a kernel, for the peer's
};

// What the cases came to, as the leader has measured it.
class Report {
  public:
    explicit Report(Pair& pair) : pair_(pair), only_(pair.options().only) {}

    bool selects(const std::vector<Case>& cases) const;
    void take_turns(const std::vector<Case>& cases); // a round of each, then the next round
    void print() const;

  private:
    bool selects(const Case& each) const;

    Pair& pair_;
    std::regex only_;
    std::vector<std::string> lines_;
    bool in_time_ = true;
};

// The cases, a file each.
void host_order(Pair& pair, Report& report);
void kernel_messages(Pair& pair, Report& report);
void calls(Pair& pair, Report& report);
void clocks(Pair& pair, Report& report);
void copies(Pair& pair, Report& report);

} // namespace limits
