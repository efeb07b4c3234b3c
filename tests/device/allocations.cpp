// Messages between every two kinds of memory, at sizes on all sides of the bounds, in every pair of order domains, with
// every byte checked; and what cannot be used is refused, with an error that says why.
//
//     gpurun -n 2 allocations [--peer-access]
//
// The first rank's device is also the second's other device, and the other way round, where there are two. With
// --peer-access each has access to the other's memory of cudaMalloc. On a stream, the buffer is filled before the
// message and overwritten after it without a pause; in the host's order, by CUDA's synchronous copies.
//
// Prints how many messages each path must have taken ("expected: rank 0 to 1: bounce: 12"), for allocations_test.py to
// compare with the runtime's own report. Exits 77 without a GPU.
#include "allocations.hpp"

#include <gpurun/gpurun.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

using namespace allocations;

namespace {

constexpr size_t kSizes[] = {8, 3000, 3'000'000, (5u << 20) + 3};
constexpr size_t kGuard = 64; // bytes around the message that must stay as they are
constexpr int kUntouched = 0x5a;
constexpr size_t kSmallBytes = 4096; // GPURUN_DEVICE_EAGER_BYTES; no size lies between it and the longest mail

int g_rank = 0;
int g_peer = 0;
int g_wrong = 0;
std::map<std::string, int> g_expected; // path to messages that this rank sends

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if (const gpurun_status ok_status = (call); ok_status != GPURUN_OK)                                            \
            fail(__LINE__, #call, ok_status);                                                                          \
    } while (false)

std::string g_now; // what is being done

[[noreturn]] void fail(int line, const char* call, gpurun_status status) {
    std::printf("rank %d, %s: line %d: %s: %s: %s\n", g_rank, g_now.c_str(), line, call, gpurun_status_string(status),
                gpurun_error_detail());
    std::fflush(stdout);
    gpurun_abort(1);
}

void wrong(const std::string& what) {
    std::printf("rank %d, %s: %s\n", g_rank, g_now.c_str(), what.c_str());
    if (++g_wrong == 20) {
        std::fflush(stdout);
        gpurun_abort(1);
    }
}

// ---- messages

struct Message {
    size_t bytes;
    bool from_stream;
    bool to_stream;
    unsigned seed;
};

bool is_host(Class is) { return is == Class::kPinned || is == Class::kPageable; }

// The path, in the words of allocations_test.py.
const char* path_of(Class from, Class to, const Message& message) {
    const bool source_by_cpu = !message.from_stream && is_host(from);
    if (message.bytes <= kSmallBytes)
        return source_by_cpu ? "host" : "small";
    if (from == Class::kElsewhere || to == Class::kElsewhere)
        return "elsewhere";
    if (is_host(from) && is_host(to))
        return "host";
    if (is_host(from) || is_host(to))
        return "host and device";
    return from == Class::kExportable ? "direct" : "bounce";
}

// Sizes that are odd start at odd addresses; what has a seam lies across it.
size_t offset_in(const Kind& kind, size_t bytes) {
    return kind.has_seam ? kSeam - bytes / 2 : kGuard + (bytes % 2 == 1 || bytes == 3000 ? 1 : 0);
}

std::vector<unsigned char> content_of(const Kind& kind, const Message& message) {
    std::vector<unsigned char> content(message.bytes);
    const size_t offset = offset_in(kind, message.bytes);
    uint32_t state = message.seed * 2654435761u + 1;
    for (size_t i = 0; i < message.bytes; i++) {
        state = state * 1664525u + 1013904223u;
        content[i] = kind.receives ? static_cast<unsigned char>(state >> 24) : file_byte(offset + i);
    }
    return content;
}

// What streams copy from and to.
struct Staging {
    unsigned char* data = nullptr;
    Staging() { MUST(cudaHostAlloc(reinterpret_cast<void**>(&data), kBytes, cudaHostAllocPortable)); }
    ~Staging() { (void)cudaFreeHost(data); }
};

void send_one(const Memory& memory, const Message& message, cudaStream_t stream, const Staging& staging) {
    const std::vector<unsigned char> content = content_of(memory.kind(), message);
    const size_t offset = offset_in(memory.kind(), message.bytes);
    const auto send = [&](gpurun_stream domain) {
        OK(gpurun_send(memory.at(offset), message.bytes, GPURUN_BYTE, g_peer, 1, GPURUN_COMM_WORLD, domain));
    };
    const bool writes = memory.kind().receives;
    if (!message.from_stream) {
        if (writes)
            memory.write_now(offset, content.data(), message.bytes);
        send(GPURUN_HOST);
        if (writes)
            memory.fill_now(offset, 0xee, message.bytes);
        return;
    }
    std::memcpy(staging.data, content.data(), message.bytes);
    if (writes)
        memory.write(offset, staging.data, message.bytes, stream);
    send(stream);
    if (writes)
        memory.fill(offset, 0xee, message.bytes, stream);
    OK(gpurun_stream_synchronize(stream));
}

void receive_one(const Memory& memory, const Kind& from, const Message& message, cudaStream_t stream,
                 const Staging& staging) {
    const size_t offset = offset_in(memory.kind(), message.bytes);
    const size_t around = offset - kGuard;
    const size_t all = message.bytes + 2 * kGuard;
    gpurun_message_status status{};
    const auto receive = [&](gpurun_stream domain) {
        OK(gpurun_recv(memory.at(offset), message.bytes, GPURUN_BYTE, g_peer, 1, GPURUN_COMM_WORLD, domain, &status));
    };
    if (message.to_stream) {
        memory.fill(around, kUntouched, all, stream);
        receive(stream);
        memory.read(around, staging.data, all, stream);
        OK(gpurun_stream_synchronize(stream));
    } else {
        memory.fill_now(around, kUntouched, all);
        receive(GPURUN_HOST);
        memory.read_now(around, staging.data, all);
    }
    const std::vector<unsigned char> content = content_of(from, message);
    std::vector<unsigned char> expected(all, kUntouched);
    std::memcpy(expected.data() + kGuard, content.data(), message.bytes);
    if (std::memcmp(staging.data, expected.data(), all) != 0) {
        size_t first = 0;
        while (staging.data[first] == expected[first])
            ++first;
        wrong("byte " + std::to_string(first) + " of " + std::to_string(all) + ", guards included, is wrong");
    }
    if (status.bytes != message.bytes || status.source != g_peer)
        wrong("the status is wrong");
}

// ---- all pairs

// Both ranks tell each other something small.
void tell(const void* mine, void* theirs, size_t bytes) {
    g_expected["host"]++;
    OK(gpurun_sendrecv(mine, bytes, GPURUN_BYTE, g_peer, 2, theirs, bytes, GPURUN_BYTE, g_peer, 2, GPURUN_COMM_WORLD,
                       GPURUN_HOST, nullptr));
}

// The other rank's memory of cudaMalloc, as torch.multiprocessing hands it over. It cannot be handed on.
Kind imported(int device) {
    static void* exported = nullptr;
    return {"imported from the other rank",
            Class::kDevice,
            device,
            false,
            true,
            []() -> void* {
                void* memory = nullptr;
                cudaIpcMemHandle_t mine{}, theirs{};
                MUST(cudaMalloc(&exported, kBytes));
                MUST(cudaIpcGetMemHandle(&mine, exported));
                tell(&mine, &theirs, sizeof mine);
                const bool opened =
                    cudaIpcOpenMemHandle(&memory, theirs, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
                (void)cudaGetLastError();
                return opened ? memory : nullptr;
            },
            [](void* memory) { MUST(cudaIpcCloseMemHandle(memory)); }}; // what was exported goes with the process
}

class Kinds {
  public:
    explicit Kinds(const Devices& devices) : kinds_(all_kinds(devices)) {
        kinds_.push_back(imported(devices.own));
        std::vector<unsigned char> mine, theirs(kinds_.size());
        for (Kind& kind : kinds_) {
            memories_.push_back(std::make_unique<Memory>(devices, kind));
            if (kind.ask_reach && memories_.back()->reached())
                kind.is = Class::kDevice;
            mine.push_back(*memories_.back() ? 1 : 0);
        }
        tell(mine.data(), theirs.data(), mine.size());
        for (size_t i = 0; i < kinds_.size(); i++) {
            there_.push_back(mine[i] != 0 && theirs[i] != 0);
            if (!there_[i] && g_rank == 0)
                std::printf("left out, since a device has none: %s\n", kinds_[i].name.c_str());
        }
    }
    size_t size() const { return kinds_.size(); }
    bool there(size_t i) const { return there_[i]; }
    const Kind& kind(size_t i) const { return kinds_[i]; }
    const Memory& memory(size_t i) const { return *memories_[i]; }

  private:
    std::vector<Kind> kinds_;
    std::vector<std::unique_ptr<Memory>> memories_;
    std::vector<bool> there_;
};

void exchange(const Kinds& kinds, size_t from, size_t to, const Message& message, cudaStream_t stream,
              const Staging& staging) {
    const Kind& source = kinds.kind(from);
    const Kind& target = kinds.kind(to);
    g_now = std::to_string(message.bytes) + " bytes from " + source.name + (message.from_stream ? " (stream)" : "") +
            " to " + target.name + (message.to_stream ? " (stream)" : "");
    if (static_cast<int>(message.seed / 2 % 2) == g_rank) {
        g_expected[path_of(source.is, target.is, message)]++;
        send_one(kinds.memory(from), message, stream, staging);
    } else {
        receive_one(kinds.memory(to), source, message, stream, staging);
    }
}

int exchange_all(const Kinds& kinds) {
    const Staging staging;
    cudaStream_t stream = nullptr;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned messages = 0;
    for (const size_t bytes : kSizes)
        for (size_t from = 0; from < kinds.size(); from++)
            for (size_t to = 0; to < kinds.size(); to++)
                for (const bool from_stream : {false, true})
                    for (const bool to_stream : {false, true})
                        if (kinds.there(from) && kinds.there(to) && kinds.kind(to).receives)
                            exchange(kinds, from, to, {bytes, from_stream, to_stream, messages++}, stream, staging);
    MUST(cudaStreamDestroy(stream));
    return static_cast<int>(messages);
}

// ---- what is refused

// Both a send and a receive, unless it may be sent.
void refuse(const char* what, void* buffer, size_t bytes, const char* word, bool sends = false) {
    g_now = what;
    const auto check = [&](const char* call, gpurun_status status) {
        const std::string detail = gpurun_error_detail();
        if (status != GPURUN_ERR_BUFFER || detail.find(word) == std::string::npos)
            wrong(std::string(call) + " gives " + gpurun_status_string(status) + ": " + detail);
    };
    for (const gpurun_stream domain : {GPURUN_HOST, gpurun_stream{nullptr}}) {
        if (!sends)
            check("gpurun_send", gpurun_send(buffer, bytes, GPURUN_BYTE, g_peer, 3, GPURUN_COMM_WORLD, domain));
        check("gpurun_recv", gpurun_recv(buffer, bytes, GPURUN_BYTE, g_peer, 3, GPURUN_COMM_WORLD, domain, nullptr));
    }
}

unsigned char* at(void* memory, size_t offset) { return static_cast<unsigned char*>(memory) + offset; }

// Two allocations side by side are two allocations.
void refuse_neighbours() {
    constexpr size_t kEach = 2u << 20;
    std::map<unsigned char*, bool> starts;
    for (int i = 0; i < 32; i++) {
        void* memory = nullptr;
        MUST(cudaMalloc(&memory, kEach));
        starts[static_cast<unsigned char*>(memory)] = true;
    }
    int found = 0;
    for (const auto& [start, unused] : starts)
        if (starts.count(start + kEach) != 0 && found++ == 0)
            refuse("two allocations side by side", start + kEach / 2, kEach, "past the end");
    if (found == 0)
        std::printf("rank %d: no two allocations lie side by side here\n", g_rank);
    for (const auto& [start, unused] : starts)
        MUST(cudaFree(start));
}

void refuse_mapped(const Devices& devices) {
    constexpr size_t kPiece = 2u << 20;
    const Mapped part{.device = devices.own, .piece = kPiece, .last = kSeam, .reached_by = {devices.own}};
    if (void* range = part.map()) {
        refuse("a range that is mapped in part", at(range, kSeam - 100), 200, "mapped");
        refuse("the part that is not", at(range, kSeam), 8, "");
        Mapped::unmap(range);
        refuse("a range that was unmapped", range, 8, "");
    }
    if (void* range = Mapped{.device = devices.own}.map()) {
        refuse("a range without access", range, 8, "cuMemSetAccess");
        Mapped::unmap(range);
    }
    if (void* range = Mapped{.device = devices.own, .reached_by = {devices.own}, .writable = false}.map()) {
        refuse("a range that is read-only", range, 8, "read-only", true);
        Mapped::unmap(range);
    }
}

void refuse_other(const Devices& devices) {
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    MUST(cudaSetDevice(devices.other));
    MUST(cudaMalloc(&memory, 4096));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaSetDevice(devices.own));
    refuse("past the end of another device's memory", at(memory, 4000), 97, "past the end");
    g_now = "a stream of another device";
    const gpurun_status status = gpurun_send(memory, 8, GPURUN_BYTE, g_peer, 3, GPURUN_COMM_WORLD, stream);
    if (status != GPURUN_ERR_STREAM || std::strstr(gpurun_error_detail(), "cudaStreamWaitEvent") == nullptr)
        wrong(std::string(gpurun_status_string(status)) + ": " + gpurun_error_detail());
    MUST(cudaStreamDestroy(stream));
    OK(gpurun_memset(memory, 0, 8, GPURUN_HOST)); // so that it was seen before it is freed
    MUST(cudaFree(memory));
    refuse("freed memory of another device", memory, 8, "freed");
}

} // namespace

