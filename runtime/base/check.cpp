#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace gpurun::base {

void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "gpurun: internal error: %s does not hold at %s:%d; please report this\n", condition, file,
                 line);
    std::abort();
}

} // namespace gpurun::base
