// What calls of CUDA do beside a stream that waits, and beside a capture, measured: a line for each call.
//
//     call_facts
//
// First: whether a call waits for a stream that it has nothing to do with, and whether another thread's call gets
// through meanwhile. Then: whether a capture survives the call, made as the runtime makes its own (context.hpp), by the
// thread that captures and by another, of a stream that the default stream waits for and of one that it does not. Then:
// whether an event of a stream that follows the default one follows it, too, though nothing else is in that stream.
// Last: whether host functions of two streams run at the same time, and how much can be enqueued behind what waits.
// Exits 0, 1 if something that the runtime relies on does not hold, or 77 without a GPU.
#include "facts.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace {

using namespace facts;

constexpr size_t kBytes = 1 << 20;
constexpr double kHeldS = 0.1, kOtherAfterS = 0.03;
constexpr double kWaitedMs = 50; // whoever takes longer has waited for the stream
constexpr int kGraphs = 200;     // which one of them waits is not known
constexpr size_t kStreams = 80;  // of which the 36th of the process waits, and every 43rd after it
constexpr int kMostEnqueued = 4096;
constexpr int kTimesMade = 5; // each call: beside a stream that waits, and beside four captures

__global__ void spin(volatile unsigned* gate, unsigned turn) {
    while (*gate < turn) {
    }
}

__global__ void add_one(unsigned* value) { *value += 1; }

void nothing(void*) {}

// Memory of another process, on another GPU if there is one. It lives as long as this process does.
cudaIpcMemHandle_t memory_of_another(const char* self) {
    int ends[2];
    MUST(pipe(ends) == 0 ? cudaSuccess : cudaErrorUnknown);
    char number[16];
    snprintf(number, sizeof(number), "%d", ends[1]);
    const char* arguments[] = {self, "export", number, nullptr};
    start("/proc/self/exe", arguments);
    cudaIpcMemHandle_t handle{};
    MUST(read(ends[0], &handle, sizeof(handle)) == sizeof(handle) ? cudaSuccess : cudaErrorUnknown);
    return handle;
}

[[noreturn]] void export_memory(int to) {
    die_with_survivor();
    void* memory = nullptr;
    cudaIpcMemHandle_t handle;
    int devices = 0;
    MUST(cudaGetDeviceCount(&devices));
    MUST(cudaSetDevice(devices - 1));
    MUST(cudaMalloc(&memory, kBytes));
    MUST(cudaIpcGetMemHandle(&handle, memory));
    MUST(write(to, &handle, sizeof(handle)) == sizeof(handle) ? cudaSuccess : cudaErrorUnknown);
    while (true)
        pause();
}

