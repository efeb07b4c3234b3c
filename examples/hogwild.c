// hogwild: ranks train one model whose weights they all read and write, without any order between them (Niu, Recht, Re,
// Wright, 2011).
//
//     gpurun -n 4 ./hogwild [STEPS]
//
// Rank 0 has the weights and lends them to all ranks, itself included, as a shared loan. Each computes the gradient
// over its own samples and steps against it, in place, while the others do the same. Steps are lost now and then; the
// model is found all the same. Rank 0 has the weights back when all have given back.
#include "kernels/choose.h"
#include "kernels/train_kernels.h"

#include <stdint.h>
#include <stdlib.h>

enum { kSamples = 1000, kRow = kFeatures + 1, kTag = 0 };
static const double kRate = 0.05;

static double random_number(uint32_t *state) { // -1 to 1
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 23) - 1;
}

// This rank's own, of the model that all are to find: weight j is j - 5.
static void make_samples(int rank, double *samples) {
    uint32_t state = (uint32_t)rank + 1;
    for (double *sample = samples; sample < samples + kSamples * kRow; sample += kRow) {
        sample[kFeatures] = 0;
        for (int j = 0; j < kFeatures; j++) {
            sample[j] = random_number(&state);
            sample[kFeatures] += sample[j] * (j - 5);
        }
    }
}

static void train(const struct train_kernels *kernels, int rank, int steps, gpurun_stream stream) {
    static double samples[kSamples * kRow];
    void *memory, *gradient, *weights;
    gpurun_loan loan;
    make_samples(rank, samples);
    CHECK(gpurun_malloc(&memory, sizeof samples));
    CHECK(gpurun_malloc(&gradient, kFeatures * sizeof(double)));
    CHECK(gpurun_memcpy(memory, samples, sizeof samples, stream));
    CHECK(gpurun_borrow(0, kTag, GPURUN_COMM_WORLD, stream, &loan, NULL));
    CHECK(gpurun_loan_buffer(loan, &weights, NULL, NULL));
    for (int step = 0; step < steps; step++) {
        kernels->gradient(stream, gradient, weights, memory, kSamples);
        kernels->descend(stream, weights, gradient, kRate);
    }
    CHECK(gpurun_give_back(&loan, stream));
    CHECK(gpurun_stream_synchronize(stream));
    CHECK(gpurun_free(gradient));
    CHECK(gpurun_free(memory));
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 600;
    int rank, size;
    void *weights;
    gpurun_stream stream;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    CHECK(gpurun_stream_create(&stream));
    const struct train_kernels *kernels = CHOOSE_KERNELS(train_kernels);
    EXPECT(kernels != NULL, "built without CUDA: run with gpurun --device=emulated");
    CHECK(gpurun_malloc(&weights, kFeatures * sizeof(double)));

    gpurun_request *loans = malloc(sizeof *loans * (size_t)size);
    EXPECT(loans != NULL, "no memory for %d requests", size);
    for (int i = 0; i < size; i++)
        loans[i] = GPURUN_REQUEST_NULL;
    CHECK(gpurun_memset(weights, 0, kFeatures * sizeof(double), stream));
    for (int borrower = 0; rank == 0 && borrower < size; borrower++)
        CHECK(gpurun_lend(weights, kFeatures * sizeof(double), GPURUN_LOAN_SHARED, borrower, kTag, GPURUN_COMM_WORLD,
                          stream, &loans[borrower]));
    train(kernels, rank, steps, stream);
    CHECK(gpurun_waitall((size_t)size, loans, stream, NULL));

    if (rank == 0) {
        double found[kFeatures], worst = 0;
        CHECK(gpurun_memcpy(found, weights, sizeof found, stream));
        CHECK(gpurun_stream_synchronize(stream));
        for (int j = 0; j < kFeatures; j++) {
            double error = found[j] > j - 5 ? found[j] - (j - 5) : j - 5 - found[j];
            worst = error > worst ? error : worst;
        }
        EXPECT(worst < 0.01, "a weight is wrong by %f", worst);
        printf("%d ranks have found the model, to %.6f\n", size, worst);
    }
    free(loans);
    CHECK(gpurun_free(weights));
    CHECK(gpurun_stream_destroy(stream));
    CHECK(gpurun_finalize());
    return 0;
}
