#include "transfer/protocol/mail_exchanges.hpp"

#include "test_job.hpp"

#include <algorithm>
#include <deque>

using namespace gpurun;
using namespace gpurun::test;
using transfer::Ending;
using transfer::Operand;

TEST_SUITE_BEGIN("mail exchanges");

namespace {

constexpr size_t kBytes = 1000;

// Messages of two ranks to each other, of calls that are made together in one stream of each.
class Crossing {
  public:
    explicit Crossing(TestJob& job) : job_(job) {
        for (uint32_t self : {0, 1}) {
            TestRank& rank = job.rank(self);
            streams_.push_back(rank.on_stream(rank.on_device(8)).stream);
            rank.match = [this, self](transfer::Peer& source, const InterceptedChannel::Posted& message) {
                Operand into =
                    TestRank::on_stream(job_.rank(self).on_device(message.record.envelope.bytes), streams_[self]);
                transfer::Receive& receive =
                    receives_.emplace_back(job_.rank(self).resources(), into, Ending::kTogether);
                receive.start(source, message.record, message.payload);
                last_is_collected = !exchanges(self).empty();
                return true;
            };
        }
    }
    ~Crossing() {
        for (uint32_t self : {0, 1})
            job_.rank(self).match = nullptr;
    }
    void send(uint32_t from, size_t bytes, int pattern) {
        TestRank& rank = job_.rank(from);
        Operand operand = TestRank::on_stream(rank.on_device(bytes), streams_[from]);
        rank.fill_in_order(operand, pattern);
        sends_.emplace_back(rank.resources(), rank.peer(1 - from), operand, transfer::Envelope{3, 7, bytes},
                            transfer::Send::Mode{.ending = Ending::kTogether});
        sends_.back().start();
    }
    // Until all messages are over.
    bool finish() {
        return comes_true([&] {
            for (const uint32_t self : {0, 1}) {
                while (job_.deliver(1 - self, self)) {
                }
                (void)job_.rank(self).progress();
            }
            const auto is_done = [](const transfer::Operation& each) { return each.done(); };
            return std::all_of(sends_.begin(), sends_.end(), is_done) &&
                   std::all_of(receives_.begin(), receives_.end(), is_done);
        });
    }
    transfer::MailExchanges& exchanges(uint32_t rank) { return job_.rank(rank).resources().exchanges; }
    void deliver(uint32_t from) { REQUIRE(job_.deliver(from, 1 - from)); }
    bool last_is_collected = false; // of what was received
    // What arrived at the rank, in the order of its stream.
    std::vector<std::byte> contents(uint32_t rank, size_t number) {
        for (transfer::Receive& each : receives_)
            if (&each.resources() == &job_.rank(rank).resources() && number-- == 0)
                return job_.rank(rank).contents_in_order(each.operand());
        return {};
    }

  private:
    TestJob& job_;
    std::vector<device::Stream> streams_;
    std::deque<transfer::Send> sends_;
    std::deque<transfer::Receive> receives_;
};

} // namespace

TEST_CASE("what is sent waits for what comes, and both cross at once") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    for (const uint32_t from : {0, 1})
        for (const int number : {1, 2})
            crossing.send(from, kBytes, number + 10 * static_cast<int>(from));
    for (const uint32_t to : {0, 1}) {
        CHECK_FALSE(crossing.exchanges(to).empty());
        crossing.deliver(1 - to);
        crossing.deliver(1 - to);
        (void)job.rank(to).progress();
        CHECK(crossing.last_is_collected);
        CHECK(crossing.exchanges(to).empty());
    }
    REQUIRE(crossing.finish());
    for (const uint32_t to : {0, 1})
        for (const int number : {1, 2})
            CHECK(crossing.contents(to, static_cast<size_t>(number - 1)) ==
                  TestRank::pattern(kBytes, number + 10 * static_cast<int>(1 - to)));
}

// Else the peer could wait for a mail that is behind what waits for the peer.
TEST_CASE("mails are launched before anything else in their stream waits for a peer") {
    for (const size_t bytes : {size_t{0}, size_t{300'000}}) { // eager; pulled
        CAPTURE(bytes);
        TestJob job(2, Setting{});
        Crossing crossing(job);
        crossing.send(0, kBytes, 1);
        CHECK_FALSE(crossing.exchanges(0).empty());
        crossing.send(1, bytes, 2);
        crossing.deliver(1);
        (void)job.rank(0).progress();
        CHECK_FALSE(crossing.last_is_collected);
        REQUIRE(crossing.finish());
        CHECK(crossing.contents(1, 0) == TestRank::pattern(kBytes, 1));
    }
}
