// Run logs: when each run of a channel's operations was, as the device says.
//
// As in channels.cpp, nothing is allocated or waited for while something waits, and streams go first.
#include "clock_window.hpp"
#include "line.hpp"

#include <deque>
#include <new>

namespace gpurun::conformance::run_logs {

TEST_SUITE_BEGIN("run logs");

namespace {

constexpr uint32_t kPuts = 7; // names
constexpr uint32_t kTakes = 9;
constexpr device::ExchangeBlocks kBlocks = {16, 16};

class Log {
  public:
    explicit Log(uint64_t room) : pinned_(sizeof(uint64_t) + room * sizeof(platform::RunTimes)) {
        write(count_.get(), Bytes(sizeof(uint64_t)));
        log_.taken = reinterpret_cast<uint64_t*>(count_.get());
        log_.lost = new (pinned_.get()) std::atomic<uint64_t>{0};
        log_.places = reinterpret_cast<platform::RunTimes*>(pinned_.get() + sizeof(uint64_t));
        log_.room = room;
        for (uint64_t i = 0; i < room; ++i)
            new (&log_.places[i]) platform::RunTimes{};
    }
    const device::RunLog* get() const { return &log_; }
    uint64_t lost() const { return *log_.lost; }
    uint64_t taken() const {
        const Bytes count = read(count_.get(), sizeof(uint64_t));
        uint64_t value = 0;
        std::memcpy(&value, count.data(), sizeof value);
        return value;
    }
    // Null if there is none.
    const platform::RunTimes* find(uint32_t name, uint64_t run) const {
        for (uint64_t i = 0; i < log_.room; ++i)
            if (log_.places[i].name == name && log_.places[i].run == run)
                return &log_.places[i];
        return nullptr;
    }
    const platform::OperationTimes& times(uint32_t name, uint64_t run) const {
        const platform::RunTimes* const found = find(name, run);
        REQUIRE(found != nullptr);
        return found->times;
    }
    uint64_t told() const {
        uint64_t found = 0;
        for (uint64_t i = 0; i < log_.room; ++i)
            found += log_.places[i].name != 0 ? 1 : 0;
        return found;
    }

