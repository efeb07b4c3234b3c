#include "platform/quiet_thread.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <csignal>

namespace gpurun::platform {

namespace {

constexpr size_t kStackBytes = size_t{512} << 10; // of which it touches few pages; sanitizers need more

} // namespace

base::Result<pthread_t> start_quiet_thread(void* (*run)(void*), void* argument, const char* purpose) {
    pthread_t thread{};
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t every;
    sigset_t before;
    ::sigfillset(&every);
    ::pthread_sigmask(SIG_SETMASK, &every, &before);
    const int failed = ::pthread_create(&thread, &attributes, run, argument);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
    if (failed == 0)
        return thread;
    errno = failed;
    return system_error(base::format("starting {}", purpose));
}

} // namespace gpurun::platform
