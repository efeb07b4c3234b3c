// A temperature field as a picture that any viewer opens (PPM): black is cold, then red, yellow, and white is hot.
#ifndef EXAMPLES_HEAT_PICTURE_H
#define EXAMPLES_HEAT_PICTURE_H

#include "check.h"

static inline unsigned char heat_colour(float share, int channel) {
    float value = 3 * share - (float)channel; // red rises in the first third, green in the second, blue in the last
    return (unsigned char)(value <= 0 ? 0 : value >= 1 ? 255 : value * 255);
}

static inline void write_picture(const char *path, const float *field, size_t rows, size_t columns, float hottest) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL, "cannot write %s", path);
    fprintf(file, "P6\n%zu %zu\n255\n", columns, rows);
    for (size_t cell = 0; cell < rows * columns; cell++)
        for (int channel = 0; channel < 3; channel++)
            fputc(heat_colour(field[cell] / hottest, channel), file);
    EXPECT(fclose(file) == 0, "cannot write %s", path);
}

#endif
