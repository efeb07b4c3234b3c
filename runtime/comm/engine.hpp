// The heart of a rank: its links, what it has under way, and the waiting.
//
// One lock guards everything below api/; it is held for short enqueues and for CPU copies, and by a thread that spins
// unless another wants it, but never asleep. Any thread that waits in a call moves everybody's transfers (progress()).
// A waiting thread spins for settings.spin_us, then sleeps on the rank's doorbell, which peers ring after they have
// published something, streams ring when an alarm was set, and the launcher rings when a rank has died. While requests
// are active and no thread is in a call, a background thread (background.cpp) does what a peer waits for. Nothing else
// ever waits.
#pragma once

#include "base/function_ref.hpp"
#include "base/yielding_mutex.hpp"
#include "comm/awaiting.hpp"
#include "comm/request.hpp"
#include "platform/quiet_thread.hpp"
#include "transfer/mailbox.hpp"
#include "transfer/probe.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gpurun::comm {

// Whom a request is completed for.
struct Order {
    bool on_stream = false; // else the host
    bool captured = false;  // with on_stream: into a graph
    device::Stream stream;
};

// A call that completes some of several requests. A thread uses it again, so that nothing is allocated once it has made
// a call with as many.
struct Completion {
    std::vector<uint64_t> names; // 0 names no request, and counts as complete
    std::vector<Request*> requests;
    std::vector<Outcome> outcomes; // one for each
};

// Says in the header of a trace what is in its messages' events.
void describe_messages(platform::TraceHeader& header);

class Engine {
  public:
    // `probe` and `workspace` are the rank's own, which peers may use until close().
    static base::Result<std::unique_ptr<Engine>> start(device::Device& device, const platform::JobSegment& job,
                                                       const base::Settings& settings, uint32_t rank,
                                                       transfer::Probe probe, transfer::Workspace workspace,
                                                       platform::TraceBuffer* trace, const device::RunLog& runs);
    ~Engine();

    transfer::Context& context() { return context_; }
    transfer::Link& link(int peer) { return *links_[static_cast<size_t>(peer)]; }
    uint32_t rank() const { return context_.rank; }
    uint32_t size() const { return context_.job.size(); }

    // Starts the sends in order, and the receive, and waits until all are complete for their caller. Returns the
    // first error; every other operation is complete or ended as well.
    base::Result<void> complete(std::span<transfer::Outgoing* const> sends, Receive* receive);

    // Whether a message with the peer can use `operand`, if it is captured: asked of both sides before either is begun.
    base::Result<void> check_captured(int peer, const transfer::Operand& operand);
    // After complete(): what follows in `stream` comes after the message.
    base::Result<void> join(transfer::Outgoing& send, device::Stream stream);

    // A send that needs no more than a place in its ring, most of the small ones between hosts. False if it has to go
    // the way of all others.
    bool send_small(int dest, const transfer::Operand& operand, const transfer::Envelope& envelope,
                    transfer::SendMode mode);

    // ---- small messages between host memory, in the host's order (short_messages.cpp): the straight way, for what
    // needs nothing but a place in a ring. Each says no, and has done nothing, if something is not as usual: the call
    // goes the way of all others.
    size_t longest_short() const { return context_.settings.eager_bytes; }
    bool send_short(int dest, const std::byte* payload, const transfer::Envelope& envelope);
    // Looks for a moment.
    bool receive_short(const Pattern& pattern, std::span<std::byte> into, Arrived& ret_arrived);
    // The name of a request; 0 says no. `type` is of the elements.
    uint64_t start_short_send(int dest, const std::byte* payload, const transfer::Envelope& envelope, int type);
    uint64_t start_short_receive(const Pattern& pattern, std::span<std::byte> into, int type);
    // Completes all of them for the host, and writes 0 over their names. `settle`, unless it is null, gets what each
    // has received.
    using Settle = base::FunctionRef<void(size_t index, const Arrived& arrived, int type)>;
    // Waits for receives into small buffers.
    bool complete_short(std::span<uint64_t> names, const Settle* settle);

