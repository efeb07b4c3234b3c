// Requests that are started one after the other: which go at once, which are deferred, and what ends a batch.
#include "one_rank.hpp"
#include "transfer/protocol/mailbox.hpp"

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

using namespace gpurun;
using comm::Task;
using gpurun::test::EmulatedRank;
using gpurun::test::must;
using gpurun::test::OneRank;
using gpurun::test::settings_with_mailboxes;

namespace {

constexpr size_t kBytes = 64;

// A rank that sends small messages of device memory to a peer whose mailbox it has mapped.
struct Starter {
    EmulatedRank neighbour{must(platform::JobSegment::create(2, 2)), 1, settings_with_mailboxes()};
    OneRank rank;
    std::byte* memory = nullptr;
    int begun = 0; // batches
    std::vector<uint64_t> names;

    explicit Starter(bool allowed = true, bool has_thread = false) : rank(2, settings_with_mailboxes(), has_thread) {
        rank.put_behind(1, neighbour);
        memory = static_cast<std::byte*>(must(rank.device().allocate(kBytes)));
        rank.batch.allow(allowed);
        if (!has_thread)
            rank.batch.on_begin([this] { ++begun; });
        const comm::EngineLock lock(rank.core.mutex());
        REQUIRE(rank.core.peer(base::WorldRank{1}).part<transfer::MailboxPart>().open());
    }
    void start(int tag, void* from) {
        names.push_back(rank.requests.start({.kind = Task::Kind::kSend,
                                             .peer = 1,
                                             .tag = tag,
                                             .comm = &rank.world,
                                             .operand = rank.operand(from, kBytes)}));
    }
    void start(int tag) { start(tag, memory); }
    size_t posted() { return rank.channel(1).posted.size(); }
    const transfer::FusedMessages::Count& mails() { return rank.core.resources().fused.sent(); }
    void end() {
        const comm::EngineLock lock(rank.core.mutex());
        rank.batch.end();
    }
    // The tags, in the order in which the peer will see the messages.
    std::vector<int> tags() {
        std::vector<int> all;
        for (const auto& each : rank.channel(1).posted)
            all.push_back(each.record.envelope.tag);
        return all;
    }
};

} // namespace

TEST_SUITE_BEGIN("batch");

TEST_CASE("the first start goes at once, what follows shares one kernel when the batch ends") {
    Starter starter;
    starter.start(0);
    CHECK(starter.posted() == 1);
    CHECK(starter.mails().launches == 1);
    CHECK_FALSE(starter.rank.batch.is_deferring());
    for (int tag = 1; tag < 6; ++tag)
        starter.start(tag);
    CHECK(starter.posted() == 1);
    CHECK(starter.rank.batch.is_deferring());
    CHECK(starter.begun == 1);
    starter.end();
    CHECK_FALSE(starter.rank.batch.is_deferring());
    CHECK(starter.tags() == std::vector<int>{0, 1, 2, 3, 4, 5});
    CHECK(starter.mails().mails == 6);
    CHECK(starter.mails().launches == 2);
}

TEST_CASE("what one call starts in a stream goes into it at once, and is not deferred") {
    Starter starter;
    const device::Stream stream = must(starter.rank.device().create_stream());
    std::vector<comm::Request*> again;
    for (int tag = 0; tag < 6; ++tag) {
        transfer::Operand operand = starter.rank.operand(starter.memory, kBytes);
        operand.domain = transfer::Domain::kStream;
        operand.stream = stream;
        const uint64_t name = starter.rank.requests.make({.kind = Task::Kind::kSend,
                                                          .persistent = true,
                                                          .peer = 1,
                                                          .tag = tag,
                                                          .comm = &starter.rank.world,
                                                          .operand = operand});
        again.push_back(starter.rank.requests.find(name));
    }
    starter.rank.requests.start_again(again);
    CHECK(starter.tags() == std::vector<int>{0, 1, 2, 3, 4, 5});
    CHECK_FALSE(starter.rank.batch.is_deferring());
    CHECK(starter.mails().mails == 0); // by no kernel in an internal stream
    CHECK(starter.rank.core.resources().exchanges.empty());
    must(starter.rank.device().synchronize(stream));
    for (comm::Request* const each : again) {
        uint64_t name = each->name;
        CHECK(starter.rank.requests.complete({.names = {&name, 1}, .order = {}}, [](size_t, const comm::Request&) {}));
        must(starter.rank.requests.abandon(*each));
    }
}

