/* What rows of calls take that no case of gpurun-perf makes: collectives with uneven parts, scans, neighbours, requests
 * to all, to any source and to the rank itself, halos, pipelines, types and addresses. A pattern that hangs, a size
 * that is out of line with its neighbours, and a form that is dearer than another that does the same, show here.
 *
 *     gpurun -n N patterns [--host] [--pinned] [--only=NAME] [BYTES...]
 *
 * Each figure is the median of some rows, in us for a call, of the slowest rank: 20 to 100 calls, one behind the other
 * in a stream, until it is synchronized; with --host in the host's order. BYTES (8, 64K, 1M) are what one message has,
 * or the buffer of a reduction. RESULTS.md keeps what was found. */
#include "bench/median.h"
#include "support/must.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { kMostRanks = 64, kRows = 5, kMostMessages = 2 * kMostRanks, kHalo = 6 };
static const size_t kRoom = (size_t)160 << 20; /* of each buffer */

static int rank_, ranks_;
static gpurun_stream stream_;
static gpurun_comm grid_, half_;
static char *from_, *into_;
static size_t bytes_;
static gpurun_request requests_[kMostMessages];
static size_t started_;

#define kWorld GPURUN_COMM_WORLD

static int left(void) { return (rank_ + ranks_ - 1) % ranks_; }
static int right(void) { return (rank_ + 1) % ranks_; }
static size_t part(int rank) { return (size_t)rank * bytes_; }

/* ---- parts of unequal length */

struct parts {
    size_t counts[kMostRanks], displacements[kMostRanks];
};
static size_t in_words(size_t bytes) { return bytes < 16 ? 16 : bytes / 16 * 16; }
static void place(struct parts* parts) {
    size_t end = 0;
    for (int i = 0; i < ranks_; ++i) {
        parts->displacements[i] = end;
        end += parts->counts[i];
    }
}
/* The first rank's is the shortest; on average they have the bytes that were asked for. */
static struct parts growing(void) {
    struct parts parts = {{0}, {0}};
    for (int i = 0; i < ranks_; ++i)
        parts.counts[i] = in_words(bytes_ * (size_t)(i + 1) * 2 / (size_t)(ranks_ + 1));
    place(&parts);
    return parts;
}
/* The same each way between two ranks. */
static struct parts in_pairs(void) {
    struct parts parts = {{0}, {0}};
    for (int i = 0; i < ranks_; ++i)
        parts.counts[i] = in_words(bytes_ * (size_t)((i + rank_) % ranks_ + 1) / (size_t)ranks_);
    place(&parts);
    return parts;
}

/* ---- requests */

static gpurun_request* next(void) { return &requests_[started_++]; }
static void start_receive(size_t at, int source, int tag) {
    MUST(gpurun_irecv(into_ + at, bytes_, GPURUN_BYTE, source, tag, kWorld, stream_, next()));
}
static void start_send(size_t at, int dest, int tag) {
    MUST(gpurun_isend(from_ + at, bytes_, GPURUN_BYTE, dest, tag, kWorld, stream_, next()));
}
static void wait_for_all(void) {
    MUST(gpurun_waitall(started_, requests_, stream_, NULL));
    started_ = 0;
}

/* ---- the patterns */

