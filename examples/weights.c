// weights: a trainer and an inference engine, two jobs that are started one by one. After each step the trainer hands
// its weights to the engine, in place, bucket by bucket, and goes on when the engine is killed and comes again.
//
//     gpurun -n 2 ./weights trainer [STEPS] &
//     gpurun -n 1 ./weights engine [DIES_AT_STEP]
//
// Rank 0 of the trainer packs the weights into two buckets in turn, in its stream, and lends each to all ranks of the
// engine; before it packs a bucket again, its stream waits until that has come back. The engine's streams copy out what
// they have borrowed. No host waits for a device within a step. With DIES_AT_STEP an engine is killed in the middle of
// that step: start another one, and it gets the weights of the next step.
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { kBuckets = 8, kBucketBytes = 1 << 20, kWeightsBytes = kBuckets * kBucketBytes, kInFlight = 2 };
enum { kStepTag = 0, kBucketTag = 1, kNoMoreSteps = -1, kMostEngines = 64, kForever = -1 };
static const char *const kName = "weights"; // by which the two jobs meet

struct bucket {
    char *memory;
    gpurun_request loans[kMostEngines]; // one for each rank of the engine
};

struct trainer {
    gpurun_comm both; // first the trainer's ranks, then the engine's
    int trainers, ranks;
    gpurun_stream stream;
    char *weights;
    struct bucket buckets[kInFlight];
};

// What a call gives once a rank of the engine is lost. Anything else that is no success is a mistake.
static int is_lost(gpurun_status status) {
    EXPECT(status == GPURUN_OK || status == GPURUN_ERR_PEER_LOST, "%s: %s", gpurun_status_string(status),
           gpurun_error_detail());
    return status == GPURUN_ERR_PEER_LOST;
}

// Rank 0 alone. Whether the engine was lost; then it does not get the rest of the step.
static int hand_over(struct trainer *self, int step) {
    int lost = 0;
    size_t engines = (size_t)(self->ranks - self->trainers);
    for (int rank = self->trainers; rank < self->ranks; rank++)
        lost |= is_lost(gpurun_send(&step, 1, GPURUN_INT32, rank, kStepTag, self->both, GPURUN_HOST));
    for (int i = 0; i < kBuckets && !lost && step != kNoMoreSteps; i++) {
        struct bucket *bucket = &self->buckets[i % kInFlight];
        lost = is_lost(gpurun_waitall(engines, bucket->loans, self->stream, NULL)); // what it was lent by before
        CHECK(gpurun_memcpy(bucket->memory, self->weights + i * kBucketBytes, kBucketBytes, self->stream));
        for (size_t engine = 0; engine < engines; engine++)
            lost |=
                is_lost(gpurun_lend(bucket->memory, kBucketBytes, GPURUN_LOAN_READ_ONLY, self->trainers + (int)engine,
                                    kBucketTag, self->both, self->stream, &bucket->loans[engine]));
    }
    for (int i = 0; i < kInFlight; i++)
        lost |= is_lost(gpurun_waitall(engines, self->buckets[i].loans, self->stream, NULL));
    return lost;
}

static void meet_engine(struct trainer *self) {
    CHECK(gpurun_comm_accept(kName, kForever, GPURUN_COMM_WORLD, &self->both));
    CHECK(gpurun_comm_size(self->both, &self->ranks));
    EXPECT(self->ranks - self->trainers <= kMostEngines, "an engine has %d ranks at most", kMostEngines);
}

