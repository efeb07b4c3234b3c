#include "transfer/protocol/exchanges.hpp"

#include "test_job.hpp"

#include <algorithm>
#include <deque>

using namespace gpurun;
using namespace gpurun::test;
using transfer::Ending;
using transfer::Operand;

TEST_SUITE_BEGIN("exchanges of a stream");

namespace {

constexpr size_t kBytes = 1000;
constexpr size_t kLong = size_t{1} << 20;

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
                transfer::Receive& receive = receives_.emplace_back(job_.rank(self).resources(), into, receive_ending);
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
    // `beside`: so many ranks send to its target at the same time.
    void send(uint32_t from, size_t bytes, int pattern, uint32_t beside = 1) {
        TestRank& rank = job_.rank(from);
        Operand operand = TestRank::on_stream(rank.on_device(bytes), streams_[from]);
        rank.fill_in_order(operand, pattern);
        sends_.emplace_back(rank.resources(), rank.peer(1 - from), operand, transfer::Envelope{3, 7, bytes},
                            transfer::Send::Mode{.ending = Ending::kTogether, .beside = beside});
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
    Ending receive_ending = Ending::kTogether;
    transfer::Receive& received(size_t number) { return receives_[number]; }
    const transfer::Send& last_sent() const { return sends_.back(); }
    device::Stream stream(uint32_t rank) const { return streams_[rank]; }
    // Sends so many from rank 0, which rank 1 gets.
    void send_and_deliver(int count) {
        for (int number = 1; number <= count; ++number)
            send(0, kBytes, number);
        exchanges(0).launch();
        for (int number = 1; number <= count; ++number)
            deliver(0);
        (void)job_.rank(1).progress();
    }
    transfer::Exchanges& exchanges(uint32_t rank) { return job_.rank(rank).resources().exchanges; }
    void deliver(uint32_t from) { REQUIRE(job_.deliver(from, 1 - from)); }
    void deliver_and_advance(uint32_t from) {
        deliver(from);
        (void)job_.rank(1 - from).progress();
    }
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
    Setting by_engine;
    by_engine.settings.kernel_copy_bytes = 1024;
    by_engine.settings.mail_bytes = 256 << 10;
    for (const size_t bytes : {size_t{0}, size_t{300'000}}) { // eager; pulled by a copy engine
        CAPTURE(bytes);
        TestJob job(2, by_engine);
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

TEST_CASE("long messages both ways are signalled, pulled and awaited in one kernel on each side") {
    Setting pulled;
    pulled.settings.mail_bytes = kLong / 2;
    TestJob job(2, pulled);
    Crossing crossing(job);
    for (const uint32_t from : {0, 1})
        crossing.send(from, kLong, static_cast<int>(from));
    for (const uint32_t from : {0, 1}) {
        CHECK(crossing.exchanges(from).signals());
        crossing.deliver(from);
    }
    for (const uint32_t to : {0, 1})
        job.rank(to).poll_all(); // matches, and tells that it pulls
    for (const uint32_t rank : {0, 1})
        CHECK(crossing.exchanges(rank).signals()); // not launched yet
    for (const uint32_t from : {0, 1}) {
        crossing.deliver_and_advance(from);
        CHECK(job.rank(1 - from).device->awaited == 1);
    }
    REQUIRE(crossing.finish());
    for (const uint32_t to : {0, 1})
        CHECK(crossing.contents(to, 0) == TestRank::pattern(kLong, static_cast<int>(1 - to)));
}

TEST_CASE("a mail is shorter the more ranks send to its target, and short ones always go") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    const auto is_mail = [&](size_t bytes, uint32_t beside) {
        crossing.send(0, bytes, 1, beside);
        const bool has_slot = crossing.last_sent().edge().valid; // a rendezvous has one
        REQUIRE(crossing.finish());
        return !has_slot;
    };
    CHECK(is_mail(kLong, 1));
    CHECK_FALSE(is_mail(kLong, 2));
    CHECK(is_mail(kLong / 2, 3));
    CHECK_FALSE(is_mail(kLong / 2, 4));
    CHECK(is_mail(128 << 10, 100));
    CHECK_FALSE(is_mail(129 << 10, 100));
}

TEST_CASE("long messages of collectives are copied by kernels, where others of their length are not") {
    Setting by_engine;
    by_engine.settings.kernel_copy_bytes = 64 << 10;
    by_engine.settings.mail_bytes = 4096;
    struct Case {
        Ending ending;
        size_t bytes;
        bool by_kernel;
    };
    for (const Case& each :
         {Case{Ending::kTogether, size_t{64} << 10, true}, Case{Ending::kTogether, size_t{65} << 10, false},
          Case{Ending::kOfCollective, size_t{1} << 20, true},
          Case{Ending::kOfCollective, (size_t{1} << 20) + 16, false}}) {
        CAPTURE(each.bytes);
        TestJob job(2, by_engine);
        Crossing crossing(job);
        crossing.receive_ending = each.ending;
        crossing.send(0, each.bytes, 1);
        crossing.exchanges(0).launch();
        crossing.deliver(0);
        job.rank(1).poll_all();
        CHECK(crossing.last_is_collected == each.by_kernel);
        REQUIRE(crossing.finish());
        CHECK(crossing.contents(1, 0) == TestRank::pattern(each.bytes, 1));
    }
}

TEST_CASE("what requests have got is taken where they are completed, by one kernel for all") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kByCompletion;
    crossing.send_and_deliver(2);
    for (const size_t number : {0, 1}) {
        CHECK(crossing.received(number).enqueued());
        CHECK_FALSE(crossing.received(number).done());
    }
    CHECK(job.rank(1).resources().left.size() == 2);
    CHECK(crossing.exchanges(1).empty());
    for (const size_t number : {0, 1}) {
        must(crossing.received(number).complete_into(crossing.stream(1)));
        CHECK(crossing.received(number).done());
    }
    CHECK(job.rank(1).resources().left.empty());
    CHECK_FALSE(crossing.exchanges(1).empty());
    crossing.exchanges(1).launch();
    for (const size_t number : {0, 1})
        CHECK(crossing.contents(1, number) == TestRank::pattern(kBytes, static_cast<int>(number) + 1));
    REQUIRE(crossing.finish());
}

TEST_CASE("completed into another stream, it is taken behind the receive's place in its own") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kByCompletion;
    HeldStream held(job.rank(1).resources().device, crossing.stream(1));
    crossing.send_and_deliver(1);
    const device::Stream other = job.rank(1).on_stream(job.rank(1).on_device(8)).stream;
    must(crossing.received(0).complete_into(other));
    crossing.exchanges(1).launch();
    CHECK_FALSE(must(job.rank(1).resources().device.query(other)));
    held.open();
    const Operand in_other = TestRank::on_stream(crossing.received(0).operand(), other);
    CHECK(job.rank(1).contents_in_order(in_other) == TestRank::pattern(kBytes, 1));
    REQUIRE(crossing.finish());
}

TEST_CASE("where its end is wanted in the host's order, it is taken at once") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kByCompletion;
    crossing.send_and_deliver(1);
    crossing.received(0).enqueue_left();
    CHECK(job.rank(1).resources().left.empty());
    must(job.rank(1).resources().fused.launch());
    REQUIRE(crossing.finish());
    CHECK(crossing.contents(1, 0) == TestRank::pattern(kBytes, 1));
}

TEST_CASE("what was left begins before it is completed, by one kernel for all or by copy engines, once it waits for "
          "nothing") {
    constexpr int kMessages = 3;
    size_t bytes = 0, kernels = 0;
    SUBCASE("by one kernel") { bytes = kLong, kernels = 1; }
    SUBCASE("by copy engines") { bytes = transfer::FusedMessages::kLongestPull + 1; }
    Setting pulled;
    pulled.settings.mail_bytes = kBytes;
    TestJob job(2, pulled);
    Crossing crossing(job);
    crossing.receive_ending = Ending::kByCompletion;
    TestRank& target = job.rank(1);
    target.resources().leaves_series = true;
    HeldStream held(target.resources().device, crossing.stream(1));
    for (int number = 1; number <= kMessages; ++number)
        crossing.send(0, bytes, number);
    const auto begin = [&] {
        target.pools().markers.look_again();
        target.resources().left.for_each([](transfer::Operation& each) { each.begin_left(); });
        return target.resources().left.size();
    };
    for (int number = 1; number <= kMessages; ++number)
        crossing.deliver_and_advance(0);
    CHECK(begin() == kMessages); // the source's stream has not come to the sends
    crossing.exchanges(0).launch();
    REQUIRE(comes_true([&] { return job.rank(0).idle(crossing.stream(0)); }));
    CHECK(begin() == kMessages); // nor the target's to the receives
    held.open();
    (void)target.device->take_enqueued();
    REQUIRE(comes_true([&] { return begin() == 0; }));
    must(target.resources().fused.launch());
    const auto enqueued = target.device->take_enqueued();
    CHECK(enqueued.kernels == kernels);
    CHECK(enqueued.copies == (kernels == 0 ? kMessages : 0));
    CHECK(enqueued.counter_waits == 0);
    for (int number = 1; number <= kMessages; ++number) {
        const auto index = static_cast<size_t>(number - 1);
        must(crossing.received(index).complete_into(crossing.stream(1)));
        CHECK(crossing.contents(1, index) == TestRank::pattern(bytes, number));
    }
    REQUIRE(crossing.finish());
}

TEST_CASE("what a call awaits in a stream is awaited by few kernels if it is much, else by the stream itself") {
    constexpr size_t kByStream = 3, kAll = kByStream + device::kMostExchanged + 2;
    TestJob job(2, Setting{});
    TestRank& rank = job.rank(0);
    transfer::Exchanges& exchanges = rank.resources().exchanges;
    device::Device& device = rank.device->real();
    auto* const counters = static_cast<device::Counter*>(must(device.allocate_pinned(kAll * sizeof(device::Counter))));
    const device::Stream stream = rank.on_stream(rank.on_device(8)).stream;
    for (size_t i = 0; i < kAll; ++i)
        new (&counters[i]) device::Counter(0);
    CHECK_FALSE(exchanges.await_at_once({&counters[0], 1}, stream)); // outside of such a call
    exchanges.begin_completion();
    for (size_t i = 0; i < kAll; ++i)
        CHECK(exchanges.await_at_once({&counters[i], 1}, stream) == (i >= kByStream));
    exchanges.end_completion();
    exchanges.launch();
    CHECK(rank.device->take_enqueued().kernels == 2);
    for (size_t i = kByStream; i < kAll; ++i) {
        CHECK_FALSE(rank.idle(stream));
        platform::store_and_wake(counters[i], 1);
    }
    REQUIRE(comes_true([&] { return rank.idle(stream); }));
    must(device.free_pinned(counters));
}

TEST_CASE("mails that are kept are reduced where they are, behind what is put and before what is put next") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kKept;
    crossing.send_and_deliver(2);
    crossing.receive_ending = Ending::kTogether;
    TestRank& rank = job.rank(1);
    transfer::Exchanges& exchanges = crossing.exchanges(1);
    REQUIRE(exchanges.can_reduce());
    crossing.send(1, kBytes, 3);
    device::FusedReduction::Operand operands[2];
    for (const size_t number : {0, 1}) {
        REQUIRE(crossing.received(number).is_left());
        operands[number] = must(crossing.received(number).hand_over(crossing.stream(1)));
        CHECK(crossing.received(number).done());
    }
    Operand result = TestRank::on_stream(rank.on_device(kBytes), crossing.stream(1));
    exchanges.reduce({{base::Type::kUint8, base::Op::kSum, 0}, kBytes, result.address, operands}, crossing.stream(1));
    CHECK_FALSE(exchanges.empty());
    crossing.send(1, kBytes, 4); // launches the reduction
    CHECK_FALSE(exchanges.empty());
    std::vector<std::byte> sum = TestRank::pattern(kBytes, 1);
    const std::vector<std::byte> other = TestRank::pattern(kBytes, 2);
    for (size_t i = 0; i < kBytes; ++i)
        sum[i] = static_cast<std::byte>(static_cast<unsigned>(sum[i]) + static_cast<unsigned>(other[i]));
    CHECK(rank.contents_in_order(result) == sum);
    exchanges.launch();
    REQUIRE(crossing.finish());
}

