#include "platform/supervisors.hpp"

#include "base/format.hpp"
#include "platform/process_state.hpp"

namespace gpurun::platform {

bool is_supervisor(int pid) { return command_line(pid).starts_with(base::format("{} {} ", kSupervisor, kSupervise)); }

} // namespace gpurun::platform
