// An exchange of a program on one rank: requests that are started in a row and then completed, several times.
#pragma once

#include "stress/execute.hpp"

#include <deque>
#include <memory>
#include <vector>

namespace gpurun::stress {

constexpr uint8_t kUsed = 0xa5; // with which a buffer is filled once its message is sent

class ExchangeCall {
  public:
    ExchangeCall(const Exchange& exchange, gpurun_comm comm);

    // All turns: starts in `start`, completes into `end`.
    void run(gpurun_stream start, gpurun_stream end, Place& place);
    // Once every stream has come to its end.
    void check(Moved& moved) const;

  private:
    // This rank's half of a message.
    struct Half {
        const Exchange::Transfer* transfer;
        int index; // of the transfer, and its tag
        bool is_send;
        std::unique_ptr<test::Memory> memory;
        std::vector<test::Bytes> got;              // of a receive, by turn
        std::vector<gpurun_message_status> status; // likewise
    };

    test::Bytes content(const Half& half, int turn) const;
    void fill(gpurun_stream order, int turn);
    void prepare();
    void start(gpurun_stream order);
    gpurun_status start_one(const Half& half, gpurun_stream order, gpurun_request* request) const;
    void complete(gpurun_stream order, Place& place, int turn);
    void take(Half& half, gpurun_stream order, const gpurun_message_status& status);

    const Exchange& exchange_;
    gpurun_comm comm_;
    std::vector<Half> halves_; // in the order in which they are started
    std::vector<gpurun_request> requests_;
    std::deque<test::Bytes> contents_; // until the streams have read them
};

} // namespace gpurun::stress
