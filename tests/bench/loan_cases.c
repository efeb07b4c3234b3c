/* What loans take in the cases that `gpurun-perf loan` leaves out, each next to what it cannot be faster than:
 *
 *     gpurun -n 2 loan_cases buffer                          warm loans of 1 MiB, of device and of pinned memory
 *     gpurun -n 2 loan_cases tensors [COUNT...]              loans of so many tensors of one allocation, warm
 *     gpurun -n 2 loan_cases first [BYTES...]                the first loan of an allocation
 *     gpurun -n 2 loan_cases weights [BYTES [BUCKET_BYTES]]  weights in buckets, two of them in flight
 *     gpurun --keep-going -n 9 loan_cases killed             from the kill of a borrower to the end of its loan
 *
 * Rank 0 lends and prints. Figures are medians. RESULTS.md keeps them. */
#define _GNU_SOURCE
#include "bench/median.h"
#include "support/dl_tensor.h"
#include "support/must.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { kTag = 1, kMostSamples = 100, kBatch = 20, kInFlight = 2, kIpcHandleBytes = 64 };

static int rank_, ranks_;
static gpurun_stream stream_;

static void meet(void) { MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST)); }
static void synchronize(void) { MUST(gpurun_stream_synchronize(stream_)); }

static void* allocate(size_t bytes) {
    void* made;
    MUST(gpurun_malloc(&made, bytes));
    MUST(gpurun_memset(made, 1, bytes, stream_));
    synchronize();
    return made;
}

/* The longer of what both ranks took. */
static double longer(double own) {
    double both;
    MUST(gpurun_allreduce(&own, &both, 1, GPURUN_DOUBLE, GPURUN_MAX, GPURUN_COMM_WORLD, GPURUN_HOST));
    return both;
}

/* ---- warm loans of many tensors */

struct set {
    struct DLTensor* tensors;
    char** names;
    size_t count;
    void* memory;
};

static struct set make_set(size_t count) {
    static int64_t shape[] = {64, 2};
    enum { kTensorBytes = 128 * sizeof(float) };
    struct set set = {calloc(count, sizeof *set.tensors), calloc(count, sizeof *set.names), count, NULL};
    set.memory = allocate(count * kTensorBytes);
    for (size_t i = 0; i < count; i++) {
        set.names[i] = malloc(40);
        snprintf(set.names[i], 40, "model.layers.%zu.weight", i);
        set.tensors[i] = (struct DLTensor){.data = set.memory,
                                           .device = {.type = 2},
                                           .ndim = 2,
                                           .dtype = {.code = 2, .bits = 32, .lanes = 1},
                                           .shape = shape,
                                           .byte_offset = i * kTensorBytes};
    }
    return set;
}

static void free_set(struct set* set) {
    for (size_t i = 0; i < set->count; i++)
        free(set->names[i]);
    free(set->names);
    free(set->tensors);
    MUST(gpurun_free(set->memory));
}

static void lend_set(const struct set* set, gpurun_stream order) {
    gpurun_request request;
    MUST(gpurun_lend_tensors(set->tensors, (const char* const*)set->names, set->count, NULL, 0, GPURUN_LOAN_EXCLUSIVE,
                             1, kTag, GPURUN_COMM_WORLD, order, &request));
    MUST(gpurun_wait(&request, order, NULL));
}

static void borrow_set(const struct set* set, gpurun_stream order) {
    gpurun_loan loan;
    const struct DLTensor* tensors;
    const char* const* names;
    size_t count;
    MUST(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, order, &loan, NULL));
    MUST(gpurun_loan_tensors(loan, &tensors, &names, &count));
    require(count == set->count && strcmp(names[count - 1], set->names[count - 1]) == 0, "all tensors have come");
    MUST(gpurun_give_back(&loan, order));
}

static void exchange_set(const struct set* set, gpurun_stream order) {
    if (rank_ == 0)
        lend_set(set, order);
    else
        borrow_set(set, order);
}

