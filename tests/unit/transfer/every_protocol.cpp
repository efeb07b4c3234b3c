// Both halves of a message by every protocol, between two ranks in one process: the normal run, whichever call comes
// first and whatever its stream is held by; a receive that is too short; no room for any of the records; the death of
// either rank at any step; and many messages, one after the other. At the end nothing is out.
#include "exchange.hpp"
#include "transfer/protocol/eager.hpp"
#include "transfer/protocol/mailbox.hpp"
#include "transfer/protocol/rendezvous.hpp"

using namespace gpurun;
using gpurun::test::Case;
using gpurun::test::comes_true;
using gpurun::test::Exchange;
using gpurun::test::Half;
using gpurun::test::kHost;
using gpurun::test::Memory;
using gpurun::test::Setting;
using gpurun::test::TestJob;
using gpurun::test::TestRank;
using transfer::info_of;
using transfer::SlotClass;

namespace {

constexpr Half kDevice{Memory::kDevice, false, false};
constexpr Half kOrdered{Memory::kOrdered, false, false};

constexpr Half in_stream(Memory memory) { return {memory, true, false}; }
constexpr Half request(Memory memory) { return {memory, true, true}; }
constexpr Half together(Memory memory) { return {memory, true, false, true}; }

Setting with(base::FenceKind fence) { return test::with_fence(fence); }
Setting events() { return with(base::FenceKind::kEvent); }
Setting by_path(base::PathChoice path) {
    Setting setting;
    setting.settings.path = path;
    return setting;
}
Setting without_single_copy() {
    Setting setting;
    setting.settings.single_copy = false;
    return setting;
}
Setting without_peer_access() {
    Setting setting;
    setting.peer_access = "none";
    return setting;
}
Setting on_one_device(bool mps) {
    Setting setting;
    setting.one_device = true;
    setting.mps = mps;
    return setting;
}
// Just so that there are mailboxes: what peers cannot map is copied in one piece.
Setting with_mailboxes() {
    Setting setting;
    setting.settings.mail_bytes = 4096;
    return setting;
}
Setting by_engine() { // large copies go by a copy engine
    Setting setting;
    setting.settings.kernel_copy_bytes = 1024;
    return setting;
}

constexpr size_t kSmall = 100;
constexpr size_t kMail = 20'000;   // larger than a small mail
constexpr size_t kMiddle = 60'000; // larger than what goes inline, smaller than a shared copy
constexpr size_t kLargeMail = 200'000;
constexpr size_t kLarge = 300'000; // larger than what goes inline, eager, or by mailbox; several units of a shared copy
constexpr size_t kRelayed = 9 * 64 * 1024 + 5; // ten chunks, more than there are buffers

std::vector<Case> cases() {
    const auto device = Memory::kDevice;
    const auto pageable = Memory::kPageable;
    const auto pinned = Memory::kPinned;
    const auto ordered = Memory::kOrdered;
    return {
        {"inline, few bytes", kHost, kHost, 8, "inline", "host"},
        {"inline", kHost, kHost, 4000, "inline", "host"},
        {"inline, into device memory", kHost, kDevice, kSmall, "inline", "host"},
        {"inline, into a stream", kHost, in_stream(device), kSmall, "inline", "host"},
        {"inline, into pageable memory by a stream", kHost, in_stream(pageable), kSmall, "inline", "host"},
        {"inline, into a request", kHost, request(device), kSmall, "inline", "host"},
        {"inline, nothing but its place", kHost, in_stream(device), 0, "inline", "host"},
        {"inline, nothing but its place, into a request", kHost, request(device), 0, "inline", "host"},
        {"inline, to itself", kHost, kHost, kSmall, "inline", "self", {}, false, true},

        {"mail in streams", in_stream(device), in_stream(device), kMail, "mailbox", "mailbox"},
        {"large mail in streams", in_stream(device), in_stream(device), kLargeMail, "mailbox", "mailbox"},
        {"large mail of requests", request(device), request(device), kLargeMail, "mailbox", "mailbox"},
        {"small mail in streams", in_stream(device), in_stream(device), kSmall, "mailbox", "mailbox"},
        {"small mail of requests", request(device), request(device), kSmall, "mailbox", "mailbox"},
        {"mail of requests", request(device), request(device), kMail, "mailbox", "mailbox"},
        {"mail of calls made together", together(device), together(device), kMail, "mailbox", "mailbox"},
        {"mail of one call made together", together(device), in_stream(device), kSmall, "mailbox", "mailbox"},
        {"mail into pageable memory of calls made together", together(device), together(pageable), kSmall, "mailbox",
         "mailbox"},
        {"mail in the host's order", kDevice, kDevice, kSmall, "mailbox", "mailbox"},
        {"mail into pageable memory", in_stream(device), kHost, kSmall, "mailbox", "mailbox"},
        {"mail into pageable memory by a stream", in_stream(device), in_stream(pageable), kSmall, "mailbox", "mailbox"},
        {"mail on one device", request(device), in_stream(device), kSmall, "mailbox", "mailbox", on_one_device(true)},

        {"eager of pageable memory", in_stream(pageable), in_stream(device), kSmall, "eager", "staged"},
        {"eager of calls made together", together(pageable), together(device), kSmall, "eager", "staged"},
        {"eager into the host", in_stream(pageable), kHost, kSmall, "eager", "staged"},
        {"eager of requests", request(pageable), request(pageable), kSmall, "eager", "staged"},
        {"eager, nothing but its place", in_stream(device), in_stream(device), 0, "eager", "staged"},
        {"eager, nothing but its place, of requests", request(device), request(device), 0, "eager", "staged"},
        {"eager, nothing but its place, into the host", in_stream(device), kHost, 0, "eager", "staged"},
        {"eager by events", in_stream(device), in_stream(device), kSmall, "eager", "staged", events()},
        {"eager of requests by events", request(device), request(device), kSmall, "eager", "staged", events()},
        {"eager in turns", in_stream(device), in_stream(device), kSmall, "eager", "staged", on_one_device(false)},
        {"eager, to itself", in_stream(device), request(device), kSmall, "eager", "self", {}, false, true},

        {"single copy, shared", kHost, kHost, kLarge, "single copy", "host"},
        {"single copy, alone", kHost, kHost, kMiddle, "single copy", "host"},
        {"single copy, synchronous", kHost, kHost, kSmall, "single copy", "host", {}, true},

        {"pull in streams", in_stream(device), in_stream(device), kLarge, "pull", "direct"},
        {"pull of calls made together", together(device), together(device), kLarge, "pull", "direct"},
        {"pull of requests", request(device), request(device), kLarge, "pull", "direct"},
        {"pull in the host's order", kDevice, kDevice, kLarge, "pull", "direct"},
        {"pull from the host's order into a stream", kDevice, in_stream(device), kLarge, "pull", "direct"},
        {"pull by an engine", in_stream(device), in_stream(device), kLarge, "pull", "direct", by_engine()},
        {"pull of requests by an engine", request(device), request(device), kLarge, "pull", "direct", by_engine()},
        {"pull by events", in_stream(device), in_stream(device), kLarge, "pull", "direct", events()},
        {"pull of requests by events", request(device), request(device), kLarge, "pull", "direct", events()},
        {"pull on one device", in_stream(device), in_stream(device), kLarge, "pull", "direct", on_one_device(true)},
        {"pull in turns", request(device), in_stream(device), kLarge, "pull", "direct", on_one_device(false)},
        {"pull into pinned memory", in_stream(device), in_stream(pinned), kLarge, "pull", "direct"},
        {"pull into pinned memory of requests", request(device), request(pinned), kLarge, "pull", "direct"},
        {"pull into pinned memory by an engine", in_stream(device), in_stream(pinned), kLarge, "pull", "direct",
         by_engine()},
        {"bounce in one piece", in_stream(pinned), in_stream(pinned), kLarge, "pull", "bounce", with_mailboxes()},
        {"bounce in one piece, of requests", request(pinned), request(ordered), kLarge, "pull", "bounce",
         with_mailboxes()},
        {"bounce in one piece, of calls made together", together(ordered), together(pinned), kLarge, "pull", "bounce",
         with_mailboxes()},
        {"bounce in one piece, synchronous", in_stream(ordered), request(device), kSmall, "pull", "bounce",
         with_mailboxes(), true},
        {"pull of nothing", in_stream(device), request(device), 0, "pull", "staged", {}, true},
        {"pull of nothing of the host's", kHost, kHost, 0, "pull", "staged", {}, true},
        {"pull of pinned memory, to itself",
         in_stream(pinned),
         in_stream(pinned),
         kLarge,
         "pull",
         "self",
         {},
         false,
         true},
        {"pull, to itself", in_stream(device), in_stream(device), kLarge, "pull", "self", {}, false, true},
        {"pull of host memory, to itself", kHost, kHost, kLarge, "pull", "self", {}, false, true},

        {"relay of host memory", kHost, kHost, kRelayed, "relay", "host", without_single_copy()},
        {"relay from the host", kHost, in_stream(device), kRelayed, "relay", "staged"},
        {"relay to the host", in_stream(device), kHost, kRelayed, "relay", "staged"},
        {"relay to the host of a copy in one piece", in_stream(pinned), kHost, kLarge, "relay", "staged",
         with_mailboxes()},
        {"relay of pageable memory in streams", in_stream(pageable), request(pageable), kRelayed, "relay", "host"},
        {"relay without peer access", in_stream(device), in_stream(device), kRelayed, "relay", "staged",
         without_peer_access()},
        {"relay of requests", request(device), request(device), kRelayed, "relay", "staged", without_peer_access()},
        {"relay by events", request(device), request(pageable), kRelayed, "relay", "staged", events()},
        {"bounce", in_stream(Memory::kOrdered), in_stream(device), kRelayed, "relay", "bounce"},
        {"bounce of requests", request(Memory::kOrdered), request(Memory::kOrdered), kRelayed, "relay", "bounce"},
        {"bounce in the host's order", kOrdered, kOrdered, kRelayed, "relay", "bounce"},
        {"bounce as asked for", request(device), in_stream(device), kRelayed, "relay", "bounce",
         by_path(base::PathChoice::kBounce)},
        {"bounce by events", in_stream(Memory::kOrdered), in_stream(device), kRelayed, "relay", "bounce", events()},
        {"relay, to itself", kHost, in_stream(device), kRelayed, "relay", "self", {}, false, true},
    };
}

std::string expected_route(const Case& what, size_t messages) {
    return what.protocol + "/" + what.path + " " + std::to_string(messages) + " " +
           std::to_string(what.bytes * messages);
}

uint32_t ranks(const Case& what) { return what.to_self ? 1 : 2; }

// Without mailboxes where the case has no use for them: they take most of the time that a job needs to start.
TestJob job_for(const Case& what) {
    Setting setting = what.setting;
    if (what.protocol != "mailbox" && what.setting.settings.mail_bytes != with_mailboxes().settings.mail_bytes)
        setting.settings.mail_bytes = 0;
    return TestJob(ranks(what), setting);
}

void check_ended(Exchange& exchange, const Case& what, size_t messages) {
    exchange.check();
    CHECK(Exchange::routes(exchange.from().peer(exchange.to().self).sent) == expected_route(what, messages));
    CHECK(Exchange::routes(exchange.to().peer(0).received) == expected_route(what, messages));
    CHECK(exchange.from().left() == "");
    CHECK(exchange.to().left() == "");
}

} // namespace