    // ---- requests (requests.cpp, completion.cpp), each by its name
    // A request that is not started yet, and one that is: its message is under way, or its error waits for the one who
    // completes it.
    uint64_t make(const Task& task);
    uint64_t start(const Task& task);
    // Null if `name` names none, or none any more.
    Request* find(uint64_t name);
    void start_again(Request& request);
    // What completing some of several requests asks for. Null and inactive ones among them count as complete.
    enum class Need { kAll, kOne, kSome };
    // Waits (unless `may_wait` is false) until `need` can be met, then completes those requests for `order`. Nothing is
    // completed otherwise. kRequest, before anything else, if a name names none.
    // An error is the device's; `outcomes` say what was completed by then.
    base::Result<bool> complete(Completion& several, const Order& order, Need need, bool may_wait);
    // Takes a receive back unless it is matched.
    void cancel(Request& request);
    // Nobody will complete it: it goes back to the table by itself.
    base::Result<void> abandon(Request& request);

    // ---- probes (probing.cpp)
    // Waits (if it may) for a message that fits; none is an answer if it may not.
    base::Result<std::optional<Matcher::Found>> probe(const Pattern& pattern, bool may_wait, uint64_t* ret_taken);
    bool has_taken(uint64_t number);
    base::Result<void> receive_taken(uint64_t number, Receive& receive);

    // Waits for a stream or an event of the user's, moving transfers meanwhile.
    // kPeerLost if a message in the stream was cut short (said once a stream).
    base::Result<void> synchronize(device::Stream stream);
    base::Result<void> synchronize(device::Event event);

    // Has `work` enqueue something that waits for nobody, under the lock, in an internal stream, and waits for it.
    base::Result<void> run_for_host(base::FunctionRef<base::Result<void>(device::Stream)> work);

    // Frees memory of the device's, or pinned memory: at once, or once the device can be waited for. Peers that may
    // have it mapped are told.
    base::Result<void> free(const device::Buffer& buffer, void* pointer);
    // The same with a graph.
    base::Result<void> destroy(device::Graph graph);
    // Frees what was left for later, if it can be. False if there is nothing more than before.
    bool reclaim();

    // Leaves the job together with all ranks that live: what was mapped is unmapped everywhere before anything is
    // freed. kPeerLost if some message was cut short.
    base::Result<void> close();
    // After close(): some stream is blocked for ever, and destroying the engine or its device would wait for it.
    bool stuck() const { return stuck_; }

    // What went where, one line a peer, direction, path and reason.
    std::string report() const;

    // ---- standing.cpp, by a thread that is in no call
    // What is waited for, and what lies there. Fills `entries` (whose room is kept) and says how much there would be.
    // Does not wait for anybody: if others keep the lock, only the calls that they are in are known.
    platform::standing::End describe(std::vector<platform::standing::Entry>& entries);

  private:
    Engine(device::Device& device, const platform::JobSegment& job, const base::Settings& settings, uint32_t rank,
           transfer::Probe probe, transfer::Workspace workspace, platform::TraceBuffer* trace,
           const device::RunLog& runs);

    using Lock = std::unique_lock<base::YieldingMutex>;

    // ---- engine.cpp: operations -----------------------------------------------------------------------------
    void begin(std::span<transfer::Outgoing* const> sends, Receive* receive);
    bool push_short(int dest, const std::byte* payload, const transfer::Envelope& envelope);
    bool take_short(transfer::Link& link, const Pattern& pattern, std::span<std::byte> into, Arrived& ret_arrived);
    bool drain_short(transfer::Link& link);
    bool await_short(Lock& lock, std::span<const uint64_t> names, size_t index);
    static bool is_complete_short(Named& named);
    Arrived release_short(Named& named);
    void begin(transfer::Outgoing& send);
    void begin(Receive& receive);
    void begin_taken(uint64_t number, Receive& receive);
    base::Result<void> wait_and_end(Lock& lock, std::span<transfer::Outgoing* const> sends, Receive* receive);
    void end(std::span<transfer::Outgoing* const> sends, Receive* receive);
    base::Result<void> check_graphs();
    bool graphs_in_job(); // with messages
    transfer::Still keep_still();
    void forget(const device::Buffer& buffer);
    base::Result<void> now_or_later(base::FunctionRef<base::Result<void>()> now,
                                    base::FunctionRef<base::Result<void>()> later);
    void give_back_freed();
    void watch(transfer::Outgoing& send);
    void watch(transfer::Incoming& incoming);