// What the calls work on.
struct Things {
    explicit Things(const char* self) : exported(memory_of_another(self)) {
        MUST(cudaSetDevice(0));
        MUST(find_entry_point("cuCtxGetFlags", get_flags, 12010));
        MUST(find_entry_point("cuCtxSetFlags", set_flags, 12010));
        MUST(find_entry_point("cuPointerSetAttribute", set_attribute));
        MUST(find_entry_point("cuThreadExchangeStreamCaptureMode", exchange_mode));
        for (cudaStream_t* each : {&held, &idle, &other})
            MUST(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
        MUST(cudaMalloc(&value, kBytes));
        MUST(cudaMallocHost(&gate, kBytes));
        *gate = 0;
        MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        MUST(cudaEventRecord(event, idle));
        add_one<<<1, 1, 0, idle>>>(value);
        MUST(cudaDeviceSynchronize());
        for (int i = 0; i < kGraphs * kTimesMade; i++)
            graphs_that_ran.push_back(graph_that_ran());
        MUST(cudaDeviceSynchronize());
    }
    cudaGraphExec_t graph_that_ran() {
        MUST(cudaStreamBeginCapture(idle, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < 8; i++)
            add_one<<<1, 1, 0, idle>>>(value);
        cudaGraph_t captured = nullptr;
        cudaGraphExec_t made = nullptr;
        MUST(cudaStreamEndCapture(idle, &captured));
        MUST(cudaGraphInstantiate(&made, captured, 0));
        MUST(cudaGraphDestroy(captured));
        MUST(cudaGraphLaunch(made, idle));
        return made;
    }
    int destroy_graphs_that_ran() {
        int result = graphs_that_ran.size() < kGraphs ? cudaErrorInvalidValue : cudaSuccess;
        for (int i = 0; i < kGraphs && result == cudaSuccess; i++) {
            result = cudaGraphExecDestroy(graphs_that_ran.back());
            graphs_that_ran.pop_back();
        }
        return result;
    }
    int create_streams() {
        int result = cudaSuccess;
        for (cudaStream_t& each : streams)
            if (result == cudaSuccess)
                result = cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking);
        return result;
    }
    int destroy_streams() {
        int result = cudaSuccess;
        for (const cudaStream_t each : streams)
            if (result == cudaSuccess)
                result = cudaStreamDestroy(each);
        return result;
    }
    cudaIpcMemHandle_t exported;
    CUresult (*get_flags)(unsigned*) = nullptr;
    CUresult (*set_flags)(unsigned) = nullptr;
    CUresult (*set_attribute)(const void*, CUpointer_attribute, CUdeviceptr) = nullptr;
    CUresult (*exchange_mode)(CUstreamCaptureMode*) = nullptr;
    cudaStream_t held = nullptr, idle = nullptr, other = nullptr;
    unsigned* value = nullptr;
    unsigned* gate = nullptr;
    unsigned turn = 0;
    cudaEvent_t event = nullptr;
    // Made by one call, and given back by the next.
    void* memory = nullptr;
    void* host = aligned_alloc(kPage, kPage);
    std::array<cudaStream_t, kStreams> streams{};
    cudaEvent_t made = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    std::vector<cudaGraphExec_t> graphs_that_ran; // and do not run any more
};

enum Relied : unsigned { kNothing = 0, kNoWait = 1, kNoBreak = 2, kBoth = 3 };

struct Call {
    const char* name;
    std::function<int()> make;
    unsigned relied; // on
};

std::vector<Call> calls_with(Things& on) {
    return {
        {"cudaMalloc", [&] { return cudaMalloc(&on.memory, kBytes); }, kBoth},
        {"cudaFree", [&] { return cudaFree(on.memory); }, kNoBreak},
        {"cudaMallocHost", [&] { return cudaMallocHost(&on.memory, kBytes); }, kBoth},
        {"cudaFreeHost", [&] { return cudaFreeHost(on.memory); }, kNoBreak},
        {"cudaHostRegister", [&] { return cudaHostRegister(on.host, kPage, 0); }, kBoth},
        {"cudaHostUnregister", [&] { return cudaHostUnregister(on.host); }, kNoBreak},
        {"cudaIpcOpenMemHandle",
         [&] { return cudaIpcOpenMemHandle(&on.memory, on.exported, cudaIpcMemLazyEnablePeerAccess); }, kBoth},
        {"cudaIpcCloseMemHandle", [&] { return cudaIpcCloseMemHandle(on.memory); }, kNoBreak},
        {"cudaStreamCreate of 80", [&] { return on.create_streams(); }, kNoBreak},
        {"cudaStreamDestroy of 80", [&] { return on.destroy_streams(); }, kBoth},
        {"cudaStreamQuery", [&] { return cudaStreamQuery(on.idle); }, kBoth},
        {"cudaStreamSynchronize", [&] { return cudaStreamSynchronize(on.idle); }, kBoth},
        {"cudaEventCreate", [&] { return cudaEventCreateWithFlags(&on.made, cudaEventDisableTiming); }, kBoth},
        {"cudaEventDestroy", [&] { return cudaEventDestroy(on.made); }, kBoth},
        {"cudaEventQuery", [&] { return cudaEventQuery(on.event); }, kBoth},
        {"cudaMemcpyAsync", [&] { return cudaMemcpyAsync(on.value, on.gate, 64, cudaMemcpyDefault, on.idle); }, kBoth},
        {"cudaMemsetAsync", [&] { return cudaMemsetAsync(on.value, 0, 64, on.idle); }, kBoth},
        {"cudaMallocAsync", [&] { return cudaMallocAsync(&on.memory, kBytes, on.idle); }, kBoth},
        {"cudaFreeAsync", [&] { return cudaFreeAsync(on.memory, on.idle); }, kBoth},
        {"cuPointerSetAttribute(SYNC_MEMOPS)",
         [&] {
             const unsigned set = 1;
             return on.set_attribute(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(on.value));
         },
         kNoBreak},
        {"cudaGraphInstantiate",
         [&] {
             const int created = cudaGraphCreate(&on.graph, 0);
             return created != 0 ? created : static_cast<int>(cudaGraphInstantiate(&on.executable, on.graph, 0));
         },
         kBoth},
        {"cudaGraphExecDestroy", [&] { return cudaGraphExecDestroy(on.executable); }, kNoBreak},
        {"cudaGraphExecDestroy of 200 that ran", [&] { return on.destroy_graphs_that_ran(); }, kNoBreak},
        {"cuCtxSetFlags(SYNC_MEMOPS)",
         [&] {
             unsigned flags = 0;
             (void)on.get_flags(&flags);
             return on.set_flags(flags | 0x80);
         },
         kNothing},
        {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }, kNothing},
    };
}

