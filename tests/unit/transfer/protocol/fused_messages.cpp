#include "transfer/protocol/fused_messages.hpp"

#include "test_job.hpp"

#include <algorithm>
#include <deque>
#include <new>

using namespace gpurun;
using namespace gpurun::test;
using transfer::InternalStreams;

using transfer::Ending;
using transfer::Operand;

TEST_SUITE_BEGIN("fused messages");

namespace {

constexpr size_t kMailed = 100;
constexpr size_t kCopied = 100'000;

// Requests of two ranks to each other, of device memory.
class Requested {
  public:
    explicit Requested(TestJob& job) : job_(job) {
        for (const uint32_t self : {0, 1})
            job.rank(self).match = [this, self](transfer::Peer& source, const InterceptedChannel::Posted& message) {
                TestRank& rank = job_.rank(self);
                receives_[self].emplace_back(rank.resources(), rank.on_device(message.record.envelope.bytes),
                                             Ending::kByCompletion);
                receives_[self].back().start(source, message.record, message.payload);
                return true;
            };
    }
    ~Requested() {
        for (const uint32_t self : {0, 1})
            job_.rank(self).match = nullptr;
    }
    void send(uint32_t from, size_t bytes, int pattern, bool in_stream = false) {
        TestRank& rank = job_.rank(from);
        const Operand operand = rank.on_device(bytes);
        rank.fill(operand, pattern);
        send(from, in_stream ? rank.on_stream(operand) : operand);
    }
    void send(uint32_t from, const Operand& operand) {
        TestRank& rank = job_.rank(from);
        sends_.emplace_back(rank.resources(), rank.peer(1 - from), operand, transfer::Envelope{3, 7, operand.bytes},
                            transfer::Send::Mode{.ending = Ending::kByCompletion});
        sends_.back().start();
    }
    // What has come to the rank is received, and collected.
    void poll(uint32_t to) {
        while (job_.deliver(1 - to, to)) {
        }
        job_.rank(to).poll_all();
    }
    ScriptedDevice::Enqueued launched(uint32_t self) {
        TestRank& rank = job_.rank(self);
        (void)rank.device->take_enqueued();
        must(fused(self).launch());
        return rank.device->take_enqueued();
    }
    size_t launch(uint32_t self) { // returns how many kernels and copies that took
        const ScriptedDevice::Enqueued enqueued = launched(self);
        return enqueued.kernels + enqueued.copies;
    }
    transfer::FusedMessages& fused(uint32_t self) { return job_.rank(self).resources().fused; }
    // Until all are over.
    bool finish() {
        return comes_true([&] {
            for (const uint32_t self : {0, 1}) {
                poll(self);
                (void)fused(self).launch();
                (void)job_.rank(self).progress();
            }
            const auto is_done = [](const transfer::Operation& each) { return each.done(); };
            return std::all_of(sends_.begin(), sends_.end(), is_done) &&
                   std::all_of(receives_[0].begin(), receives_[0].end(), is_done) &&
                   std::all_of(receives_[1].begin(), receives_[1].end(), is_done);
        });
    }
    std::vector<std::byte> contents(uint32_t to, size_t number) {
        return job_.rank(to).contents(receives_[to][number].operand());
    }
    transfer::Send& sent_last(size_t number) { return sends_[sends_.size() - 1 - number]; }
    const transfer::Receive& last_received(uint32_t to) const { return receives_[to].back(); }

  private:
    TestJob& job_;
    std::deque<transfer::Send> sends_;
    std::deque<transfer::Receive> receives_[2];
};

} // namespace

TEST_CASE("what crosses in the host's order goes by one kernel on each side, whether it is put, taken or pulled") {
    const std::vector<std::vector<size_t>> all = {
        {kMailed}, {kCopied, kCopied}, {kMailed, kMailed}, {kCopied, kCopied, kMailed}};
    for (const std::vector<size_t>& sizes : all) {
        CAPTURE(sizes.size());
        CAPTURE(sizes.front());
        TestJob job(2, Setting{});
        Requested requested(job);
        for (const uint32_t from : {0, 1})
            for (size_t i = 0; i < sizes.size(); ++i)
                requested.send(from, sizes[i], static_cast<int>(10 * from + i));
        for (const uint32_t self : {0, 1}) {
            requested.poll(self);
            CHECK_FALSE(requested.fused(self).empty());
        }
        for (const uint32_t self : {0, 1}) {
            CHECK(requested.launch(self) == 1);
            CHECK(requested.fused(self).empty());
        }
        REQUIRE(requested.finish());
        for (const uint32_t to : {0, 1})
            for (size_t i = 0; i < sizes.size(); ++i)
                CHECK(requested.contents(to, i) == TestRank::pattern(sizes[i], static_cast<int>(10 * (1 - to) + i)));
    }
}

TEST_CASE("a lone copy goes by a copy engine, but for ranks that share a GPU: then by a kernel") {
    for (const bool one_device : {false, true}) {
        CAPTURE(one_device);
        Setting setting;
        setting.one_device = one_device;
        TestJob job(2, setting);
        Requested requested(job);
        requested.send(0, kCopied, 5);
        requested.poll(1);
        const ScriptedDevice::Enqueued launched = requested.launched(1);
        CHECK(launched.copies == (one_device ? 0 : 1));
        CHECK(launched.kernels == (one_device ? 1 : 0));
        REQUIRE(requested.finish());
        CHECK(requested.contents(1, 0) == TestRank::pattern(kCopied, 5));
    }
}