TEST_CASE("where nobody would end a batch, nothing is deferred") {
    Starter starter(false);
    for (int tag = 0; tag < 4; ++tag) {
        starter.start(tag);
        CHECK(starter.posted() == static_cast<size_t>(tag) + 1);
        CHECK(starter.mails().launches == static_cast<uint64_t>(tag) + 1);
    }
    CHECK(starter.begun == 0);
}

TEST_CASE("after a batch has ended, the next start goes at once again") {
    Starter starter;
    for (int tag = 0; tag < 3; ++tag)
        starter.start(tag);
    starter.end();
    starter.start(3);
    CHECK(starter.posted() == 4);
    CHECK(starter.mails().launches == 3);
    starter.start(4);
    CHECK(starter.begun == 2);
    starter.end();
}

TEST_CASE("as many as a kernel takes are not kept for others") {
    Starter starter;
    constexpr int kMost = static_cast<int>(device::kMostMails);
    for (int tag = 0; tag <= kMost; ++tag)
        starter.start(tag);
    CHECK(starter.posted() == device::kMostMails + 1);
    starter.start(kMost + 1);
    CHECK(starter.posted() == device::kMostMails + 1);
    starter.end();
    CHECK(starter.posted() == device::kMostMails + 2);
}

TEST_CASE("a message that is not deferred does not overtake those that are") {
    Starter starter;
    std::vector<std::byte> host(kBytes);
    starter.start(0);
    starter.start(1);
    starter.start(2, host.data()); // inline: for no kernel
    CHECK(starter.tags() == std::vector<int>{0, 1, 2});
    starter.end();
}

// Each batch that is deferred while somebody else is in a call is minded by the thread all the same.
TEST_CASE("the background thread sends a batch in time, and so the next one, whatever calls there were") {
    using std::chrono::milliseconds;
    Starter starter(true, true);
    uint32_t number = 0;
    starter.names.push_back(starter.rank.requests.start({.kind = Task::Kind::kReceive,
                                                         .peer = 1,
                                                         .tag = 100,
                                                         .comm = &starter.rank.world,
                                                         .operand = starter.rank.operand(&number, sizeof number)}));
    const auto& presence = starter.rank.core.own_record().presence;
    while ((presence.load() & platform::presence::kBackground) == 0)
        std::this_thread::yield(); // on duty, and asleep
    size_t sent = 0;
    const auto send_two = [&] {
        starter.start(0);
        starter.start(1);
        sent += 2;
    };
    const auto all_posted = [&] {
        const comm::EngineLock lock(starter.rank.core.mutex());
        return starter.posted() == sent;
    };
    for (int round = 0; round < 4; ++round) {
        CAPTURE(round);
        const bool rare = round % 2 == 1; // the thread is rung, and finds that a call has sent the batch
        if (rare)
            std::this_thread::sleep_for(milliseconds(5));
        {
            comm::EngineLock lock(starter.rank.core.mutex());
            std::optional<comm::Background::Attendance> call(std::in_place, starter.rank.background);
            lock.unlock();
            send_two();
            if (rare) {
                starter.end();
                std::this_thread::sleep_for(milliseconds(5));
            }
            lock.lock();
            call.reset();
        }
        starter.end(); // the next call of another kind
        if (rare)
            std::this_thread::sleep_for(milliseconds(5));
        send_two();
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!all_posted() && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
        REQUIRE(all_posted());
    }
}

namespace {

// A receive in the host's order of the peer's message with this tag.
uint64_t post_receive(Starter& starter, std::byte* into, int tag) {
    return starter.rank.requests.start({.kind = Task::Kind::kReceive,
                                        .peer = 1,
                                        .tag = tag,
                                        .comm = &starter.rank.world,
                                        .operand = starter.rank.operand(into, kBytes)});
}

} // namespace