namespace {

// Of what the two ranks contribute.
std::vector<std::byte> largest_of_two() {
    std::vector<std::byte> largest = TestRank::pattern(kLong, 1);
    const std::vector<std::byte> other = TestRank::pattern(kLong, 2);
    std::transform(largest.begin(), largest.end(), other.begin(), largest.begin(),
                   [](std::byte one, std::byte two) { return std::max(one, two); });
    return largest;
}

// Rank 0 contributes a long buffer, which its peer can map or not, and wants the answer in another.
struct Contribution {
    explicit Contribution(TestJob& job, Crossing& crossing, bool is_mapped = true)
        : from(job.rank(0)),
          input(TestRank::on_stream(is_mapped ? from.on_device(kLong) : from.ordered(kLong), crossing.stream(0))),
          answer(TestRank::on_stream(from.on_device(kLong), crossing.stream(0))) {
        from.fill_in_order(input, 1);
        send.emplace(from.resources(), from.peer(1), input, transfer::Envelope{3, 7, kLong},
                     transfer::Send::Mode{
                         .ending = Ending::kTogether, .reduced = transfer::Reduced::kPassedOn, .answer = answer});
        send->start();
    }
    TestRank& from;
    Operand input, answer;
    std::optional<transfer::Send> send;
};

// At rank 1, where it has been left, with a buffer of its own. Whether the answer is written, too.
bool reduce_where_it_is(TestJob& job, Crossing& crossing) {
    TestRank& rank = job.rank(1);
    device::FusedReduction::Operand operands[2];
    Operand own = TestRank::on_stream(rank.on_device(kLong), crossing.stream(1));
    rank.fill_in_order(own, 2);
    operands[0] = must(crossing.received(0).hand_over(crossing.stream(1)));
    REQUIRE(operands[0].is_peers());
    CHECK(crossing.received(0).done());
    operands[1].buffer = own.address;
    crossing.exchanges(1).reduce({{base::Type::kUint8, base::Op::kMax, 0}, kLong, own.address, operands},
                                 crossing.stream(1));
    crossing.exchanges(1).launch();
    crossing.deliver_and_advance(1); // finish
    CHECK(rank.contents_in_order(own) == largest_of_two());
    return operands[0].answer != nullptr;
}

} // namespace