TEST_CASE("more copies than a kernel takes, and more mails than go with them, take more kernels") {
    TestJob job(2, Setting{});
    Requested requested(job);
    const Operand copied = job.rank(0).on_device(kCopied); // which is mapped once: before that what is collected goes
    job.rank(0).fill(copied, 3);
    for (size_t i = 0; i < device::kMostPulled + 1; ++i)
        requested.send(0, copied);
    for (size_t i = 0; i < device::kMostExchanged + 1; ++i)
        requested.send(1, kMailed, static_cast<int>(i));
    (void)job.rank(1).device->take_enqueued();
    requested.poll(1);
    CHECK(job.rank(1).device->take_enqueued().kernels == 2); // all mails, and as many copies as a kernel takes
    CHECK(requested.launch(1) == 1);
    REQUIRE(requested.finish());
    for (size_t i = 0; i < device::kMostPulled + 1; ++i)
        CHECK(requested.contents(1, i) == TestRank::pattern(kCopied, 3));
    for (size_t i = 0; i < device::kMostExchanged + 1; ++i)
        CHECK(requested.contents(0, i) == TestRank::pattern(kMailed, static_cast<int>(i)));
}

// It may be of a stream that is held up at its source, until what this rank's stream sends next.
TEST_CASE("a stream that waits for what was put does not wait for what was taken by the same kernel") {
    constexpr int kPuts = 4; // so many that share a kernel could be awaited by one event
    TestJob job(2, Setting{});
    Requested requested(job);
    TestRank& source = job.rank(0);
    Operand behind = source.on_stream(source.on_device(kMailed));
    source.fill(behind, 5);
    std::optional<HeldStream> held(std::in_place, *source.device, behind.stream);
    requested.send(0, behind);
    requested.poll(1);
    for (int i = 0; i < kPuts; ++i)
        requested.send(1, kMailed, i);
    CHECK_FALSE(requested.fused(1).empty());
    const device::Stream stream = job.rank(1).on_stream(job.rank(1).on_device(8)).stream;
    (void)requested.launch(1);
    for (int i = 0; i < kPuts; ++i)
        REQUIRE_OK(requested.sent_last(i).complete_into(stream));
    CHECK(comes_true([&] { return must(job.rank(1).device->query(stream)); }));
    CHECK_FALSE(requested.last_received(1).done());
    held.reset();
    REQUIRE(requested.finish());
    CHECK(requested.contents(1, 0) == TestRank::pattern(kMailed, 5));
}

TEST_CASE("long copies have a kernel of their own, and no mail waits for them") {
    constexpr size_t kLongest = size_t{2} << 20;
    TestJob job(2, Setting{});
    Requested requested(job);
    for (const uint32_t from : {0, 1}) {
        requested.send(from, kLongest, 1);
        requested.send(from, kMailed, 2);
    }
    requested.poll(0);
    requested.poll(1);
    for (const uint32_t self : {0, 1})
        CHECK(requested.launch(self) == 2);
    REQUIRE(requested.finish());
    for (const uint32_t to : {0, 1}) {
        CHECK(requested.contents(to, 0) == TestRank::pattern(kLongest, 1));
        CHECK(requested.contents(to, 1) == TestRank::pattern(kMailed, 2));
    }
}

// That one may wait for the copy, which must be enqueued by then.
TEST_CASE("a copy whose source is in a stream is not kept for others") {
    TestJob job(2, Setting{});
    Requested requested(job);
    requested.send(0, kCopied, 1, true);
    requested.poll(1);
    CHECK(requested.fused(1).empty());
    REQUIRE(requested.finish());
    CHECK(requested.contents(1, 0) == TestRank::pattern(kCopied, 1));
}

TEST_CASE("where the kernel cannot be launched, whoever waits for its messages is released") {
    for (const size_t bytes : {kMailed, kCopied}) {
        CAPTURE(bytes);
        TestJob job(2, Setting{});
        Requested requested(job);
        for (const uint32_t from : {0, 1})
            requested.send(from, bytes, 1);
        requested.poll(1);
        job.rank(1).device->works_for = 0;
        CHECK_FALSE(static_cast<bool>(requested.fused(1).launch()));
        CHECK(requested.fused(1).empty());
        job.rank(1).device->works_for = SIZE_MAX;
        const auto is_poisoned = [](const transfer::Operation& each) {
            const auto point = each.awaited();
            return point && platform::is_poisoned(point->fence->counter(point->edge, point->slot).load());
        };
        CHECK(is_poisoned(requested.last_received(1)));
        job.rank(0).lose(1);
        job.rank(1).lose(0);
        REQUIRE(requested.finish());
    }
}

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
    transfer::FusedMessages& mails = rank.resources().fused;
    (void)must(mails.put(put));
    REQUIRE_OK(mails.launch());
    CHECK(comes_true([&] { return platform::load_published(edges->sent) == put.mail.value; }));
}
