// One thread of a program on one rank.
//
// It makes its calls in the order of their positions. Around each message it issues the work that must come before and
// after it, in the message's order domains: fill the buffer before the start; overwrite what was sent, or copy what was
// received, after the completion. So every byte that is checked at the end of an epoch also shows that the order rule
// was kept.
#pragma once

#include "stress/captured.hpp"
#include "stress/exchange.hpp"
#include "stress/execute.hpp"
#include "stress/joint.hpp"
#include "stress/route.hpp"
#include "stress/row.hpp"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace gpurun::stress {

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
        enum What { kSend, kReceive, kComplete, kCaptured, kJoint, kJointEnd, kExchange, kRow } what;
        int index;
        Captured::Step step{}; // of the capture with the index
    };

    void place_buffers();
    void place_captured();
    void make_joint(int index, bool begins);
    std::vector<Op> ops() const;
    void make(const Op& op);
    bool may_be_grouped(const Op& op) const;
    size_t length_of_group(const std::vector<Op>& ops, size_t first) const;
    void make_group(const Op* ops, size_t count);
    // What comes behind a blocking call: now, or behind the group that it is part of.
    void afterwards(std::function<void()> what);
    gpurun_stream domain(int number) const;

    void send(int index);
    void start_send(int index);
    void sendrecv(int index);
    void receive(int index);
    void start_receive(int index);
    void receive_probed(int index);
    void retry(int index);
    bool borrow(int index);
    void fill(int index);
    void after_send(int index, gpurun_stream end);
    void after_receive(int index, gpurun_stream end, gpurun_status result);

    void complete(const Completion& completion);
    void settle(const Started& started, gpurun_request& request, gpurun_stream end, gpurun_status result,
                const gpurun_message_status& status);

    void check_all(Moved& moved);
    void check(const Receive& receive, const Got& got, const Message& message) const;

    int rank_, thread_;
    Route route_;
    std::array<test::Stream, kStreams> streams_;
    std::vector<Arena> outgoing_, incoming_; // by kind
    CaptureArenas capture_arenas_;
    const Part* part_ = nullptr;
    std::deque<Captured> captured_;
    std::deque<JointCall> joints_;
    std::deque<ExchangeCall> exchanges_;
    std::deque<RowCall> rows_;
    std::vector<Sent> sent_;
    std::vector<Got> got_;
    std::optional<std::vector<std::function<void()>>> behind_group_; // while one is open
    std::deque<test::Bytes> contents_;                               // until the streams have read them
};

} // namespace gpurun::stress