TEST_SUITE_BEGIN("every protocol");

TEST_CASE("a message comes, whichever call is first, and whatever its streams are held by") {
    for (const Case& what : cases()) {
        CAPTURE(what.name);
        TestJob job = job_for(what);
        for (unsigned variant = 0; variant < 8; ++variant) {
            CAPTURE(variant);
            Exchange exchange(job, what,
                              {.late_receive = (variant & 1) != 0,
                               .held_source = (variant & 2) != 0,
                               .held_target = (variant & 4) != 0,
                               .pattern = static_cast<int>(variant)});
            exchange.run();
            check_ended(exchange, what, variant + 1);
        }
    }
}

TEST_CASE(
    "a small mail shares a kernel in the host's order, of a request or not, and none in a blocking call's stream") {
    const auto shared = [](const Half& half) {
        TestJob job(2, {});
        Exchange exchange(job, {"", half, half, kSmall, "mailbox", "mailbox"});
        exchange.run();
        const auto put = exchange.from().resources().fused.sent();
        const auto taken = exchange.to().resources().fused.received();
        return std::to_string(put.mails) + " put, " + std::to_string(taken.mails) + " taken";
    };
    CHECK(shared(kDevice) == "1 put, 1 taken");
    CHECK(shared({Memory::kDevice, false, true}) == "1 put, 1 taken");
    CHECK(shared(in_stream(Memory::kDevice)) == "0 put, 0 taken");
}

