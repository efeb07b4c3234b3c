// What a thread sleeps on that also looks at a descriptor: any thread rings it.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <cstdint>

namespace gpurun::platform {

class WaitBell {
  public:
    static base::Result<WaitBell> create();

    void ring() const;
    // Until it is rung, `fd` (if not -1) is readable, or `timeout_ns` (kForever: never) is over. Takes the ringing
    // away.
    void wait(int fd, int64_t timeout_ns) const;

  private:
    explicit WaitBell(UniqueFd event) : event_(std::move(event)) {}

    UniqueFd event_;
};

} // namespace gpurun::platform
