#include "platform/host_name.hpp"

#include <climits>
#include <unistd.h>

namespace gpurun::platform {

std::string host_name() {
    char name[HOST_NAME_MAX + 1] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

} // namespace gpurun::platform
