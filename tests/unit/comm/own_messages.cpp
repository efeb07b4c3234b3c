// Messages of a rank to itself in a stream: those whose receive is made with them need no buffer between.
#include "one_rank.hpp"
#include "transfer/protocol/eager.hpp"
#include "transfer/protocol/pull.hpp"

using namespace gpurun;
using comm::kAnySource;
using gpurun::test::must;
using gpurun::test::OneRank;
using transfer::Ending;

namespace {

constexpr size_t kOwnBytes = 64;
constexpr int kOwnTag = 3;

struct Self {
    OneRank rank{2, gpurun::test::settings_with_mailboxes()};
    const device::Stream stream = must(rank.device().create_stream());
    void* const memory = must(rank.device().allocate(2 * kOwnBytes));
    const transfer::Operand from = rank.operand(memory, kOwnBytes, stream);
    const transfer::Operand into = rank.operand(static_cast<std::byte*>(memory) + kOwnBytes, kOwnBytes, stream);
    transfer::Send send{rank.core.resources(), rank.messages.peer(base::WorldRank{0}), from,
                        transfer::Envelope{rank.world.user_context(), kOwnTag, kOwnBytes},
                        transfer::Send::Mode{.ending = Ending::kTogether}};
    comm::LocalReceive home;

    comm::Pattern pattern(int source) const {
        return comm::Pattern::of(rank.world.group(), rank.world.user_context(), source, kOwnTag);
    }
    // By which protocol the message comes that one call sends and receives.
    transfer::ProtocolId exchange(int source) {
        comm::PostedReceive receive(rank.core.resources(), home, into, pattern(source), {.ending = Ending::kTogether});
        transfer::Send* const sends[] = {&send};
        comm::PostedReceive* const receives[] = {&receive};
        CHECK(static_cast<bool>(rank.messages.complete(sends, receives)));
        must(rank.device().synchronize(stream));
        return receive.op().route()->protocol;
    }
    void send_before(int tag) {
        transfer::Send before{rank.core.resources(), rank.messages.peer(base::WorldRank{0}), from,
                              transfer::Envelope{rank.world.user_context(), tag, kOwnBytes}};
        transfer::Send* const sends[] = {&before};
        CHECK(static_cast<bool>(rank.messages.complete(sends, {})));
    }
};

} // namespace

TEST_SUITE_BEGIN("messages to this rank");

TEST_CASE("a message that its own call receives is copied once") {
    Self self;
    CHECK(self.exchange(0) == transfer::PullPart::kProtocol);
}

TEST_CASE("one that the receive beside it might not take does not wait for it") {
    Self self;
    SUBCASE("it may take another rank's") { CHECK(self.exchange(kAnySource) == transfer::EagerPart::kProtocol); }
    SUBCASE("it may take an earlier one") {
        self.send_before(kOwnTag);
        CHECK(self.exchange(0) == transfer::EagerPart::kProtocol);
    }
    SUBCASE("one that waits already takes it") {
        comm::LocalReceive earlier_home;
        comm::PostedReceive earlier(self.rank.core.resources(), earlier_home, self.into, self.pattern(0),
                                    {.ending = Ending::kTogether});
        comm::PostedReceive beside(self.rank.core.resources(), self.home, self.into, self.pattern(0),
                                   {.ending = Ending::kTogether});
        const comm::EngineLock lock(self.rank.core.mutex());
        self.rank.messages.start(earlier);
        transfer::Send* const sends[] = {&self.send};
        comm::PostedReceive* const receives[] = {&beside};
        self.rank.messages.pair_with_own(sends, receives);
        CHECK_FALSE(self.send.has_receive_beside());
        self.rank.core.matcher().withdraw(earlier);
        self.rank.messages.pair_with_own(sends, receives);
        CHECK(self.send.has_receive_beside());
    }
    SUBCASE("there is none") {
        transfer::Send* const sends[] = {&self.send};
        CHECK(static_cast<bool>(self.rank.messages.complete(sends, {})));
    }
}

namespace {

// Requests in a stream, each series of which is held.
struct HeldRequests {
    static base::Settings settings() {
        base::Settings settings = gpurun::test::settings_with_mailboxes();
        settings.emulated_seed = 1;
        return settings;
    }
    OneRank rank{2, settings()};
    const device::Stream stream = must(rank.device().create_stream());
    std::byte* const memory = static_cast<std::byte*>(must(rank.device().allocate(2 * kOwnBytes)));

    HeldRequests() {
        const comm::EngineLock lock(rank.core.mutex());
        rank.batch.allow(true);
    }
    uint64_t start(comm::Task::Kind kind, std::byte* buffer, int tag) {
        const base::CallScope call("gpurun_isend");
        return rank.requests.start({.kind = kind,
                                    .peer = 0,
                                    .tag = tag,
                                    .comm = &rank.world,
                                    .operand = rank.operand(buffer, kOwnBytes, stream)},
                                   base::this_call().left_ns);
    }
    uint64_t send(int tag = kOwnTag) { return start(comm::Task::Kind::kSend, memory, tag); }
    uint64_t receive(int tag = kOwnTag) { return start(comm::Task::Kind::kReceive, memory + kOwnBytes, tag); }
    // By which protocol the last message that one of them received came.
    std::optional<transfer::ProtocolId> complete(std::vector<uint64_t> names) {
        const base::CallScope call("gpurun_waitall");
        comm::Order order;
        order.domain = transfer::Domain::kStream;
        order.stream = stream;
        std::optional<transfer::ProtocolId> by;
        CHECK(must(
            rank.requests.complete({names, order, comm::Requests::Need::kAll, true, true, base::this_call().left_ns},
                                   [&](size_t, const comm::Request& done) {
                                       if (done.receive)
                                           by = done.receive->made_op()->route()->protocol;
                                   })));
        must(rank.device().synchronize(stream));
        return by;
    }
};

} // namespace

TEST_CASE("so is one between requests that one call completes directly behind their start") {
    HeldRequests requests;
    const uint64_t received = requests.receive(), sent = requests.send();
    CHECK(requests.complete({received, sent}) == transfer::PullPart::kProtocol);
    const uint64_t sent_first = requests.send(), received_then = requests.receive();
    CHECK(requests.complete({received_then, sent_first}) == transfer::PullPart::kProtocol);
}

TEST_CASE("a request to send does not wait for a receive that another message takes") {
    HeldRequests requests;
    SUBCASE("one from before") {
        (void)requests.complete({requests.send()});
        for (int round = 0; round < 3; ++round) {
            const uint64_t received = requests.receive(), sent = requests.send();
            CHECK(requests.complete({received, sent}) == transfer::EagerPart::kProtocol);
        }
    }
    SUBCASE("one that was started before it, and is named behind it") {
        const uint64_t received = requests.receive(), first = requests.send(), second = requests.send();
        CHECK(requests.complete({received, second, first}).has_value());
    }
    SUBCASE("one that fits the older receive") {
        const uint64_t any = requests.receive(comm::kAnyTag), other = requests.receive(kOwnTag + 1);
        const uint64_t to_any = requests.send(kOwnTag + 1), to_none = requests.send(),
                       to_other = requests.send(kOwnTag + 1);
        CHECK(requests.complete({other, any, to_any, to_none, to_other}).has_value());
    }
    (void)requests.complete({requests.receive(comm::kAnyTag)});
}

TEST_SUITE_END();
