// GPURUN_ASSERT(condition): a bug ends the process with its place, in release builds too. Never for bad input.
#pragma once

namespace gpurun::base {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

} // namespace gpurun::base

#define GPURUN_ASSERT(condition)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) [[unlikely]]                                                                                 \
            ::gpurun::base::check_failed(#condition, __FILE__, __LINE__);                                              \
    } while (false)
