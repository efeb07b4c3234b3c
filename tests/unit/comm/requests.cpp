// Requests of one rank whose peers are the test: names, completing some of several, cancelling, giving up.
#include "one_rank.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <thread>

using namespace gpurun;
using comm::Arrived;
using comm::kAnySource;
using comm::kAnyTag;
using comm::kProcNull;
using comm::Order;
using comm::Request;
using comm::Requests;
using comm::Task;
using gpurun::test::must;
using gpurun::test::OneRank;

namespace {

constexpr int kRequestTag = 7;

// What a call was told of a request that it completed.
struct Told {
    size_t index;
    Arrived arrived;
    bool cancelled;
    bool truncated;
    bool failed;
};

struct Caller {
    OneRank rank;

    Task receive_task(void* into, size_t bytes, int source, int tag = kRequestTag) {
        return {.kind = Task::Kind::kReceive,
                .peer = source,
                .tag = tag,
                .comm = &rank.world,
                .operand = rank.operand(into, bytes)};
    }
    Task send_task(const void* from, size_t bytes, int dest, int tag = kRequestTag) {
        return {.kind = Task::Kind::kSend,
                .peer = dest,
                .tag = tag,
                .comm = &rank.world,
                .operand = rank.operand(const_cast<void*>(from), bytes)};
    }
    // Without waiting. None if the need cannot be met yet.
    std::optional<std::vector<Told>> test(std::span<uint64_t> names, Requests::Need need = Requests::Need::kAll) {
        std::vector<Told> told;
        const auto settle = [&](size_t index, const Request& done) {
            told.push_back({index, done.arrived(), done.cancelled, done.is_truncated(), done.error() != nullptr});
        };
        const bool met = must(rank.requests.complete({names, Order{}, need, false, true}, settle));
        return met ? std::optional(told) : std::nullopt;
    }
    std::optional<Told> test_one(uint64_t& name) {
        const auto told = test({&name, 1});
        return told && !told->empty() ? std::optional(told->front()) : std::nullopt;
    }
    // A message of `peer`'s with the number in it.
    void arrive(uint32_t peer, uint32_t number, int tag = kRequestTag) {
        rank.channel(peer).send_inline(rank.world.user_context(), tag, std::as_bytes(std::span(&number, 1)));
    }
};

} // namespace

TEST_SUITE_BEGIN("requests");