TEST_CASE("a receive that is too short gets what there is room for, and nothing else is touched") {
    for (const Case& what : cases()) {
        CAPTURE(what.name);
        TestJob job = job_for(what);
        size_t messages = 0;
        for (const size_t room : {what.bytes / 2 + 1, what.bytes / 16, size_t{1}}) {
            CAPTURE(room);
            if (room >= what.bytes)
                continue;
            Exchange exchange(job, what, {.late_receive = messages % 2 != 0, .room = room});
            exchange.run();
            CHECK(exchange.receive().bytes() == room);
            check_ended(exchange, what, ++messages);
        }
    }
}

// By the protocol for messages without bytes, where the message's own would not have waited.
TEST_CASE("a receive without room comes after what the source's stream did before, and touches nothing") {
    for (const Case& what : cases()) {
        CAPTURE(what.name);
        TestJob job = job_for(what);
        for (const bool late_receive : {false, true}) {
            CAPTURE(late_receive);
            Exchange exchange(job, what, {.late_receive = late_receive, .held_source = true, .room = 0});
            exchange.run();
            CHECK(exchange.receive().bytes() == 0);
            exchange.check();
            CHECK(exchange.from().left() == "");
            CHECK(exchange.to().left() == "");
        }
    }
}

// Calls `visit` with a new job, a rank, and each number of posts that the rank may make before there is no room.
template <typename Visit>
void for_each_post(const Case& what, const Visit& visit) {
    std::vector<size_t> posts;
    {
        TestJob job = job_for(what);
        Exchange(job, what).run();
        for (uint32_t rank = 0; rank < job.segment.size(); ++rank)
            posts.push_back(job.rank(rank).channel(what.to_self ? 0 : 1 - rank).posts);
    }
    for (uint32_t rank = 0; rank < posts.size(); ++rank)
        for (size_t room = 0; room < posts[rank]; ++room) {
            CAPTURE(rank);
            CAPTURE(room);
            TestJob job = job_for(what);
            visit(job, job.rank(rank).channel(what.to_self ? 0 : 1 - rank), room, posts[rank]);
        }
}

