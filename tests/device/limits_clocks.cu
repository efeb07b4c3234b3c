// What a kernel pays for knowing when it ran: reading a clock, and telling the host by stores to its memory. Each rank
// measures on its own GPU, with nobody to wait for.
#include "limits_kernels.cuh"

#include <memory>
#include <optional>

namespace limits {

namespace {

struct Global64 {
    static __device__ uint64_t read() { return global_ns(); }
};
struct Global32 {
    static __device__ uint64_t read() {
        uint32_t now;
        asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(now)::"memory");
        return now;
    }
};
struct Cycles {
    static __device__ uint64_t read() { return static_cast<uint64_t>(clock64()); }
};
struct NoClock { // beside which nothing is read
    static __device__ uint64_t read() { return 0; }
};

struct Times {
    uint64_t cycles, ns, kept;
};

constexpr uint32_t kReads = 16384;
constexpr uint32_t kWorks = 256;

// None begins before the one before it is known: a branch depends on it. No clock ever reads `never`.
template <typename Clock>
__global__ void read_in_a_row(Times* times, uint32_t reads, uint64_t never) {
    const uint64_t began_ns = global_ns();
    const uint64_t began = Cycles::read();
    uint64_t last = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < reads; ++i) {
        last = Clock::read();
        if (last == never)
            break;
    }
    const uint64_t ended = Cycles::read();
    *times = {ended - began, global_ns() - began_ns, last};
}

// 64 additions, each of which needs the one before.
__device__ float work(float value) {
#pragma unroll
    for (int i = 0; i < 64; ++i)
        asm volatile("add.rn.f32 %0, %0, 0f3F800000;" : "+f"(value));
    return value;
}

// A reading before some work, whose result the work needs, or nobody before the end.
template <typename Clock, bool kAtOnce>
__global__ void read_before_work(Times* times, uint32_t works, uint64_t never) {
    uint64_t cycles = 0, kept = 0;
    float value = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < works; ++i) {
        const uint64_t began = Cycles::read();
        const uint64_t now = Clock::read();
        if (kAtOnce && now == never)
            value = 1;
        value = work(value);
        cycles += Cycles::read() - began;
        asm volatile("add.u64 %0, %0, %1;" : "+l"(kept) : "l"(now)); // not before
    }
    *times = {cycles, 0, kept + static_cast<uint64_t>(value)};
}

enum class Told { kNothing, kHost, kHostFenced, kDevice };

struct Link {
    uint64_t* where; // for three
    uint32_t stores, fenced;
};

// A kernel of a chain.
__global__ void tell(const Link link) {
    let_next_start();
    await_predecessors();
    if (threadIdx.x != 0)
        return;
    if (link.fenced != 0)
        __threadfence_system();
    for (uint32_t i = 0; i < link.stores; ++i)
        store_host(link.where + i, i + 1);
}

constexpr int kLinks = 64;

class Clocks {
  public:
    explicit Clocks(Pair& pair) : pair_(pair) {
        MUST(cudaMallocHost(&times_, sizeof(*times_)));
        MUST(cudaMallocHost(&host_, 3 * sizeof(*host_)));
        MUST(cudaMalloc(&device_, 3 * sizeof(*device_)));
        for (const bool early : {false, true})
            for (const Told told : {Told::kNothing, Told::kHost, Told::kHostFenced, Told::kDevice})
                chains_[early][static_cast<int>(told)].emplace(stream_, [&] { enqueue(early, told); });
        pair_.finish(stream_);
    }
    ~Clocks() {
        cudaFree(device_);
        cudaFreeHost(host_);
        cudaFreeHost(times_);
    }
    Clocks(const Clocks&) = delete;
    Clocks& operator=(const Clocks&) = delete;

    template <typename Clock>
    Samples in_a_row(uint64_t Times::*unit) {
        return samples_of(read_in_a_row<Clock>, kReads, unit);
    }

    template <typename Clock, bool kAtOnce>
    Samples before_work() {
        return samples_of(read_before_work<Clock, kAtOnce>, kWorks, &Times::cycles);
    }

    // Microseconds from a kernel to the next.
    Samples chain(bool early, Told told) {
        constexpr int kWindows = 20, kRuns = 5;
        Samples samples;
        pair_.meet();
        for (int window = 0; window <= kWindows; window++) {
            const double begin = now_seconds();
            for (int run = 0; run < kRuns; run++)
                chains_[early][static_cast<int>(told)]->launch(stream_);
            pair_.finish(stream_);
            if (window > 0)
                samples.push_back((now_seconds() - begin) / (kLinks * kRuns) * 1e6);
        }
        return samples;
    }