struct Times {
    double call_ms, other_ms;
    int result;
};

Times beside_a_wait(Things& on, const Call& call) {
    spin<<<1, 1, 0, on.held>>>(on.gate, ++on.turn);
    Times times{};
    std::thread release([&] {
        sleep_ms(static_cast<int>(kHeldS * 1e3));
        *static_cast<volatile unsigned*>(on.gate) = on.turn;
    });
    std::thread other([&] {
        sleep_ms(static_cast<int>(kOtherAfterS * 1e3));
        const double begin = now_seconds();
        MUST(cudaLaunchHostFunc(on.other, nothing, nullptr));
        times.other_ms = (now_seconds() - begin) * 1e3;
    });
    const double begin = now_seconds();
    times.result = call.make();
    times.call_ms = (now_seconds() - begin) * 1e3;
    release.join();
    other.join();
    MUST(cudaDeviceSynchronize());
    return times;
}

bool all_beside_a_wait(Things& on) {
    bool good = true;
    for (const Call& call : calls_with(on)) {
        const Times times = beside_a_wait(on, call);
        const bool waits = times.call_ms > kWaitedMs;
        printf("%s beside a stream that waits: %s%s\n", call.name, waits ? "waits for it" : "does not wait",
               times.other_ms > kWaitedMs ? ", and no other thread's call gets through" : "");
        good &= times.result == 0 && !(waits && (call.relied & kNoWait) != 0);
    }
    return good;
}