    // ---- requests.cpp, completion.cpp -----------------------------------------------------------------------
    bool can_complete(const Request& request, const Order& order) const;
    base::Result<void> finish(Request& request, const Order& order, Outcome& outcome);
    Request* request_of(uint64_t name);
    Request& promote(Named& named);
    bool any_active() const { return active_requests_ != 0 || matcher_.open_short() != 0; }
    void begin(Request& request);
    void begin_send(Request& request);
    bool may_share_kernel(const transfer::Outgoing& send);
    void enqueue_captured(Lock& lock, Request& request);
    void deactivate(Request& request);
    void reap_abandoned();
    base::Result<void> arm(std::span<Request* const> requests);
    base::Result<void> look_up(Completion& several);
    bool in_capture(Request& request);
    base::Result<void> check_same_capture(std::span<Request* const> requests, const Order& order);
    base::Result<void> complete_each(Completion& several, const Order& order, Need need);
    void expect_joins(const Completion& several, const Order& order);
    // gpurun_finalize(): what can no longer be matched ends.
    void end_receives();
    void end_sends();

    // ---- sharing kernels (background.cpp) ----------------------------------------------------------------------
    bool may_put_off() const { return starts_in_a_row_ != 0 && background_wanted_; }
    void put_off();
    // The end of a row of starts, first in every call that waits, or completes.
    void end_row();
    // What was put off is enqueued now.
    void enqueue_put_off();
    void launch_mails();

    // ---- progress.cpp ---------------------------------------------------------------------------------------
    // Moves what can be moved. True if anything has changed.
    bool progress();
    // Something that a thread in wait() may look for is different now.
    void changed();
    bool drain(transfer::Link& link);
    // After taking something out of the ring: a peer that waits for room has filled more than is given back at once.
    void tell_of_room(transfer::Link& link) {
        if (link.consumer.gave_back()) [[unlikely]]
            context_.job.ring_doorbell(link.peer, platform::News::kUrgent);
    }
    bool attend_to(transfer::Link& link);
    void dispatch(transfer::Link& link, const transfer::Record& record, std::span<const std::byte> payload);
    void answer(transfer::Link& link, const transfer::Record& record);
    void share_copy(transfer::Link& link, const transfer::Record& record);
    bool share_next(transfer::Link& link);
    static void take_edge(transfer::Link& link, const transfer::Record& record);
    bool give_edges(transfer::Link& link);
    bool post_waiting(transfer::Link& link);
    bool advance_moving();
    void lose(transfer::Link& link);
    void lose_operations(transfer::Link& link);
    bool hopeless(const Pattern& pattern) const;
    bool all_others_lost() const;
    // A peer is gone, and what that cuts short is not known yet: what poison may have released does not count.
    bool losing() const;
    static base::Error died(int source);

    // ---- waiting.cpp ----------------------------------------------------------------------------------------
    // Until `done`; before it sleeps, `arm` makes sure that whatever `done` waits for on a device will ring. `what`
    // tells others of it.
    base::Result<void> wait(Lock& lock, const Awaiting& what, base::FunctionRef<bool()> done,
                            base::FunctionRef<base::Result<void>()> arm);
    base::Result<void> wait_for(Lock& lock, const Awaiting& what, device::Event event);
    base::Result<void> arm(std::span<transfer::Outgoing* const> sends, Receive* receive);
    base::Result<void> set_alarm(const transfer::Awaited& awaited);
    // How long a thread sleeps on alarms before it looks again by itself. They ring by host functions, of which a
    // process runs one at a time: one of the program's that blocks holds them up.
    class Patience {
      public:
        // Twice as long as the last time, unless the engine has moved something since.
        int64_t next_ns(uint64_t changes) {
            if (std::exchange(changes_, changes) != changes)
                next_ns_ = kLeastNs;
            return std::exchange(next_ns_, std::min(2 * next_ns_, kMostNs));
        }

      private:
        static constexpr int64_t kLeastNs = 1'000'000;
        static constexpr int64_t kMostNs = 20'000'000;

