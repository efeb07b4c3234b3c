// Carries a program out on this rank, and checks all that it gets.
#pragma once

#include "stress/program.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace gpurun::stress {

// Where a thread is, for whoever finds it hanging.
struct Place {
    std::atomic<int> epoch = kNone, position = kNone, index = kNone;
    std::atomic<const char*> call = "";
};
inline Place g_places[kMaxThreads];

// Says what is wrong and how to see it again, and ends the job (main.cpp).
[[noreturn]] void fail(const std::string& what);

struct Moved {
    uint64_t messages = 0, bytes = 0; // received by this rank
};

class Worker;

// By all ranks. Threads, streams and buffers are kept for the next program.
class Executor {
  public:
    Executor();
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    Moved run(const Program& program);

  private:
    std::vector<std::unique_ptr<Worker>> workers_;
};

} // namespace gpurun::stress