TEST_CASE("a long contribution is reduced where it is, and the answer written to where its source wants it") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kKept;
    Contribution contribution(job, crossing);
    CHECK_FALSE(crossing.exchanges(0).empty()); // the signal of the forward edge
    crossing.exchanges(0).launch();
    crossing.deliver_and_advance(0);
    REQUIRE(crossing.received(0).is_left());
    CHECK(reduce_where_it_is(job, crossing));
    CHECK(contribution.send->done());
    CHECK(contribution.send->answer_written());
    CHECK(contribution.from.contents_in_order(contribution.answer) == largest_of_two());
    REQUIRE(crossing.finish());
}

TEST_CASE("a long contribution that is not reduced is pulled to its place, and its answer is yet to be sent") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kKept;
    Contribution contribution(job, crossing);
    crossing.exchanges(0).launch();
    crossing.deliver_and_advance(0);
    REQUIRE(crossing.received(0).is_left());
    must(crossing.received(0).complete_into(crossing.stream(1)));
    crossing.exchanges(1).launch();
    crossing.deliver_and_advance(1);
    CHECK(contribution.send->done());
    CHECK_FALSE(contribution.send->answer_written());
    CHECK(crossing.contents(1, 0) == TestRank::pattern(kLong, 1));
    REQUIRE(crossing.finish());
}

