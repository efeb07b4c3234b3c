// Which shared libraries a program says that it needs, without running it, and which are of MPI.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpurun::platform {

// The names of its DT_NEEDED entries. Empty if the file is no 64-bit ELF file of this machine's byte order, needs
// none, or cannot be read: what is wrong with it, whoever starts it will say.
std::vector<std::string> needed_libraries(const std::string& path);

// By its file's name, without folders.
bool is_mpi_library(std::string_view name);

} // namespace gpurun::platform
