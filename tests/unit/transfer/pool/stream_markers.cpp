// Which markers are said to be passed, how often the device is asked, and which sends are deferred.
#include "transfer/pool/stream_markers.hpp"
#include "support/made_up.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

using namespace gpurun;
using test::must;
using transfer::Marker;
using transfer::StreamMarkers;

namespace {

// A stream's events come in order, as far as pass() says.
struct Subject {
    std::map<void*, uint64_t> came;              // by event
    std::map<void*, std::vector<void*>> streams; // events recorded, in order
    std::vector<void*> idle;
    std::map<void*, uint64_t> names;
    uintptr_t made = 0;
    int asked = 0;
    bool fails = false;

    StreamMarkers markers{{[this](device::Stream stream) { return record(stream); },
                           [this](device::Event event) { idle.push_back(event.native); },
                           [this](device::Stream stream) { return base::Result<uint64_t>(names[stream.native]); },
                           [this](device::Event event) { return query(event); }}};

    static device::Stream stream(uintptr_t number) { return gpurun::test::made_up<device::Stream>(number); }
    base::Result<device::Event> record(device::Stream stream) {
        if (fails)
            return base::Error{base::Status::kDevice, "no events"};
        void* event = nullptr;
        if (idle.empty()) {
            event = reinterpret_cast<void*>(0x1000 + ++made);
        } else {
            event = idle.back();
            idle.pop_back();
        }
        came[event] = 0;
        streams[stream.native].push_back(event);
        return gpurun::test::made_up<device::Event>(event);
    }
    base::Result<bool> query(device::Event event) {
        ++asked;
        if (fails)
            return base::Error{base::Status::kDevice, "a failed device"};
        return came[event.native] != 0;
    }
    Marker set(uintptr_t number) {
        names.try_emplace(reinterpret_cast<void*>(number), number);
        return must(markers.set(stream(number)));
    }
    void pass(const Marker& up_to) {
        for (auto& [native, events] : streams) {
            const auto found = std::find(events.begin(), events.end(), up_to.event.native);
            if (found != events.end())
                for (auto each = events.begin(); each <= found; ++each)
                    came[*each] = 1;
        }
    }
    void give_back(const Marker& marker) {
        std::optional<Marker> kept = marker;
        markers.give_back(kept);
        CHECK_FALSE(kept.has_value());
    }
    // How many of a batch's sends are deferred.
    int batch(int sends) {
        int deferred = 0;
        for (int i = 0; i < sends; ++i)
            deferred += markers.defers_send() ? 1 : 0;
        markers.end_batch();
        return deferred;
    }
};

constexpr int kAtOnce = StreamMarkers::kAtOnce;

} // namespace

TEST_SUITE_BEGIN("stream markers");

TEST_CASE("where the newest marker of a stream is passed, the device is asked once for all") {
    Subject subject;
    std::vector<Marker> markers;
    for (int i = 0; i < 64; ++i)
        markers.push_back(subject.set(1));
    subject.pass(markers.back());
    for (const Marker& each : markers)
        CHECK(must(subject.markers.is_passed(each)));
    CHECK(subject.asked == 1);
    for (const Marker& each : markers)
        subject.give_back(each);
    CHECK(subject.idle.size() == 64);
}

TEST_CASE("a marker that something stands before is not passed, though those of other streams are") {
    Subject subject;
    const Marker held = subject.set(1), free = subject.set(2), behind = subject.set(1);
    subject.pass(free);
    CHECK_FALSE(must(subject.markers.is_passed(held)));
    CHECK_FALSE(must(subject.markers.is_passed(behind)));
    CHECK(subject.asked == 1); // the second was told by the first
    CHECK(must(subject.markers.is_passed(free)));
    subject.pass(behind);
    CHECK_FALSE(must(subject.markers.is_passed(held))); // nobody has looked again
    subject.markers.look_again();
    CHECK(must(subject.markers.is_passed(held)));
    CHECK(must(subject.markers.is_passed(behind)));
    CHECK(subject.asked == 3);
}