static void reduce_to_all(gpurun_datatype type, size_t element, gpurun_op op, size_t from, size_t into) {
    MUST(gpurun_allreduce(from_ + from, into_ + into, bytes_ / element, type, op, kWorld, stream_));
}
static void allreduce(void) { reduce_to_all(GPURUN_FLOAT, 4, GPURUN_SUM, 0, 0); }
static void allreduce_int8(void) { reduce_to_all(GPURUN_INT8, 1, GPURUN_SUM, 0, 0); }
static void allreduce_float16(void) { reduce_to_all(GPURUN_FLOAT16, 2, GPURUN_SUM, 0, 0); }
static void allreduce_average(void) { reduce_to_all(GPURUN_BFLOAT16, 2, GPURUN_AVG, 0, 0); }
static void allreduce_double(void) { reduce_to_all(GPURUN_DOUBLE, 8, GPURUN_SUM, 0, 0); }
static void allreduce_int64(void) { reduce_to_all(GPURUN_INT64, 8, GPURUN_MAX, 0, 0); }
static void allreduce_skewed(void) { reduce_to_all(GPURUN_FLOAT, 4, GPURUN_SUM, 4, 4); }
static void allreduce_apart(void) { reduce_to_all(GPURUN_FLOAT, 4, GPURUN_SUM, 0, 8); }
static void allreduce_in_place(void) {
    MUST(gpurun_allreduce(GPURUN_IN_PLACE, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_));
}
static void allreduce_half(void) {
    MUST(gpurun_allreduce(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, half_, stream_));
}
static void iallreduce(void) {
    MUST(gpurun_iallreduce(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_, next()));
    wait_for_all();
}
static void two_requests(void) {
    MUST(gpurun_iallreduce(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_, next()));
    MUST(gpurun_iallgather(from_, bytes_ / (size_t)ranks_, GPURUN_BYTE, into_ + bytes_, bytes_ / (size_t)ranks_,
                           GPURUN_BYTE, kWorld, stream_, next()));
    wait_for_all();
}
static void reduce(void) {
    MUST(gpurun_reduce(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, ranks_ - 1, kWorld, stream_));
}
static void scan(void) { MUST(gpurun_scan(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_)); }
static void exscan(void) { MUST(gpurun_exscan(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_)); }
static void iscan(void) {
    MUST(gpurun_iscan(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_, next()));
    wait_for_all();
}
static void reduce_scatter_block(void) {
    MUST(gpurun_reduce_scatter_block(from_, into_, bytes_ / 4, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_));
}
static void reduce_scatter(void) {
    struct parts parts = growing();
    for (int i = 0; i < ranks_; ++i)
        parts.counts[i] /= 4;
    MUST(gpurun_reduce_scatter(from_, into_, parts.counts, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream_));
}
static void bcast(void) { MUST(gpurun_bcast(from_, bytes_, GPURUN_BYTE, ranks_ - 1, kWorld, stream_)); }
static void ibcast(void) {
    MUST(gpurun_ibcast(from_, bytes_, GPURUN_BYTE, 0, kWorld, stream_, next()));
    wait_for_all();
}
static void igather(void) {
    MUST(gpurun_igather(from_, bytes_, GPURUN_BYTE, into_, bytes_, GPURUN_BYTE, 0, kWorld, stream_, next()));
    wait_for_all();
}
static void gatherv(void) {
    const struct parts parts = growing();
    MUST(gpurun_gatherv(from_, parts.counts[rank_], GPURUN_BYTE, into_, parts.counts, parts.displacements, GPURUN_BYTE,
                        0, kWorld, stream_));
}
static void scatterv(void) {
    const struct parts parts = growing();
    MUST(gpurun_scatterv(from_, parts.counts, parts.displacements, GPURUN_BYTE, into_, parts.counts[rank_], GPURUN_BYTE,
                         0, kWorld, stream_));
}
static void allgatherv(void) {
    const struct parts parts = growing();
    MUST(gpurun_allgatherv(from_, parts.counts[rank_], GPURUN_BYTE, into_, parts.counts, parts.displacements,
                           GPURUN_BYTE, kWorld, stream_));
}
static void alltoallv(void) {
    const struct parts parts = in_pairs();
    MUST(gpurun_alltoallv(from_, parts.counts, parts.displacements, GPURUN_BYTE, into_, parts.counts,
                          parts.displacements, GPURUN_BYTE, kWorld, stream_));
}
static void alltoall(void) {
    MUST(gpurun_alltoall(from_, bytes_, GPURUN_BYTE, into_, bytes_, GPURUN_BYTE, kWorld, stream_));
}
static void ialltoall(void) {
    MUST(gpurun_ialltoall(from_, bytes_, GPURUN_BYTE, into_, bytes_, GPURUN_BYTE, kWorld, stream_, next()));
    wait_for_all();
}
static void neighbor_alltoall(void) {
    MUST(gpurun_neighbor_alltoall(from_, bytes_, GPURUN_BYTE, into_, bytes_, GPURUN_BYTE, grid_, stream_));
}
static void neighbor_allgather(void) {
    MUST(gpurun_neighbor_allgather(from_, bytes_, GPURUN_BYTE, into_, bytes_, GPURUN_BYTE, grid_, stream_));
}
static void requests_to_all(void) {
    for (int i = 0; i < ranks_; ++i)
        start_receive(part(i), i, 1);
    for (int i = 0; i < ranks_; ++i)
        start_send(part(i), i, 1);
    wait_for_all();
}
static void exchange_with_others(bool any_source, int tag) {
    for (int i = 0; i < ranks_; ++i)
        if (i != rank_)
            start_receive(part(i), any_source ? GPURUN_ANY_SOURCE : i, tag);
    for (int i = 0; i < ranks_; ++i)
        if (i != rank_)
            start_send(part(i), i, tag);
    wait_for_all();
}
static void requests_to_others(void) { exchange_with_others(false, 1); }
/* With a tag of its own for each call: a rank that is ahead would be received in place of one that is behind, and that
 * one would wait for ever. */