static void ping_pong(const struct set* set, gpurun_stream order) {
    static int64_t there, back;
    char* const memory = set->memory; /* on the device */
    void* const out = order == GPURUN_HOST ? (void*)&there : memory;
    void* const in = order == GPURUN_HOST ? (void*)&back : memory + sizeof back;
    for (int turn = 0; turn < 2; turn++)
        if (turn == rank_)
            MUST(gpurun_send(out, 1, GPURUN_INT64, 1 - rank_, kTag, GPURUN_COMM_WORLD, order));
        else
            MUST(gpurun_recv(in, 1, GPURUN_INT64, 1 - rank_, kTag, GPURUN_COMM_WORLD, order, NULL));
}

/* Microseconds of half a round. */
static double half_round_us(void (*round)(const struct set*, gpurun_stream), const struct set* set, gpurun_stream order,
                            int batch) {
    double taken[kMostSamples];
    for (int sample = -5; sample < kMostSamples; sample++) {
        meet();
        const double begin = gpurun_wtime();
        for (int i = 0; i < batch; i++)
            round(set, order);
        if (order != GPURUN_HOST)
            synchronize();
        if (sample >= 0)
            taken[sample] = (gpurun_wtime() - begin) * 1e6 / (2.0 * batch);
    }
    return median(taken, kMostSamples);
}

/* Next to a message of the same run. */
static void measure_warm(const char* what, void (*round)(const struct set*, gpurun_stream), const struct set* set,
                         int batch) {
    for (int i = 0; i < 2; i++) {
        const gpurun_stream order = i == 0 ? stream_ : GPURUN_HOST;
        const double loan_us = half_round_us(round, set, order, batch);
        const double message_us = half_round_us(ping_pong, set, order, kBatch);
        if (rank_ == 0)
            printf("| %s, %s order | %.2f us | a message of 8 B: %.2f us |\n", what, i == 0 ? "stream" : "host",
                   loan_us, message_us);
    }
}

static void measure_tensors(size_t count) {
    char what[40];
    struct set set = make_set(count);
    snprintf(what, sizeof what, "%zu tensors", count);
    measure_warm(what, exchange_set, &set, count > 1000 ? 1 : kBatch);
    meet();
    free_set(&set);
}

static void exchange_buffer(const struct set* set, gpurun_stream order) {
    if (rank_ == 0) {
        gpurun_request request;
        MUST(gpurun_lend(set->memory, set->count, GPURUN_LOAN_EXCLUSIVE, 1, kTag, GPURUN_COMM_WORLD, order, &request));
        MUST(gpurun_wait(&request, order, NULL));
        return;
    }
    gpurun_loan loan;
    void* memory;
    MUST(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, order, &loan, NULL));
    MUST(gpurun_loan_buffer(loan, &memory, NULL, NULL));
    MUST(gpurun_give_back(&loan, order));
}

static void measure_buffers(void) {
    struct set set = {.count = 1 << 20};
    set.memory = allocate(set.count);
    measure_warm("1 MiB of device memory", exchange_buffer, &set, kBatch);
    MUST(gpurun_free(set.memory));
    MUST(gpurun_malloc_host(&set.memory, set.count));
    measure_warm("1 MiB of pinned memory", exchange_buffer, &set, kBatch);
    MUST(gpurun_free(set.memory));
}

/* ---- the first loan */

/* CUDA's own way to open an allocation of another process. */
struct handle { /* as the driver passes it, by value */
    char bytes[kIpcHandleBytes];
};
static int (*open_)(unsigned long long*, struct handle, unsigned);
static int (*get_)(struct handle*, unsigned long long);
static int (*close_)(unsigned long long);

static int find_driver(void) {
    gpurun_device_info device = {.size = sizeof device};
    MUST(gpurun_device(&device));
    if (device.kind != GPURUN_DEVICE_CUDA)
        return 0;
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    require(driver != NULL, "the driver of CUDA is there");
    *(void**)&open_ = dlsym(driver, "cuIpcOpenMemHandle_v2");
    *(void**)&get_ = dlsym(driver, "cuIpcGetMemHandle");
    *(void**)&close_ = dlsym(driver, "cuIpcCloseMemHandle");
    require(open_ != NULL && get_ != NULL && close_ != NULL, "the driver shares memory");
    return 1;
}

