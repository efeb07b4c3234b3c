// Collectives that are started as requests in a stream, and held with their series: where they run, and when.
#include "one_rank.hpp"
#include "platform/clock.hpp"

#include <array>
#include <thread>
#include <vector>

using namespace gpurun;
using base::Collective;
using comm::Communicator;
using comm::Schedule;
using gpurun::test::must;
using gpurun::test::OneRank;

namespace {

base::Settings settings_that_hold() {
    base::Settings settings = gpurun::test::settings_with_mailboxes();
    settings.emulated_seed = 1;
    return settings;
}

struct Holder {
    OneRank rank{2, settings_that_hold()};
    const Communicator other{comm::kWorldId + 1, comm::Group::of_all(2), base::WorldRank{0}};
    const device::Stream stream = must(rank.device().create_stream());
    struct Ran {
        int number;
        device::Stream stream;
        bool collects; // what is put is left to somebody else's launch
    };
    std::vector<Ran> ran;

    Holder() {
        const comm::EngineLock lock(rank.core.mutex());
        rank.batch.allow(true);
    }
    uint64_t start(int number, const Communicator& comm) { return start(number, comm, platform::now_ns()); }
    uint64_t start(int number, const Communicator& comm, std::optional<int64_t> entered_ns, bool receives = false) {
        const base::CallScope call("gpurun_iallreduce");
        const auto note_run = [this, number](const transfer::Operand& order) {
            ran.push_back({number, order.stream, rank.core.resources().exchanges.collects()});
            return base::Result<void>();
        };
        const auto build = [note_run, receives](Schedule& schedule) {
            schedule.local(note_run);
            if (receives) // an empty message
                schedule.receive(comm::Rank{1}, 0, {});
        };
        return rank.schedules.start(Collective::kAllreduce, comm, rank.operand(nullptr, 0, stream), build, entered_ns);
    }
    uint64_t start(int number) { return start(number, rank.world); }
    uint64_t start_receiving(int number) { return start(number, rank.world, platform::now_ns(), true); }
    // At the moment in which the last call has ended, however slow the test is.
    void wait(std::vector<uint64_t> names) {
        const base::CallScope call("gpurun_waitall");
        comm::Order order;
        order.domain = transfer::Domain::kStream;
        order.stream = stream;
        CHECK(must(
            rank.requests.complete({names, order, comm::Requests::Need::kAll, true, false, base::this_call().left_ns},
                                   [](size_t, const comm::Request& done) { CHECK(done.error() == nullptr); })));
    }
    bool is_in_stream(size_t index) const { return ran[index].stream == stream; }
    // Persistent ones, in two streams.
    void start_two_receives() {
        std::array<comm::Request*, 2> requests{};
        for (comm::Request*& each : requests) {
            const uint64_t name =
                rank.requests.make({.kind = comm::Task::Kind::kReceive,
                                    .persistent = true,
                                    .peer = 1,
                                    .comm = &rank.world,
                                    .operand = rank.operand(nullptr, 0, must(rank.device().create_stream()))});
            each = rank.requests.find(name);
        }
        const base::CallScope call("gpurun_startall");
        rank.requests.start_again(requests, platform::now_ns());
    }
    size_t internal_streams() { return rank.core.resources().pools.streams.lent(); }
    // What rank 1 sends in the first collective.
    transfer::Record message_of_first() const {
        transfer::Record record(transfer::RecordKind::kMessage, transfer::InlinePart::kProtocol);
        record.envelope = {rank.world.collective_context(), base::collective_tag(Collective::kAllreduce, 0, 0), 0};
        return record;
    }
};

} // namespace

TEST_SUITE_BEGIN("held collectives");

TEST_CASE("a collective that is completed directly runs in its stream") {
    Holder holder;
    const uint64_t name = holder.start(1);
    CHECK(holder.ran.empty());
    holder.wait({name});
    REQUIRE(holder.ran.size() == 1);
    CHECK(holder.is_in_stream(0));
    CHECK(holder.internal_streams() == 0);
}

TEST_CASE("those of one communicator that are completed together run in their stream, in the order of their calls") {
    Holder holder;
    const uint64_t first = holder.start(1), second = holder.start(2), third = holder.start(3);
    CHECK(holder.ran.empty());
    SUBCASE("in that order") {
        holder.wait({first, second, third});
        REQUIRE(holder.ran.size() == 3);
        CHECK(holder.is_in_stream(0));
        CHECK(holder.is_in_stream(1));
    }
    SUBCASE("in another: what is behind is in the stream, and the others in streams of their own") {
        holder.wait({third, first, second});
        REQUIRE(holder.ran.size() == 3);
        CHECK_FALSE(holder.is_in_stream(0));
        CHECK_FALSE(holder.is_in_stream(1));
    }
    CHECK(holder.is_in_stream(2));
    for (int i = 0; i < 3; ++i)
        CHECK(holder.ran[static_cast<size_t>(i)].number == i + 1);
    CHECK(holder.internal_streams() == 0);
}