static void requests_of_any(void) {
    static int calls;
    exchange_with_others(true, 1 + calls++);
}
static void requests_to_self(void) {
    start_receive(0, rank_, 1);
    start_send(0, rank_, 1);
    wait_for_all();
}
static void halo(void) {
    for (int i = 0; i < kHalo; ++i)
        start_receive(part(i), i % 2 == 0 ? left() : right(), i);
    for (int i = 0; i < kHalo; ++i)
        start_send(part(i), i % 2 == 0 ? right() : left(), i);
    wait_for_all();
}
static void ring(void) {
    MUST(gpurun_sendrecv(from_, bytes_, GPURUN_BYTE, right(), 1, into_, bytes_, GPURUN_BYTE, left(), 1, kWorld, stream_,
                         NULL));
}
static void ring_replaced(void) {
    MUST(gpurun_sendrecv_replace(from_, bytes_, GPURUN_BYTE, right(), 1, left(), 1, kWorld, stream_, NULL));
}
static void group_ring(void) {
    MUST(gpurun_group_begin());
    MUST(gpurun_send(from_, bytes_, GPURUN_BYTE, right(), 1, kWorld, stream_));
    MUST(gpurun_send(from_ + bytes_, bytes_, GPURUN_BYTE, left(), 2, kWorld, stream_));
    MUST(gpurun_recv(into_, bytes_, GPURUN_BYTE, left(), 1, kWorld, stream_, NULL));
    MUST(gpurun_recv(into_ + bytes_, bytes_, GPURUN_BYTE, right(), 2, kWorld, stream_, NULL));
    MUST(gpurun_group_end());
}
static void sendrecv_to_self(void) {
    MUST(gpurun_sendrecv(from_, bytes_, GPURUN_BYTE, rank_, 1, into_, bytes_, GPURUN_BYTE, rank_, 1, kWorld, stream_,
                         NULL));
}
static void scatter_by_sends(void) {
    if (rank_ != 0)
        MUST(gpurun_recv(into_, bytes_, GPURUN_BYTE, 0, 1, kWorld, stream_, NULL));
    for (int i = 1; rank_ == 0 && i < ranks_; ++i)
        MUST(gpurun_send(from_ + part(i), bytes_, GPURUN_BYTE, i, 1, kWorld, stream_));
}
static void gather_from_any(void) {
    if (rank_ != 0)
        MUST(gpurun_send(from_, bytes_, GPURUN_BYTE, 0, 1, kWorld, stream_));
    for (int i = 1; rank_ == 0 && i < ranks_; ++i)
        MUST(gpurun_recv(into_ + part(i), bytes_, GPURUN_BYTE, GPURUN_ANY_SOURCE, 1, kWorld, stream_, NULL));
}
static void pipeline(void) {
    if (rank_ > 0)
        MUST(gpurun_recv(into_, bytes_, GPURUN_BYTE, rank_ - 1, 1, kWorld, stream_, NULL));
    if (rank_ < ranks_ - 1)
        MUST(gpurun_send(into_, bytes_, GPURUN_BYTE, rank_ + 1, 1, kWorld, stream_));
}
static void barrier(void) { MUST(gpurun_barrier(kWorld, stream_)); }

