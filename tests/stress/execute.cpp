#include "stress/execute.hpp"

#include "stress/worker.hpp"

#include <thread>

namespace gpurun::stress {

Executor::Executor() {
    for (int thread = 0; thread < kMaxThreads; thread++)
        workers_.push_back(std::make_unique<Worker>(thread));
}

Executor::~Executor() = default;

Moved Executor::run(const Program& program) {
    std::vector<Moved> moved(static_cast<size_t>(program.threads));
    const auto all_epochs = [&](int thread) {
        for (int epoch = 0; epoch < static_cast<int>(program.epochs.size()); epoch++) {
            workers_[static_cast<size_t>(thread)]->run(program, epoch, moved[static_cast<size_t>(thread)]);
            if (program.epochs[static_cast<size_t>(epoch)].barrier) // of programs with one thread
                REQUIRE_OK(gpurun_barrier(test::kWorld, GPURUN_HOST));
        }
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < program.threads; thread++)
        others.emplace_back(all_epochs, thread);
    all_epochs(0);
    for (std::thread& other : others)
        other.join();
    Moved all;
    for (const Moved& each : moved) {
        all.messages += each.messages;
        all.bytes += each.bytes;
    }
    return all;
}

} // namespace gpurun::stress
