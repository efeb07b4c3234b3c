// What this rank has lent and has not got back: from gpurun_lend() until the call that completes its request.
//
// Used under the engine lock; only any_exclusive() without.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace gpurun::comm {

struct Request;

class LentMemory {
  public:
    void add(const void* address, size_t bytes, bool exclusive, const Request& request) {
        const uintptr_t first = begin_of(address);
        all_.emplace(first, Lent{first + bytes, &request});
        if (exclusive) {
            exclusive_.emplace(first, Lent{first + bytes, &request});
            any_exclusive_.store(true, std::memory_order_relaxed);
        }
    }
    // Does nothing if it is not there.
    void remove(const void* address, const Request& request) {
        erase(all_, begin_of(address), request);
        erase(exclusive_, begin_of(address), request);
        any_exclusive_.store(!exclusive_.empty(), std::memory_order_relaxed);
    }
    // Publishes nothing: a call that races with gpurun_lend() may come before or after it.
    bool any_exclusive() const { return any_exclusive_.load(std::memory_order_relaxed); }
    // A loan of some of these bytes; null if there is none. These do not overlap.
    const Request* find_exclusive(const void* address, size_t bytes) const {
        const auto next = exclusive_.lower_bound(begin_of(address) + bytes);
        if (next == exclusive_.begin())
            return nullptr;
        const Lent& last = std::prev(next)->second;
        return last.end > begin_of(address) ? last.request : nullptr;
    }
    // The same of any kind. Looks at all.
    const Request* find(const void* address, size_t bytes) const {
        for (const auto& [first, lent] : all_)
            if (first < begin_of(address) + bytes && lent.end > begin_of(address))
                return lent.request;
        return nullptr;
    }

    template <typename Call>
    void for_each(const Call& call) const {
        for (const auto& each : all_)
            call(*each.second.request);
    }

  private:
    struct Lent {
        uintptr_t end;
        const Request* request;
    };
    using Map = std::multimap<uintptr_t, Lent>;

    static uintptr_t begin_of(const void* address) { return reinterpret_cast<uintptr_t>(address); }
    static void erase(Map& map, uintptr_t first, const Request& request) {
        for (auto [each, end] = map.equal_range(first); each != end; ++each)
            if (each->second.request == &request) {
                map.erase(each);
                return;
            }
    }

    Map all_;
    Map exclusive_;
    std::atomic<bool> any_exclusive_{false};
};

} // namespace gpurun::comm