bool survives(Things& on, const Call& call, bool blocking, bool by_another) {
    cudaStream_t captured = nullptr;
    MUST(cudaStreamCreateWithFlags(&captured, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    add_one<<<1, 1, 0, captured>>>(on.value);
    const auto make = [&] {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        (void)on.exchange_mode(&mode);
        (void)call.make();
        (void)on.exchange_mode(&mode);
    };
    if (by_another)
        std::thread(make).join();
    else
        make();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const bool good =
        cudaStreamIsCapturing(captured, &status) == cudaSuccess && status == cudaStreamCaptureStatusActive;
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(captured, &graph) == cudaSuccess)
        MUST(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
    MUST(cudaStreamDestroy(captured));
    return good;
}

bool all_beside_a_capture(Things& on) {
    bool good = true;
    for (const bool blocking : {false, true})
        for (const bool by_another : {false, true})
            for (const Call& call : calls_with(on)) {
                const bool fine = survives(on, call, blocking, by_another);
                if (!fine)
                    printf("%s, by %s thread, beside the capture of a %s stream: the capture fails\n", call.name,
                           by_another ? "another" : "the same", blocking ? "blocking" : "non-blocking");
                good &= fine || (call.relied & kNoBreak) == 0;
            }
    return good;
}

bool an_event_follows_the_default_stream(Things& on) {
    cudaStream_t blocking;
    cudaEvent_t event;
    MUST(cudaStreamCreate(&blocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    spin<<<1, 1, 0, cudaStreamLegacy>>>(on.gate, ++on.turn);
    MUST(cudaEventRecord(event, blocking));
    const double end = now_seconds() + kHeldS;
    bool early = false;
    while (!early && now_seconds() < end)
        early = cudaEventQuery(event) == cudaSuccess;
    *static_cast<volatile unsigned*>(on.gate) = on.turn;
    MUST(cudaEventSynchronize(event));
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(blocking));
    if (early)
        printf("an event of a stream that follows the default one has come before what is there\n");
    return !early;
}

// Of use to whoever wonders why a host function is late; the runtime takes either.
void say_whether_host_functions_run_at_once(const Things& on) {
    std::atomic<bool> open = false, ran = false;
    const auto block = [](void* opened) {
        while (!*static_cast<std::atomic<bool>*>(opened))
            sleep_ms(1);
    };
    MUST(cudaLaunchHostFunc(on.held, block, &open));
    MUST(cudaLaunchHostFunc(
        on.other, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &ran));
    const double end = now_seconds() + kHeldS;
    while (!ran && now_seconds() < end)
        sleep_ms(1);
    printf("a host function beside one of another stream that blocks: %s\n", ran ? "runs" : "waits for it");
    open = true;
    MUST(cudaDeviceSynchronize());
}

// The runtime bounds what waits in streams of the program's by it (transfer/pool/internal_streams.hpp).
void say_how_many_are_enqueued(Things& on, const char* what, const std::function<void()>& enqueue) {
    std::atomic<int> enqueued = 0;
    spin<<<1, 1, 0, on.held>>>(on.gate, ++on.turn);
    std::thread release([&] {
        for (int seen = -1; seen != enqueued && enqueued < kMostEnqueued;) {
            seen = enqueued;
            sleep_ms(static_cast<int>(kHeldS * 1e3));
        }
        const int most = enqueued;
        *static_cast<volatile unsigned*>(on.gate) = on.turn;
        printf("%s behind what waits in their stream: %s%d do not wait\n", what,
               most < kMostEnqueued ? "" : "at least ", most);
    });
    for (; enqueued < kMostEnqueued; ++enqueued)
        enqueue();
    release.join();
    MUST(cudaDeviceSynchronize());
}

} // namespace

int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (const auto devices = counted_devices(argc, argv))
        return *devices;
    if (argc == 3 && strcmp(argv[1], "export") == 0)
        export_memory(atoi(argv[2]));
    int devices = 0;
    if (!count_devices("/proc/self/exe", devices) || devices == 0) {
        printf("no GPU: nothing to measure\n");
        return 77;
    }
    alarm(kAllSeconds);
    Things things("/proc/self/exe");
    const bool waits_are_known = all_beside_a_wait(things);
    const bool captures_survive = all_beside_a_capture(things);
    const bool events_follow = an_event_follows_the_default_stream(things);
    say_whether_host_functions_run_at_once(things);
    say_how_many_are_enqueued(
        things, "copies", [&] { MUST(cudaMemcpyAsync(things.value, things.gate, 4, cudaMemcpyDefault, things.held)); });
    say_how_many_are_enqueued(things, "kernels", [&] { add_one<<<1, 1, 0, things.held>>>(things.value); });
    say_how_many_are_enqueued(things, "events", [&] { MUST(cudaEventRecord(things.event, things.held)); });
    return waits_are_known && captures_survive && events_follow ? 0 : 1;
}
