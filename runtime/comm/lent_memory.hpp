// What this rank has lent and has not got back: from gpurun_lend() until the call that completes its request.
//
// Used under the engine lock; only any() and any_exclusive() without.
#pragma once

#include "comm/span_set.hpp"

#include <atomic>
#include <unordered_map>

namespace gpurun::comm {

struct Request;

class LentMemory {
  public:
    void add(const void* address, size_t bytes, bool exclusive, const Request& request) {
        all_.add(address, bytes, request);
        any_.store(true, std::memory_order_relaxed);
        if (!exclusive)
            return;
        exclusive_.add(address, bytes, request);
        any_exclusive_.store(true, std::memory_order_relaxed);
    }
    // Does nothing if it is not there.
    void remove(const void* address, const Request& request) {
        all_.remove(address, request);
        any_.store(!all_.empty(), std::memory_order_relaxed);
        exclusive_.remove(address, request);
        any_exclusive_.store(!exclusive_.empty(), std::memory_order_relaxed);
    }
    // Publishes nothing: a call that races with gpurun_lend() may come before or after it.
    bool any() const { return any_.load(std::memory_order_relaxed); }
    bool any_exclusive() const { return any_exclusive_.load(std::memory_order_relaxed); }
    // A loan of some of these bytes; null if there is none.
    const Request* find_exclusive(const void* address, size_t bytes) const { return exclusive_.find(address, bytes); }
    const Request* find(const void* address, size_t bytes) const { return all_.find(address, bytes); } // of any kind

    // ---- of what this rank has borrowed, by the loan's name (Loans)
    void note_lent_on(uint64_t loan) { ++lent_on_[loan]; }
    void note_back(uint64_t loan) {
        if (const auto found = lent_on_.find(loan); found != lent_on_.end() && --found->second == 0)
            lent_on_.erase(found);
    }
    bool lends_on(uint64_t loan) const { return lent_on_.count(loan) != 0; }

    // By address; a loan of several allocations once for each.
    template <typename Call>
    void for_each(const Call& call) const {
        all_.for_each(call);
    }
    template <typename Call>
    void for_each_exclusive(const Call& call) const {
        exclusive_.for_each(call);
    }

  private:
    SpanSet<Request> all_;
    SpanSet<Request> exclusive_;
    std::unordered_map<uint64_t, uint32_t> lent_on_; // how many loans it is lent on by
    std::atomic<bool> any_{false};
    std::atomic<bool> any_exclusive_{false};
};

} // namespace gpurun::comm