  private:
    template <typename Symbol>
    Samples samples_of(Symbol* symbol, uint32_t count, uint64_t Times::*unit) {
        constexpr int kRepeats = 10;
        constexpr uint64_t kNever = ~uint64_t{0};
        Samples samples;
        for (int i = 0; i <= kRepeats; i++) {
            symbol<<<1, 1, 0, stream_>>>(times_, count, kNever);
            MUST(cudaGetLastError());
            pair_.finish(stream_);
            if (i > 0)
                samples.push_back(static_cast<double>(times_->*unit) / count);
        }
        return samples;
    }

    void enqueue(bool early, Told told) {
        const Kernel tells = kernel(tell, 1, 32, early);
        const Link link{told == Told::kDevice ? device_ : host_, told == Told::kNothing ? 0u : 3u,
                        told == Told::kHostFenced ? 1u : 0u};
        for (int i = 0; i < kLinks; i++)
            launch(pair_, tells, stream_, link);
    }

    Pair& pair_;
    Stream stream_;
    Times* times_ = nullptr;
    uint64_t* host_ = nullptr;
    uint64_t* device_ = nullptr;
    std::optional<Graph> chains_[2][4];
};

} // namespace

void clocks(Pair& pair, Report& report) {
    std::unique_ptr<Clocks> on;
    const std::vector<Case> cases = {
        {"7 in a row: %globaltimer", "three in a kernel, with --trace",
         [&] { return on->in_a_row<Global64>(&Times::cycles); }, "cyc"},
        {"7 in a row: %globaltimer", "", [&] { return on->in_a_row<Global64>(&Times::ns); }, "ns"},
        {"7 in a row: %globaltimer_lo", "no", [&] { return on->in_a_row<Global32>(&Times::cycles); }, "cyc"},
        {"7 in a row: %globaltimer_lo", "", [&] { return on->in_a_row<Global32>(&Times::ns); }, "ns"},
        {"7 in a row: clock64()", "no", [&] { return on->in_a_row<Cycles>(&Times::cycles); }, "cyc"},
        {"7 in a row: clock64()", "", [&] { return on->in_a_row<Cycles>(&Times::ns); }, "ns"},
        {"7 work: alone", "", [&] { return on->before_work<NoClock, false>(); }, "cyc"},
        {"7 work behind %globaltimer, used at the end", "with --trace",
         [&] { return on->before_work<Global64, false>(); }, "cyc"},
        {"7 work behind %globaltimer, used at once", "no", [&] { return on->before_work<Global64, true>(); }, "cyc"},
        {"7 work behind %globaltimer_lo, used at the end", "no", [&] { return on->before_work<Global32, false>(); },
         "cyc"},
        {"7 work behind %globaltimer_lo, used at once", "no", [&] { return on->before_work<Global32, true>(); }, "cyc"},
        {"7 work behind clock64(), used at the end", "no", [&] { return on->before_work<Cycles, false>(); }, "cyc"},
        {"7 work behind clock64(), used at once", "no", [&] { return on->before_work<Cycles, true>(); }, "cyc"},
        {"7 chain of kernels", "", [&] { return on->chain(false, Told::kNothing); }},
        {"7 chain, 3 stores to the host each", "", [&] { return on->chain(false, Told::kHost); }},
        {"7 chain, a fence and 3 stores to the host each", "", [&] { return on->chain(false, Told::kHostFenced); }},
        {"7 chain, 3 stores to device memory each", "", [&] { return on->chain(false, Told::kDevice); }},
        {"7 early chain of kernels", "all kernels of messages", [&] { return on->chain(true, Told::kNothing); }},
        {"7 early chain, 3 stores to the host each", "with --trace", [&] { return on->chain(true, Told::kHost); }},
        {"7 early chain, a fence and 3 stores to the host each", "with --trace",
         [&] { return on->chain(true, Told::kHostFenced); }},
        {"7 early chain, 3 stores to device memory each", "no", [&] { return on->chain(true, Told::kDevice); }},
    };
    if (!report.selects(cases))
        return;
    on = std::make_unique<Clocks>(pair);
    report.take_turns(cases);
}

} // namespace limits
