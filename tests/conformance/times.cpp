// Times: when a mail or a fenced copy ran, as its device says.
#include "box.hpp"
#include "clock_window.hpp"
#include "slot.hpp"

namespace gpurun::conformance::times {

TEST_SUITE_BEGIN("times");

namespace {

constexpr size_t kSizes[] = {1, 4096, kLargestMail};

} // namespace

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
    REQUIRE_OK(subject().mails()->take_mails(takes, receiver));
    watch();
    const int64_t first_ns = platform::now_ns();
    REQUIRE_OK(subject().mails()->put_mails(std::span(puts).first(2), sender));
    sender.finish();
    REQUIRE(reads(boxes[0].taken(), boxes[0].value()));
    const int64_t last_ns = platform::now_ns();
    REQUIRE_OK(subject().mails()->put_mails(std::span(puts).last(1), sender));
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

} // namespace gpurun::conformance::times
