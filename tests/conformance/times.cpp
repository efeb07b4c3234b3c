// Times: when an operation ran, as its device says.
#include "box.hpp"
#include "clock_window.hpp"
#include "slot.hpp"

#include <cstdlib>
#include <new>

using namespace gpurun;
using namespace gpurun::conformance;

TEST_SUITE_BEGIN("times");

namespace {

constexpr size_t kSizes[] = {1, 4096, kLargestMail};

class PinnedTimes {
  public:
    explicit PinnedTimes(size_t count) : memory_(count * sizeof(device::Times)) {
        for (size_t i = 0; i < count; ++i)
            new (memory_.get() + i * sizeof(device::Times)) device::Times{};
    }
    device::Times* operator[](size_t index) const { return reinterpret_cast<device::Times*>(memory_.get()) + index; }

  private:
    Pinned memory_;
};

} // namespace

TEST_CASE("the device's clock goes as fast as the CPU's, as far as readings tell") {
    constexpr int64_t kDrift = 1000; // a clock that is off by more than a thousandth is none
    const auto first = must(subject().read_clock());
    const int64_t before_ns = platform::now_ns();
    watch();
    const auto last = must(subject().read_clock());
    CHECK(first.host_ns <= before_ns);
    CHECK(last.host_ns >= before_ns);
    CHECK(first.error_ns <= 1'000'000);
    const int64_t host_ns = last.host_ns - first.host_ns;
    const int64_t device_ns = last.device_ns - first.device_ns;
    CHECK(std::abs(host_ns - device_ns) <= host_ns / kDrift + first.error_ns + last.error_ns + 2000);
}

TEST_CASE("a mail's two sides ran between their call and their end, and the target's not before the source's") {
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        const PinnedTimes times(2);
        Box box;
        const Memory source(bytes);
        const Memory destination(bytes);
        const Stream sender;
        const Stream receiver;
        box.time(times[0], times[1]);
        box.begin();
        ClockWindow window;
        box.take(destination.get(), bytes, true, receiver);
        watch();
        const int64_t put_ns = platform::now_ns();
        box.put(source.get(), bytes, sender);
        receiver.finish();
        sender.finish();
        window.close();
        window.check(*times[0], put_ns);
        window.check(*times[1], put_ns);
        CHECK(times[1]->done >= times[0]->began); // one device, one clock
    }
}

TEST_CASE("mails that share an operation have times each") {
    constexpr size_t kMails = 3;
    constexpr size_t kBytes = 100;
    const PinnedTimes times(2 * kMails);
    Box boxes[kMails];
    const Memory source(kBytes);
    const Memory destination(kMails * kBytes);
    const Stream sender;
    const Stream receiver;
    std::vector<device::OutgoingMail> puts;
    std::vector<device::IncomingMail> takes;
    for (size_t i = 0; i < kMails; ++i) {
        boxes[i].time(i == 1 ? nullptr : times[2 * i], times[2 * i + 1]); // one of them does not want to know
        boxes[i].begin();
        puts.push_back({boxes[i].outgoing(kBytes), source.get()});
        takes.push_back({boxes[i].incoming(kBytes), destination.get() + i * kBytes, kBytes});
    }
    ClockWindow window;
    REQUIRE_OK(subject().take_mails(takes, receiver));
    watch();
    const int64_t first_ns = platform::now_ns();
    REQUIRE_OK(subject().put_mails(std::span(puts).first(2), sender));
    sender.finish();
    REQUIRE(reads(boxes[0].taken(), boxes[0].value()));
    const int64_t last_ns = platform::now_ns();
    REQUIRE_OK(subject().put_mails(std::span(puts).last(1), sender));
    receiver.finish();
    sender.finish();
    window.close();
    for (const size_t i : {0, 1, 2}) {
        CAPTURE(i);
        window.check(*times[2 * i + 1], i == 2 ? last_ns : first_ns);
        if (i != 1)
            window.check(*times[2 * i], i == 2 ? last_ns : first_ns);
    }
    CHECK(times[2]->done == 0);
}

TEST_CASE("a fenced copy ran between its call and its end, and moved once its edge was there") {
    for (const size_t bytes : {size_t{16}, size_t{100'000}, size_t{4} << 20})
        for (const bool waits : {true, false}) {
            CAPTURE(bytes);
            CAPTURE(waits);
            const PinnedTimes times(1);
            Slot slot;
            const Memory source(bytes);
            const Memory destination(bytes);
            const Stream stream;
            slot.time(times[0]);
            slot.begin();
            ClockWindow window;
            slot.copy(destination.get(), source.get(), bytes, waits, stream);
            if (waits)
                watch();
            const int64_t release_ns = platform::now_ns();
            slot.release();
            stream.finish();
            window.close();
            if (!waits) {
                CHECK(times[0]->began == 0);
                times[0]->began = times[0]->moving.load();
            }
            if (waits)
                window.check(*times[0], release_ns);
            else
                window.check(*times[0]);
        }
}

TEST_CASE("a time is written once what is before it in the stream is over, and not before") {
    const PinnedTimes times(1);
    const size_t edge = new_counter();
    const size_t after = new_counter();
    const Memory memory(4096);
    const Pinned content(4096);
    const Stream stream;
    ClockWindow window;
    REQUIRE_OK(subject().write_time(stream, &times[0]->began));
    REQUIRE_OK(subject().await_counter(stream, &counter(edge), 1));
    REQUIRE_OK(subject().write_time(stream, &times[0]->moving));
    REQUIRE_OK(subject().copy(memory.get(), content.get(), 4096, stream));
    REQUIRE_OK(subject().write_counter(stream, &counter(after), 1));
    REQUIRE_OK(subject().write_time(stream, &times[0]->done));
    watch();
    CHECK(times[0]->moving == 0);
    const int64_t release_ns = platform::now_ns();
    store(edge, 1);
    REQUIRE(reads(after, 1)); // whoever waits for it is not held up by the time behind it
    stream.finish();
    window.close();
    window.check(*times[0], release_ns);
    CHECK(times[0]->began < times[0]->moving);
}

TEST_CASE("times of many streams are written side by side") {
    constexpr size_t kStreams = 8;
    const PinnedTimes times(kStreams);
    const size_t edge = new_counter();
    const Stream streams[kStreams];
    ClockWindow window;
    for (size_t i = 0; i < kStreams; ++i) {
        REQUIRE_OK(subject().await_counter(streams[i], &counter(edge), 1));
        for (auto device::Times::*const which : {&device::Times::began, &device::Times::moving, &device::Times::done})
            REQUIRE_OK(subject().write_time(streams[i], &(times[i]->*which)));
    }
    watch();
    const int64_t release_ns = platform::now_ns();
    store(edge, 1);
    for (const Stream& each : streams)
        each.finish();
    window.close();
    for (size_t i = 0; i < kStreams; ++i)
        window.check(*times[i], release_ns);
}

TEST_CASE("an operation that ends by poison says when") {
    const PinnedTimes times(1);
    Box box;
    const Memory destination(kLargestMail);
    const Stream receiver;
    box.time(nullptr, times[0]);
    box.begin();
    ClockWindow window;
    box.take(destination.get(), kLargestMail, true, receiver);
    watch();
    const int64_t poison_ns = platform::now_ns();
    store(box.sent(), kReleaseAll | 1);
    receiver.finish();
    window.close();
    window.check(*times[0], poison_ns);
}

TEST_SUITE_END();
