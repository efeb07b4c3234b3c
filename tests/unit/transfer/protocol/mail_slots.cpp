// Which mails get a slot of the mailbox, and who waits for one.
#include "transfer/protocol/mailbox.hpp"

#include "test_job.hpp"

#include <algorithm>
#include <atomic>
#include <sched.h>
#include <thread>

using namespace gpurun;
using namespace gpurun::test;
using transfer::Edge;
using transfer::MailboxPart;
using transfer::Slot;

TEST_SUITE_BEGIN("mail slots");

namespace {

constexpr size_t kLongMail = transfer::kMailBytes + 8; // so that only large slots have room for it

// Rank 0 with all its slots for long mails to rank 1 in use.
struct Slots {
    TestJob job{2, Setting{}};
    transfer::Peer& target = job.rank(0).peer(1);
    MailboxPart& part = target.part<MailboxPart>();
    transfer::Fence* fence = nullptr;
    Slot last{};

    Slots() {
        REQUIRE(part.open());
        fence = must(target.fence_out());
        while (const auto slot = take(false))
            last = *slot;
        REQUIRE(last.valid);
    }
    std::optional<Slot> take(bool soon) { return must(part.take_slot(*fence, kLongMail, soon)); }
    void free(const Slot& slot) {
        fence->signal_now(Edge::kForward, slot);
        fence->signal_now(Edge::kBackward, slot);
    }
};

} // namespace

TEST_CASE("who waits for a slot in vain is the only one, until one is free") {
    Slots slots;
    const auto time_of_take = [&] {
        const int64_t begun_ns = platform::now_ns();
        CHECK_FALSE(slots.take(true));
        return platform::now_ns() - begun_ns;
    };
    const int64_t waited_ns = time_of_take();
    CHECK(waited_ns >= 20'000);
    int64_t shortest_ns = waited_ns;
    for (int i = 0; i < 100; ++i)
        shortest_ns = std::min(shortest_ns, time_of_take());
    CHECK(shortest_ns < 20'000);
    slots.free(slots.last);
    const auto slot = slots.take(true);
    REQUIRE(slot);
    CHECK(slot->index == slots.last.index);
    CHECK(time_of_take() >= 20'000);
}

TEST_CASE("whoever does not wait keeps nobody from it, nor do mails of another size") {
    Slots slots;
    CHECK_FALSE(slots.take(false));
    const int64_t begun_ns = platform::now_ns();
    CHECK_FALSE(slots.take(true));
    CHECK(platform::now_ns() - begun_ns >= 20'000);
    CHECK(must(slots.part.take_slot(*slots.fence, 8, true))); // which does not make the long ones wait again
    int64_t shortest_ns = INT64_MAX;
    for (int i = 0; i < 100; ++i) {
        const int64_t from_ns = platform::now_ns();
        CHECK_FALSE(slots.take(true));
        shortest_ns = std::min(shortest_ns, platform::now_ns() - from_ns);
    }
    CHECK(shortest_ns < 20'000);
}

TEST_CASE("a slot that is freed soon after the call has begun is taken by it") {
    cpu_set_t cores;
    REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
    if (CPU_COUNT(&cores) < 2) {
        MESSAGE("skipped: the two threads need a core each");
        return;
    }
    Slots slots;
    std::atomic<int> begun = 0, freed = 0;
    std::atomic<bool> over = false;
    std::thread peer([&] { // frees the slot a moment after a call has begun
        while (!over) {
            if (begun == freed)
                continue;
            for (const int64_t end_ns = platform::now_ns() + 2000; platform::now_ns() < end_ns;) {
            }
            slots.free(slots.last);
            ++freed;
        }
    });
    // It may be too late, but not each time.
    bool taken = false;
    for (int round = 0; round < 1000 && !taken; ++round) {
        ++begun;
        const auto slot = slots.take(true);
        while (freed != begun)
            std::this_thread::yield();
        slots.last = slot ? *slot : *slots.take(true);
        taken = slot.has_value();
    }
    over = true;
    peer.join();
    CHECK(taken);
}

TEST_SUITE_END();