static const struct pattern {
    const char* name;
    void (*call)(void);
} kPatterns[] = {
    {"allreduce", allreduce},
    {"iallreduce", iallreduce},
    {"allreduce-in-place", allreduce_in_place},
    {"allreduce-half-comm", allreduce_half},
    {"allreduce-int8", allreduce_int8},
    {"allreduce-float16", allreduce_float16},
    {"allreduce-bf16-avg", allreduce_average},
    {"allreduce-double", allreduce_double},
    {"allreduce-int64-max", allreduce_int64},
    {"allreduce-at-4", allreduce_skewed},
    {"allreduce-at-0-and-8", allreduce_apart},
    {"iallreduce-iallgather", two_requests},
    {"reduce-to-last", reduce},
    {"scan", scan},
    {"exscan", exscan},
    {"iscan", iscan},
    {"reduce_scatter_block", reduce_scatter_block},
    {"reduce_scatter", reduce_scatter},
    {"bcast-from-last", bcast},
    {"ibcast", ibcast},
    {"igather", igather},
    {"gatherv", gatherv},
    {"scatterv", scatterv},
    {"allgatherv", allgatherv},
    {"alltoallv", alltoallv},
    {"alltoall", alltoall},
    {"ialltoall", ialltoall},
    {"neighbor_alltoall", neighbor_alltoall},
    {"neighbor_allgather", neighbor_allgather},
    {"requests-to-all", requests_to_all},
    {"requests-to-others", requests_to_others},
    {"requests-of-any", requests_of_any},
    {"requests-to-self", requests_to_self},
    {"halo-of-6", halo},
    {"ring", ring},
    {"ring-replaced", ring_replaced},
    {"ring-both-ways-group", group_ring},
    {"sendrecv-to-self", sendrecv_to_self},
    {"scatter-by-sends", scatter_by_sends},
    {"gather-from-any", gather_from_any},
    {"pipeline", pipeline},
    {"barrier", barrier},
};

/* ---- measuring */

static void finish(void) {
    if (stream_ != GPURUN_HOST)
        MUST(gpurun_stream_synchronize(stream_));
}
static double measure(const struct pattern* pattern) {
    const int calls = bytes_ <= 64 << 10 ? 100 : bytes_ <= 1 << 20 ? 50 : 20;
    double rows[kRows];
    for (int row = -1; row < kRows; ++row) { /* the first does not count */
        MUST(gpurun_barrier(kWorld, GPURUN_HOST));
        const double began = gpurun_wtime();
        for (int i = 0; i < calls; ++i)
            pattern->call();
        finish();
        if (row >= 0)
            rows[row] = (gpurun_wtime() - began) * 1e6 / calls;
    }
    const double own = median(rows, kRows);
    double slowest;
    MUST(gpurun_allreduce(&own, &slowest, 1, GPURUN_DOUBLE, GPURUN_MAX, kWorld, GPURUN_HOST));
    return slowest;
}
static void print(const char* cell, int width) {
    if (rank_ == 0)
        printf("%*s", width, cell);
    fflush(stdout);
}
static void measure_all(const struct pattern* pattern, const size_t* bytes, int count) {
    char cell[32];
    print(pattern->name, -24);
    for (int i = 0; i < count; ++i) {
        bytes_ = bytes[i];
        snprintf(cell, sizeof cell, "%.1f", measure(pattern));
        print(cell, 9);
    }
    print("\n", 0);
}

/* ---- what to measure */

