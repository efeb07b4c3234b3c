/* For benchmarks in C. */
#pragma once

#include <stdlib.h>

static inline int by_size(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}
/* Sorts them. */
static inline double median(double* samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, by_size);
    return samples[count / 2];
}
