#include "platform/system_error.hpp"

#include "base/format.hpp"
#include "platform/host_name.hpp"

#include <cerrno>
#include <sys/resource.h>
#include <system_error>

namespace gpurun::platform {

base::Error system_error(std::string_view what) { return system_error(what, errno); }

base::Error system_error(std::string_view what, int error_number) {
    if (error_number == EMFILE) {
        rlimit files{};
        ::getrlimit(RLIMIT_NOFILE, &files);
        return base::error(base::Status::kSystem, "{}: {} on {}, where a process may have {}: raise that (ulimit -n)",
                           what, std::generic_category().message(error_number), host_name(), files.rlim_cur);
    }
    const std::string why = std::generic_category().message(error_number);
    if (error_number != ENOMEM)
        return base::error(base::Status::kSystem, "{}: {}", what, why);
    rlimit space{};
    ::getrlimit(RLIMIT_AS, &space);
    if (space.rlim_cur == RLIM_INFINITY)
        return base::error(base::Status::kMemory, "{}: {}", what, why);
    return base::error(base::Status::kMemory,
                       "{}: {}; a process may have {} KiB of addresses here, used or not: raise that (ulimit -v)", what,
                       why, space.rlim_cur / 1024);
}

} // namespace gpurun::platform
