// Whether an event that was recorded in a capture can be recorded again while another thread ends that capture.
//
//     capture_events
//
// Two threads, each with streams of its own. One captures, again and again: it forks a stream into its capture and
// joins it back, by an event from a set, then ends the capture. The other orders two streams by an event, again and
// again. Both record and wait under one lock, so that an event is never used twice at a time; captures end outside of
// it. In one process the events are of one set, in the other each thread has its own. Prints how both ended. Exits 0 if
// events of sets of their own serve, else 1, or 77 without a GPU.
#include "facts.hpp"

#include <array>
#include <mutex>
#include <thread>

namespace {

using namespace facts;

constexpr double kSeconds = 4.0;
constexpr int kEvents = 16; // used in turn

__global__ void add_one(unsigned* value) { *value += 1; }

class Events {
  public:
    Events() {
        for (cudaEvent_t& each : all_)
            MUST(cudaEventCreateWithFlags(&each, cudaEventDisableTiming));
    }
    // What follows in `second` comes after what is in `first`.
    void order(cudaStream_t first, cudaStream_t second) {
        const cudaEvent_t event = all_[next_++ % kEvents];
        MUST(cudaEventRecord(event, first));
        MUST(cudaStreamWaitEvent(second, event, 0));
    }

  private:
    std::array<cudaEvent_t, kEvents> all_{};
    unsigned next_ = 0;
};

struct Streams {
    Streams() {
        MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        MUST(cudaMalloc(&value, sizeof(*value)));
    }
    cudaStream_t first = nullptr, second = nullptr;
    unsigned* value = nullptr;
};

void capture(const Streams& streams, Events& events, std::mutex& lock) {
    MUST(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeThreadLocal));
    add_one<<<1, 1, 0, streams.first>>>(streams.value);
    {
        const std::lock_guard locked(lock);
        events.order(streams.first, streams.second);
    }
    add_one<<<1, 1, 0, streams.second>>>(streams.value);
    {
        const std::lock_guard locked(lock);
        events.order(streams.second, streams.first);
    }
    cudaGraph_t graph = nullptr;
    MUST(cudaStreamEndCapture(streams.first, &graph));
    MUST(cudaGraphDestroy(graph));
}

[[noreturn]] void run(bool shared) {
    die_with_survivor();
    MUST(cudaSetDevice(0));
    const Streams captured, others;
    Events events, own;
    std::mutex lock;
    const double until = now_seconds() + kSeconds;
    std::thread orders([&] {
        MUST(cudaSetDevice(0));
        for (unsigned turn = 1; now_seconds() < until; turn++) {
            {
                const std::lock_guard locked(lock);
                (shared ? events : own).order(others.first, others.second);
            }
            if (turn % 256 == 0)
                MUST(cudaStreamSynchronize(others.second));
        }
    });
    long captures = 0;
    for (; now_seconds() < until; captures++)
        capture(captured, events, lock);
    orders.join();
    printf("%ld captures, and nothing went wrong\n", captures);
    fflush(stdout);
    _exit(0);
}

} // namespace

int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (const auto devices = counted_devices(argc, argv))
        return *devices;
    if (argc == 2)
        run(strcmp(argv[1], "shared") == 0);
    int devices = 0;
    if (!count_devices(argv[0], devices))
        return 1;
    if (devices == 0) {
        puts("SKIPPED: there is no GPU");
        return 77;
    }
    const char* shared[] = {argv[0], "shared", nullptr};
    const char* own[] = {argv[0], "own", nullptr};
    const int with_shared = run_bounded(shared, kSurvivorSeconds);
    printf("events that both captures and other streams use: %s (%d)\n", with_shared == 0 ? "fine" : "it failed",
           with_shared);
    return fact("events", "those of captures are not used elsewhere, and all is well",
                run_bounded(own, kSurvivorSeconds) == 0)
               ? 0
               : 1;
}
