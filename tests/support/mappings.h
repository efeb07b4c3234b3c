// For ranks in C on emulated devices: how many mappings of a size the process has. One of other processes' memory is as
// large as what they allocated.
#pragma once

#include "support/must.h"

#include <stddef.h>

static inline int mappings_of(size_t bytes) {
    char line[512];
    unsigned long first, end;
    int found = 0;
    FILE* const maps = fopen("/proc/self/maps", "r");
    require(maps != NULL, "what the process has mapped can be read");
    while (fgets(line, sizeof line, maps) != NULL)
        found += sscanf(line, "%lx-%lx", &first, &end) == 2 && end - first == bytes;
    fclose(maps);
    return found;
}
