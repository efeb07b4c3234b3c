// Memory of cuMemMap() in another process: lent in place and sent, in pieces, with overlaps, while other memory is
// mapped at its address, and free again once it was given up.
//
//     gpurun -n 2 mapped_loans
//
// Exits 77 without a GPU, or where the device maps no memory.
#include "allocations.hpp"
#include "calls.hpp"
#include "support/dl_tensor.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using allocations::kBytes;
using allocations::Mapped;

constexpr size_t kPiece = 2u << 20;
constexpr int kTag = 3;
const gpurun_comm kWorld = GPURUN_COMM_WORLD;

struct Rank {
    int self = 0;
    int device = 0;
    gpurun_stream stream = nullptr;
};

void meet() { OK(gpurun_barrier(kWorld, GPURUN_HOST)); }

void* map(const Rank& rank, bool shareable = true) {
    return Mapped{.device = rank.device, .shareable = shareable, .piece = kPiece, .reached_by = {rank.device}}.map();
}

void fill(const Rank& rank, void* at, int value, size_t bytes) { OK(gpurun_memset(at, value, bytes, rank.stream)); }

void expect(const Rank& rank, const char* what, const void* at, int value, size_t bytes) {
    std::vector<unsigned char> seen(bytes);
    OK(gpurun_memcpy(seen.data(), at, bytes, rank.stream));
    OK(gpurun_stream_synchronize(rank.stream));
    for (size_t i = 0; i < bytes; ++i)
        if (seen[i] != value) {
            std::printf("%s: rank %d: byte %zu of %zu is %d, not %d\n", what, rank.self, i, bytes, seen[i], value);
            std::fflush(stdout);
            gpurun_abort(1);
        }
}

gpurun_request lend(const Rank& rank, void* at, size_t bytes, gpurun_loan_kind kind) {
    gpurun_request request;
    OK(gpurun_lend(at, bytes, kind, 1, kTag, kWorld, rank.stream, &request));
    return request;
}

struct Borrowed {
    gpurun_loan loan;
    void* at = nullptr;
    size_t bytes = 0;
};

Borrowed borrow(const Rank& rank) {
    Borrowed borrowed;
    OK(gpurun_borrow(0, kTag, kWorld, rank.stream, &borrowed.loan, nullptr));
    OK(gpurun_loan_buffer(borrowed.loan, &borrowed.at, &borrowed.bytes, nullptr));
    return borrowed;
}

unsigned char* at(void* base, size_t offset) { return static_cast<unsigned char*>(base) + offset; }

// ---- rank 0 has the memory `all`, rank 1 none

void there_and_back(const Rank& rank, void* all) {
    if (rank.self == 0) {
        fill(rank, all, 1, kBytes);
        gpurun_request request = lend(rank, at(all, 100), kBytes - 200, GPURUN_LOAN_EXCLUSIVE);
        OK(gpurun_wait(&request, rank.stream, nullptr));
        expect(rank, "what the borrower has written", at(all, 100), 2, kBytes - 200);
        expect(rank, "what is in front of it", all, 1, 100);
        return;
    }
    Borrowed loan = borrow(rank);
    expect(rank, "what is lent", loan.at, 1, kBytes - 200);
    fill(rank, loan.at, 2, loan.bytes);
    OK(gpurun_give_back(&loan.loan, rank.stream));
}

// Both lie in the second piece.
void loans_that_overlap(const Rank& rank, void* all) {
    if (rank.self == 0) {
        fill(rank, all, 3, kPiece + 64);
        fill(rank, at(all, kPiece + 64), 4, kPiece);
        gpurun_request requests[] = {lend(rank, all, kPiece + 64, GPURUN_LOAN_READ_ONLY),
                                     lend(rank, at(all, kPiece + 64), kPiece, GPURUN_LOAN_READ_ONLY),
                                     lend(rank, all, 64, GPURUN_LOAN_READ_ONLY)};
        OK(gpurun_waitall(3, requests, rank.stream, nullptr));
        return;
    }
    Borrowed loans[] = {borrow(rank), borrow(rank), borrow(rank)};
    expect(rank, "the first of two loans", loans[0].at, 3, loans[0].bytes);
    expect(rank, "the second", loans[1].at, 4, loans[1].bytes);
    expect(rank, "one within the first", loans[2].at, 3, loans[2].bytes);
    for (Borrowed& each : loans)
        OK(gpurun_give_back(&each.loan, rank.stream));
}

void tensors(const Rank& rank, void* all) {
    constexpr size_t kCount = 64;
    constexpr int64_t kLength = kBytes / kCount / sizeof(float);
    if (rank.self == 0) {
        fill(rank, all, 5, kBytes);
        int64_t shape[] = {kLength};
        std::vector<DLTensor> lent(kCount);
        for (size_t i = 0; i < kCount; ++i)
            lent[i] = {at(all, i * (kBytes / kCount)), {2, rank.device}, 1, {2, 32, 1}, shape, nullptr, 0};
        gpurun_request request;
        OK(gpurun_lend_tensors(lent.data(), nullptr, kCount, nullptr, 0, GPURUN_LOAN_READ_ONLY, 1, kTag, kWorld,
                               rank.stream, &request));
        OK(gpurun_wait(&request, rank.stream, nullptr));
        return;
    }
    gpurun_loan loan;
    const DLTensor* got = nullptr;
    size_t count = 0;
    OK(gpurun_borrow(0, kTag, kWorld, rank.stream, &loan, nullptr));
    OK(gpurun_loan_tensors(loan, &got, nullptr, &count));
    for (size_t i = 0; i < count; ++i)
        expect(rank, "a tensor", static_cast<unsigned char*>(got[i].data) + got[i].byte_offset, 5, kBytes / kCount);
    OK(gpurun_give_back(&loan, rank.stream));
}