TEST_CASE("the next of them begins once the one before is enqueued") {
    Holder holder;
    OneRank& rank = holder.rank;
    const auto have_begun = [&] {
        const comm::EngineLock lock(rank.core.mutex());
        return holder.ran.size();
    };
    const auto waits = [&] {
        const comm::EngineLock lock(rank.core.mutex());
        return !rank.waiter.calls().empty();
    };
    std::thread caller([&] {
        const uint64_t first = holder.start_receiving(1), second = holder.start(2);
        holder.wait({first, second});
    });
    while (!waits())
        std::this_thread::yield();
    CHECK(have_begun() == 1);
    bool in_turn = true;
    SUBCASE("as soon as it is") {}
    SUBCASE("or when another thread starts requests, by itself and not in their stream") {
        holder.start_two_receives();
        CHECK(have_begun() == 2);
        in_turn = false;
    }
    {
        const comm::EngineLock lock(rank.core.mutex());
        rank.channel(1).arrive(holder.message_of_first());
        rank.core.notify_self(transfer::Notify::kAlways);
    }
    caller.join();
    REQUIRE(have_begun() == 2);
    CHECK(holder.is_in_stream(0));
    CHECK(holder.is_in_stream(1) == in_turn);
    CHECK_FALSE(holder.ran[1].collects);
}

TEST_CASE("one of a group, which is completed at its end, is not held") {
    Holder holder;
    const uint64_t first = holder.start(1, holder.rank.world, std::nullopt);
    CHECK(holder.ran.size() == 1);
    holder.wait({first});
}

TEST_CASE("if not all are completed, those that are not begin where they were called") {
    Holder holder;
    const uint64_t first = holder.start(1), second = holder.start(2);
    std::vector<uint64_t> names, others;
    SUBCASE("the first") { names = {first}, others = {second}; }
    SUBCASE("the second") { names = {second}, others = {first}; }
    SUBCASE("the first twice") { names = {first, first}, others = {second}; }
    SUBCASE("the second twice") { names = {second, second}, others = {first}; }
    const bool alone = names.size() == 1;
    holder.wait(names);
    REQUIRE(holder.ran.size() == 2);
    CHECK(holder.ran[0].number == 1);
    CHECK(holder.is_in_stream(0) == (!alone && others.front() == second));
    CHECK(holder.is_in_stream(1) == (!alone && others.front() == first));
    holder.wait(others);
}

TEST_CASE("one that is not completed directly runs in an internal stream, from where it was started") {
    Holder holder;
    gpurun::test::Gate before(holder.rank.device()), behind(holder.rank.device());
    before.hold(holder.stream);
    const uint64_t name = holder.start(1);
    behind.hold(holder.stream);
    {
        const comm::EngineLock lock(holder.rank.core.mutex());
        holder.rank.batch.flush();
    }
    REQUIRE(holder.ran.size() == 1);
    const device::Stream internal = holder.ran[0].stream;
    CHECK(internal != holder.stream);
    CHECK_FALSE(must(holder.rank.device().query(internal)));
    before.open();
    CHECK(static_cast<bool>(holder.rank.device().synchronize(internal)));
    behind.open();
    holder.wait({name});
    CHECK(holder.internal_streams() == 0);
}

TEST_CASE("a call of another collective, or one of another communicator, begins what is held first") {
    Holder holder;
    const uint64_t first = holder.start(1);
    SUBCASE("a request of another communicator") {
        const uint64_t second = holder.start(2, holder.other);
        REQUIRE(holder.ran.size() >= 1);
        CHECK_FALSE(holder.is_in_stream(0));
        holder.wait({first, second});
    }
    SUBCASE("a blocking one") {
        const base::CallScope call("gpurun_allreduce");
        const auto note_run = [&](const transfer::Operand&) {
            holder.ran.push_back({2, holder.stream, false});
            return base::Result<void>();
        };
        CHECK(static_cast<bool>(holder.rank.schedules.run(Collective::kAllreduce, holder.rank.world,
                                                          holder.rank.operand(nullptr, 0, holder.stream),
                                                          [&](Schedule& schedule) { schedule.local(note_run); })));
        holder.wait({first});
    }
    REQUIRE(holder.ran.size() == 2);
    CHECK(holder.ran[0].number == 1);
    CHECK(holder.ran[1].number == 2);
}

TEST_CASE("requests that one call starts begin what is held first, and by itself") {
    Holder holder;
    const uint64_t first = holder.start(1);
    holder.start_two_receives();
    REQUIRE(holder.ran.size() == 1);
    CHECK_FALSE(holder.ran[0].collects);
    holder.wait({first});
}

TEST_CASE("what comes for one that is held is not too late for it") {
    Holder holder;
    const uint64_t name = holder.start(1);
    holder.rank.channel(1).arrive(holder.message_of_first());
    CHECK(holder.rank.look());
    {
        const comm::EngineLock lock(holder.rank.core.mutex());
        CHECK(holder.rank.core.matcher().has_unexpected(base::WorldRank{1}));
    }
    holder.wait({name});
}

TEST_SUITE_END();
