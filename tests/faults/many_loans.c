/* many_loans LOANS: rank 0 lends LOANS times, and every tenth time memory that it has just allocated. Then neither rank
   has more mappings or descriptors open than after the first tenth of them, and all the device's memory is free.

   many_loans tensors NUMBER: rank 0 lends as many tensors at once, of an allocation each, and keeps the memory. */
#include "support/dl_tensor.h"
#include "support/must.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLoan = 1, kBytes = 100000, kSpare = 16 };

struct open_things {
    int mappings, descriptors;
};

static struct open_things count_open(void) {
    struct open_things found = {0, 0};
    FILE* const maps = fopen("/proc/self/maps", "r");
    DIR* const descriptors = opendir("/proc/self/fd");
    require(maps != NULL && descriptors != NULL, "what the process has open can be read");
    for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
        found.mappings += c == '\n';
    while (readdir(descriptors) != NULL)
        found.descriptors++;
    closedir(descriptors);
    fclose(maps);
    return found;
}

/* The largest allocation that the device has room for. */
static size_t largest_free(void) {
    gpurun_device_info info;
    void* memory;
    info.size = sizeof info;
    MUST(gpurun_device(&info));
    for (size_t bytes = info.memory_bytes;; bytes -= bytes / 64) {
        const gpurun_status status = gpurun_malloc(&memory, bytes);
        if (status == GPURUN_OK) {
            MUST(gpurun_free(memory));
            return bytes;
        }
        require(status == GPURUN_ERR_MEMORY, "an allocation fails for want of memory alone");
    }
}

static void lend_often(long loans, gpurun_stream stream, void* kept) {
    for (long i = 0; i < loans; i++) {
        void* memory = kept;
        gpurun_request request;
        if (i % 10 == 0)
            MUST(gpurun_malloc(&memory, kBytes));
        MUST(gpurun_lend(memory, kBytes, GPURUN_LOAN_EXCLUSIVE, 1, kLoan, GPURUN_COMM_WORLD, stream, &request));
        MUST(gpurun_wait(&request, memory == kept ? stream : GPURUN_HOST, NULL));
        if (memory != kept)
            MUST(gpurun_free(memory));
    }
}

static void borrow_often(long loans, gpurun_stream stream) {
    for (long i = 0; i < loans; i++) {
        gpurun_loan loan;
        MUST(gpurun_borrow(0, kLoan, GPURUN_COMM_WORLD, stream, &loan, NULL));
        MUST(gpurun_give_back(&loan, stream));
    }
}

static void hand_over(int rank, long loans, gpurun_stream stream, void* kept) {
    if (rank == 0)
        lend_often(loans, stream, kept);
    else
        borrow_often(loans, stream);
    MUST(gpurun_stream_synchronize(stream));
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
}

static void lend_tensors(long number, gpurun_stream stream) {
    int64_t length = 16;
    struct DLTensor* const tensors = calloc((size_t)number, sizeof *tensors);
    gpurun_request request;
    require(tensors != NULL, "there is memory");
    for (long i = 0; i < number; i++) {
        tensors[i].device.type = 1;
        tensors[i].ndim = 1;
        tensors[i].dtype.bits = 8;
        tensors[i].dtype.lanes = 1;
        tensors[i].shape = &length;
        MUST(gpurun_malloc(&tensors[i].data, (size_t)length));
    }
    MUST(gpurun_lend_tensors(tensors, NULL, (size_t)number, NULL, 0, GPURUN_LOAN_SHARED, 1, kLoan, GPURUN_COMM_WORLD,
                             stream, &request));
    MUST(gpurun_wait(&request, stream, NULL));
    free(tensors);
}

/* What is unmapped is unmapped in calls that make progress, at least 32 of so many in each; a probe that finds nothing
   always makes some, a barrier only if it waits. */
static void let_unmap(long number) {
    for (long i = 0; i < number / 32; i++) {
        int found;
        MUST(gpurun_iprobe(0, kLoan, GPURUN_COMM_WORLD, &found, NULL));
        require(!found, "no loan is left");
    }
}

int main(int argc, char** argv) {
    int rank;
    gpurun_stream stream;
    void* kept;
    const int has_tensors = argc == 3 && strcmp(argv[1], "tensors") == 0;
    if (argc != 2 && !has_tensors)
        return 2;
    const long loans = atol(argv[argc - 1]);
    MUST(gpurun_init());
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    if (has_tensors) {
        if (rank == 0)
            lend_tensors(loans, stream);
        else
            borrow_often(1, stream);
        MUST(gpurun_stream_synchronize(stream));
        if (rank == 1)
            let_unmap(loans);
        MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
        MUST(gpurun_finalize());
        return 0;
    }
    MUST(gpurun_malloc(&kept, kBytes));
    const size_t free_before = largest_free();
    hand_over(rank, loans / 10, stream, kept);
    const struct open_things before = count_open();
    hand_over(rank, loans - loans / 10, stream, kept);
    const struct open_things after = count_open();
    printf("rank %d: mappings %d, then %d; descriptors %d, then %d\n", rank, before.mappings, after.mappings,
           before.descriptors, after.descriptors);
    require(after.mappings <= before.mappings + kSpare, "mappings stay as many");
    require(after.descriptors <= before.descriptors, "descriptors stay as many");
    require(largest_free() == free_before, "as much memory of the device is free as before");
    MUST(gpurun_free(kept));
    MUST(gpurun_stream_destroy(stream));
    MUST(gpurun_finalize());
    return 0;
}