TEST_CASE("a receive that was posted is a start once the program completes such requests directly") {
    Starter starter;
    auto* const into = static_cast<std::byte*>(must(starter.rank.device().allocate(kBytes)));
    (void)post_receive(starter, into, 9);
    starter.start(0);
    CHECK_FALSE(starter.rank.batch.is_deferring());
    CHECK(starter.posted() == 1);
    bool deferred = false;
    for (int round = 0; round < 50 && !deferred; ++round) { // this thread may lose its core in between
        {
            const comm::EngineLock lock(starter.rank.core.mutex());
            starter.rank.batch.count_posted();
            starter.rank.batch.end();
        }
        (void)post_receive(starter, into, 9);
        starter.start(0);
        deferred = starter.rank.batch.is_deferring();
    }
    CHECK(deferred);
    bool goes_on = false; // once the background thread has flushed it
    for (int round = 0; round < 50 && deferred && !goes_on; ++round) {
        const comm::EngineLock lock(starter.rank.core.mutex());
        starter.rank.batch.flush();
        CHECK_FALSE(starter.rank.batch.may_defer());
        starter.rank.batch.note_start();
        starter.rank.batch.go_on();
        goes_on = starter.rank.batch.may_defer();
    }
    CHECK(goes_on);
    starter.end();
    const comm::EngineLock lock(starter.rank.core.mutex());
    starter.rank.batch.go_on();
    CHECK_FALSE(starter.rank.batch.may_defer());
}

// Both go by one kernel if what comes is there soon.
TEST_CASE("in the host's order, what is put does not wait for a message that its target sends after it") {
    using transfer::Direction;
    using transfer::Edge;
    Starter starter;
    OneRank& rank = starter.rank;
    auto* const into = static_cast<std::byte*>(must(rank.device().allocate(kBytes)));
    auto* const theirs = static_cast<std::byte*>(must(rank.device().allocate(kBytes)));
    std::memset(theirs, 7, kBytes); // emulated: the CPU reaches it
    starter.names.push_back(post_receive(starter, into, 9));
    starter.start(0);
    starter.start(1);
    REQUIRE(rank.batch.is_deferring());
    const device::Stream peers = must(rank.device().create_stream());
    const transfer::Slot deferred{transfer::SlotClass::kSmallMail, true, 1, 0, transfer::kSlotStep};
    const device::Counter& put = rank.channel(1).edges(Direction::kOut).counter(Edge::kForward, deferred);
    std::thread peer([&] {
        while (put.load() < deferred.value)
            std::this_thread::yield();
        transfer::Record record(transfer::RecordKind::kMessage, transfer::MailboxPart::kProtocol);
        record.envelope = {rank.world.user_context(), 9, kBytes};
        const transfer::Slot slot{transfer::SlotClass::kSmallMail, true, 0, 0, transfer::kSlotStep};
        const comm::EngineLock lock(rank.core.mutex());
        rank.channel(1).arrive(record.with(slot));
        const device::Mail mail =
            rank.core.resources().workspace.view().mail(1, rank.channel(1).edges(Direction::kIn), slot, kBytes);
        const device::OutgoingMail outgoing[] = {{mail, theirs}};
        must(rank.device().mails()->put_mails(outgoing, peers));
        rank.job().ring_doorbell(0, platform::Notify::kAlways);
    });
    CHECK(must(rank.requests.complete({.names = starter.names, .order = {}}, [](size_t, const comm::Request&) {})));
    peer.join();
    CHECK(std::memcmp(into, theirs, kBytes) == 0);
}

TEST_CASE("a deferred send that has found no room fails if its peer dies, and one that has gone does not") {
    Starter starter;
    starter.rank.channel(1).room = 1;
    starter.start(0);
    starter.start(1);
    CHECK(starter.rank.batch.is_deferring());
    starter.rank.channel(1).die();
    std::vector<bool> failed(2);
    const auto settle = [&](size_t index, const comm::Request& done) { failed[index] = done.error() != nullptr; };
    CHECK(must(starter.rank.requests.complete({starter.names, comm::Order{}, comm::Requests::Need::kAll, true, true},
                                              settle)));
    CHECK(failed == std::vector<bool>{false, true});
}

TEST_SUITE_END();
