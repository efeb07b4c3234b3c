#include "mpi_programs.hpp"

#include "base/format.hpp"
#include "platform/needed_libraries.hpp"

#include <algorithm>
#include <string_view>

namespace gpurun::launcher {

namespace {

bool is_ours(std::string_view library) { return library.starts_with("libgpurun.so"); }

} // namespace

std::string notice_of_mpi(const std::vector<ProgramPlan>& programs, size_t ranks) {
    if (ranks < 2)
        return "";
    for (const ProgramPlan& program : programs) {
        const std::vector<std::string> needed = platform::needed_libraries(program.path);
        const auto mpi = std::find_if(needed.begin(), needed.end(), platform::is_mpi_library);
        if (mpi != needed.end() && std::none_of(needed.begin(), needed.end(), is_ours))
            return base::format("{} needs {}: its MPI does not know gpurun, so each rank is an MPI job of one process; "
                                "start it with mpirun, or port it to gpurun (Porting in its README.md)",
                                program.path, *mpi);
    }
    return "";
}

} // namespace gpurun::launcher