  private:
    const Memory count_{sizeof(uint64_t)};
    const Pinned pinned_;
    device::RunLog log_;
};

device::Channel part(device::Channel channel, bool first, bool last) {
    channel.first_of_run = first;
    channel.last_of_run = last;
    return channel;
}

} // namespace

TEST_CASE("each run of both sides has a place, and the target moves not before the source") {
    constexpr uint64_t kRuns = 5;
    for (const bool together : {false, true})
        for (const size_t bytes : {size_t{0}, size_t{8}, size_t{5000}, kLargestInChannel}) {
            CAPTURE(together);
            CAPTURE(bytes);
            const Log log(2 * kRuns);
            Line line(bytes);
            line.log(log.get(), kPuts, kTakes);
            const Memory source(kLargestInChannel);
            const Memory target(kLargestInChannel);
            const Stream sender, receiver;
            const device::ChannelPut puts[] = {{line.source(), source.get()}};
            const device::ChannelTake takes[] = {{line.target(), target.get(), bytes}};
            device::Channels& channels = *subject().channels();
            const Graph put(sender, [&](device::Stream in) {
                REQUIRE_OK(together ? channels.channel_exchange(puts, {}, kBlocks, in)
                                    : channels.channel_put(puts[0].channel, puts[0].source, in));
            });
            const Graph take(receiver, [&](device::Stream in) {
                REQUIRE_OK(together
                               ? channels.channel_exchange({}, takes, kBlocks, in)
                               : channels.channel_take(takes[0].channel, takes[0].destination, takes[0].bytes, in));
            });
            ClockWindow window;
            std::vector<int64_t> put_ns;
            for (uint64_t run = 0; run < kRuns; ++run) {
                take.launch(receiver);
                REQUIRE(soon([&] { return line.target_wait().runs == run + 1; }));
                put_ns.push_back(platform::now_ns());
                put.launch(sender);
                receiver.finish();
                sender.finish();
            }
            window.close();
            CHECK(log.told() == 2 * kRuns);
            CHECK(log.lost() == 0);
            for (uint64_t run = 0; run < kRuns; ++run) {
                CAPTURE(run);
                const auto& sent = log.times(kPuts, run);
                const auto& taken = log.times(kTakes, run);
                window.check(sent, put_ns[run]);
                window.check(taken, put_ns[run]);
                CHECK(taken.began < sent.began); // it was there first, and waited
                CHECK(taken.done >= sent.began);
            }
            line.check_runs(kRuns, kRuns);
        }
}

TEST_CASE("a run that several operations make has one place, from the first's wait to the last's end") {
    constexpr uint64_t kRuns = 3;
    const Log log(2 * kRuns);
    Line line(0);
    line.log(log.get(), kPuts, kTakes);
    const Memory source(4096);
    const Memory target(4096);
    const Stream sender, receiver;
    const auto both = [&](device::Stream in) {
        REQUIRE_OK(subject().channels()->channel_put(part(line.source(), true, false), nullptr, in));
        REQUIRE_OK(subject().channels()->channel_await_taken(part(line.source(), false, true), in));
    };
    const auto three = [&](device::Stream in) {
        REQUIRE_OK(subject().channels()->channel_await_put(part(line.target(), true, false), in));
        REQUIRE_OK(subject().copy(target.get(), source.get(), 4096, in));
        REQUIRE_OK(subject().channels()->channel_tell_taken(part(line.target(), false, true), in));
    };
    const Graph put(sender, both);
    const Graph take(receiver, three);
    ClockWindow window;
    for (uint64_t run = 0; run < kRuns; ++run) {
        CAPTURE(run);
        put.launch(sender);
        CHECK(soon([&] { return log.told() >= 2 * run + 1; })); // while it waits
        take.launch(receiver);
        receiver.finish();
        sender.finish();
    }
    window.close();
    CHECK(log.told() == 2 * kRuns);
    for (uint64_t run = 0; run < kRuns; ++run) {
        CAPTURE(run);
        const auto& sent = log.times(kPuts, run);
        const auto& taken = log.times(kTakes, run);
        window.check(sent);
        window.check(taken);
        CHECK(sent.done >= taken.moving); // it was awaited
    }
}

TEST_CASE("pulls have a place, too, whether somebody has waited before them or not") {
    for (const bool waits_before : {false, true}) {
        CAPTURE(waits_before);
        const Log log(1);
        Line line(0);
        line.log(log.get(), kPuts, kTakes);
        const Memory source(100'000);
        const Memory target(100'000);
        const Stream sender, receiver;
        const Graph put(sender, [&](device::Stream in) {
            device::Channel silent = line.source();
            silent.log = nullptr;
            REQUIRE_OK(subject().channels()->channel_put(silent, nullptr, in));
        });
        const Graph take(receiver, [&](device::Stream in) {
            if (waits_before)
                REQUIRE_OK(subject().channels()->channel_await_put(part(line.target(), true, false), in));
            REQUIRE_OK(subject().channels()->channel_pull(part(line.target(), !waits_before, true), target.get(),
                                                          source.get(), 100'000, line.ticket(), in));
        });
        ClockWindow window;
        take.launch(receiver);
        REQUIRE(soon([&] { return line.target_wait().runs == 1; }));
        const int64_t put_ns = platform::now_ns();
        put.launch(sender);
        receiver.finish();
        sender.finish();
        window.close();
        CHECK(log.told() == 1);
        window.check(log.times(kTakes, 0), put_ns);
    }
}

TEST_CASE("runs beyond the room are counted, and touch nothing") {
    constexpr uint64_t kRuns = 6;
    constexpr uint64_t kRoom = 5;
    const Log log(kRoom);
    Line line(16);
    line.log(log.get(), kPuts, kTakes);
    const Memory source(16);
    const Memory target(16);
    const Stream sender, receiver;
    const Graph put(sender, [&](device::Stream in) { line.put(source.get(), in); });
    const Graph take(receiver, [&](device::Stream in) { line.take(target.get(), 16, in); });
    for (uint64_t run = 0; run < kRuns; ++run) {
        put.launch(sender);
        take.launch(receiver);
        receiver.finish();
        sender.finish();
    }
    CHECK(log.told() == kRoom);
    CHECK(log.taken() == 2 * kRuns);
    CHECK(log.lost() == 2 * kRuns - kRoom);
    line.check_runs(kRuns, kRuns);
}

TEST_CASE("channels that run side by side share a log, and no place") {
    constexpr size_t kLines = 6;
    constexpr uint64_t kRuns = 20;
    const Log log(2 * kLines * kRuns);
    std::deque<Line> lines;
    for (size_t i = 0; i < kLines; ++i)
        lines.emplace_back(8).log(log.get(), static_cast<uint32_t>(2 * i + 1), static_cast<uint32_t>(2 * i + 2));
    const Memory source(8);
    const Memory target(kLines * 8);
    const Stream senders[kLines], receivers[kLines];
    std::vector<Graph> puts, takes;
    for (size_t i = 0; i < kLines; ++i) {
        puts.emplace_back(senders[i], [&](device::Stream in) { lines[i].put(source.get(), in); });
        takes.emplace_back(receivers[i], [&](device::Stream in) { lines[i].take(target.get() + 8 * i, 8, in); });
    }
    for (uint64_t run = 0; run < kRuns; ++run)
        for (size_t i = 0; i < kLines; ++i) {
            puts[i].launch(senders[i]);
            takes[i].launch(receivers[i]);
        }
    for (size_t i = 0; i < kLines; ++i) {
        receivers[i].finish();
        senders[i].finish();
    }
    CHECK(log.told() == 2 * kLines * kRuns);
    for (uint32_t name = 1; name <= 2 * kLines; ++name)
        for (uint64_t run = 0; run < kRuns; ++run)
            CHECK(log.find(name, run) != nullptr);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::run_logs
