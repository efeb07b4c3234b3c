// Messages, collectives and loans of more than 2^32 bytes and elements: no number on their way is too short for them.
//
//     gpurun -n 2 long_messages [host]      host: memory of malloc(), too
//
// Every byte is checked. Exits 77 without a GPU, or with too little memory on it.
#include "calls.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

constexpr size_t kBytes = (size_t{9} << 29) + 4; // a message's, of bytes; 4.5 GiB
constexpr int kRanks = 2;
constexpr int kThreads = 256;
constexpr int kBlocks = 4096;

// What rank `maker` has at byte `i`: nothing of it repeats at a power of two.
__device__ uint8_t made(uint64_t i, int maker) {
    return static_cast<uint8_t>((i * 0x9E3779B97F4A7C15u >> 56) + 31 * static_cast<unsigned>(maker));
}

__global__ void make(uint8_t* bytes, uint64_t first, uint64_t count, int maker) {
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x)
        bytes[i] = made(first + i, maker);
}

// How many are not the sum of what the makers from `from` to `to` have.
__global__ void check(const uint8_t* bytes, uint64_t first, uint64_t count, int from, int to,
                      unsigned long long* wrong) {
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += uint64_t{gridDim.x} * blockDim.x) {
        uint8_t sum = 0;
        for (int maker = from; maker <= to; ++maker)
            sum = static_cast<uint8_t>(sum + made(first + i, maker));
        if (bytes[i] != sum)
            atomicAdd(wrong, 1);
    }
}

struct Rank {
    int self = 0;
    gpurun_stream stream = nullptr;
    uint8_t* out = nullptr; // of two messages, as the next
    uint8_t* in = nullptr;
    unsigned long long* wrong = nullptr;

    int other() const { return 1 - self; }

