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

constexpr size_t kBytes = 64;
constexpr int kOwnTag = 3;

struct Self {
    OneRank rank{2, gpurun::test::settings_with_mailboxes()};
    const device::Stream stream = must(rank.device().create_stream());
    void* const memory = must(rank.device().allocate(2 * kBytes));
    const transfer::Operand from = rank.operand(memory, kBytes, stream);
    const transfer::Operand into = rank.operand(static_cast<std::byte*>(memory) + kBytes, kBytes, stream);
    transfer::Send send{rank.core.resources(), rank.messages.peer(base::WorldRank{0}), from,
                        transfer::Envelope{rank.world.user_context(), kOwnTag, kBytes},
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
                              transfer::Envelope{rank.world.user_context(), tag, kBytes}};
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

TEST_CASE("of requests that one call completes directly behind their start, too, whatever their order") {
    base::Settings settings = gpurun::test::settings_with_mailboxes();
    settings.emulated_seed = 1; // each series is held
    OneRank rank{2, settings};
    {
        const comm::EngineLock lock(rank.core.mutex());
        rank.batch.allow(true);
    }
    const device::Stream stream = must(rank.device().create_stream());
    auto* const memory = static_cast<std::byte*>(must(rank.device().allocate(2 * kBytes)));
    const auto start = [&](comm::Task::Kind kind, std::byte* buffer) {
        const base::CallScope call("gpurun_isend");
        return rank.requests.start({.kind = kind,
                                    .peer = 0,
                                    .tag = kOwnTag,
                                    .comm = &rank.world,
                                    .operand = rank.operand(buffer, kBytes, stream)},
                                   base::this_call().left_ns);
    };
    constexpr auto kSend = comm::Task::Kind::kSend, kReceive = comm::Task::Kind::kReceive;
    for (const bool sends_first : {false, true}) {
        CAPTURE(sends_first);
        uint64_t names[2];
        names[0] = start(sends_first ? kSend : kReceive, memory + (sends_first ? 0 : kBytes));
        names[1] = start(sends_first ? kReceive : kSend, memory + (sends_first ? kBytes : 0));
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
        CHECK(by == transfer::PullPart::kProtocol);
        must(rank.device().synchronize(stream));
    }
}

TEST_SUITE_END();