// Its source's stream goes on once the copy is made, and would read the answer before it is written.
TEST_CASE("a contribution that bounces is reduced where its copy is, and its answer is yet to be sent") {
    Setting setting;
    setting.settings.mail_bytes = 4096; // so that it is no mail
    TestJob job(2, setting);
    Crossing crossing(job);
    crossing.receive_ending = Ending::kKept;
    Contribution contribution(job, crossing, false);
    crossing.exchanges(0).launch();
    crossing.deliver_and_advance(0);
    REQUIRE(crossing.received(0).is_left());
    CHECK_FALSE(reduce_where_it_is(job, crossing));
    CHECK(contribution.send->done());
    CHECK_FALSE(contribution.send->answer_written());
    REQUIRE(crossing.finish());
}

TEST_CASE("what waits for the end of a contribution waits in the kernel that reduces what came for it") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kKept;
    Contribution contribution(job, crossing);
    transfer::Exchanges& exchanges = crossing.exchanges(0);
    exchanges.launch();
    crossing.deliver_and_advance(0);
    crossing.send(1, kBytes, 5);
    crossing.deliver_and_advance(1);
    device::FusedReduction::Operand operands[2];
    operands[0] = must(crossing.received(1).hand_over(crossing.stream(0)));
    operands[1].buffer = contribution.input.address;
    Operand result = TestRank::on_stream(contribution.from.on_device(kBytes), crossing.stream(0));
    exchanges.reduce({{base::Type::kUint8, base::Op::kMax, 0}, kBytes, result.address, operands}, crossing.stream(0));
    must(crossing.received(0).complete_into(crossing.stream(1)));
    crossing.deliver_and_advance(1); // finish
    CHECK(contribution.send->done());
    CHECK(contribution.from.device->awaited == 1);
    crossing.exchanges(1).launch();
    must(contribution.from.resources().device.synchronize(crossing.stream(0)));
    CHECK(crossing.contents(1, 0) == TestRank::pattern(kLong, 1));
    REQUIRE(crossing.finish());
}

