// A text that one process hands to another by a descriptor: memory that nobody can change any more.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <string>
#include <string_view>

namespace gpurun::platform {

base::Result<UniqueFd> seal_text(std::string_view text);

// Of a descriptor that came from another process. kLauncher if it is no such text, which could keep a reader waiting or
// change while it is read, or if it is longer than `most` bytes.
base::Result<std::string> read_sealed_text(int fd, size_t most);

} // namespace gpurun::platform
