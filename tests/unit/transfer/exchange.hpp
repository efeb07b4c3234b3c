// One message from rank 0 to rank 1 of a TestJob, or to itself, one step at a time: a call, a record that arrives, what
// the progress of a rank has changed, a completion. So a test can stop anywhere.
#pragma once

#include "test_job.hpp"

namespace gpurun::test {

enum class Memory { kPageable, kPinned, kDevice, kOrdered };

struct Half {
    Memory memory = Memory::kPageable;
    bool on_stream = false;
    bool request = false;  // the stream, or the call, goes on
    bool together = false; // of a call that is made together with others
};
constexpr Half kHost{Memory::kPageable, false, false};

// A message, and how it is to go.
struct Case {
    std::string name;
    Half from;
    Half to;
    size_t bytes;
    std::string protocol;
    std::string path;
    Setting setting{};
    bool synchronous = false;
    bool to_self = false;
};

class Exchange {
  public:
    struct Mode {
        bool late_receive = false; // it is called once the message is there
        bool held_source = false;  // what is before the message in the stream waits until nothing else is left to do
        bool held_target = false;  // the same
        size_t room = SIZE_MAX;    // of the receive's buffer
        int pattern = 1;
        bool overwrites = true; // the source its buffer, behind the send
    };
    // Of both sides, for one message or for several one after the other.
    struct Buffers {
        transfer::Operand source;
        transfer::Operand whole; // the target's allocation, of which the receive has the first part
    };
    static Buffers make_buffers(TestJob& job, const Case& what, size_t room = SIZE_MAX);
    Exchange(TestJob& job, const Case& what, const Mode& mode, const Buffers& buffers);
    Exchange(TestJob& job, const Case& what, const Mode& mode)
        : Exchange(job, what, mode, make_buffers(job, what, mode.room)) {}
    Exchange(TestJob& job, const Case& what) : Exchange(job, what, Mode()) {}
    ~Exchange();

    // False if nothing can be done now.
    bool step();
    bool over() const { return send_completed_ && receive_completed_; }
    // Steps until it is over, or so many steps have been made.
    void run(size_t most_steps = SIZE_MAX);
    // The same, as long as anything can be done: opens nothing. False if it was stuck.
    bool run_until_stuck(size_t most_steps = SIZE_MAX);
    size_t steps() const { return steps_; }
    // Opens what holds the streams.
    void release();

    // REQUIRES over(). All bytes that there is room for have come, and no other was touched, although the source's
    // buffer was overwritten behind the send.
    void check();
    // The bytes that have come are right as far as there are any: of a message that failed, or was to.
    bool has_come();

    // The rank dies, after what it has posted so far; the other one learns of it. REQUIRES two ranks.
    void kill(uint32_t victim);
    // Steps of the survivor alone, until its half is over. False if that takes long.
    bool end_alone(uint32_t survivor);
    // The victim, too, so that it can go.
    void end_dead(uint32_t victim);
    // Whether the rank's stream comes to its end.
    bool streams_end(uint32_t rank);
    // Whether the rank is told by its stream that the message was cut short.
    bool is_lost_in_stream(uint32_t rank);

    TestRank& from() { return from_; }
    TestRank& to() { return to_; }
    transfer::Send& send() { return *send_; }
    transfer::Receive& receive() { return *receive_; }
    transfer::Operation& half(uint32_t rank);
    bool has_started(uint32_t rank) const { return rank == 0 ? sent_ : started_; }
    // As the routes of a tally name it: the protocol, the path, how many messages.
    static std::string routes(const transfer::Tally& tally);

  private:
    bool call_next();
    void call_send();
    void call_receive();
    void call_alone(uint32_t survivor);
    bool complete(transfer::Operation& half, const Half& as, device::Stream stream, bool& completed);
    bool complete_any();

    TestJob& job_;
    const Case what_;
    const Mode mode_;
    TestRank& from_;
    TestRank& to_;
    transfer::Operand source_;
    transfer::Operand whole_;
    transfer::Operand target_;
    std::optional<HeldStream> held_source_;
    std::optional<HeldStream> held_target_;
    std::optional<transfer::Send> send_;
    std::optional<transfer::Receive> receive_;
    bool sent_ = false;
    bool called_receive_ = false;
    bool started_ = false; // the receive has its message
    bool send_completed_ = false;
    bool receive_completed_ = false;
    size_t steps_ = 0;
    std::array<bool, 2> dead_{};
};

} // namespace gpurun::test
