// Answers gpurun when it asks for the wait report of this rank (wire::Ask): a thread that sleeps on the control socket,
// whatever the other threads of the rank are doing.
//
// It uses no CPU while nobody asks, has all signals blocked, and calls nothing of the device. From its start to its end
// it is the only one that reads the socket; others may send.
#pragma once

#include "base/status.hpp"
#include "platform/message_socket.hpp"
#include "platform/wait_report.hpp"

#include <functional>
#include <memory>
#include <pthread.h>
#include <vector>

namespace gpurun::platform {

class Reporter {
  public:
    // Fills in the wait report, and returns the lengths of its lists. Does not wait for anybody.
    using Describe = std::function<wait_report::End(std::vector<wait_report::Entry>&)>;

    // `socket` outlives it. `alone`, if there is any, is called when gpurun has closed its end.
    static base::Result<std::unique_ptr<Reporter>> start(MessageSocket& socket, Describe describe,
                                                         std::function<void()> alone = {});
    // Ends in the middle of an answer, if need be.
    ~Reporter();
    Reporter(const Reporter&) = delete;
    Reporter& operator=(const Reporter&) = delete;

  private:
    Reporter(MessageSocket& socket, UniqueFd stop, Describe describe, std::function<void()> alone)
        : socket_(socket), stop_(std::move(stop)), describe_(std::move(describe)), alone_(std::move(alone)) {}

    static void* run(void* self);
    void listen();
    bool answer(uint32_t number);
    bool say(std::span<const std::byte> message);
    bool wait_for(short events) const; // false: it is to end

    MessageSocket& socket_;
    UniqueFd stop_; // readable: it is to end
    Describe describe_;
    std::function<void()> alone_;
    std::vector<wait_report::Entry> entries_;
    pthread_t thread_{};
    bool running_ = false;
};

} // namespace gpurun::platform
