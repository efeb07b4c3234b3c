// A thread of the runtime's own in somebody else's program: with a small stack, and all signals blocked, so that the
// program's handlers run in the program's threads.
#pragma once

#include "base/status.hpp"

#include <pthread.h>

namespace gpurun::platform {

// Runs `run(argument)`; to be joined. `purpose` is for the error: "the thread that ...".
base::Result<pthread_t> start_quiet_thread(void* (*run)(void*), void* argument, const char* purpose);

} // namespace gpurun::platform