/* On rank 1, from when it may look for the loan until its stream has come behind that. */
static double first_loan_us(size_t bytes) {
    double taken_us = 0;
    if (rank_ == 0) {
        void* const fresh = allocate(bytes);
        gpurun_request request;
        meet();
        MUST(gpurun_lend(fresh, bytes, GPURUN_LOAN_READ_ONLY, 1, kTag, GPURUN_COMM_WORLD, stream_, &request));
        MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
        MUST(gpurun_free(fresh));
    } else {
        gpurun_loan loan;
        meet();
        const double begin = gpurun_wtime();
        MUST(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, stream_, &loan, NULL));
        synchronize();
        taken_us = (gpurun_wtime() - begin) * 1e6;
        MUST(gpurun_give_back(&loan, stream_));
    }
    return longer(taken_us);
}

static double open_us(size_t bytes) {
    struct handle handle;
    double taken_us = 0;
    if (rank_ == 0) {
        void* const fresh = allocate(bytes);
        require(get_(&handle, (unsigned long long)(size_t)fresh) == 0, "the driver exports it");
        MUST(gpurun_send(&handle, sizeof handle, GPURUN_BYTE, 1, kTag, GPURUN_COMM_WORLD, GPURUN_HOST));
        meet();
        MUST(gpurun_free(fresh));
    } else {
        unsigned long long opened;
        MUST(gpurun_recv(&handle, sizeof handle, GPURUN_BYTE, 0, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
        const double begin = gpurun_wtime();
        require(open_(&opened, handle, 1) == 0, "the driver opens it");
        taken_us = (gpurun_wtime() - begin) * 1e6;
        require(close_(opened) == 0, "the driver closes it");
        meet();
    }
    return longer(taken_us);
}

static void measure_first(size_t bytes, int has_driver) {
    enum { kSamples = 11 };
    double loan[kSamples], open[kSamples];
    for (int i = -1; i < kSamples; i++) {
        const double loan_us = first_loan_us(bytes);
        const double raw_us = has_driver ? open_us(bytes) : 0;
        if (i >= 0)
            loan[i] = loan_us, open[i] = raw_us;
    }
    if (rank_ != 0)
        return;
    printf("| first loan of %zu bytes | %.0f us | ", bytes, median(loan, kSamples));
    printf(has_driver ? "cuIpcOpenMemHandle: %.0f us |\n" : "emulated |\n", median(open, kSamples));
}

/* ---- weights in buckets */

struct weights {
    char* all; /* what is handed over, on both ranks */
    size_t bytes;
    size_t bucket_bytes;
    char* buckets[kInFlight]; /* rank 0's */
};

static size_t length_of(const struct weights* weights, size_t begin) {
    const size_t left = weights->bytes - begin;
    return left < weights->bucket_bytes ? left : weights->bucket_bytes;
}

static void pack(const struct weights* weights) {
    gpurun_request lent[kInFlight];
    for (int i = 0; i < kInFlight; i++)
        lent[i] = GPURUN_REQUEST_NULL;
    for (size_t begin = 0, i = 0; begin < weights->bytes; begin += weights->bucket_bytes, i++) {
        char* const bucket = weights->buckets[i % kInFlight];
        MUST(gpurun_wait(&lent[i % kInFlight], stream_, NULL));
        MUST(gpurun_memcpy(bucket, weights->all + begin, length_of(weights, begin), stream_));
        MUST(gpurun_lend(bucket, length_of(weights, begin), GPURUN_LOAN_READ_ONLY, 1, kTag, GPURUN_COMM_WORLD, stream_,
                         &lent[i % kInFlight]));
    }
    MUST(gpurun_waitall(kInFlight, lent, stream_, NULL));
}

static void unpack(const struct weights* weights) {
    for (size_t begin = 0; begin < weights->bytes; begin += weights->bucket_bytes) {
        gpurun_loan loan;
        void* bucket;
        MUST(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, stream_, &loan, NULL));
        MUST(gpurun_loan_buffer(loan, &bucket, NULL, NULL));
        MUST(gpurun_memcpy(weights->all + begin, bucket, length_of(weights, begin), stream_));
        MUST(gpurun_give_back(&loan, stream_));
    }
}

/* The same copies, of which none waits for another rank's. */
static void copy_all(const struct weights* weights, char* const* buckets) {
    for (size_t begin = 0, i = 0; begin < weights->bytes; begin += weights->bucket_bytes, i++) {
        char* const bucket = buckets[i % kInFlight];
        char* const own = weights->all + begin;
        MUST(gpurun_memcpy(rank_ == 0 ? bucket : own, rank_ == 0 ? own : bucket, length_of(weights, begin), stream_));
    }
}

static double copies_s(const struct weights* weights) {
    gpurun_request lent[kInFlight];
    gpurun_loan loans[kInFlight];
    char* buckets[kInFlight];
    for (int i = 0; i < kInFlight; i++)
        if (rank_ == 0) {
            buckets[i] = weights->buckets[i];
            MUST(gpurun_lend(buckets[i], weights->bucket_bytes, GPURUN_LOAN_SHARED, 1, kTag, GPURUN_COMM_WORLD, stream_,
                             &lent[i]));
        } else {
            MUST(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, stream_, &loans[i], NULL));
            MUST(gpurun_loan_buffer(loans[i], (void**)&buckets[i], NULL, NULL));
        }
    synchronize();
    meet();
    const double begin = gpurun_wtime();
    copy_all(weights, buckets);
    synchronize();
    const double taken = longer(gpurun_wtime() - begin);
    for (int i = 0; i < kInFlight; i++)
        if (rank_ == 0)
            MUST(gpurun_wait(&lent[i], stream_, NULL));
        else
            MUST(gpurun_give_back(&loans[i], stream_));
    return taken;
}

