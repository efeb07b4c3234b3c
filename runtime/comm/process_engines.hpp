// The engines of a process, which share its device. Any thread.
//
// What one of them does to the device may wait for what another one's streams wait for. So each asks the others, and
// takes no other's lock but by trying.
#pragma once

#include "transfer/pool/process_share.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

namespace gpurun::comm {

class DeferredFree;

class ProcessEngines {
  public:
    // Of an engine, from before its first message until after its last.
    class Place {
      public:
        explicit Place(ProcessEngines& all) : all_(all) { all_.share_.engines.fetch_add(1, std::memory_order_relaxed); }
        ~Place() { all_.share_.engines.fetch_sub(1, std::memory_order_relaxed); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

      private:
        ProcessEngines& all_;
    };

    transfer::ProcessShare& share() { return share_; }

    // Of an engine whose peers are all there, until it leaves them.
    void enter(DeferredFree& engine) {
        const std::lock_guard lock(mutex_);
        running_.push_back(&engine);
    }
    void leave(const DeferredFree& engine) {
        const std::lock_guard lock(mutex_);
        running_.erase(std::remove(running_.begin(), running_.end(), &engine), running_.end());
    }
    template <typename Condition>
    bool any_other(const DeferredFree& self, const Condition& condition) {
        if (share_.engines.load(std::memory_order_relaxed) == 1)
            return false;
        const std::lock_guard lock(mutex_);
        return std::any_of(running_.begin(), running_.end(),
                           [&](DeferredFree* each) { return each != &self && condition(*each); });
    }

  private:
    transfer::ProcessShare share_;
    std::mutex mutex_;
    std::vector<DeferredFree*> running_;
};

} // namespace gpurun::comm