TEST_CASE("when there is no room for a record, it is posted later, and once") {
    for (const Case& what : cases()) {
        CAPTURE(what.name);
        for_each_post(what, [&](TestJob& job, test::InterceptedChannel& channel, size_t room, size_t posts) {
            Exchange exchange(job, what);
            channel.room = room;
            exchange.run_until_stuck();
            CHECK(channel.refused != 0);
            CHECK(channel.posts == room);
            channel.room = SIZE_MAX;
            exchange.run();
            CHECK(channel.posts == posts);
            check_ended(exchange, what, 1);
        });
    }
}

// The source's buffer is freed by the program after so many steps. False if the message was over by then.
bool free_source_after(const Case& what, size_t steps) {
    CAPTURE(what.name);
    CAPTURE(steps);
    TestJob job = job_for(what);
    const Exchange::Buffers buffers = Exchange::make_buffers(job, what);
    Exchange exchange(job, what, {.late_receive = true, .overwrites = false}, buffers);
    exchange.run_until_stuck(steps);
    const bool was_over = exchange.over();
    device::Device& source = job.rank(0).device->real();
    const bool in_order = what.from.on_stream && !what.from.request; // of the message
    const device::Stream frees = in_order ? buffers.source.stream : test::must(source.create_stream());
    REQUIRE_OK(source.ordered_memory()->free_ordered(buffers.source.address, frees));
    exchange.run();
    CHECK(exchange.send().error().has_value() == exchange.receive().error().has_value());
    if (exchange.receive().error())
        CHECK(exchange.receive().error()->detail.find("rank 0 could not read its buffer") == 0);
    else if (in_order)
        exchange.check();
    CHECK(exchange.from().left() == "");
    CHECK(exchange.to().left() == "");
    Exchange next(job, what); // through the same buffers
    next.run();
    next.check();
    return !was_over;
}

TEST_CASE("when the source's buffer is freed before it is read, at any step, both halves fail, and the next come") {
    for (const Case& what : cases())
        if (what.protocol == "relay" && what.from.memory == Memory::kOrdered)
            for (size_t steps = 0; free_source_after(what, steps); ++steps) {
            }
}

// How many slots of each kind can be taken for messages from the rank to the peer: all, if none is in use. Takes them.
std::vector<size_t> take_slots(TestRank& rank, uint32_t target) {
    transfer::Peer& peer = rank.peer(target);
    transfer::Fence& fence = *test::must(peer.fence_out());
    const auto count = [](const auto& take) {
        size_t taken = 0;
        while (test::must(take()))
            ++taken;
        return taken;
    };
    auto& rendezvous = peer.part<transfer::RendezvousPart>();
    auto& mails = peer.part<transfer::MailboxPart>();
    return {count([&] { return rendezvous.take_slot(fence); }), count([&] { return rendezvous.take_late_slot(fence); }),
            count([&] { return peer.part<transfer::EagerPart>().buffers.take(fence); }),
            count([&] { return mails.take_slot(fence, 1, false); })};
}