int main(int argc, char** argv) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        std::printf("skipped: no GPU\n");
        return 77;
    }
    OK(gpurun_init());
    int ranks = 0;
    OK(gpurun_comm_rank(GPURUN_COMM_WORLD, &g_rank));
    OK(gpurun_comm_size(GPURUN_COMM_WORLD, &ranks));
    if (ranks != 2) {
        std::printf("allocations is for two ranks\n");
        return 2;
    }
    g_peer = 1 - g_rank;
    Devices devices;
    MUST(cudaGetDevice(&devices.own)); // gpurun_init() has made the rank's current
    if (count > 1)
        devices.other = devices.own == 0 ? 1 : 0;
    if (argc > 1 && std::strcmp(argv[1], "--peer-access") == 0) {
        int there = 0, back = 0;
        if (count > 1) {
            MUST(cudaDeviceCanAccessPeer(&there, devices.own, devices.other));
            MUST(cudaDeviceCanAccessPeer(&back, devices.other, devices.own));
        }
        if (there == 0 || back == 0) {
            std::printf("skipped: no two GPUs with peer access\n");
            return gpurun_finalize() == GPURUN_OK ? 77 : 1;
        }
        MUST(cudaDeviceEnablePeerAccess(devices.other, 0));
        devices.peer_access = true;
    }
    {
        const Kinds kinds(devices);
        const int messages = exchange_all(kinds);
        if (g_rank == 0)
            std::printf("%d messages between %zu kinds of memory\n", messages, kinds.size());
    }
    refuse_neighbours();
    refuse_mapped(devices);
    if (devices.other >= 0 && !devices.peer_access)
        refuse_other(devices);
    for (const auto& [path, messages] : g_expected)
        std::printf("expected: rank %d to %d: %s: %d\n", g_rank, g_peer, path.c_str(), messages);
    std::fflush(stdout);
    OK(gpurun_finalize());
    return g_wrong == 0 ? 0 : 1;
}
