// One run of a schedule: when its steps start, and what ends when one of them fails.
#include "one_rank.hpp"
#include "support/gate.hpp"
#include "unit/transfer/scripted_device.hpp"

#include <array>
#include <memory>
#include <optional>
#include <vector>

using namespace gpurun;
using base::Collective;
using comm::Rank;
using comm::Schedule;
using comm::ScheduleRun;
using gpurun::test::must;
using gpurun::test::OneRank;

namespace {

constexpr int kRound = 0;

struct Runner {
    OneRank rank;
    ScheduleRun run{
        {.take_back = [](ScheduleRun&) {}, .begin = [](ScheduleRun&) {}}, rank.core, rank.messages, rank.failure};
    std::array<uint32_t, 4> buffer{};

    Runner() { reset(); }
    void reset() {
        const comm::EngineLock lock(rank.core.mutex());
        run.schedule().reset(Collective::kBcast, rank.world);
    }
    Schedule::Buffer whole() {
        return {reinterpret_cast<std::byte*>(buffer.data()), sizeof buffer, rank.operand(buffer.data(), 1).where};
    }
    void start() {
        const comm::EngineLock lock(rank.core.mutex());
        run.start({});
    }
    void release() {
        const comm::EngineLock lock(rank.core.mutex());
        run.release();
    }
    // As a call does that waits: what has come is taken in, then the schedule goes on.
    bool go_on() {
        const comm::EngineLock lock(rank.core.mutex());
        (void)rank.progress.run();
        return run.advance();
    }
    int schedule_tag() { return run.schedule().tag(run.schedule().steps().front().round); }
    // What a step receives comes from the peer.
    void arrive(uint32_t peer, std::span<const uint32_t> content) {
        rank.channel(peer).send_inline(rank.world.collective_context(), schedule_tag(), std::as_bytes(content));
    }
    void arrive_at(uint32_t peer, Schedule::StepId step, std::span<const uint32_t> content) {
        const int tag = run.schedule().tag(run.schedule().steps()[step].round);
        rank.channel(peer).send_inline(rank.world.collective_context(), tag, std::as_bytes(content));
    }
    size_t sent_to(uint32_t peer) { return rank.channel(peer).posted.size(); }
};

const std::array<uint32_t, 4> kContent{1, 2, 3, 4};

} // namespace

TEST_SUITE_BEGIN("schedule run");

TEST_CASE("a step starts once those before it are complete") {
    Runner runner;
    Schedule& schedule = runner.run.schedule();
    std::vector<int> done;
    const auto note = [&](int which) {
        return [&done, which](const transfer::Operand&) {
            done.push_back(which);
            return base::Result<void>();
        };
    };
    const auto received = schedule.receive(Rank{1}, kRound, runner.whole());
    const auto worked = schedule.local(note(1), {received});
    schedule.send(Rank{2}, kRound, runner.whole(), {received, worked});
    schedule.local(note(2));
    schedule.set_received(received);
    runner.start();
    CHECK(done == std::vector<int>{2});
    CHECK(runner.sent_to(2) == 0);
    CHECK_FALSE(runner.run.done());
    CHECK_FALSE(runner.go_on());
    runner.arrive(1, kContent);
    CHECK(runner.go_on());
    CHECK(done == std::vector<int>{2, 1});
    CHECK(runner.sent_to(2) == 1);
    CHECK(runner.run.done());
    CHECK_FALSE(runner.run.error());
    CHECK(runner.buffer == kContent);
    CHECK(runner.run.received_bytes() == sizeof kContent);
    runner.release();
}

TEST_CASE("what is received in scratch memory is reduced with a copy, and the memory goes back") {
    Runner runner;
    runner.buffer = {10, 20, 30, 40};
    Schedule& schedule = runner.run.schedule();
    const Schedule::Buffer aside = schedule.scratch(sizeof runner.buffer);
    const Schedule::Buffer room = schedule.scratch(sizeof runner.buffer);
    const auto copied = schedule.copy(aside, runner.whole());
    const auto received = schedule.receive_all(Rank{1}, kRound, room);
    const Schedule::Buffer operands[] = {room, aside};
    schedule.reduce({base::Type::kUint32, base::Op::kSum, 0}, runner.whole(), operands, {copied, received});
    runner.start();
    CHECK(runner.rank.core.resources().pools.scratch.lent() == 1);
    CHECK_FALSE(runner.run.done());
    runner.arrive_at(1, received, kContent);
    CHECK(runner.go_on());
    CHECK(runner.run.done());
    CHECK(runner.run.error() == nullptr);
    CHECK(runner.buffer == std::array<uint32_t, 4>{11, 22, 33, 44});
    CHECK(runner.rank.core.resources().pools.scratch.lent() == 0);
    runner.release();
}

