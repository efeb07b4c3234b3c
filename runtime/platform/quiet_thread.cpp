#include "platform/quiet_thread.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <csignal>

namespace gpurun::platform {

base::Result<QuietThread> start_quiet_thread(void* (*run)(void*), void* argument, const char* purpose,
                                             size_t stack_bytes) {
    pthread_t thread{};
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    if (stack_bytes != kUsualStack)
        ::pthread_attr_setstacksize(&attributes, stack_bytes);
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

void join_quiet_thread(QuietThread thread) { ::pthread_join(thread, nullptr); }

} // namespace gpurun::platform
