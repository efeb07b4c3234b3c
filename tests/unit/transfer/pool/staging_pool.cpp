// Which pinned buffers are given, and when one is given again.
#include "transfer/pool/staging_pool.hpp"
#include "one_device.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <span>
#include <thread>
#include <vector>

using namespace gpurun;
using gpurun::test::must;
using transfer::StagingPool;

namespace {

constexpr size_t kSmall = 8, kMedium = 5000, kOfBlock = 64; // of either

struct StagingBench {
    std::unique_ptr<device::Device> device = gpurun::test::open_one_device();
    device::Stream stream = must(device->create_stream());
    StagingPool staging{*device};

    // As for a message that nobody waits for: its copy is enqueued.
    StagingPool::Buffer* take_and_leave(size_t bytes) {
        StagingPool::Buffer* const buffer = must(staging.take(bytes));
        must(device->record(buffer->copied, stream));
        staging.leave(*buffer);
        return buffer;
    }
    void idle() { must(device->synchronize(stream)); }
};

// Holds the bench's stream while it lives.
class Held {
  public:
    explicit Held(StagingBench& bench) : bench_(bench) {
        must(bench.device->call_host(
            bench.stream,
            [](void* open) {
                while (!*static_cast<std::atomic<bool>*>(open))
                    std::this_thread::yield();
            },
            &open_));
    }
    ~Held() {
        open_ = true;
        bench_.idle();
    }

  private:
    StagingBench& bench_;
    std::atomic<bool> open_ = false;
};

} // namespace

TEST_SUITE_BEGIN("staging pool");

TEST_CASE("a buffer has room for what was asked, whatever others are taken between") {
    StagingBench bench;
    const Held held(bench);
    const size_t sizes[] = {1, 1024, 1025, 8192, 8193, 256 * 1024, StagingPool::kBytes};
    constexpr int kMostLargest = StagingPool::kMostBytes / StagingPool::kBytes; // more would wait for what is held
    std::vector<std::span<std::byte>> taken;
    for (int round = 0; round < 70; ++round)
        for (const size_t bytes : sizes) {
            if (bytes == StagingPool::kBytes && round >= kMostLargest)
                continue;
            taken.emplace_back(bench.take_and_leave(bytes)->data, bytes);
            std::fill(taken.back().begin(), taken.back().end(), static_cast<std::byte>(taken.size()));
        }
    size_t number = 0, overwritten = 0;
    for (const std::span<std::byte> each : taken) {
        const auto own = static_cast<std::byte>(++number);
        overwritten += each.front() != own || each.back() != own;
    }
    CHECK(overwritten == 0);
}

TEST_CASE("a buffer that is still copied from is not given again, however many are taken") {
    StagingBench bench;
    constexpr size_t kMany = 300;
    std::set<StagingPool::Buffer*> taken;
    {
        const Held held(bench);
        for (size_t i = 0; i < kMany; ++i)
            taken.insert(bench.take_and_leave(kSmall));
        CHECK(taken.size() == kMany);
    }
    for (size_t i = 0; i < kMany; ++i) {
        taken.insert(bench.take_and_leave(kSmall));
        bench.idle();
    }
    CHECK(taken.size() < kMany + kOfBlock);
}

TEST_CASE("a buffer that was given back is the next to be given") {
    StagingBench bench;
    StagingPool::Buffer* const first = must(bench.staging.take(kMedium));
    StagingPool::Buffer* const second = must(bench.staging.take(kMedium));
    CHECK(first != second);
    bench.staging.give_back(*first);
    CHECK(must(bench.staging.take(kMedium)) == first);
}

TEST_CASE("a buffer that stays with its taker, and one that is held up, make no more than a block of others") {
    StagingBench bench;
    (void)must(bench.staging.take(kMedium));
    const device::Stream other = must(bench.device->create_stream());
    std::set<StagingPool::Buffer*> taken;
    {
        const Held held(bench);
        (void)bench.take_and_leave(kMedium);
        for (int i = 0; i < 1000; ++i) {
            StagingPool::Buffer* const buffer = must(bench.staging.take(kMedium));
            must(bench.device->record(buffer->copied, other));
            must(bench.device->synchronize(other));
            bench.staging.leave(*buffer);
            taken.insert(buffer);
        }
    }
    CHECK(taken.size() < kOfBlock);
}
