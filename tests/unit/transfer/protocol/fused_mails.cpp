#include "transfer/protocol/fused_mails.hpp"

#include "test_job.hpp"

#include <deque>
#include <new>

using namespace gpurun;
using namespace gpurun::test;
using transfer::InternalStreams;

TEST_SUITE_BEGIN("fused mails");

// The peers' mails that these streams wait for may be behind takes of what is put here.
TEST_CASE("puts go though every stream for messages waits for a peer") {
    constexpr size_t kBytes = 8;
    TestJob job(2, Setting{});
    TestRank& rank = job.rank(0);
    InternalStreams& streams = rank.pools().streams;
    std::deque<HeldStream> held;
    for (size_t i = 0; i < streams.limits().messages; ++i) {
        const device::Stream stream = must(streams.take());
        held.emplace_back(*rank.device, stream);
        streams.give_back(stream, InternalStreams::State::kWaiting);
    }

    struct Edges {
        device::Counter sent{0}, taken{0};
    };
    auto* const edges = new (rank.pinned(sizeof(Edges)).address) Edges;
    device::OutgoingMail put;
    put.mail.words = rank.on_device(device::mail_words_bytes(kBytes)).address;
    put.mail.bytes = kBytes;
    put.mail.mark = 1;
    put.mail.sent = &edges->sent;
    put.mail.taken = &edges->taken;
    put.mail.value = 2;
    put.source = rank.on_device(kBytes).address;
    transfer::FusedMails& mails = rank.resources().mails;
    (void)must(mails.put(put));
    REQUIRE_OK(mails.launch());
    CHECK(comes_true([&] { return platform::load_published(edges->sent) == put.mail.value; }));
}