TEST_CASE("a message of another length is an error in the end, and stops nothing") {
    for (const size_t length : {size_t{2}, size_t{4}}) {
        Runner runner;
        Schedule& schedule = runner.run.schedule();
        Schedule::Buffer room = runner.whole();
        room.bytes = 3 * sizeof(uint32_t);
        const auto received = schedule.receive_all(Rank{1}, kRound, room);
        schedule.send(Rank{2}, kRound, room, {received});
        runner.start();
        runner.arrive(1, std::span(kContent).first(length));
        CHECK(runner.go_on());
        CHECK(runner.run.done());
        REQUIRE(runner.run.error());
        CHECK(runner.run.error()->status == base::Status::kCollective);
        CHECK(runner.run.error()->detail.find("rank 1 sends") == 0);
        CHECK(runner.run.take_found());
        CHECK(runner.sent_to(2) == 1);
        CHECK(runner.buffer[3] == 0);
        runner.release();
    }
}

TEST_CASE("what is passed on is as long as what was received") {
    Runner runner;
    const auto received = runner.run.schedule().receive(Rank{1}, kRound, runner.whole());
    runner.run.schedule().pass_on(Rank{2}, kRound, runner.whole(), received);
    runner.start();
    runner.arrive(1, std::span(kContent).first(2));
    CHECK(runner.go_on());
    REQUIRE(runner.run.done());
    REQUIRE(runner.sent_to(2) == 1);
    CHECK(runner.rank.channel(2).posted.front().payload.size() == 2 * sizeof(uint32_t));
    runner.release();
}

TEST_CASE("a step that fails ends the others, and what has not begun never does") {
    Runner runner;
    Schedule& schedule = runner.run.schedule();
    schedule.receive(Rank{1}, kRound, runner.whole());
    const auto failed = schedule.local([](const transfer::Operand&) {
        return base::Result<void>(base::Error{base::Status::kDevice, "no"});
    });
    schedule.send(Rank{2}, kRound, runner.whole(), {failed});
    runner.start();
    CHECK(runner.run.done());
    REQUIRE(runner.run.error());
    CHECK(runner.run.error()->status == base::Status::kDevice);
    CHECK(runner.sent_to(2) == 0);
    CHECK_FALSE(runner.rank.core.matcher().has_posted());
    runner.release();
}

TEST_CASE("with a member that has died nothing is begun") {
    Runner runner;
    runner.rank.channel(1).die();
    REQUIRE(runner.rank.look());
    runner.run.schedule().send(Rank{2}, kRound, runner.whole());
    runner.run.schedule().receive(Rank{1}, kRound, runner.whole());
    runner.start();
    CHECK(runner.run.done());
    REQUIRE(runner.run.error());
    CHECK(runner.run.error()->status == base::Status::kPeerLost);
    CHECK(runner.sent_to(2) == 0);
    runner.release();
}

