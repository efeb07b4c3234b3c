// The group of calls that a thread has open (gpurun_group_begin). Calls in a group check and translate their arguments,
// and leave the rest to its end.
#pragma once

#include "comm/engine.hpp"

#include <gpurun/gpurun.h>

#include <functional>
#include <vector>

namespace gpurun::api {

class OpenGroup {
  public:
    // A blocking call: it is complete when the group has ended.
    void add(const char* call, comm::Engine& engine, const comm::Task& task,
             gpurun_message_status* ret_status = nullptr) {
        note(engine);
        calls_.push_back({call, task, 0});
        ret_statuses_.push_back(ret_status);
        uses_.emplace_back(*task.comm);
    }
    // A call that starts a request, which is its caller's.
    void add_request(const char* call, comm::Engine& engine, uint64_t name) {
        note(engine);
        calls_.push_back({call, {}, name});
        ret_statuses_.push_back(nullptr);
    }
    // A collective: `start` gives the name of its request, which is complete when the group has ended; `run` makes it.
    struct Making {
        std::function<uint64_t()> start;
        std::function<base::Result<size_t>()> run;
    };
    void add_collective(base::Collective kind, comm::Engine& engine, const comm::Communicator& comm,
                        const transfer::Operand& order, Making making) {
        note(engine);
        uses_.emplace_back(comm);
        collectives_.push_back({kind, {order.domain, order.stream}, &comm, std::move(making)});
    }
    void enter() { ++depth_; }
    // True if that was the outermost one.
    bool leave() { return --depth_ == 0; }
    // Starts all calls, and completes the blocking ones. The first error, which names its call; statuses are written
    // whatever happens. kUnsupported, and nothing is started, if they are of several jobs.
    base::Result<void> run();
    void clear() {
        calls_.clear();
        ret_statuses_.clear();
        collectives_.clear();
        uses_.clear();
        engine_ = nullptr;
        of_several_ = false;
    }

  private:
    struct Collective {
        base::Collective kind;
        comm::Order order;
        const comm::Communicator* comm;
        Making making;
        uint64_t request = 0;
    };
    bool is_in_turn() const;
    base::Result<void> run_in_turn();
    static base::Error name_call(const Collective& collective, const base::Error& error);
    base::Result<void> settle(size_t index, base::Result<comm::Arrived> result);
    base::Error name_call(size_t index, const base::Error& error) const;
    static base::Result<void> complete(comm::Engine& engine, Collective& collective);
    void note(comm::Engine& engine) {
        of_several_ = of_several_ || (engine_ != nullptr && engine_ != &engine);
        engine_ = &engine;
    }

    int depth_ = 0;
    comm::Engine* engine_ = nullptr; // that all calls are to; null: there is none yet
    bool of_several_ = false;
    std::vector<comm::GroupedCall> calls_;
    std::vector<gpurun_message_status*> ret_statuses_; // by call; null: nobody asks
    std::vector<Collective> collectives_;
    std::vector<comm::CommunicatorUse> uses_; // by all of these
};

namespace of_thread {
inline constinit thread_local OpenGroup* open_group = nullptr;
}

// The calling thread's; null if none is open.
inline OpenGroup* open_group() { return of_thread::open_group; }
// Of a call that waits for what the group has not started yet, or is made of several messages.
base::Error not_in_group(const char* call, const char* advice);
inline base::Result<void> refuse_in_group(const char* call, const char* advice = "call gpurun_group_end() first") {
    if (open_group() == nullptr) [[likely]]
        return {};
    return not_in_group(call, advice);
}

} // namespace gpurun::api
