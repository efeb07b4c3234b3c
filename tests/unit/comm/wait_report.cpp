// What a rank says of its waits, while a thread of it sleeps.
#include "base/current_call.hpp"
#include "one_rank.hpp"
#include "platform/known_threads.hpp"
#include "support/gate.hpp"
#include "support/made_up.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <thread>
#include <vector>

using namespace gpurun;
using comm::Pattern;
using comm::Task;
using comm::WaitReason;
using gpurun::test::must;
using gpurun::test::OneRank;
namespace wait_report = platform::wait_report;
using wait_report::Entry;
using wait_report::Topic;
using wait_report::What;

namespace {

constexpr int kWaitTag = 4;

struct Reporter {
    OneRank rank;
    std::vector<Entry> entries;

    // Without the thread that asks, which is one of those that have waited before.
    wait_report::End report() {
        const uint64_t self = platform::know_this_thread();
        wait_report::End end = rank.report.describe(entries);
        end.threads -=
            static_cast<uint32_t>(std::erase_if(entries, [&](const Entry& each) { return each.thread == self; }));
        return end;
    }
    std::vector<Entry> of(Topic topic) const {
        std::vector<Entry> found;
        std::copy_if(entries.begin(), entries.end(), std::back_inserter(found),
                     [&](const Entry& each) { return each.topic == topic; });
        return found;
    }
    void arrive(uint32_t peer, int tag, size_t bytes) {
        rank.channel(peer).send_inline(rank.world.user_context(), tag, std::vector<std::byte>(bytes));
    }
    uint64_t start_receive(uint32_t& number, int source, int tag) {
        return rank.requests.start({.kind = Task::Kind::kReceive,
                                    .peer = source,
                                    .tag = tag,
                                    .comm = &rank.world,
                                    .operand = rank.operand(&number, sizeof number)});
    }
};

// A thread in a call that waits for `reason`, until the end of this.
class Sleeper {
  public:
    Sleeper(OneRank& rank, const WaitReason& reason) : rank_(rank), thread_([this, &reason] { sleep(reason); }) {
        // It has the engine lock until it sleeps: a report that comes after this finds it waiting.
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return about_to_sleep_; });
    }
    ~Sleeper() {
        {
            const comm::EngineLock lock(rank_.core.mutex());
            over_ = true;
            rank_.core.note_change();
        }
        thread_.join();
    }

  private:
    void sleep(const WaitReason& reason) {
        const base::CallScope call("gpurun_test");
        comm::EngineLock lock(rank_.core.mutex());
        must(rank_.waiter.wait(
            lock, reason, [this] { return over_; },
            [this] {
                {
                    const std::lock_guard guard(mutex_);
                    about_to_sleep_ = true;
                }
                changed_.notify_all();
                return base::Result<void>();
            }));
    }

    OneRank& rank_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool about_to_sleep_ = false; // under mutex_
    bool over_ = false;           // under the engine lock
    std::thread thread_;
};

} // namespace

TEST_SUITE_BEGIN("wait report");

TEST_CASE("a rank that does nothing has nothing to say") {
    Reporter reporter;
    const wait_report::End end = reporter.report();
    CHECK(end.phase == wait_report::Phase::kRunning);
    CHECK(end.threads == 0);
    CHECK(end.unawaited == 0);
    CHECK(end.unexpected == 0);
    CHECK(end.held == 0);
    CHECK((end.flags & wait_report::kLookedAll) != 0);
    CHECK(reporter.entries.empty());
}

TEST_CASE("a thread that waits names its call, and what it waits for") {
    Reporter reporter;
    std::array<uint32_t, 2> numbers{};
    const uint64_t names[] = {reporter.start_receive(numbers[0], 1, kWaitTag),
                              reporter.start_receive(numbers[1], comm::kAnySource, comm::kAnyTag)};
    const WaitReason reason{.kind = WaitReason::Kind::kRequests, .any = true, .requests = names};
    const Sleeper sleeper(reporter.rank, reason);
    const wait_report::End end = reporter.report();
    CHECK(end.threads == 1);
    CHECK(end.unawaited == 0);
    const auto threads = reporter.of(Topic::kThread);
    REQUIRE(threads.size() == 1);
    CHECK(std::string(threads[0].name) == "gpurun_test");
    CHECK(threads[0].has(wait_report::kAny));
    CHECK(threads[0].number == 2);
    const auto awaited = reporter.of(Topic::kAwaited);
    REQUIRE(awaited.size() == 2);
    for (const Entry& each : awaited) {
        CHECK(each.what == What::kReceive);
        CHECK(each.state == wait_report::State::kUnmatched);
        CHECK(each.bytes == sizeof(uint32_t));
    }
    CHECK(awaited[0].peer == 1);
    CHECK(awaited[0].tag == kWaitTag);
    CHECK(awaited[1].peer == wait_report::kAnySource);
    CHECK(awaited[1].tag == wait_report::kAnyTag);
}

TEST_CASE("requests that no thread waits for are told apart") {
    Reporter reporter;
    std::array<uint32_t, 2> numbers{};
    const uint64_t awaited[] = {reporter.start_receive(numbers[0], 1, 1)};
    (void)reporter.start_receive(numbers[1], 2, 2);
    const WaitReason reason{.kind = WaitReason::Kind::kRequests, .requests = awaited};
    const Sleeper sleeper(reporter.rank, reason);
    const wait_report::End end = reporter.report();
    CHECK(end.unawaited == 1);
    const auto unawaited = reporter.of(Topic::kUnawaited);
    REQUIRE(unawaited.size() == 1);
    CHECK(unawaited[0].peer == 2);
    CHECK(unawaited[0].tag == 2);
}

