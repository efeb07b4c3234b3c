// One thread of a program on one rank.
//
// It makes its calls in the order of their positions. Around each message it issues the work that must come before and
// after it, in the message's order domains: fill the buffer before the start; overwrite what was sent, or copy what was
// received, after the completion. So every byte that is checked at the end of an epoch also shows that the order rule
// was kept.
#pragma once

#include "stress/execute.hpp"

#include <array>
#include <deque>
#include <memory>
#include <optional>

namespace gpurun::stress {

// Room for the buffers of one epoch in one kind of memory; grows when an epoch needs more.
class Arena {
  public:
    explicit Arena(test::Kind kind) : kind_(kind) {}
    size_t reserve(size_t bytes);
    void settle(); // before the first at() of an epoch
    uint8_t* at(size_t offset) const { return memory_->at(offset); }

  private:
    test::Kind kind_;
    size_t used_ = 0;
    std::unique_ptr<test::Memory> memory_;
};

class Worker {
  public:
    explicit Worker(int thread);

    // With `moved`, what was received is added there.
    void run(const Program& program, int epoch, Moved& moved);

  private:
    // What has become of one receive.
    struct Got {
        uint8_t* buffer = nullptr;
        gpurun_request request{};
        gpurun_message_status status{};
        bool complete = false;
        test::Bytes bytes; // copied in the order domain of the completion, with what lies behind the room
    };
    struct Sent {
        uint8_t* buffer = nullptr;
        gpurun_request request{};
        const test::Bytes* content = nullptr;
    };
    struct Op {
        int position;
        enum What { kSend, kReceive, kComplete } what;
        int index;
    };

    void place_buffers();
    std::vector<Op> ops() const;
    void make(const Op& op);
    gpurun_stream domain(int number) const;

    void send(int index);
    void start_send(int index);
    void sendrecv(int index);
    void receive(int index);
    void start_receive(int index);
    void receive_probed(int index);
    void retry(int index);
    void fill(int index);
    void after_send(int index, gpurun_stream end);
    void after_receive(int index, gpurun_stream end, gpurun_status result);

    void complete(const Completion& completion);
    void complete_by_one(const Completion& completion, std::vector<gpurun_request>& requests);
    void complete_all(const Completion& completion, std::vector<gpurun_request>& requests);
    void complete_some(const Completion& completion, std::vector<gpurun_request>& requests);
    void settle(const Started& started, gpurun_request& request, gpurun_stream end, gpurun_status result,
                const gpurun_message_status& status);

    void check_all(Moved& moved);
    void check(const Receive& receive, const Got& got, const Message& message) const;

    int rank_, thread_;
    std::array<test::Stream, kStreams> streams_;
    std::vector<Arena> outgoing_, incoming_; // by kind
    const Part* part_ = nullptr;
    std::vector<Sent> sent_;
    std::vector<Got> got_;
    std::deque<test::Bytes> contents_; // until the streams have read them
};

} // namespace gpurun::stress
