// Operations that outlive the call that started them, and the table that gives them names.
//
// A Request is taken from the table, started and completed (comm/requests.hpp), and goes back to the table when it is
// released; a persistent one is started and completed again and again in between. Later requests use its memory again,
// so that starting one allocates nothing once as many have been under way before. A name (names.hpp) has the
// entry's index for its place, from 1 on, and is given again only after 2^31 uses of that.
//
// Used under the engine lock. The Task of a request that is not active may be read without it.
#pragma once

#include "base/function_ref.hpp"
#include "comm/engine_lock.hpp"
#include "comm/lent_memory.hpp"
#include "comm/names.hpp"
#include "comm/posted_receive.hpp"
#include "comm/tensor_list.hpp"
#include "transfer/send.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace gpurun::comm {

class Alarms;

using SendPool = transfer::OperationPool<transfer::Send>;

// A collective that is under way, as requests and waiting calls see it (comm/schedule_run.hpp). Used under the engine
// lock.
class CollectiveOp {
  public:
    virtual const char* name() const = 0; // "allreduce"
    // Complete for the host: nothing touches its buffers any more.
    virtual bool done() const = 0;
    // Complete for its order: nothing is left to decide.
    virtual bool enqueued() const = 0;
    // REQUIRES enqueued(). What follows in `stream` comes after it. Done afterwards.
    virtual base::Result<void> complete_into(device::Stream stream) GPURUN_REQUIRES(engine_lock) = 0;
    // It is completed directly behind its start, in its stream: if it is held (Series), it begins there.
    virtual void begin_in_place() GPURUN_REQUIRES(engine_lock) {}
    virtual const base::Error* error() const = 0; // null: none
    // What has come into its buffer, which may be longer than that.
    virtual size_t received_bytes() const = 0;
    // Before a thread sleeps until it is done: sets the alarms that it needs.
    virtual base::Result<void> arm(Alarms& alarms) const GPURUN_REQUIRES(engine_lock) = 0;
    // Calls with each half of a message that is under way.
    virtual void for_each_message(base::FunctionRef<void(const transfer::Send&)> send,
                                  base::FunctionRef<void(const PostedReceive&)> receive) const = 0;
    // Once it is enqueued: its own stream, if that has not come to its end.
    virtual std::optional<device::Stream> awaited_stream() const { return std::nullopt; }
    // Calls with each rank that has not come, where all have to before it starts.
    virtual void for_each_absent(base::FunctionRef<void(WorldRank rank, uint32_t context)> absent) const = 0;
    // ---- of loans that were made together (LoanToAll)
    // Calls with each loan.
    virtual void for_each_loan(base::FunctionRef<void(transfer::Send&)> loan) { (void)loan; }
    virtual bool was_cancelled() const { return false; } // all of them
    // The end of its use. REQUIRES done().
    virtual void release() = 0;

  protected:
    ~CollectiveOp() = default;
};

// What a request is to do: as started, and to be started again if persistent. Small messages notice its size.
struct Task {
    enum class Kind : uint8_t { kSend, kReceive, kCollective, kLend };

    Kind kind = Kind::kSend;
    bool synchronous = false;
    bool persistent = false;
    int type = 0;         // of its elements
    int peer = kProcNull; // a rank of the communicator; of a receive kAnySource, too
    int tag = 0;
    const Communicator* comm = nullptr;
    uint64_t taken = 0; // the number of the probed message that it receives, else 0
    transfer::Operand operand;
};

extern const Task kNoTask;

// What a request of kLend has to do besides.
struct LoanTask {
    transfer::Loan loan{};
    bool together = false; // one of a LoanToAll, by which it is completed
    int64_t since_ns = 0;  // when it was lent
    transfer::LoanOrigin origin{};
    uint64_t loan_of = 0;                         // the name of the loan that is lent on (Loans), else 0
    const transfer::Borrowing* lent_on = nullptr; // to another rank: what it has borrowed by that
};

// Of a loan of tensors: what is lent, and the message in front of the loan that says it.
struct LoanDescription {
    TensorList tensors;
    std::vector<std::byte> packed;
    transfer::Send* send = nullptr; // of the table's
    uint64_t serial = 0;            // of the loan's send

    // Its tag, in kDescriptionContext.
    static int tag_of(uint64_t serial_of_loan) { return static_cast<int>(serial_of_loan % (INT32_MAX - 1)) + 1; }
};

struct Abandoned; // the table's list of requests that were freed while they were active

struct Request : base::Linked<Request, Abandoned> {
    uint64_t name = 0;
    // Between start and completion.
    bool active = false;
    bool cancelled = false;
    uint64_t series = 0;  // that it was started in (Batch), else 0
    uint64_t capture = 0; // that it was started under, else 0
    // None of these: nothing is left to do (PROC_NULL, or a small message that has been sent).
    transfer::Send* send = nullptr; // of the table's
    std::optional<PostedReceive> receive;
    CollectiveOp* collective = nullptr;           // comm/schedules.hpp's
    std::unique_ptr<LoanDescription> description; // of a loan of tensors
    Task task;
    LoanTask lent; // as made, unless it is of a loan