// As on CUDA with GPURUN_FENCE=event.
TEST_CASE("a request whose stream stays blocked when a member dies is complete, and nothing waits for that stream") {
    base::Settings settings = gpurun::test::rank_settings();
    settings.fence = base::FenceKind::kEvent;
    const auto as_cuda = [](std::unique_ptr<device::Device> real) -> std::unique_ptr<device::Device> {
        auto device = std::make_unique<gpurun::test::ScriptedDevice>(std::move(real));
        device->keep_events();
        return device;
    };
    OneRank rank(3, settings, false, as_cuda);
    REQUIRE_FALSE(rank.core.resources().releases_streams());
    const device::Stream stream = must(rank.device().create_stream());
    gpurun::test::Gate gate(rank.device());
    gate.hold(stream); // the dead rank's event
    std::array<uint32_t, 4> buffer{};
    const transfer::Operand operand = rank.operand(buffer.data(), sizeof buffer, stream);
    uint64_t name = rank.schedules.start(Collective::kBcast, rank.world, operand, [&](Schedule& schedule) {
        schedule.receive(Rank{1}, kRound, {operand.address, operand.bytes, operand.where});
    });
    rank.channel(1).die();
    REQUIRE(rank.look());
    std::optional<base::Status> status;
    const auto settle = [&](size_t, const comm::Request& done) {
        status = done.error() == nullptr ? base::Status::kOk : done.error()->status;
    };
    CHECK(must(rank.requests.complete({{&name, 1}, comm::Order{}, comm::Requests::Need::kAll, false, true}, settle)));
    CHECK(status == base::Status::kPeerLost);
}

// A wait in the stream may have been released by poison.
TEST_CASE("the end of its stream does not count before it is known what a death has cut short") {
    Runner runner;
    gpurun::test::Gate gate(runner.rank.device());
    {
        const comm::EngineLock lock(runner.rank.core.mutex());
        runner.run.try_stream();
        REQUIRE(runner.run.has_stream());
        gate.hold(runner.run.stream());
    }
    runner.start();
    runner.rank.channel(1).die();
    gate.open();
    REQUIRE(static_cast<bool>(runner.rank.device().synchronize_all()));
    {
        const comm::EngineLock lock(runner.rank.core.mutex());
        (void)runner.run.advance();
    }
    CHECK_FALSE(runner.run.done());
    CHECK(runner.go_on());
    CHECK(runner.run.done());
    runner.release();
}

TEST_CASE("reductions of device memory in the host's order run in a stream, and others do not") {
    OneRank rank(3, gpurun::test::settings_with_mailboxes());
    void* const memory = must(rank.device().allocate(64));
    std::array<uint32_t, 16> on_host{};
    const auto runs_in_stream = [&](Collective kind, const transfer::Operand& operand) {
        const size_t before = rank.core.resources().pools.streams.lent();
        (void)rank.schedules.start(kind, rank.world, operand, [&](Schedule& schedule) {
            schedule.receive(Rank{1}, kRound, {operand.address, operand.bytes, operand.where});
        });
        return rank.core.resources().pools.streams.lent() != before;
    };
    const transfer::Operand on_device = rank.operand(memory, 64);
    CHECK(runs_in_stream(Collective::kAllreduce, on_device));
    CHECK(runs_in_stream(Collective::kAllgather, on_device));
    CHECK_FALSE(runs_in_stream(Collective::kBcast, on_device));
    CHECK_FALSE(runs_in_stream(Collective::kAllreduce, rank.operand(on_host.data(), sizeof on_host)));
    for (bool some_left = true; some_left;) {
        const comm::EngineLock lock(rank.core.mutex());
        some_left = must(rank.core.resources().pools.streams.take_spare()).has_value();
    }
    CHECK_FALSE(runs_in_stream(Collective::kAllreduce, on_device));
}

TEST_CASE("one that is given up ends at once, and takes no message any more") {
    Runner runner;
    runner.run.schedule().receive(Rank{1}, kRound, runner.whole());
    runner.start();
    CHECK_FALSE(runner.run.done());
    {
        const comm::EngineLock lock(runner.rank.core.mutex());
        runner.run.abandon({base::Status::kInternal, "given up"});
    }
    CHECK(runner.run.done());
    CHECK(runner.run.take_failure() == base::Status::kInternal); // for the others to know
    runner.arrive(1, kContent);
    (void)runner.go_on();
    CHECK(runner.buffer == std::array<uint32_t, 4>{});
    runner.release();
}

TEST_CASE("its memory is used again") {
    Runner runner;
    for (uint32_t round = 1; round < 4; ++round) {
        runner.reset();
        runner.run.schedule().receive(Rank{1}, kRound, runner.whole());
        runner.start();
        runner.arrive(1, std::array{round});
        CHECK(runner.go_on());
        CHECK(runner.run.done());
        CHECK(runner.buffer[0] == round);
        runner.release();
    }
}

TEST_SUITE_END();