        int64_t next_ns_ = kLeastNs;
        uint64_t changes_ = 0;
    };
    void begin_arming() { alarm_set_ = alarm_missing_ = false; }
    // After arming. Something may want to be looked at although nobody rings for it.
    int64_t longest_sleep_ns(Patience& patience);
    void wait_for_all(Lock& lock, uint32_t step);

    // ---- standing.cpp ---------------------------------------------------------------------------------------
    const Request* awaited_by_name(uint64_t name);
    void describe(const Waiter& waiter, std::vector<platform::standing::Entry>& entries);
    void describe_requests(std::vector<platform::standing::Entry>& entries, platform::standing::End& end);
    void describe_unexpected(std::vector<platform::standing::Entry>& entries, platform::standing::End& end) const;
    void describe_held(std::vector<platform::standing::Entry>& entries, platform::standing::End& end) const;
    void describe_graphs(std::vector<platform::standing::Entry>& entries, platform::standing::End& end) const;

    // ---- background.cpp -------------------------------------------------------------------------------------
    // A call that looks by itself: the background thread need not. Under the lock, at both ends.
    class Attendance {
      public:
        explicit Attendance(Engine& engine);
        ~Attendance();
        Attendance(const Attendance&) = delete;
        Attendance& operator=(const Attendance&) = delete;

      private:
        Engine& engine_;
        bool announced_;
    };
    // After a call that has left active requests behind.
    void leave_to_background();
    void start_background();
    void stop_background(Lock& lock);
    void work_in_background();
    bool needs_hand() const;
    base::Result<void> arm_moving();
    // And for those that need nobody, but are waited for: nothing else rings when their devices have come to their end.
    base::Result<void> arm_ends();

    base::YieldingMutex mutex_;
    std::optional<transfer::Workspace> workspace_;
    transfer::Context context_;
    std::optional<transfer::Probe> probe_;
    std::vector<std::unique_ptr<transfer::Link>> links_;
    Matcher matcher_;
    base::List<transfer::Outgoing, transfer::Moving> moving_out_;
    base::List<transfer::Incoming, transfer::Moving> moving_in_;
    uint64_t changes_ = 0; // counts what progress() has changed: who has seen this many need not look again
    int sleeping_ = 0;     // threads in wait()
    base::List<Waiter, Waits> waiters_;
    RequestTable requests_;
    size_t active_requests_ = 0; // with a message under way
    base::List<Request, Abandoned> abandoned_;
    std::vector<void*> lost_streams_; // with a message that was cut short, not yet reported
    bool cut_short_ = false;
    bool graphs_in_job_ = false; // as last seen: it stays so
    bool freed_later_ = false;   // the device has something to give back
    bool stuck_ = false; // some stream stays blocked on a dead rank's event, and the device cannot be waited for
    int64_t spin_ns_ = 0;

    std::optional<platform::QuietThread> background_; // started with the first request that a call leaves active
    std::condition_variable_any background_called_;
    bool background_wanted_ = false; // GPURUN_PROGRESS; not any more if there is no thread to be had
    bool background_on_duty_ = false;
    bool background_stops_ = false;

    // Requests that are started one after the other share kernels: from the second on, what they enqueue is put off
    // until some other call is made, or kLongestDelayNs have passed, which the background thread sees to.
    static constexpr int64_t kLongestDelayNs = 30'000;
    uint32_t starts_in_a_row_ = 0;
    int64_t put_off_until_ns_ = 0;  // 0: nothing is put off
    bool background_minds_ = false; // it will look when that has passed

    // A stream that waits for what a sleeping thread waits for, then rings. To be used again once it has rung.
    struct Alarm {
        Engine* engine;
        device::Stream stream;
        transfer::Awaited awaited{};
        std::atomic<bool> rung{true}; // by the stream's host thread, before it rings (release)

        static void go_off(void* alarm);
    };
    // As many as are awaited at the same time, up to kMostAlarms; beyond them sleepers look again after kLookAgainNs.
    static constexpr size_t kMostAlarms = 32;
    static constexpr int64_t kLookAgainNs = 200'000;
    std::deque<Alarm> alarms_;
    bool alarm_set_ = false; // since begin_arming(), as is the next
    bool alarm_missing_ = false;
};

} // namespace gpurun::comm