const std::vector<size_t> kTakenSlots = {
    info_of(SlotClass::kRendezvous).count, info_of(SlotClass::kLateEdge).count, info_of(SlotClass::kEager).count,
    info_of(SlotClass::kLargeMail).count + info_of(SlotClass::kMail).count + info_of(SlotClass::kSmallMail).count};

TEST_CASE("after many messages nothing is made for one more, and all slots are free") {
    constexpr size_t kFirst = info_of(SlotClass::kRendezvous).count + 4, kMany = kFirst + 14;
    for (const Case& what : cases()) {
        CAPTURE(what.name);
        TestJob job = job_for(what);
        const Exchange::Buffers buffers = Exchange::make_buffers(job, what);
        const auto made = [&] { return job.rank(0).device->made + (what.to_self ? 0 : job.rank(1).device->made); };
        size_t made_at_first = 0;
        for (size_t messages = 1; messages <= kMany; ++messages) {
            Exchange exchange(job, what, {.late_receive = messages % 2 != 0, .pattern = static_cast<int>(messages)},
                              buffers);
            exchange.run();
            check_ended(exchange, what, messages);
            if (messages == kFirst)
                made_at_first = made();
        }
        if (what.setting.settings.fence != base::FenceKind::kEvent) // else two for each slot
            CHECK(made() - made_at_first < (kMany - kFirst) / 4);   // a stream more, if all that are there are busy
        CHECK(take_slots(job.rank(0), what.to_self ? 0 : 1) == kTakenSlots);
    }
}

// The half is over, and has failed as the other rank has died, unless nothing was missing. All that it had is back.
void check_survivor(const Case& what, Exchange& exchange, TestJob& job, uint32_t survivor) {
    // Here the dead rank's streams go on, and may complete an event behind the release that has ended the wait for it.
    const bool may_complete_late = what.setting.settings.fence == base::FenceKind::kEvent;
    REQUIRE(exchange.end_alone(survivor));
    const auto& error = exchange.half(survivor).error();
    if (error)
        CHECK(static_cast<int>(error->status) == static_cast<int>(base::Status::kPeerLost));
    CHECK(exchange.streams_end(survivor));
    if (survivor == 1 && !error && !may_complete_late)
        CHECK((exchange.has_come() || exchange.is_lost_in_stream(survivor)));
    CHECK(job.rank(survivor).left() == "");
}

// One of the two dies after so many steps. False if these are all.
bool kill_after(const Case& what, uint32_t victim, size_t steps, const Exchange::Mode& mode) {
    TestJob job = job_for(what);
    Exchange exchange(job, what, mode);
    const bool moved = exchange.run_until_stuck(steps);
    const bool was_over = exchange.over();
    exchange.kill(victim);
    check_survivor(what, exchange, job, 1 - victim);
    exchange.end_dead(victim);
    return moved && !was_over;
}

TEST_CASE("when a rank dies, at any step, the other one's half ends, and so do its streams") {
    for (const Case& what : cases())
        for (unsigned variant = 0; variant < 8 && !what.to_self; ++variant) {
            CAPTURE(what.name);
            CAPTURE(variant);
            const uint32_t victim = variant & 1;
            const bool is_held = (variant & 4) != 0; // its stream has not come to the message when it dies
            if (is_held && !(victim == 0 ? what.from : what.to).on_stream)
                continue;
            const Exchange::Mode mode{.late_receive = (variant & 2) != 0,
                                      .held_source = is_held && victim == 0,
                                      .held_target = is_held && victim == 1,
                                      .overwrites = false};
            for (size_t steps = 0; kill_after(what, victim, steps, mode); ++steps) {
            }
        }
}

// The copy is enqueued in the program's stream, which goes on.
TEST_CASE("a request that bounces, and whose target dies, is over once nothing reads its buffer any more") {
    const Case what{"bounce", request(Memory::kPinned), request(Memory::kPinned), kLarge, "pull",
                    "bounce", with_mailboxes()};
    TestJob job = job_for(what);
    Exchange exchange(job, what, {.held_source = true, .overwrites = false});
    while (!exchange.has_started(0))
        REQUIRE(exchange.step());
    exchange.kill(1);
    CHECK(exchange.send().error());
    CHECK_FALSE(exchange.send().done());
    exchange.release();
    CHECK(exchange.end_alone(0));
    CHECK(exchange.from().left() == "");
    exchange.end_dead(1);
}

TEST_SUITE_END();
