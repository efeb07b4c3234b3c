// What CUDA does when a process dies, measured: one line "fact: value" for each thing that the runtime relies on.
//
//     facts
//
// Three kinds of process, all this program. The first runs the scenarios, one after the other, each in a fresh
// survivor (a stream that stays stuck spoils its context). A survivor starts a victim, waits for something of its,
// kills it, and looks at what follows. They share one page of a memfd, registered with CUDA by both.
//
// Bounded: each survivor by an alarm, all of them by kAllSeconds; victims die with their survivor. Exits 0, 1 if a
// fact that the runtime relies on does not hold, or 77 without a GPU.
#include "facts.hpp"

#include <cstdlib>

namespace {

using namespace facts;

__global__ void spin(volatile unsigned* gate) {
    while (*gate == 0) {
    }
}

__global__ void add_one(unsigned* value) { *value += 1; }

constexpr size_t kBytes = 1 << 20;
constexpr int kPattern = 0x5a;

// The context still launches kernels, copies, and has no error pending.
bool healthy() {
    (void)cudaGetLastError(); // what cudaStreamQuery() left; an error that stays comes back
    unsigned* value = nullptr;
    unsigned read = 0;
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMalloc(&value, sizeof(*value)) != cudaSuccess ||
        cudaMemsetAsync(value, 0, sizeof(*value), stream) != cudaSuccess)
        return false;
    add_one<<<1, 1, 0, stream>>>(value);
    return cudaMemcpyAsync(&read, value, sizeof(read), cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
           released_after_us(stream, 2.0) >= 0 && read == 1 && cudaGetLastError() == cudaSuccess;
}

bool holds_pattern(const void* device_memory) {
    static unsigned char bytes[kBytes];
    memset(bytes, 0, kBytes);
    if (cudaMemcpy(bytes, device_memory, kBytes, cudaMemcpyDeviceToHost) != cudaSuccess)
        return false;
    for (unsigned char byte : bytes)
        if (byte != kPattern)
            return false;
    return true;
}

// ---- victims ---------------------------------------------------------------------------------------------------

void offer_memory(Shared& shared, const MemoryOperations& operations, cudaStream_t stream) {
    void* memory = nullptr;
    MUST(cudaMalloc(&memory, kBytes));
    MUST(cudaMemset(memory, kPattern, kBytes));
    MUST(cudaDeviceSynchronize());
    MUST(cudaIpcGetMemHandle(&shared.memory, memory));
    operations.write(stream, &shared.crossing, 1);
}

void offer_event(Shared& shared, const MemoryOperations& operations, cudaStream_t stream, bool by_kernel) {
    cudaEvent_t event = nullptr;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    MUST(cudaIpcGetEventHandle(&shared.event, event));
    if (by_kernel) {
        unsigned* gate = nullptr;
        MUST(cudaMalloc(&gate, sizeof(*gate)));
        MUST(cudaMemset(gate, 0, sizeof(*gate)));
        spin<<<1, 1, 0, stream>>>(gate);
        MUST(cudaGetLastError());
    } else {
        operations.await(stream, &shared.gate, 1);
    }
    MUST(cudaEventRecord(event, stream));
}

[[noreturn]] void be_victim(Scenario scenario, int device, Shared& shared) {
    MUST(cudaSetDevice(device));
    MUST(cudaHostRegister(&shared, kPage, cudaHostRegisterPortable | cudaHostRegisterMapped));
    const MemoryOperations operations;
    cudaStream_t stream = nullptr;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (scenario == Scenario::kCounters)
        offer_memory(shared, operations, stream);
    else
        offer_event(shared, operations, stream, scenario == Scenario::kEventsBehindKernel);
    shared.ready.store(1, std::memory_order_release); // pairs with await_victim(): the handle is written
    for (;;)
        pause();
}

// ---- survivors -------------------------------------------------------------------------------------------------

bool survive_counters(const char* where, Victim& victim, Shared& shared, cudaStream_t stream) {
    const MemoryOperations operations;
    operations.await(stream, &shared.crossing, 1);
    bool all = fact(where, "a counter in a registered memfd crosses processes, stream to stream",
                    released_after_us(stream, kReleaseSeconds) >= 0);
    void* theirs = nullptr;
    MUST(cudaIpcOpenMemHandle(&theirs, shared.memory, cudaIpcMemLazyEnablePeerAccess));
    all &= fact(where, "imported memory reads right while its exporter lives", holds_pattern(theirs));

    void* mine = nullptr;
    MUST(cudaMalloc(&mine, kBytes));
    operations.await(stream, &shared.lost, 1);
    MUST(cudaMemsetAsync(mine, 0, kBytes, stream));
    victim.kill_and_reap();
    sleep_ms(200);
    all &= fact(where, "a wait for a counter stays blocked when its writer is killed",
                cudaStreamQuery(stream) == cudaErrorNotReady);
    shared.lost.store(0x400000000000001, std::memory_order_release); // awaited by the stream
    const double us = released_after_us(stream, kReleaseSeconds);
    all &= fact(where, "a CPU store releases it", us >= 0);
    value(where, "released after, us", us);
    all &= fact(where, "imported memory reads right after its exporter was killed", holds_pattern(theirs));
    all &= fact(where, "the survivor's context is healthy", healthy());
    return all;
}

// What happens here is what is asked: no outcome is a failure but a released survivor that is not healthy.
bool survive_events(const char* where, Victim& victim, Shared& shared, cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    MUST(cudaIpcOpenEventHandle(&event, shared.event));
    MUST(cudaStreamWaitEvent(stream, event, 0));
    sleep_ms(50);
    fact(where, "a wait for an IPC event blocks until it completes", cudaStreamQuery(stream) == cudaErrorNotReady);
    victim.kill_and_reap();
    const double us = released_after_us(stream, kReleaseSeconds);
    fact(where, "killing the event's recorder releases the wait", us >= 0);
    value(where, "released after the process was gone, us", us);
    if (us >= 0)
        return fact(where, "the survivor's context is healthy", healthy());
    // An importer may record the event as well, but the wait has latched the record that never completes.
    cudaStream_t other = nullptr;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaEventRecord(event, other));
    const double after = released_after_us(stream, kReleaseSeconds);
    fact(where, "a survivor's own record of the event releases the wait", after >= 0);
    return true; // a context with a stuck stream cannot be asked more: most calls would wait for the stream
}