static double hand_over_s(const struct weights* weights) {
    meet();
    const double begin = gpurun_wtime();
    if (rank_ == 0)
        pack(weights);
    else
        unpack(weights);
    synchronize();
    return longer(gpurun_wtime() - begin);
}

static void measure_weights(size_t bytes, size_t bucket_bytes) {
    enum { kSamples = 5 };
    struct weights weights = {allocate(bytes), bytes, bucket_bytes, {NULL, NULL}};
    double handed[kSamples], copied[kSamples];
    for (int i = 0; i < kInFlight && rank_ == 0; i++)
        weights.buckets[i] = allocate(bucket_bytes);
    for (int i = -1; i < kSamples; i++) {
        const double raw_s = copies_s(&weights);
        const double loans_s = hand_over_s(&weights);
        if (i >= 0)
            handed[i] = loans_s, copied[i] = raw_s;
    }
    if (rank_ == 0)
        printf("| weights, %zu bytes in buckets of %zu | %.1f ms | the same copies without any hand-over: %.1f ms |\n",
               bytes, bucket_bytes, median(handed, kSamples) * 1e3, median(copied, kSamples) * 1e3);
    MUST(gpurun_free(weights.all));
    for (int i = 0; i < kInFlight && rank_ == 0; i++)
        MUST(gpurun_free(weights.buckets[i]));
}

/* ---- a borrower that is killed */

/* Rank 1 waits for a message of it, and so learns of its death as the runtime does. All processes have one clock. */
static double told_at_s(gpurun_status status) {
    const double now_s = gpurun_wtime();
    require(status == GPURUN_ERR_PEER_LOST, "the death is told");
    return now_s;
}