    // A part for each rank, whose bytes are numbered through.
    void fill() const {
        make<<<kBlocks, kThreads, 0, stream>>>(out, 0, kRanks * kBytes, self);
        CUDA(cudaMemsetAsync(in, 0, kRanks * kBytes, stream));
        CUDA(cudaStreamSynchronize(stream));
    }
    // Of `in`, from `at` on, one message: bytes `first` and on of what these makers have.
    void expect(const char* what, size_t at, uint64_t first, int from, int to) const {
        CUDA(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
        check<<<kBlocks, kThreads, 0, stream>>>(in + at, first, kBytes, from, to, wrong);
        unsigned long long found = 0;
        CUDA(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
        if (found == 0)
            return;
        std::printf("%s: rank %d has %llu wrong bytes\n", what, self, found);
        std::fflush(stdout);
        gpurun_abort(1);
    }
};

constexpr gpurun_datatype kByte = GPURUN_UINT8;
const gpurun_comm kWorld = GPURUN_COMM_WORLD;

// ---- each in the order domain that it is given

void send(const Rank& rank, gpurun_stream order) {
    if (rank.self == 0) {
        OK(gpurun_send(rank.out, kBytes, kByte, 1, 0, kWorld, order));
    } else {
        gpurun_message_status status;
        OK(gpurun_recv(rank.in, kBytes, kByte, 0, 0, kWorld, order, &status));
        if (status.bytes != kBytes)
            fail("the status", "does not say how long the message was");
        rank.expect("send", 0, 0, 0, 0);
    }
}

void sendrecv(const Rank& rank, gpurun_stream order) {
    OK(gpurun_sendrecv(rank.out, kBytes, kByte, rank.other(), 0, rank.in, kBytes, kByte, rank.other(), 0, kWorld, order,
                       nullptr));
    rank.expect("sendrecv", 0, 0, rank.other(), rank.other());
}

void started(const Rank& rank, gpurun_stream order) {
    gpurun_request requests[2];
    OK(gpurun_irecv(rank.in, kBytes, kByte, rank.other(), 0, kWorld, order, &requests[0]));
    OK(gpurun_isend(rank.out, kBytes, kByte, rank.other(), 0, kWorld, order, &requests[1]));
    OK(gpurun_waitall(2, requests, order, nullptr));
    rank.expect("requests", 0, 0, rank.other(), rank.other());
}

void bcast(const Rank& rank, gpurun_stream order) {
    OK(gpurun_bcast(rank.self == 1 ? rank.out : rank.in, kBytes, kByte, 1, kWorld, order));
    if (rank.self == 0)
        rank.expect("bcast", 0, 0, 1, 1);
}

void allreduce(const Rank& rank, gpurun_stream order) {
    OK(gpurun_allreduce(rank.out, rank.in, kBytes, kByte, GPURUN_SUM, kWorld, order));
    rank.expect("allreduce", 0, 0, 0, kRanks - 1);
}

void reduce(const Rank& rank, gpurun_stream order) {
    OK(gpurun_reduce(rank.out, rank.in, kBytes, kByte, GPURUN_SUM, 1, kWorld, order));
    if (rank.self == 1)
        rank.expect("reduce", 0, 0, 0, kRanks - 1);
}

void reduce_scatter(const Rank& rank, gpurun_stream order) {
    OK(gpurun_reduce_scatter_block(rank.out, rank.in, kBytes, kByte, GPURUN_SUM, kWorld, order));
    rank.expect("reduce_scatter_block", 0, static_cast<uint64_t>(rank.self) * kBytes, 0, kRanks - 1);
}

void scan(const Rank& rank, gpurun_stream order) {
    OK(gpurun_scan(rank.out, rank.in, kBytes, kByte, GPURUN_SUM, kWorld, order));
    rank.expect("scan", 0, 0, 0, rank.self);
}

void allgather(const Rank& rank, gpurun_stream order) {
    OK(gpurun_allgather(rank.out, kBytes, kByte, rank.in, kBytes, kByte, kWorld, order));
    for (int from = 0; from < kRanks; ++from)
        rank.expect("allgather", static_cast<size_t>(from) * kBytes, 0, from, from);
}

void gather(const Rank& rank, gpurun_stream order) {
    OK(gpurun_gather(rank.out, kBytes, kByte, rank.in, kBytes, kByte, 0, kWorld, order));
    for (int from = 0; from < kRanks && rank.self == 0; ++from)
        rank.expect("gather", static_cast<size_t>(from) * kBytes, 0, from, from);
}

void scatter(const Rank& rank, gpurun_stream order) {
    OK(gpurun_scatter(rank.out, kBytes, kByte, rank.in, kBytes, kByte, 0, kWorld, order));
    rank.expect("scatter", 0, static_cast<uint64_t>(rank.self) * kBytes, 0, 0);
}

void alltoall(const Rank& rank, gpurun_stream order) {
    OK(gpurun_alltoall(rank.out, kBytes, kByte, rank.in, kBytes, kByte, kWorld, order));
    for (int from = 0; from < kRanks; ++from)
        rank.expect("alltoall", static_cast<size_t>(from) * kBytes, static_cast<uint64_t>(rank.self) * kBytes, from,
                    from);
}

void alltoallv(const Rank& rank, gpurun_stream order) {
    const size_t counts[kRanks] = {kBytes, kBytes};
    const size_t places[kRanks] = {kBytes, 0}; // the other way round
    OK(gpurun_alltoallv(rank.out, counts, places, kByte, rank.in, counts, places, kByte, kWorld, order));
    for (int from = 0; from < kRanks; ++from)
        rank.expect("alltoallv", places[from], places[rank.self], from, from);
}

void loan(const Rank& rank, gpurun_stream order) {
    if (rank.self == 0) {
        gpurun_request request;
        OK(gpurun_lend(rank.out, kRanks * kBytes, GPURUN_LOAN_READ_ONLY, 1, 0, kWorld, order, &request));
        OK(gpurun_wait(&request, order, nullptr));
        return;
    }
    gpurun_loan borrowed;
    void* lent = nullptr;
    size_t bytes = 0;
    OK(gpurun_borrow(0, 0, kWorld, order, &borrowed, nullptr));
    OK(gpurun_loan_buffer(borrowed, &lent, &bytes, nullptr));
    if (bytes != kRanks * kBytes)
        fail("the loan", "does not say how long it is");
    OK(gpurun_memcpy(rank.in, static_cast<uint8_t*>(lent) + kBytes, kBytes, order));
    OK(gpurun_give_back(&borrowed, order));
    rank.expect("loan", 0, kBytes, 0, 0);
}

void captured(const Rank& rank, gpurun_stream order) {
    if (order == GPURUN_HOST)
        return;
    gpurun_graph graph;
    OK(gpurun_capture_begin(order));
    OK(gpurun_sendrecv(rank.out, kBytes, kByte, rank.other(), 0, rank.in, kBytes, kByte, rank.other(), 0, kWorld, order,
                       nullptr));
    OK(gpurun_capture_end(order, &graph));
    OK(gpurun_graph_launch(graph, order));
    rank.expect("captured sendrecv", 0, 0, rank.other(), rank.other());
    OK(gpurun_graph_destroy(graph));
}

// ---- memory of malloc()

void host_memory(const Rank& rank) {
    const std::unique_ptr<uint8_t[]> memory(new uint8_t[kRanks * kBytes]);
    uint8_t *const out = memory.get(), *const in = out + kBytes;
    CUDA(cudaMemcpy(out, rank.out, kBytes, cudaMemcpyDeviceToHost));
    const auto expect = [&](const char* what, int from, int to) {
        CUDA(cudaMemcpy(rank.in, in, kBytes, cudaMemcpyHostToDevice));
        rank.expect(what, 0, 0, from, to);
    };
    OK(gpurun_sendrecv(out, kBytes, kByte, rank.other(), 0, in, kBytes, kByte, rank.other(), 0, kWorld, GPURUN_HOST,
                       nullptr));
    expect("sendrecv of host memory", rank.other(), rank.other());
    OK(gpurun_allreduce(out, in, kBytes, kByte, GPURUN_SUM, kWorld, GPURUN_HOST));
    expect("allreduce of host memory", 0, kRanks - 1);
    OK(gpurun_sendrecv(rank.out, kBytes, kByte, rank.other(), 0, in, kBytes, kByte, rank.other(), 0, kWorld,
                       rank.stream, nullptr));
    CUDA(cudaStreamSynchronize(rank.stream));
    expect("sendrecv from the device to host memory", rank.other(), rank.other());
}

bool has_room() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("skipped: there is no GPU\n");
        return false;
    }
    size_t free = 0, all = 0;
    CUDA(cudaMemGetInfo(&free, &all));
    if (free < size_t{5} * kRanks * kRanks * kBytes / 4) { // both ranks may be on it
        std::printf("skipped: %zu bytes are free on the GPU\n", free);
        return false;
    }
    return true;
}

} // namespace