static void train(int rank, int steps) {
    struct trainer self;
    int restarts = 0;
    memset(&self, 0, sizeof self);
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &self.trainers));
    CHECK(gpurun_stream_create(&self.stream));
    CHECK(gpurun_malloc((void **)&self.weights, kWeightsBytes));
    for (int i = 0; i < kInFlight; i++)
        CHECK(gpurun_malloc((void **)&self.buckets[i].memory, kBucketBytes));
    meet_engine(&self);
    for (int step = 1; step <= steps + 1; step++) {
        int lost = 0;
        CHECK(gpurun_memset(self.weights, step % 256, kWeightsBytes, self.stream)); // the training
        CHECK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
        if (rank == 0)
            lost = hand_over(&self, step <= steps ? step : kNoMoreSteps);
        CHECK(gpurun_bcast(&lost, 1, GPURUN_INT32, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
        if (!lost)
            continue;
        is_lost(gpurun_comm_free(&self.both)); // as all trainers do
        memset(self.buckets[0].loans, 0, sizeof self.buckets[0].loans);
        memset(self.buckets[1].loans, 0, sizeof self.buckets[1].loans);
        restarts++;
        meet_engine(&self);
    }
    CHECK(gpurun_comm_free(&self.both));
    CHECK(gpurun_stream_synchronize(self.stream));
    if (rank == 0)
        printf("trainer: %d steps, and %d engines were lost\n", steps, restarts);
    for (int i = 0; i < kInFlight; i++)
        CHECK(gpurun_free(self.buckets[i].memory));
    CHECK(gpurun_free(self.weights));
    CHECK(gpurun_stream_destroy(self.stream));
}

// The engine's own copy, in which every byte is the step's number.
static void check_weights(const char *weights, int step, char *seen, gpurun_stream stream) {
    CHECK(gpurun_memcpy(seen, weights, kWeightsBytes, stream));
    CHECK(gpurun_stream_synchronize(stream));
    for (int i = 0; i < kWeightsBytes; i++)
        EXPECT((unsigned char)seen[i] == step % 256, "step %d: byte %d is %d", step, i, (unsigned char)seen[i]);
}

static void infer(int dies_at) {
    int step = 0, steps = 0;
    gpurun_comm both;
    gpurun_stream stream;
    char *weights, *seen;
    CHECK(gpurun_stream_create(&stream));
    CHECK(gpurun_malloc((void **)&weights, kWeightsBytes));
    CHECK(gpurun_malloc_host((void **)&seen, kWeightsBytes));
    CHECK(gpurun_comm_connect(kName, kForever, GPURUN_COMM_WORLD, &both));
    for (;; steps++) {
        CHECK(gpurun_recv(&step, 1, GPURUN_INT32, 0, kStepTag, both, GPURUN_HOST, NULL));
        if (step == kNoMoreSteps)
            break;
        for (int i = 0; i < kBuckets; i++) {
            gpurun_loan loan;
            void *bucket;
            size_t bytes;
            CHECK(gpurun_borrow(0, kBucketTag, both, stream, &loan, NULL));
            CHECK(gpurun_loan_buffer(loan, &bucket, &bytes, NULL));
            CHECK(gpurun_memcpy(weights + i * kBucketBytes, bucket, bytes, stream));
            if (step == dies_at && i == kBuckets / 2)
                raise(SIGKILL);
            CHECK(gpurun_give_back(&loan, stream));
        }
        check_weights(weights, step, seen, stream);
    }
    printf("engine: the weights of %d steps\n", steps);
    CHECK(gpurun_comm_free(&both));
    CHECK(gpurun_free(seen));
    CHECK(gpurun_free(weights));
    CHECK(gpurun_stream_destroy(stream));
}

int main(int argc, char **argv) {
    int rank;
    int number = argc > 2 ? atoi(argv[2]) : 0;
    if (argc < 2 || (strcmp(argv[1], "trainer") != 0 && strcmp(argv[1], "engine") != 0)) {
        fprintf(stderr, "weights trainer [STEPS], and in another job: weights engine [DIES_AT_STEP]\n");
        return 2;
    }
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (strcmp(argv[1], "trainer") == 0)
        train(rank, number > 0 ? number : 20);
    else
        infer(number);
    CHECK(gpurun_finalize());
    return 0;
}