TEST_CASE("when the newest marker was given back, an older one is asked for itself") {
    Subject subject;
    const Marker first = subject.set(1), second = subject.set(1);
    subject.give_back(second);
    const Marker elsewhere = subject.set(2); // by the same event
    CHECK(elsewhere.event == second.event);
    subject.pass(elsewhere);
    subject.came[first.event.native] = 0;
    CHECK_FALSE(must(subject.markers.is_passed(first)));
    subject.pass(first);
    CHECK(must(subject.markers.is_passed(first)));
}

TEST_CASE("a stream that has another one's handle is another stream") {
    Subject subject;
    const Marker before = subject.set(1);
    subject.names[Subject::stream(1).native] = 77; // it was destroyed, and made again
    const Marker after = subject.set(1);
    subject.came[after.event.native] = 1; // what was before it has not come
    CHECK(must(subject.markers.is_passed(after)));
    CHECK_FALSE(must(subject.markers.is_passed(before)));
}

TEST_CASE("markers of more streams than are remembered are asked for themselves") {
    Subject subject;
    std::vector<Marker> markers;
    for (uintptr_t each = 1; each <= 40; ++each)
        markers.push_back(subject.set(each));
    for (const Marker& each : markers) {
        CHECK_FALSE(must(subject.markers.is_passed(each)));
        subject.pass(each);
        subject.markers.look_again();
        CHECK(must(subject.markers.is_passed(each)));
    }
}

TEST_CASE("a device that fails says so") {
    Subject subject;
    const Marker marker = subject.set(1);
    subject.fails = true;
    CHECK(!subject.markers.is_passed(marker));
    CHECK(!subject.markers.set(Subject::stream(1)));
}

TEST_CASE("sends are deferred in long batches, from the second on after one") {
    Subject subject;
    for (int i = 0; i < 10; ++i)
        CHECK(subject.batch(kAtOnce) == 0);
    CHECK(subject.batch(64) == 64 - kAtOnce);
    subject.markers.end_batch(); // one without sends
    CHECK(subject.batch(64) == 63);
    CHECK(subject.batch(1) == 0);
    CHECK(subject.batch(kAtOnce + 1) == 1);
}

TEST_CASE("after a send that was deferred in a busy stream, those of some long batches are not") {
    Subject subject;
    subject.batch(64);
    const Marker marker = subject.set(1);
    CHECK_FALSE(must(subject.markers.is_passed_for_send(marker)));
    CHECK(subject.asked > 1); // it was worth some time
    for (uint32_t i = 0; i < StreamMarkers::kBatchesAtOnce; ++i) {
        CHECK(subject.batch(64) == 0);
        CHECK(subject.batch(1) == 0);
    }
    CHECK(subject.batch(64) > 0);
    subject.pass(marker);
    subject.markers.look_again();
    CHECK(must(subject.markers.is_passed_for_send(marker)));
    CHECK(subject.batch(64) > 0);
}

TEST_CASE("requests that one call starts share a marker of each stream, and nobody else does") {
    Subject subject;
    const Marker before = subject.set(1);
    subject.markers.begin_sharing();
    const Marker first = subject.set(1), other = subject.set(2), second = subject.set(1);
    subject.markers.end_sharing();
    const Marker after = subject.set(1);
    CHECK(first.event == second.event);
    CHECK(first.event != before.event);
    CHECK(first.event != other.event);
    CHECK(after.event != first.event);
    CHECK(subject.made == 4);
    subject.markers.begin_sharing();
    const Marker of_next = subject.set(1);
    subject.markers.end_sharing();
    CHECK(of_next.event != first.event);

    subject.give_back(first);
    CHECK(subject.idle.empty()); // the second has it
    CHECK_FALSE(must(subject.markers.is_passed(second)));
    subject.pass(of_next); // and so all before it
    subject.markers.look_again();
    CHECK(must(subject.markers.is_passed(second)));
    subject.give_back(second);
    CHECK(subject.idle == std::vector<void*>{first.event.native});
}
