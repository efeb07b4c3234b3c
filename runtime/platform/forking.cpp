#include "platform/forking.hpp"

#include "platform/system_error.hpp"

#include <pthread.h>

namespace gpurun::platform {

base::Result<void> call_in_children(void (*function)()) {
    if (const int failed = ::pthread_atfork(nullptr, nullptr, function); failed != 0)
        return system_error("pthread_atfork", failed);
    return {};
}

} // namespace gpurun::platform
