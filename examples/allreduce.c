// allreduce: ranks train one model, each on its share of the samples (data-parallel training).
//
//     gpurun -n 4 ./allreduce [STEPS]
//
// In each step every rank computes the gradient over its own samples; gpurun_allreduce() averages the gradients of all
// ranks where they are, in device memory, between the kernel that computes them and the one that uses them. No host
// waits for a device. In the end all ranks have the same weights, bit by bit, and the error is that of one rank that
// has all samples.
#include "kernels/choose.h"
#include "kernels/train_kernels.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kSamples = 5040, kRow = kFeatures + 1 }; // 5040 = 2 * 2 * 2 * 2 * 3 * 3 * 5 * 7
static const double kRate = 0.1;

static double random_number(uint32_t *state) { // -1 to 1
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 23) - 1;
}

// The same on all ranks: random features, and a weighted sum of them with some noise.
static double *make_samples(void) {
    double *samples = malloc(sizeof(double) * kSamples * kRow);
    EXPECT(samples != NULL, "no memory for %d samples", kSamples);
    uint32_t state = 1;
    for (double *sample = samples; sample < samples + kSamples * kRow; sample += kRow) {
        sample[kFeatures] = 0.1 * random_number(&state);
        for (int j = 0; j < kFeatures; j++) {
            sample[j] = random_number(&state);
            sample[kFeatures] += sample[j] * (j - 5);
        }
    }
    return samples;
}

// Mean squared, over all samples.
static double error_of(const double *weights, const double *samples) {
    double sum = 0;
    for (const double *sample = samples; sample < samples + kSamples * kRow; sample += kRow) {
        double error = -sample[kFeatures];
        for (int j = 0; j < kFeatures; j++)
            error += weights[j] * sample[j];
        sum += error * error;
    }
    return sum / kSamples;
}

struct trainer {
    const struct train_kernels *kernels;
    gpurun_stream stream;
    double *samples, *weights, *gradient; // device memory
};

// From no weights at all; `shared`: with all ranks, each on its own samples.
static void train(const struct trainer *trainer, const double *samples, size_t count, int steps, int shared,
                  double *ret_weights) {
    CHECK(gpurun_memcpy(trainer->samples, samples, count * kRow * sizeof(double), trainer->stream));
    CHECK(gpurun_memset(trainer->weights, 0, kFeatures * sizeof(double), trainer->stream));
    for (int step = 0; step < steps; step++) {
        trainer->kernels->gradient(trainer->stream, trainer->gradient, trainer->weights, trainer->samples, count);
        if (shared)
            CHECK(gpurun_allreduce(GPURUN_IN_PLACE, trainer->gradient, kFeatures, GPURUN_DOUBLE, GPURUN_AVG,
                                   GPURUN_COMM_WORLD, trainer->stream));
        trainer->kernels->descend(trainer->stream, trainer->weights, trainer->gradient, kRate);
    }
    CHECK(gpurun_memcpy(ret_weights, trainer->weights, kFeatures * sizeof(double), trainer->stream));
    CHECK(gpurun_stream_synchronize(trainer->stream));
}

static void expect_same_bits(const double *weights) {
    uint64_t bits[kFeatures], least[kFeatures], most[kFeatures];
    memcpy(bits, weights, sizeof bits);
    CHECK(gpurun_allreduce(bits, least, kFeatures, GPURUN_UINT64, GPURUN_MIN, GPURUN_COMM_WORLD, GPURUN_HOST));
    CHECK(gpurun_allreduce(bits, most, kFeatures, GPURUN_UINT64, GPURUN_MAX, GPURUN_COMM_WORLD, GPURUN_HOST));
    for (int j = 0; j < kFeatures; j++)
        EXPECT(least[j] == most[j], "the ranks have different weights of feature %d", j);
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 300;
    int rank, size;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    EXPECT(kSamples % size == 0, "%d samples cannot be divided among %d ranks", kSamples, size);

    struct trainer trainer = {.kernels = CHOOSE_KERNELS(train_kernels)};
    EXPECT(trainer.kernels != NULL, "built without CUDA: run with gpurun --device=emulated");
    void *memory[3];
    const size_t sizes[3] = {kSamples * kRow, kFeatures, kFeatures};
    for (int i = 0; i < 3; i++)
        CHECK(gpurun_malloc(&memory[i], sizes[i] * sizeof(double)));
    trainer.samples = memory[0];
    trainer.weights = memory[1];
    trainer.gradient = memory[2];
    CHECK(gpurun_stream_create(&trainer.stream));

    double *samples = make_samples();
    double shared[kFeatures], alone[kFeatures];
    size_t share = kSamples / (size_t)size;
    train(&trainer, samples + (size_t)rank * share * kRow, share, steps, 1, shared);
    train(&trainer, samples, kSamples, steps, 0, alone);
    expect_same_bits(shared);
    double error = error_of(shared, samples), error_alone = error_of(alone, samples);
    EXPECT(fabs(error - error_alone) < 1e-9, "the error is %.12f, and %.12f on one rank", error, error_alone);
    if (rank == 0)
        printf("%d ranks have trained for %d steps: the error is %.6f, as on one rank\n", size, steps, error);

    free(samples);
    for (int i = 0; i < 3; i++)
        CHECK(gpurun_free(memory[i]));
    CHECK(gpurun_stream_destroy(trainer.stream));
    CHECK(gpurun_finalize());
    return 0;
}
