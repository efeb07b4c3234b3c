// The persistent collectives of a process, by the names of their requests: each is its call, which is made again
// whenever it is started. So its buffers are looked up again, as those of a persistent message are. Any thread.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace gpurun::api {

struct Way;
using PersistentCall = std::function<base::Result<void>(const Way& way)>;

class PersistentCalls {
  public:
    void add(uint64_t request, const PersistentCall& call) {
        auto kept = std::make_shared<const PersistentCall>(call);
        const std::lock_guard lock(mutex_);
        calls_[request] = std::move(kept);
    }
    // Null if there is none.
    std::shared_ptr<const PersistentCall> find(uint64_t request) const {
        const std::lock_guard lock(mutex_);
        const auto found = calls_.find(request);
        return found != calls_.end() ? found->second : nullptr;
    }
    void remove(uint64_t request) {
        const std::lock_guard lock(mutex_);
        calls_.erase(request);
    }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<uint64_t, std::shared_ptr<const PersistentCall>> calls_;
};

} // namespace gpurun::api
