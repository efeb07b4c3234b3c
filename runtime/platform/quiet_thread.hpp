// A thread of the runtime's own in somebody else's program: with all signals blocked, so that the program's handlers
// run in the program's threads, and what it waits for by sigwait() does not arrive elsewhere.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <pthread.h>

namespace gpurun::platform {

constexpr size_t kSmallStackBytes = size_t{512} << 10; // of which it touches few pages; sanitizers need more
constexpr size_t kUsualStack = 0;                      // for who calls a driver

using QuietThread = pthread_t;

// Runs `run(argument)`; to be joined. `purpose` is for the error: "the thread that ...". kSystem where the system has
// none to give.
base::Result<QuietThread> start_quiet_thread(void* (*run)(void*), void* argument, const char* purpose,
                                             size_t stack_bytes = kSmallStackBytes);

void join_quiet_thread(QuietThread thread);

} // namespace gpurun::platform
