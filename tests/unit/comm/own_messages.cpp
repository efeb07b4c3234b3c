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

    // By which protocol the message comes that one call sends and receives.
    transfer::ProtocolId exchange(int source) {
        comm::PostedReceive receive(rank.core.resources(), home, into,
                                    comm::Pattern::of(rank.world.group(), rank.world.user_context(), source, kOwnTag),
                                    {.ending = Ending::kTogether});
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
    SUBCASE("there is none") {
        transfer::Send* const sends[] = {&self.send};
        CHECK(static_cast<bool>(self.rank.messages.complete(sends, {})));
    }
}

TEST_SUITE_END();
