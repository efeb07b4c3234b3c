// Groups of calls (gpurun_group_begin): what a thread calls in a group is started when the group ends, all of it
// together, and completed together. Takes the engine lock.
#pragma once

#include "comm/requests.hpp"

namespace gpurun::comm {

// What a call in a group is to do. Its task is neither a PROC_NULL's nor a collective's.
struct GroupedCall {
    const char* call = nullptr; // the function's name
    Task task;                  // of a blocking call, that stands in its order domain
    uint64_t request = 0;       // of a call that starts one: the rest is in the request
};

class CallGroups {
  public:
    CallGroups(Core& core, Batch& batch, Messages& messages, Requests& requests, Background& background)
        : core_(core), batch_(batch), messages_(messages), requests_(requests), background_(background) {}

    // Called for each blocking call, in order: what has come (of a receive), or why it failed. Under the engine lock.
    using Settle = base::FunctionRef<void(size_t index, base::Result<Arrived> result)>;
    // Starts the sends, then the receives, each in the order of the calls, and waits until the blocking ones are
    // complete in their order domains.
    void run(std::span<const GroupedCall> calls, Settle settle);

  private:
    // Of a blocking call.
    struct Message {
        std::optional<transfer::Send> send;
        LocalReceive home;
        std::optional<PostedReceive> receive; // before its home in destruction

        base::Result<Arrived> result() const;
    };
    class Run;

    void make(const Task& task, Message& message) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Batch& batch_;
    Messages& messages_;
    Requests& requests_;
    Background& background_;
    transfer::OperationPool<Message> pool_;
};

} // namespace gpurun::comm