    bool under_way() const { return send != nullptr || receive || collective != nullptr; }
    bool done() const {
        if (send != nullptr)
            return send->done();
        return receive ? receive->done() : collective == nullptr || collective->done();
    }
    bool enqueued() const {
        if (send != nullptr)
            return send->enqueued();
        return receive ? receive->enqueued() : collective == nullptr || collective->enqueued();
    }
    bool is_left() const { return receive && receive->made_op() != nullptr && receive->made_op()->is_left(); }
    // It is completed directly behind its start, in its stream.
    void end_together() {
        if (send != nullptr)
            send->end_together();
        else if (receive)
            receive->end_together();
    }
    // Its end is wanted, and it is not completed into a stream now.
    void enqueue_left() {
        if (transfer::Receive* const of = receive ? receive->made_op() : nullptr)
            of->enqueue_left();
    }
    // REQUIRES enqueued(). What follows in `stream` comes after it.
    base::Result<void> complete_into(device::Stream stream) GPURUN_REQUIRES(engine_lock) {
        if (collective != nullptr)
            return collective->complete_into(stream);
        transfer::Operation* const of = operation();
        return of != nullptr ? of->complete_into(stream) : base::Result<void>();
    }
    // ---- of one that is complete
    // The message that it has received. A receive from PROC_NULL has an empty one; a send any source and tag, as in
    // MPI.
    Arrived arrived() const {
        if (has_message())
            return receive->arrived();
        const bool of_nobody = task.kind == Task::Kind::kReceive && !receive;
        return of_nobody ? Arrived{} : Arrived{kAnySource, kAnyTag, 0};
    }
    bool was_cancelled() const {
        return cancelled || (send != nullptr && send->withdrawn()) ||
               (collective != nullptr && collective->was_cancelled());
    }
    // Neither cancelled nor failed nor truncated.
    bool ended_well() const { return !was_cancelled() && error() == nullptr && !is_truncated(); }
    bool is_truncated() const { return message_bytes() > task.operand.bytes; }
    // The true length of what it has got.
    size_t message_bytes() const {
        if (collective != nullptr)
            return collective->received_bytes();
        return has_message() ? static_cast<size_t>(receive->envelope().bytes) : 0;
    }
    bool has_message() const { return receive && receive->started(); } // which may be truncated
    const base::Error* error() const {
        if (collective != nullptr)
            return collective->error();
        const transfer::Operation* const of = cancelled ? nullptr : operation();
        return of != nullptr && of->error() ? &*of->error() : nullptr;
    }

    // Its half of a message. Null if it has none yet, or needs none.
    transfer::Operation* operation() const {
        if (send != nullptr)
            return send;
        return receive ? receive->made_op() : nullptr;
    }
};

base::Error no_request(uint64_t name);

class RequestTable {
  public:
    explicit RequestTable(const Names& names = {}) : first_name_(names.first()) { none_.name = Names::kPlace; }
    ~RequestTable() {
        for (Request& each : all_) {
            if (each.send != nullptr)
                sends_.destroy(each.send);
            if (each.description && each.description->send != nullptr)
                sends_.destroy(each.description->send);
        }
    }
    RequestTable(const RequestTable&) = delete;
    RequestTable& operator=(const RequestTable&) = delete;

    // A request that is not active, to do this. Holds its communicator until it is released.
    Request& take(const Task& task) {
        if (unused_.empty()) [[unlikely]]
            add();
        Request& request = *unused_.back();
        unused_.pop_back();
        request.name += Names::kUse;
        request.task = task;
        if (task.comm != nullptr)
            task.comm->hold();
        return request;
    }
    // REQUIRES that it is not active.
    void release(Request& request) {
        if (const Communicator* const comm = std::exchange(request.task.comm, nullptr))
            comm->let_go();
        request.name += Names::kUse; // no look-up finds it until it is taken again
        unused_.push_back(&request);
    }
    // Null if no request has the name, or none has it any more.
    Request* find(uint64_t name) {
        const uint64_t index = name & Names::kPlace;
        return index < by_index_.size() && by_index_[index]->name == name ? by_index_[index] : nullptr;
    }
    // How often the entry that was used most often was.
    uint32_t most_uses() const {
        uint32_t most = 0;
        for (const Request& each : all_)
            most = std::max(most, Names::use_of(each.name));
        return most;
    }
    // Requests with a message under way.
    bool any_under_way() const { return under_way_ != 0; }
    void note_started() { ++under_way_; }
    SendPool& sends() { return sends_; }
    LentMemory& lent() { return lent_; }
    const LentMemory& lent() const { return lent_; }
    ReceiveHome& receives() { return receives_; }
    // It is complete: destroys its operation. REQUIRES: it is done, or was completed into a stream.
    void end(Request& request) {
        if (request.task.kind == Task::Kind::kLend) [[unlikely]]
            end_loan(request);
        if (request.send != nullptr) {
            sends_.destroy(std::exchange(request.send, nullptr));
            --under_way_;
        } else if (request.receive) {
            request.receive.reset();
            --under_way_;
        } else if (request.collective != nullptr) {
            std::exchange(request.collective, nullptr)->release();
            --under_way_;
        }
        request.active = false;
    }
    // Nobody will complete it: no look-up finds it from now on, and it is released once it is done.
    void abandon(Request& request);
    static bool is_abandoned(const Request& request) { return base::List<Request, Abandoned>::has(request); }
    void reap_abandoned() {
        if (!abandoned_.empty()) [[unlikely]]
            reap();
    }
    // Calls with each request, `most` at most. False if there are more.
    template <typename Visit>
    bool for_each(size_t most, const Visit& visit) const {
        for (size_t i = 0; i < std::min(most, all_.size()); ++i)
            visit(all_[i]);
        return all_.size() <= most;
    }

  private:
    void add();
    void reap();
    void end_loan(Request& request);

    const uint64_t first_name_;
    SendPool sends_; // before the requests that use them
    ReceivePool receives_;
    Request none_; // entry 0, with the name of another entry, so that no look-up finds it
    std::deque<Request> all_;
    std::vector<Request*> by_index_{&none_};
    std::vector<Request*> unused_;
    base::List<Request, Abandoned> abandoned_;
    LentMemory lent_;
    size_t under_way_ = 0;
};

} // namespace gpurun::comm
