#include "comm/call_groups.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using transfer::Envelope;
using transfer::Send;

// One group, under the engine lock.
class CallGroups::Run {
  public:
    Run(CallGroups& groups, std::span<const GroupedCall> calls) GPURUN_REQUIRES(engine_lock)
        : groups_(groups), calls_(calls) {
        messages_.reserve(calls.size());
        for (const GroupedCall& each : calls) {
            Message* const message = each.request == 0 ? groups.pool_.make() : nullptr;
            messages_.push_back(message);
            if (message == nullptr)
                continue;
            groups.make(each.task, *message);
            if (message->send)
                sends_.push_back(&*message->send);
            else
                receives_.push_back(&*message->receive);
        }
    }
    ~Run() {
        for (Message* each : messages_)
            if (each != nullptr)
                groups_.pool_.destroy(each);
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    void pair_with_own() GPURUN_REQUIRES(engine_lock) {
        const bool has_requests = std::find(messages_.begin(), messages_.end(), nullptr) != messages_.end();
        if (!has_requests) // which could take, or be, what is meant for another
            groups_.messages_.pair_with_own(sends_, receives_);
    }
    void start(Task::Kind kind) GPURUN_REQUIRES(engine_lock) {
        for (size_t i = 0; i < calls_.size(); ++i) {
            if (messages_[i] != nullptr && calls_[i].task.kind == kind)
                start(calls_[i].task, *messages_[i]);
            else if (Request* const request = groups_.core_.requests().find(calls_[i].request);
                     request != nullptr && request->task.kind == kind)
                groups_.requests_.begin(*request);
        }
    }
    Result<void> finish(EngineLock& lock) GPURUN_REQUIRES(engine_lock) {
        return groups_.messages_.finish_together(lock, sends_, receives_);
    }
    void settle(const Result<void>& finished, const Settle& settle) const {
        for (size_t i = 0; i < calls_.size(); ++i)
            if (messages_[i] != nullptr)
                settle(i, finished ? messages_[i]->result() : Result<Arrived>(finished.error()));
    }

  private:
    void start(const Task& task, Message& message) GPURUN_REQUIRES(engine_lock) {
        if (message.send)
            groups_.messages_.start(*message.send);
        else if (task.taken == 0)
            groups_.messages_.start(*message.receive);
        else
            groups_.messages_.start_taken(task.taken, *message.receive);
    }

    CallGroups& groups_;
    const std::span<const GroupedCall> calls_;
    std::vector<Message*> messages_; // by call; null for those that start a request
    std::vector<Send*> sends_;
    std::vector<PostedReceive*> receives_;
};

Result<Arrived> CallGroups::Message::result() const {
    if (send)
        return send->error() ? Result<Arrived>(*send->error()) : Arrived{};
    return receive->error() != nullptr ? Result<Arrived>(*receive->error()) : receive->arrived();
}

void CallGroups::make(const Task& task, Message& message) {
    const Communicator& comm = *task.comm;
    if (task.kind == Task::Kind::kSend) {
        message.send.emplace(
            core_.resources(), core_.peer(comm.group().world(Rank{task.peer})), task.operand,
            Envelope{comm.user_context(), task.tag, task.operand.bytes},
            Send::Mode{.ending = Messages::ending_together(task.operand), .synchronous = task.synchronous});
    } else {
        const int source = task.taken == 0 ? task.peer : kAnySource;
        message.receive.emplace(core_.resources(), message.home, task.operand,
                                Pattern::of(comm.group(), comm.user_context(), source, task.tag),
                                ReceiveMode{.ending = Messages::ending_together(task.operand)});
    }
}

void CallGroups::run(std::span<const GroupedCall> calls, Settle settle) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    batch_.end();
    Run run(*this, calls);
    run.pair_with_own();
    std::vector<Request*> captured;
    for (const GroupedCall& each : calls)
        if (Request* const request = core_.requests().find(each.request); request && request->task.operand.captured())
            captured.push_back(request);
    run.start(Task::Kind::kSend);
    run.start(Task::Kind::kReceive);
    if (!captured.empty())
        requests_.enqueue_captured(lock, captured);
    run.settle(run.finish(lock), settle);
}

} // namespace gpurun::comm
