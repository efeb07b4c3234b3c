// latency_bandwidth: how fast messages are between two ranks, next to what the hardware gives without the runtime.
//
//     gpurun -n 2 latency_bandwidth [--sizes 8:256M] [--iterations N] [--order stream|host|both]
//                                   [--memory device|host|pinned|async] [--raw]
//
// one-way   half of a true ping-pong: median over rounds (host), or over batches of rounds on one stream (stream)
// GB/s      bytes / one-way
// window    messages one way, several in flight, until an answer comes back; median
// raw       the same copy without gpurun, in the same run, in turns with it (raw_copy.hpp); medians
// ratio     of the bandwidths, gpurun / raw: 1 is the hardware's limit
//
// Rank 0 prints. Bytes are checked on both ranks for each size, outside of what is timed.
#include "call.hpp"
#include "options.hpp"
#include "ping_pong.hpp"
#include "raw_copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include <sys/utsname.h>

namespace {

using namespace gpurun::bench;

constexpr int kTurns = 5;          // gpurun and raw take turns, so that drifts of the machine meet both
constexpr int kWarmUpRounds = 5;   // the first messages open what later ones use
constexpr int kLargestWindow = 16; // messages in flight
constexpr int kTag = 2;
constexpr size_t kFewestRounds = 32;             // so that waiting for the last one does not count
constexpr size_t kTurnBytes = size_t{512} << 20; // about as many bytes go each way in a turn, at most
constexpr size_t kWindowBytes = size_t{1} << 30;

struct Row {
    size_t bytes = 0;
    double one_way_us = 0;
    double window_us = 0;
    double raw_us = 0; // 0: not measured
    double raw_window_us = 0;
};

double median(std::vector<double> samples) {
    if (samples.empty())
        return 0;
    const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    return *middle;
}

int rounds_of_a_turn(size_t bytes, int iterations) {
    const size_t most = std::max<size_t>(kFewestRounds, kTurnBytes / bytes);
    return static_cast<int>(std::min<size_t>(most, static_cast<size_t>(std::max(1, iterations / kTurns))));
}

int window_of(size_t bytes) { return static_cast<int>(std::clamp<size_t>(kWindowBytes / bytes, 4, kLargestWindow)); }

// Rank 1 takes the raw times; rank 0 waits in the barrier, without using its device.
void measure_raw(int rank, RawCopy& raw, size_t bytes, int copies, std::vector<double>& one,
                 std::vector<double>& window) {
    CALL(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    double times[2] = {0, 0};
    const gpurun_comm world = GPURUN_COMM_WORLD;
    if (rank == 1) {
        std::vector<double> singles;
        for (int i = 0; i < copies; ++i)
            singles.push_back(raw.one_us(bytes));
        times[0] = median(singles);
        times[1] = raw.window_us(bytes, window_of(bytes));
        CALL(gpurun_send(times, 2, GPURUN_DOUBLE, 0, kTag, world, GPURUN_HOST));
    } else {
        CALL(gpurun_recv(times, 2, GPURUN_DOUBLE, 1, kTag, world, GPURUN_HOST, nullptr));
        one.push_back(times[0]);
        window.push_back(times[1]);
    }
}

Row measure(int rank, PingPong& game, RawCopy* raw, size_t bytes, Order order, int iterations) {
    std::vector<double> one_way, window, raw_one, raw_window;
    const int rounds = rounds_of_a_turn(bytes, iterations);
    game.prepare(bytes);
    game.one_way_us(bytes, std::min(rounds, kWarmUpRounds), order);
    game.window_us(bytes, window_of(bytes), order);
    if (raw != nullptr) {
        std::vector<double> first, first_window;
        measure_raw(rank, *raw, bytes, 2, first, first_window);
    }
    for (int turn = 0; turn < kTurns; ++turn) {
        const auto samples = game.one_way_us(bytes, rounds, order);
        one_way.insert(one_way.end(), samples.begin(), samples.end());
        window.push_back(game.window_us(bytes, window_of(bytes), order));
        if (raw != nullptr)
            measure_raw(rank, *raw, bytes, rounds, raw_one, raw_window);
    }
    game.check(bytes);
    return {bytes, median(one_way), median(window), median(raw_one), median(raw_window)};
}

double gb_per_s(size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us * 1e-3 : 0; }

void print_row(const Row& row) {
    const double speed = gb_per_s(row.bytes, row.one_way_us);
    const double window = gb_per_s(row.bytes, row.window_us);
    std::printf("%12zu %11.2f %9.3f %11.3f", row.bytes, row.one_way_us, speed, window);
    if (row.raw_us > 0) {
        const double raw = gb_per_s(row.bytes, row.raw_us);
        const double raw_window = gb_per_s(row.bytes, row.raw_window_us);
        std::printf(" %11.2f %9.3f %6.2f %11.3f %6.2f", row.raw_us, raw, speed / raw, raw_window, window / raw_window);
    }
    std::printf("\n");
    std::fflush(stdout);
}

void print_columns(Order order, bool raw) {
    std::printf("\n# order domain: %s\n%12s %11s %9s %11s", name(order), "bytes", "one-way us", "GB/s", "window GB/s");
    if (raw)
        std::printf(" %11s %9s %6s %11s %6s", "raw us", "GB/s", "ratio", "window GB/s", "ratio");
    std::printf("\n");
}

// Where and when: enough to know what the numbers say, nothing that names a machine.
void print_head(const Options& options, const gpurun_device_info devices[2], const RawCopy* raw) {
    char date[32] = "?";
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    utsname system{};
    uname(&system);
    int version[3] = {0, 0, 0};
    gpurun_version(&version[0], &version[1], &version[2]);
    std::printf("# gpurun %d.%d.%d, %s, Linux %s %s", version[0], version[1], version[2], date, system.release,
                system.machine);
    const std::string driver = driver_version();
    std::printf("%s%s\n", driver.empty() ? "" : ", NVIDIA driver ", driver.c_str());
    for (int rank = 0; rank < 2; ++rank)
        std::printf("# rank %d: device %d, %s %s\n", rank, devices[rank].ordinal, devices[rank].name,
                    devices[rank].pci_bus_id);
    std::printf("# %s\n", std::strcmp(devices[0].uuid, devices[1].uuid) == 0 ? "both ranks on one device"
                                                                             : "a device for each rank");
    for (const char* setting : {"GPURUN_PATH", "GPURUN_FENCE", "GPURUN_EAGER_BYTES", "GPURUN_DEVICE_EAGER_BYTES",
                                "GPURUN_RELAY_CHUNK_BYTES", "GPURUN_SPIN_US", "GPURUN_MPS"})
        if (const char* value = std::getenv(setting); value != nullptr)
            std::printf("# %s=%s\n", setting, value);
    std::printf("# memory: %s; %d iterations; window of %d\n", name(options.memory), options.iterations,
                kLargestWindow);
    if (raw != nullptr)
        std::printf("# raw: %s\n", raw->how().c_str());
}

// Both ranks know both devices afterwards.
void exchange_devices(int rank, gpurun_device_info devices[2]) {
    devices[rank].size = sizeof(gpurun_device_info);
    CALL(gpurun_device(&devices[rank]));
    CALL(gpurun_sendrecv(&devices[rank], sizeof(gpurun_device_info), GPURUN_BYTE, 1 - rank, kTag, &devices[1 - rank],
                         sizeof(gpurun_device_info), GPURUN_BYTE, 1 - rank, kTag, GPURUN_COMM_WORLD, GPURUN_HOST,
                         nullptr));
}

std::unique_ptr<RawCopy> make_raw_copy(int rank, const Options& options, const gpurun_device_info& device) {
    if (!options.raw)
        return nullptr;
    const bool on_gpu =
        device.kind == GPURUN_DEVICE_CUDA && (options.memory == Memory::kDevice || options.memory == Memory::kAsync);
    if (on_gpu)
        if (auto raw = make_cuda_copy(rank, device.ordinal, options.largest()))
            return raw;
    return make_processor_copy(rank, options.largest());
}

void run(int rank, const Options& options) {
    gpurun_device_info devices[2] = {};
    exchange_devices(rank, devices);
    const auto raw = make_raw_copy(rank, options, devices[rank]);
    if (rank == 0)
        print_head(options, devices, raw.get());
    PingPong game(rank, options.memory, options.largest());
    for (Order order : options.orders) {
        if (rank == 0)
            print_columns(order, raw != nullptr);
        for (size_t bytes : options.sizes) {
            const Row row = measure(rank, game, raw.get(), bytes, order, options.iterations);
            if (rank == 0)
                print_row(row);
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    const Options options = parse_options(argc, argv);
    int rank = 0;
    int size = 0;
    CALL(gpurun_init());
    CALL(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CALL(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    if (size != 2) {
        std::fprintf(stderr, "latency_bandwidth needs two ranks: gpurun -n 2 latency_bandwidth\n");
        gpurun_abort(2);
    }
    run(rank, options);
    CALL(gpurun_finalize());
    return 0;
}
