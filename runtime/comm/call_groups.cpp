#include "comm/call_groups.hpp"

#include <deque>

namespace gpurun::comm {

using base::Result;
using transfer::Ending;
using transfer::Envelope;
using transfer::Send;

// The messages of a group's blocking calls. They are there before the first of them is started, since operations stay
// where they are.
class CallGroups::Run {
  public:
    Run(Core& core, Messages& messages, std::span<const GroupedCall> calls) {
        for (const GroupedCall& each : calls) {
            Message& message = messages_.emplace_back();
            if (each.request == 0)
                make(core, messages, each.task, message);
        }
    }

    void start(CallGroups& groups, const GroupedCall& call, size_t index, Task::Kind kind)
        GPURUN_REQUIRES(engine_lock) {
        Message& message = messages_[index];
        if (message.send && kind == Task::Kind::kSend)
            groups.messages_.start(*message.send);
        else if (message.receive && kind == Task::Kind::kReceive)
            start_receive(groups, call.task, *message.receive);
        else if (Request* const request = groups.core_.requests().find(call.request);
                 request != nullptr && request->task.kind == kind)
            groups.requests_.begin(*request);
    }
    std::span<Send* const> sends() const { return sends_; }
    std::span<PostedReceive* const> receives() const { return receives_; }

    Result<Arrived> result(size_t index) const {
        const Message& message = messages_[index];
        const transfer::Operation* const operation =
            message.send ? static_cast<const transfer::Operation*>(&*message.send) : message.receive->made_op();
        if (operation != nullptr && operation->error())
            return *operation->error();
        return message.send ? Arrived{} : message.receive->arrived();
    }

  private:
    struct Message {
        std::optional<Send> send;
        LocalReceive home;
        std::optional<PostedReceive> receive; // before its home in destruction
    };

    void make(Core& core, Messages& messages, const Task& task, Message& message) {
        const Communicator& comm = *task.comm;
        if (task.kind == Task::Kind::kSend) {
            message.send.emplace(
                core.resources(), messages.peer(comm.group().world(Rank{task.peer})), task.operand,
                Envelope{comm.user_context(), task.tag, task.operand.bytes},
                Send::Mode{.ending = task.operand.captured() ? Ending::kByCompletion : Ending::kTogether,
                           .synchronous = task.synchronous});
            sends_.push_back(&*message.send);
        } else {
            const int source = task.taken == 0 ? task.peer : kAnySource;
            message.receive.emplace(core.resources(), message.home, task.operand,
                                    Pattern::of(comm.group(), comm.user_context(), source, task.tag),
                                    ReceiveMode{.ending = Ending::kTogether});
            receives_.push_back(&*message.receive);
        }
    }
    static void start_receive(CallGroups& groups, const Task& task, PostedReceive& receive)
        GPURUN_REQUIRES(engine_lock) {
        if (task.taken == 0)
            groups.messages_.start(receive);
        else
            groups.messages_.start_taken(task.taken, receive);
    }

    std::deque<Message> messages_; // by call; of those that start a request, empty
    std::vector<Send*> sends_;
    std::vector<PostedReceive*> receives_;
};

void CallGroups::run(std::span<const GroupedCall> calls, Settle settle) {
    Run run(core_, messages_, calls);
    Result<void> finished;
    {
        EngineLock lock(core_.mutex());
        const Background::Attendance attendance(background_);
        batch_.end();
        for (const Task::Kind kind : {Task::Kind::kSend, Task::Kind::kReceive})
            for (size_t i = 0; i < calls.size(); ++i)
                run.start(*this, calls[i], i, kind);
        finished = messages_.finish_together(lock, run.sends(), run.receives());
        for (const GroupedCall& each : calls)
            if (Request* const request = core_.requests().find(each.request))
                requests_.enqueue_captured(lock, *request);
    }
    for (size_t i = 0; i < calls.size(); ++i)
        if (calls[i].request == 0)
            settle(i, finished ? run.result(i) : Result<Arrived>(finished.error()));
}

} // namespace gpurun::comm
