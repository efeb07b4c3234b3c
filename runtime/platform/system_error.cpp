#include "platform/system_error.hpp"

#include "base/format.hpp"

#include <cerrno>
#include <system_error>

namespace gpurun::platform {

base::Error system_error(std::string_view what) { return system_error(what, errno); }

base::Error system_error(std::string_view what, int error_number) {
    const auto status = error_number == ENOMEM ? base::Status::kMemory : base::Status::kSystem;
    return base::error(status, "{}: {}", what, std::generic_category().message(error_number));
}

} // namespace gpurun::platform