enum { kMostSizes = 32 };
static struct {
    bool pinned, on_host;
    const char* only;
    char** sizes;
    size_t bytes[kMostSizes];
    int count;
} asked_;

static bool read_size(const char* text, size_t* ret_bytes) {
    char* end;
    size_t bytes = strtoull(text, &end, 10);
    if (*end == 'K' || *end == 'M')
        bytes <<= *end++ == 'K' ? 10 : 20;
    *ret_bytes = bytes;
    const size_t parts = (size_t)(ranks_ > kHalo ? ranks_ : kHalo) + 1;
    return *end == '\0' && bytes >= 8 && bytes % 8 == 0 && bytes <= kRoom / 2 / parts;
}

static bool is_named(const char* only) {
    bool found = only == NULL;
    for (size_t i = 0; i < sizeof kPatterns / sizeof *kPatterns; ++i)
        found = found || strcmp(only, kPatterns[i].name) == 0;
    return found;
}

/* Null, or what is wrong. */
static const char* read_arguments(int argc, char** argv) {
    static char* usual[] = {"8", "4K", "64K", "128K", "256K", "512K", "1M", "2M", "4M"};
    int arg = 1;
    for (; arg < argc && strncmp(argv[arg], "--", 2) == 0; ++arg) {
        if (strcmp(argv[arg], "--pinned") == 0)
            asked_.pinned = true;
        else if (strcmp(argv[arg], "--host") == 0)
            asked_.on_host = true;
        else if (strncmp(argv[arg], "--only=", 7) == 0)
            asked_.only = argv[arg] + 7;
        else
            return "options are --host, --pinned and --only=NAME";
    }
    if (!is_named(asked_.only))
        return "there is no pattern of this name: without --only, the table has all names";
    asked_.sizes = arg < argc ? argv + arg : usual;
    asked_.count = arg < argc ? argc - arg : (int)(sizeof usual / sizeof *usual);
    bool fits = asked_.count <= kMostSizes;
    for (int i = 0; fits && i < asked_.count; ++i)
        fits = read_size(asked_.sizes[i], &asked_.bytes[i]);
    return fits
               ? NULL
               : "sizes are multiples of 8 bytes, as 8, 64K or 4M, of which 80 MiB have room for one a rank, and for 7";
}

static char* allocate(void) {
    void* made;
    MUST(asked_.pinned ? gpurun_malloc_host(&made, kRoom) : gpurun_malloc(&made, kRoom));
    return made;
}

int main(int argc, char** argv) {
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(kWorld, &rank_));
    MUST(gpurun_comm_size(kWorld, &ranks_));
    require(ranks_ <= kMostRanks, "up to 64 ranks");
    const char* const wrong = read_arguments(argc, argv);
    if (wrong != NULL) {
        if (rank_ == 0)
            fprintf(stderr, "patterns: %s\n", wrong);
        MUST(gpurun_finalize());
        return 2;
    }
    gpurun_stream stream;
    MUST(gpurun_stream_create(&stream));
    stream_ = asked_.on_host ? GPURUN_HOST : stream;
    from_ = allocate();
    into_ = allocate();
    const int rows = ranks_ % 2 == 0 ? 2 : 1, dims[] = {rows, ranks_ / rows}, periods[] = {1, 1};
    MUST(gpurun_cart_create(kWorld, 2, dims, periods, 0, &grid_));
    MUST(gpurun_comm_split(kWorld, rank_ % 2, rank_, &half_));
    print("us", -24);
    for (int i = 0; i < asked_.count; ++i)
        print(asked_.sizes[i], 9);
    print("\n", 0);
    for (size_t i = 0; i < sizeof kPatterns / sizeof *kPatterns; ++i)
        if (asked_.only == NULL || strcmp(asked_.only, kPatterns[i].name) == 0)
            measure_all(&kPatterns[i], asked_.bytes, asked_.count);
    MUST(gpurun_stream_destroy(stream));
    MUST(gpurun_finalize());
    return 0;
}