[[noreturn]] void be_survivor(Scenario scenario, bool two_devices, const char* self) {
    alarm(kSurvivorSeconds);
    const Segment segment;
    Shared& shared = segment.shared();
    Victim victim(self, scenario, two_devices ? 1 : 0, segment.fd());
    MUST(cudaSetDevice(0));
    MUST(cudaHostRegister(&shared, kPage, cudaHostRegisterPortable | cudaHostRegisterMapped));
    cudaStream_t stream = nullptr;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    await_victim(shared, victim);
    char where[64];
    snprintf(where, sizeof(where), "%s, %s", name(scenario), two_devices ? "two GPUs" : "one GPU");
    const bool good = scenario == Scenario::kCounters ? survive_counters(where, victim, shared, stream)
                                                      : survive_events(where, victim, shared, stream);
    fflush(stdout);
    _exit(good ? 0 : 1); // a stream may be stuck for ever: no orderly end
}

int run_all(const char* self) {
    int devices = 0;
    const bool found = count_devices(self, devices);
    if (!found || devices == 0) {
        printf("no GPU: nothing to measure\n");
        return 77;
    }
    const double start = now_seconds();
    bool good = true;
    for (Scenario scenario : {Scenario::kCounters, Scenario::kEventsBehindCounter, Scenario::kEventsBehindKernel})
        for (bool two_devices : {false, true}) {
            if (two_devices && devices < 2)
                continue;
            if (now_seconds() - start > kAllSeconds - kSurvivorSeconds) {
                printf("%s, %s: not run, out of time\n", name(scenario), two_devices ? "two GPUs" : "one GPU");
                continue;
            }
            good &= run_survivor(self, scenario, two_devices);
        }
    return good ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (const auto devices = counted_devices(argc, argv))
        return *devices;
    if (argc == 4 && strcmp(argv[1], "survivor") == 0)
        be_survivor(static_cast<Scenario>(atoi(argv[2])), atoi(argv[3]) != 0, argv[0]);
    if (argc == 5 && strcmp(argv[1], "victim") == 0) {
        die_with_survivor();
        const Segment segment(atoi(argv[4]));
        be_victim(static_cast<Scenario>(atoi(argv[2])), atoi(argv[3]), segment.shared());
    }
    return run_all("/proc/self/exe");
}