TEST_CASE("of the messages that nobody takes, those come first that nearly fit what is waited for") {
    Reporter reporter;
    constexpr int kMany = 20;
    for (int tag = 100; tag < 100 + kMany; ++tag)
        reporter.arrive(2, tag, 1);
    reporter.arrive(1, kWaitTag + 1, 2); // the source, with another tag
    reporter.arrive(2, kWaitTag, 3);     // the tag, from another source
    REQUIRE(reporter.rank.look());
    const Pattern pattern = Pattern::of(reporter.rank.world.group(), reporter.rank.world.user_context(), 1, kWaitTag);
    const WaitReason reason{.kind = WaitReason::Kind::kProbe, .pattern = &pattern};
    const Sleeper sleeper(reporter.rank, reason);
    const wait_report::End end = reporter.report();
    const auto awaited = reporter.of(Topic::kAwaited);
    REQUIRE(awaited.size() == 1);
    CHECK(awaited[0].what == What::kProbe);
    CHECK(end.unexpected == kMany + 2);
    const auto unexpected = reporter.of(Topic::kUnexpected);
    REQUIRE(unexpected.size() == wait_report::kMostUnexpected);
    CHECK(unexpected[0].bytes == 2);
    CHECK(unexpected[1].bytes == 3);
    CHECK(unexpected[2].tag == 100);
}

TEST_CASE("messages of another communicator are told with its name, as far as it can be printed") {
    Reporter reporter;
    comm::CommunicatorTable& table = reporter.rank.core.communicators();
    constexpr uint32_t kId = 77;
    const auto all = std::make_shared<const comm::Group>(comm::Group::of_all(3));
    const comm::Communicator& rows = *table.find(table.add(*table.reserve(), kId, all));
    rows.set_name("rows\n");
    const Pattern pattern = Pattern::of(rows.group(), rows.user_context(), 1, kWaitTag);
    const WaitReason reason{.kind = WaitReason::Kind::kProbe, .pattern = &pattern};
    const Sleeper sleeper(reporter.rank, reason);
    reporter.rank.channel(1).send_inline(rows.collective_context(), kWaitTag, {});
    reporter.arrive(1, kWaitTag, 1);
    REQUIRE(reporter.rank.look());
    (void)reporter.report();
    REQUIRE(reporter.of(Topic::kAwaited).size() == 1);
    CHECK(reporter.of(Topic::kAwaited)[0].comm == kId);
    CHECK(std::string(reporter.of(Topic::kAwaited)[0].comm_name) == "rows?");
    const auto unexpected = reporter.of(Topic::kUnexpected);
    REQUIRE(unexpected.size() == 2);
    CHECK(unexpected[0].comm == kId);
    CHECK(unexpected[0].has(wait_report::kCollective));
    CHECK(unexpected[1].comm == 0);
    CHECK(unexpected[1].comm_name[0] == '\0');
}

TEST_CASE("a stream that waits for a peer's is told with how far that has come") {
    Reporter reporter;
    const transfer::Slot slot{transfer::SlotClass::kEager, true, 3, 0, 6};
    transfer::Fence& edges = reporter.rank.channel(2).edges(transfer::Direction::kIn);
    edges.counter(transfer::Edge::kForward, slot).store(4);
    reporter.rank.core.peer(base::WorldRank{2})
        .awaiting_forward.note(slot, gpurun::test::made_up<device::Stream>(&reporter));
    CHECK(reporter.report().held == 1);
    const auto held = reporter.of(Topic::kHeld);
    REQUIRE(held.size() == 1);
    CHECK(held[0].peer == 2);
    CHECK(held[0].done == 4);
    CHECK(held[0].all == 6);
    CHECK(held[0].bytes == reinterpret_cast<uintptr_t>(&reporter)); // the stream
    edges.signal_now(transfer::Edge::kForward, slot);
    CHECK(reporter.report().held == 0);
}

TEST_CASE("while somebody keeps the lock, only calls are known") {
    Reporter reporter;
    const comm::EngineLock lock(reporter.rank.core.mutex());
    CHECK(reporter.report().phase == wait_report::Phase::kBusy);
}

TEST_CASE("ranks that have not come to a step of gpurun_finalize() are named") {
    Reporter reporter;
    reporter.rank.channel(1).steps = 2;
    reporter.rank.core.own_record().leaving = 2;
    const WaitReason reason{.kind = WaitReason::Kind::kRanks, .step = 2};
    const Sleeper sleeper(reporter.rank, reason);
    CHECK(reporter.report().phase == wait_report::Phase::kFinalizing);
    const auto awaited = reporter.of(Topic::kAwaited);
    REQUIRE(awaited.size() == 1);
    CHECK(awaited[0].what == What::kRank);
    CHECK(awaited[0].peer == 2);
}

TEST_CASE("a collective whose messages are enqueued waits for the end of its stream") {
    Reporter reporter;
    const device::Stream stream = must(reporter.rank.device().create_stream());
    gpurun::test::Gate gate(reporter.rank.device());
    gate.hold(stream);
    uint32_t number = 0;
    (void)reporter.rank.schedules.start(base::Collective::kAllreduce, reporter.rank.world,
                                        reporter.rank.operand(&number, sizeof number, stream), [](comm::Schedule&) {});
    (void)reporter.report();
    const auto found = reporter.of(Topic::kUnawaited);
    REQUIRE(found.size() == 1);
    CHECK(found[0].what == What::kStream);
    CHECK(found[0].state == wait_report::State::kDevice);
    CHECK(found[0].bytes != 0);
}

TEST_SUITE_END();