static void await_death_of(int victim) {
    char never;
    const double told_s =
        told_at_s(gpurun_recv(&never, 1, GPURUN_BYTE, victim, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    MUST(gpurun_send(&told_s, 1, GPURUN_DOUBLE, 0, kTag, GPURUN_COMM_WORLD, GPURUN_HOST));
}

struct death {
    double ms;       /* from the kill until the loan has ended */
    double later_ms; /* than rank 1 was told */
};

static struct death kill_borrower(int victim, void* memory) {
    gpurun_request request;
    int64_t pid;
    double told_s;
    MUST(gpurun_lend(memory, 8, GPURUN_LOAN_EXCLUSIVE, victim, kTag, GPURUN_COMM_WORLD, stream_, &request));
    MUST(gpurun_recv(&pid, 1, GPURUN_INT64, victim, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    const double begin_s = gpurun_wtime();
    require(kill((pid_t)pid, SIGKILL) == 0, "it can be killed");
    const double end_s = told_at_s(gpurun_wait(&request, GPURUN_HOST, NULL));
    MUST(gpurun_recv(&told_s, 1, GPURUN_DOUBLE, 1, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    return (struct death){(end_s - begin_s) * 1e3, (end_s - told_s) * 1e3};
}

static void borrow_and_stay(void) {
    gpurun_loan loan;
    const int64_t pid = getpid();
    MUST(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, stream_, &loan, NULL));
    MUST(gpurun_send(&pid, 1, GPURUN_INT64, 0, kTag, GPURUN_COMM_WORLD, GPURUN_HOST));
    for (;;)
        pause();
}

static void measure_killed(void) {
    double taken_ms[kMostSamples], later_ms[kMostSamples];
    int count = 0;
    require(ranks_ > 2, "there are three ranks or more");
    if (rank_ > 1)
        borrow_and_stay();
    void* const memory = allocate(8);
    for (int victim = 2; victim < ranks_ && count < kMostSamples; victim++) {
        if (rank_ == 1) {
            await_death_of(victim);
            continue;
        }
        const struct death death = kill_borrower(victim, memory);
        taken_ms[count] = death.ms;
        later_ms[count++] = death.later_ms;
    }
    MUST(gpurun_free(memory));
    if (rank_ == 0)
        printf("| a killed borrower | %.2f ms | later than another rank knows of the death: %.2f ms |\n",
               median(taken_ms, count), median(later_ms, count));
}

/* ---- */

static int usage(void) {
    fprintf(
        stderr,
        "usage: loan_cases buffer | tensors [COUNT...] | first [BYTES...] | weights [BYTES [BUCKET_BYTES]] | killed\n");
    return 2;
}

int main(int argc, char** argv) {
    const char* const which = argc > 1 ? argv[1] : "";
    const int killed = strcmp(which, "killed") == 0;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank_));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, &ranks_));
    MUST(gpurun_stream_create(&stream_));
    require(ranks_ == 2 || killed, "there are two ranks");
    size_t numbers[16];
    int count = 0;
    for (int i = 2; i < argc && count < 16; i++)
        numbers[count++] = strtoull(argv[i], NULL, 10);
    if (strcmp(which, "buffer") == 0) {
        measure_buffers();
    } else if (strcmp(which, "tensors") == 0) {
        static const size_t kUsual[] = {1, 170, 10000};
        for (int i = 0; i < (count != 0 ? count : 3); i++)
            measure_tensors(count != 0 ? numbers[i] : kUsual[i]);
    } else if (strcmp(which, "first") == 0) {
        static const size_t kUsual[] = {1 << 20, 64 << 20, 1 << 30};
        const int has_driver = find_driver();
        for (int i = 0; i < (count != 0 ? count : 3); i++)
            measure_first(count != 0 ? numbers[i] : kUsual[i], has_driver);
    } else if (strcmp(which, "weights") == 0) {
        measure_weights(count > 0 ? numbers[0] : (size_t)60 << 30, count > 1 ? numbers[1] : (size_t)2 << 30);
    } else if (killed) {
        measure_killed();
    } else {
        return usage();
    }
    MUST(gpurun_stream_destroy(stream_));
    MUST(gpurun_finalize());
    return 0;
}
