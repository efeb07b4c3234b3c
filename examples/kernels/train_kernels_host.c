// train_kernels.h as host loops, for emulated devices. A call's arguments live until its loop has run.
#include "../check.h"
#include "train_kernels.h"

#include <stdlib.h>

struct call {
    double *result;
    const double *weights, *numbers; // samples, or a gradient
    size_t count;
    double rate;
};

static void enqueue(gpurun_stream stream, void (*run)(void *), struct call arguments) {
    struct call *call = malloc(sizeof *call);
    EXPECT(call != NULL, "no memory");
    *call = arguments;
    CHECK(gpurun_launch_host(stream, run, call));
}

static void run_gradient(void *argument) {
    struct call *call = argument;
    for (int j = 0; j < kFeatures; j++)
        call->result[j] = 0;
    for (size_t i = 0; i < call->count; i++) {
        const double *sample = call->numbers + i * (kFeatures + 1);
        double error = -sample[kFeatures];
        for (int j = 0; j < kFeatures; j++)
            error += call->weights[j] * sample[j];
        for (int j = 0; j < kFeatures; j++)
            call->result[j] += 2 * error * sample[j] / (double)call->count;
    }
    free(call);
}

static void gradient(gpurun_stream stream, double *result, const double *weights, const double *samples, size_t count) {
    enqueue(stream, run_gradient, (struct call){result, weights, samples, count, 0});
}

static void run_descend(void *argument) {
    struct call *call = argument;
    for (int j = 0; j < kFeatures; j++)
        call->result[j] -= call->rate * call->numbers[j];
    free(call);
}

static void descend(gpurun_stream stream, double *weights, const double *against, double rate) {
    enqueue(stream, run_descend, (struct call){weights, NULL, against, 0, rate});
}

const struct train_kernels host_train_kernels = {gradient, descend};
