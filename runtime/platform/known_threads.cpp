#include "platform/known_threads.hpp"

#include "platform/clock.hpp"

#include <algorithm>
#include <mutex>
#include <unistd.h>
#include <vector>

namespace gpurun::platform {

namespace {

struct Known {
    uint64_t id;
    const base::CurrentCall* call; // of the thread, which takes itself out before it goes
    uint64_t number = 0;           // of the call that it was last seen in
    int64_t seen_ns = 0;
};

struct All {
    std::mutex changing;
    std::vector<Known> threads;
};
All& all() {
    static auto* const the_threads = new All; // never destroyed: threads end after everything else
    return *the_threads;
}

// Of a thread.
class Membership {
  public:
    Membership() : id_(static_cast<uint64_t>(::gettid())) {
        const std::lock_guard lock(all().changing);
        all().threads.push_back({id_, &base::this_call()});
    }
    ~Membership() {
        if (::getpid() != process_) // a fork's, in which somebody may seem to hold the lock for ever
            return;
        const std::lock_guard lock(all().changing);
        std::erase_if(all().threads, [this](const Known& each) { return each.id == id_; });
    }
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;
    uint64_t id() const { return id_; }

  private:
    uint64_t id_;
    pid_t process_ = ::getpid();
};

} // namespace

uint64_t know_this_thread() {
    static thread_local const Membership membership;
    return membership.id();
}

void visit_known_threads(base::FunctionRef<void(const KnownThread&)> visit) {
    const std::lock_guard lock(all().changing);
    for (Known& each : all().threads) {
        const uint64_t number = each.call->number.load(std::memory_order_relaxed);
        const char* const name = each.call->name.load(std::memory_order_relaxed);
        if (name != nullptr && (each.number != number || each.seen_ns == 0)) {
            each.number = number;
            each.seen_ns = now_ns();
        }
        visit({each.id, name, name != nullptr ? each.seen_ns : 0});
    }
}

} // namespace gpurun::platform