TEST_CASE("a mail that is kept is taken to its place in memory where it is not reduced") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kKept;
    crossing.send_and_deliver(1);
    REQUIRE(crossing.received(0).is_left());
    must(crossing.received(0).complete_into(crossing.stream(1)));
    crossing.exchanges(1).launch();
    CHECK(crossing.contents(1, 0) == TestRank::pattern(kBytes, 1));
    REQUIRE(crossing.finish());
}

TEST_CASE("no more mails are left in their slots than one kernel takes") {
    TestJob job(2, Setting{});
    Crossing crossing(job);
    crossing.receive_ending = Ending::kByCompletion;
    crossing.send_and_deliver(static_cast<int>(device::kMostExchanged) + 2);
    CHECK(job.rank(1).resources().left.size() == device::kMostExchanged);
    while (transfer::Operation* const left = job.rank(1).resources().left.front())
        left->enqueue_left();
    must(job.rank(1).resources().fused.launch());
    REQUIRE(crossing.finish());
}

TEST_CASE("a mail that was left is taken after its source has died, and one that had not come fails") {
    for (const bool has_come : {true, false}) {
        CAPTURE(has_come);
        TestJob job(2, Setting{});
        Crossing crossing(job);
        crossing.receive_ending = Ending::kByCompletion;
        crossing.send(0, kBytes, 1);
        if (has_come) {
            crossing.exchanges(0).launch();
            must(job.rank(0).resources().device.synchronize(crossing.stream(0)));
        }
        crossing.deliver(0);
        (void)job.rank(1).progress();
        CHECK(job.rank(1).resources().left.size() == 1);
        must(job.segment.mark_dead(0));
        job.rank(1).lose(0);
        must(crossing.received(0).complete_into(crossing.stream(1)));
        CHECK(crossing.received(0).done());
        CHECK(crossing.received(0).error().has_value() != has_come);
        crossing.exchanges(1).launch();
        if (has_come)
            CHECK(crossing.contents(1, 0) == TestRank::pattern(kBytes, 1));
        crossing.exchanges(0).launch();
    }
}