int main(int argc, char** argv) {
    Rank rank;
    int ranks = 0;
    OK(gpurun_init());
    OK(gpurun_comm_rank(kWorld, &rank.self));
    OK(gpurun_comm_size(kWorld, &ranks));
    if (ranks != kRanks)
        fail("this", "is for two ranks");
    if (!has_room())
        return 77;
    OK(gpurun_barrier(kWorld, GPURUN_HOST));
    OK(gpurun_stream_create(&rank.stream));
    CUDA(cudaMalloc(&rank.out, kRanks * kBytes));
    CUDA(cudaMalloc(&rank.in, kRanks * kBytes));
    CUDA(cudaMalloc(&rank.wrong, sizeof *rank.wrong));
    for (const auto run : {send, sendrecv, started, bcast, allreduce, reduce, reduce_scatter, scan, allgather, gather,
                           scatter, alltoall, alltoallv, loan, captured})
        for (const gpurun_stream order : {rank.stream, gpurun_stream{GPURUN_HOST}}) {
            rank.fill();
            OK(gpurun_barrier(kWorld, GPURUN_HOST)); // in host order, others read at once
            run(rank, order);
            OK(gpurun_barrier(kWorld, GPURUN_HOST));
        }
    if (argc > 1 && std::strcmp(argv[1], "host") == 0)
        host_memory(rank);
    CUDA(cudaFree(rank.out));
    CUDA(cudaFree(rank.in));
    CUDA(cudaFree(rank.wrong));
    OK(gpurun_stream_destroy(rank.stream));
    OK(gpurun_finalize());
    return 0;
}