TEST_CASE("a name is never given twice, and an old one finds nothing") {
    comm::RequestTable table;
    std::vector<uint64_t> names;
    for (int round = 0; round < 5; ++round) {
        std::vector<Request*> taken;
        for (int i = 0; i < 20; ++i) {
            Request& request = table.take(comm::Task{});
            CHECK(table.find(request.name) == &request);
            names.push_back(request.name);
            taken.push_back(&request);
        }
        for (Request* each : taken)
            table.release(*each);
    }
    for (const uint64_t name : names)
        CHECK(table.find(name) == nullptr);
    CHECK(table.find(0) == nullptr);
    CHECK(table.find(UINT64_MAX) == nullptr);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("a look through the table is bounded, and says whether it saw all") {
    comm::RequestTable table;
    for (int i = 0; i < 10; ++i)
        (void)table.take(comm::Task{});
    size_t seen = 0;
    CHECK(table.for_each(10, [&](const Request&) { ++seen; }));
    CHECK(seen == 10);
    CHECK_FALSE(table.for_each(9, [&](const Request&) { ++seen; }));
    CHECK(seen == 19);
}

TEST_CASE("a receive is complete when its message has come, and its name is none any more") {
    Caller caller;
    uint32_t number = 0;
    uint64_t name = caller.rank.requests.start(caller.receive_task(&number, sizeof number, 2));
    CHECK_FALSE(caller.test({&name, 1}).has_value());
    caller.arrive(1, 11); // from another rank
    CHECK_FALSE(caller.test({&name, 1}).has_value());
    caller.arrive(2, 22);
    const uint64_t old = name;
    const auto told = caller.test_one(name);
    REQUIRE(told);
    CHECK(told->arrived.source == 2);
    CHECK(told->arrived.tag == kRequestTag);
    CHECK(told->arrived.bytes == sizeof number);
    CHECK(number == 22);
    CHECK(name == 0);
    CHECK(caller.rank.requests.find(old) == nullptr);
}

TEST_CASE("a message that came first is taken by the start of the receive") {
    Caller caller;
    caller.arrive(1, 11);
    REQUIRE(caller.rank.look()); // it is unexpected
    uint32_t number = 0;
    uint64_t name = caller.rank.requests.start(caller.receive_task(&number, sizeof number, kAnySource, kAnyTag));
    CHECK(number == 11);
    const auto told = caller.test_one(name);
    REQUIRE(told);
    CHECK(told->arrived.source == 1);
    CHECK(told->arrived.tag == kRequestTag);
}

TEST_CASE("a small send is over when it is published, and a synchronous one is not") {
    Caller caller;
    const uint32_t number = 5;
    uint64_t name = caller.rank.requests.start(caller.send_task(&number, sizeof number, 1));
    REQUIRE(caller.rank.channel(1).posted.size() == 1);
    const auto& posted = caller.rank.channel(1).posted.front();
    CHECK(posted.record.envelope.tag == kRequestTag);
    CHECK(posted.record.envelope.context == caller.rank.world.user_context());
    REQUIRE(posted.payload.size() == sizeof number);
    CHECK(std::memcmp(posted.payload.data(), &number, sizeof number) == 0);
    CHECK(caller.test_one(name).has_value());

    Task synchronous = caller.send_task(&number, sizeof number, 1);
    synchronous.synchronous = true;
    uint64_t waits = caller.rank.requests.start(synchronous);
    CHECK(caller.rank.channel(1).posted.size() == 2);
    CHECK(caller.rank.channel(1).posted.back().payload.empty()); // its bytes stay until it is matched
    CHECK_FALSE(caller.test({&waits, 1}).has_value());
}

TEST_CASE("sends that find no room go in the order of their starts once there is some") {
    Caller caller;
    auto& channel = caller.rank.channel(1);
    channel.room = 1;
    std::array<uint32_t, 4> numbers{0, 1, 2, 3};
    std::array<uint64_t, 4> names{};
    for (uint32_t& each : numbers)
        names[each] = caller.rank.requests.start(caller.send_task(&each, sizeof each, 1));
    CHECK(channel.posted.size() == 1);
    CHECK_FALSE(caller.test(names).has_value());
    channel.room = 2;
    CHECK_FALSE(caller.test(names).has_value());
    CHECK(channel.posted.size() == 3);
    channel.room = 5;
    CHECK(caller.test(names).has_value());
    REQUIRE(channel.posted.size() == 4);
    for (size_t i = 0; i < 4; ++i)
        CHECK(std::memcmp(channel.posted[i].payload.data(), &numbers[i], sizeof numbers[i]) == 0);
}

// The thread sleeps, and looks again only if something has changed since: here another thread's call has changed it.
TEST_CASE("a thread that waits for one of several sees that another thread has posted it") {
    using namespace std::chrono_literals;
    Caller caller;
    auto& channel = caller.rank.channel(1);
    channel.room = 0;
    const std::array<uint32_t, 2> numbers{1, 2};
    std::array<uint64_t, 1> waits{caller.rank.requests.start(caller.send_task(&numbers[0], sizeof(uint32_t), 1))};
    const auto wait = [&] {
        return must(
            caller.rank.requests.complete({waits, Order{}, Requests::Need::kOne, true, true}, [](auto&&...) {}));
    };
    auto met = std::async(std::launch::async, wait);
    const auto& presence = caller.rank.core.own_record().presence;
    while ((presence.load() & platform::presence::kSleepers) == 0)
        std::this_thread::yield();
    {
        const comm::EngineLock lock(caller.rank.core.mutex());
        channel.room = SIZE_MAX;
    }
    uint64_t second = caller.rank.requests.start(caller.send_task(&numbers[1], sizeof(uint32_t), 1));
    CHECK(channel.posted.size() == 2);
    caller.rank.core.notify_self(platform::Notify::kIfSleeping); // the peer, when it had made room
    const bool seen = met.wait_for(10s) == std::future_status::ready;
    CHECK(seen);
    if (!seen) { // so that the test ends
        const comm::EngineLock lock(caller.rank.core.mutex());
        caller.rank.core.note_change();
    }
    CHECK(met.get());
    CHECK(caller.test_one(second).has_value());
}

TEST_CASE("GPURUN_PROC_NULL is complete at once: an empty message of nobody's") {
    Caller caller;
    uint64_t name = caller.rank.requests.start(caller.receive_task(nullptr, 0, kProcNull));
    const auto told = caller.test_one(name);
    REQUIRE(told);
    CHECK(told->arrived.source == kProcNull);
    CHECK(told->arrived.tag == kAnyTag);
    CHECK(told->arrived.bytes == 0);
}

TEST_CASE("of several, one is completed, or all that can be") {
    Caller caller;
    std::array<uint32_t, 4> numbers{};
    std::array<uint64_t, 4> names{};
    for (size_t i = 0; i < 4; ++i)
        names[i] =
            caller.rank.requests.start(caller.receive_task(&numbers[i], sizeof numbers[i], 1, static_cast<int>(i)));
    CHECK_FALSE(caller.test(names, Requests::Need::kOne).has_value());
    CHECK_FALSE(caller.test(names, Requests::Need::kSome).has_value());
    caller.arrive(1, 30, 3);
    caller.arrive(1, 10, 1);
    const auto one = caller.test(names, Requests::Need::kOne);
    REQUIRE(one);
    REQUIRE(one->size() == 1);
    CHECK(one->front().index == 1); // the first in the list
    CHECK(names[1] == 0);
    caller.arrive(1, 0, 0);
    REQUIRE(caller.rank.look());
    const auto some = caller.test(names, Requests::Need::kSome);
    REQUIRE(some);
    REQUIRE(some->size() == 2);
    CHECK(some->at(0).index == 0);
    CHECK(some->at(1).index == 3);
    CHECK_FALSE(caller.test(names).has_value()); // the third is still open
    caller.arrive(1, 20, 2);
    CHECK(caller.test(names).has_value());
    CHECK(numbers == std::array<uint32_t, 4>{0, 10, 20, 30});
    CHECK(caller.test(names, Requests::Need::kOne)->empty()); // nothing is active
}

TEST_CASE("a name that is none is refused before anything else is done") {
    Caller caller;
    uint32_t number = 0;
    std::array<uint64_t, 2> names{caller.rank.requests.start(caller.receive_task(&number, sizeof number, 1)), 12345};
    caller.arrive(1, 11);
    REQUIRE(caller.rank.look());
    bool told = false;
    const auto settle = [&](size_t, const Request&) { told = true; };
    CHECK_STATUS(caller.rank.requests.complete({names, Order{}, Requests::Need::kSome, false, true}, settle),
                 base::Status::kRequest);
    CHECK_FALSE(told);
    CHECK(names[0] != 0);
    CHECK(caller.test_one(names[0]).has_value());
}

TEST_CASE("a message that is longer than the buffer fills it, and its true length is told") {
    Caller caller;
    std::array<uint32_t, 4> sent{1, 2, 3, 4};
    std::array<uint32_t, 3> got{0, 0, 9};
    uint64_t name = caller.rank.requests.start(caller.receive_task(got.data(), 2 * sizeof(uint32_t), 1));
    caller.rank.channel(1).send_inline(caller.rank.world.user_context(), kRequestTag, std::as_bytes(std::span(sent)));
    const auto told = caller.test_one(name);
    REQUIRE(told);
    CHECK(told->truncated);
    CHECK(told->arrived.bytes == sizeof sent);
    CHECK(got == std::array<uint32_t, 3>{1, 2, 9});
}

TEST_CASE("a persistent request keeps its name, and is started again") {
    Caller caller;
    uint32_t number = 0;
    Task task = caller.receive_task(&number, sizeof number, 1);
    task.persistent = true;
    uint64_t name = caller.rank.requests.make(task);
    const uint64_t same = name;
    for (uint32_t round = 1; round <= 3; ++round) {
        CHECK(caller.test({&name, 1})->empty()); // not active: nothing to complete
        Request* const request = caller.rank.requests.find(name);
        REQUIRE(request != nullptr);
        caller.rank.requests.start_again({&request, 1});
        CHECK_FALSE(caller.test({&name, 1}).has_value());
        caller.arrive(1, round);
        CHECK(caller.test_one(name).has_value());
        CHECK(name == same);
        CHECK(number == round);
    }
    must(caller.rank.requests.abandon(*caller.rank.requests.find(name)));
    CHECK(caller.rank.requests.find(name) == nullptr);
}

TEST_CASE("a receive that is taken back takes no message, and the next one does") {
    Caller caller;
    uint32_t untouched = 77;
    uint32_t number = 0;
    uint64_t cancelled = caller.rank.requests.start(caller.receive_task(&untouched, sizeof untouched, 1));
    uint64_t next = caller.rank.requests.start(caller.receive_task(&number, sizeof number, kAnySource));
    caller.rank.requests.cancel(*caller.rank.requests.find(cancelled));
    caller.arrive(1, 11);
    const auto told = caller.test_one(cancelled);
    REQUIRE(told);
    CHECK(told->cancelled);
    CHECK_FALSE(told->failed);
    CHECK(told->arrived.bytes == 0);
    CHECK(caller.test_one(next).has_value());
    CHECK(untouched == 77);
    CHECK(number == 11);
}

TEST_CASE("a receive whose message is there is not taken back") {
    Caller caller;
    uint32_t number = 0;
    uint64_t name = caller.rank.requests.start(caller.receive_task(&number, sizeof number, 1));
    caller.arrive(1, 11);
    caller.rank.requests.cancel(*caller.rank.requests.find(name));
    const auto told = caller.test_one(name);
    REQUIRE(told);
    CHECK_FALSE(told->cancelled);
    CHECK(number == 11);
}

TEST_CASE("a receive that is given up takes its message, and goes back to the table by itself") {
    Caller caller;
    uint32_t number = 0;
    const uint64_t name = caller.rank.requests.start(caller.receive_task(&number, sizeof number, 1));
    must(caller.rank.requests.abandon(*caller.rank.requests.find(name)));
    CHECK(caller.rank.core.requests().any_under_way());
    caller.arrive(1, 11);
    REQUIRE(caller.rank.look());
    CHECK(number == 11);
    CHECK_FALSE(caller.rank.core.requests().any_under_way());
    CHECK(caller.rank.requests.find(name) == nullptr);
}

TEST_CASE("a probed message is received by its number, whatever comes behind it") {
    Caller caller;
    caller.arrive(1, 11);
    caller.arrive(1, 12);
    uint64_t number_of_message = 0;
    const auto pattern =
        comm::Pattern::of(caller.rank.world.group(), caller.rank.world.user_context(), kAnySource, kRequestTag);
    const auto found = must(caller.rank.messages.probe(pattern, false, &number_of_message));
    REQUIRE(found);
    CHECK(found->source == base::WorldRank{1});
    CHECK(caller.rank.messages.communicator_of_taken(number_of_message) != nullptr);
    std::array<uint32_t, 2> numbers{};
    uint64_t other = caller.rank.requests.start(caller.receive_task(&numbers[0], sizeof(uint32_t), 1));
    Task task = caller.receive_task(&numbers[1], sizeof(uint32_t), kAnySource);
    task.taken = number_of_message;
    uint64_t name = caller.rank.requests.start(task);
    CHECK(caller.test_one(other).has_value());
    CHECK(caller.test_one(name).has_value());
    CHECK(numbers == std::array<uint32_t, 2>{12, 11});
}

TEST_SUITE_END();