size_t free_bytes() {
    size_t free = 0, all = 0;
    MUST(cudaMemGetInfo(&free, &all));
    return free;
}

// What was mapped here before must not be read, nor be kept by the reader.
void* other_memory_at_the_address(const Rank& rank, void* all) {
    constexpr int kTimes = 40;
    constexpr size_t kFewBytes = 8 * kBytes; // others may use the GPU, too
    meet();
    const size_t before = rank.self == 0 ? free_bytes() : 0;
    for (int value = 6; value < 6 + kTimes; ++value) {
        if (rank.self == 0) {
            Mapped::unmap(all);
            all = map(rank); // the driver gives the same address, most often
            fill(rank, all, value, kBytes);
            OK(gpurun_send(all, kBytes, GPURUN_BYTE, 1, kTag, kWorld, rank.stream));
            gpurun_request request = lend(rank, all, kBytes, GPURUN_LOAN_READ_ONLY);
            OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        } else {
            void* into = nullptr;
            OK(gpurun_malloc(&into, kBytes));
            OK(gpurun_recv(into, kBytes, GPURUN_BYTE, 0, kTag, kWorld, rank.stream, nullptr));
            expect(rank, "a message from memory that is mapped anew", into, value, kBytes);
            Borrowed loan = borrow(rank);
            expect(rank, "a loan of memory that is mapped anew", loan.at, value, kBytes);
            OK(gpurun_give_back(&loan.loan, rank.stream));
            OK(gpurun_stream_synchronize(rank.stream));
            OK(gpurun_free(into));
        }
        meet();
    }
    if (rank.self == 0 && free_bytes() + kFewBytes < before)
        fail("memory that was unmapped", "is still kept by the rank that has read it");
    return all;
}

// To map it waits for no stream.
void beside_a_stream_that_waits(const Rank& rank, void* all) {
    if (rank.self == 0) {
        fill(rank, all, 99, kBytes);
        gpurun_request request = lend(rank, all, kBytes, GPURUN_LOAN_READ_ONLY);
        OK(gpurun_wait(&request, rank.stream, nullptr));
        return;
    }
    static std::atomic<bool> goes_on{false};
    cudaStream_t waits = nullptr;
    MUST(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
    MUST(cudaLaunchHostFunc(
        waits,
        [](void*) {
            while (!goes_on)
                std::this_thread::yield();
        },
        nullptr));
    Borrowed loan = borrow(rank);
    goes_on = true;
    expect(rank, "what is lent beside a stream that waits", loan.at, 99, loan.bytes);
    OK(gpurun_give_back(&loan.loan, rank.stream));
    MUST(cudaStreamSynchronize(waits));
    MUST(cudaStreamDestroy(waits));
}

// A peer's mapping would keep the memory.
void free_once_it_is_given_up(const Rank& rank, void* all) {
    if (rank.self == 0) {
        for (size_t offset = 0; offset < kBytes; offset += kPiece)
            OK(gpurun_unregister(at(all, offset), 10000));
        const size_t before = free_bytes();
        Mapped::unmap(all);
        const size_t grown = free_bytes() - before;
        if (grown < kBytes)
            fail("unmapped memory", "is not free");
    }
    meet();
}

void refused_without_descriptors(const Rank& rank) {
    if (rank.self == 0) {
        void* const all = map(rank, false);
        gpurun_request request;
        if (gpurun_lend(all, kBytes, GPURUN_LOAN_READ_ONLY, 1, kTag, kWorld, rank.stream, &request) !=
                GPURUN_ERR_UNSUPPORTED ||
            std::strstr(gpurun_error_detail(), "cuMemMap") == nullptr)
            fail("memory without descriptors", gpurun_error_detail());
        Mapped::unmap(all);
    }
    meet();
}

} // namespace

int main() {
    setenv("GPURUN_ERRORS", "return", 1);
    Rank rank;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("skipped: there is no GPU\n");
        return 77;
    }
    OK(gpurun_init());
    OK(gpurun_comm_rank(kWorld, &rank.self));
    MUST(cudaGetDevice(&rank.device));
    OK(gpurun_stream_create(&rank.stream));
    void* all = rank.self == 0 ? map(rank) : nullptr;
    if (rank.self == 0 && all == nullptr) {
        std::printf("skipped: the device maps no memory\n");
        return 77;
    }
    beside_a_stream_that_waits(rank, all);
    there_and_back(rank, all);
    loans_that_overlap(rank, all);
    tensors(rank, all);
    meet();
    all = other_memory_at_the_address(rank, all);
    free_once_it_is_given_up(rank, all);
    refused_without_descriptors(rank);
    OK(gpurun_stream_destroy(rank.stream));
    OK(gpurun_finalize());
    return 0;
}
