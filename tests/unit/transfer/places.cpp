// Which places in streams are said to be over, how often the device is asked, and which sends are put off.
#include "transfer/places.hpp"
#include "support/unit.hpp"

#include <map>

using namespace gpurun;
using test::must;
using transfer::Place;
using transfer::Places;

namespace {

// A stream's events come in order, as far as `come` says.
struct Subject {
    std::map<void*, uint64_t> came;              // by event
    std::map<void*, std::vector<void*>> streams; // events recorded, in order
    std::vector<void*> idle;
    std::map<void*, uint64_t> names;
    uintptr_t made = 0;
    int asked = 0;
    bool fails = false;

    Places places{{[this](device::Stream stream) { return mark(stream); },
                   [this](device::Event event) { idle.push_back(event.native); },
                   [this](device::Stream stream) { return base::Result<uint64_t>(names[stream.native]); },
                   [this](device::Event event) { return query(event); }}};

    static device::Stream stream(uintptr_t number) { return {reinterpret_cast<void*>(number)}; }
    base::Result<device::Event> mark(device::Stream stream) {
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
        return device::Event{event};
    }
    base::Result<bool> query(device::Event event) {
        ++asked;
        if (fails)
            return base::Error{base::Status::kDevice, "a failed device"};
        return came[event.native] != 0;
    }
    Place keep(uintptr_t number) {
        names.try_emplace(reinterpret_cast<void*>(number), number);
        return must(places.keep(stream(number)));
    }
    void come(const Place& up_to) {
        for (auto& [native, events] : streams) {
            const auto found = std::find(events.begin(), events.end(), up_to.event.native);
            if (found != events.end())
                for (auto each = events.begin(); each <= found; ++each)
                    came[*each] = 1;
        }
    }
    void give_back(const Place& place) {
        std::optional<Place> kept = place;
        places.give_back(kept);
        CHECK_FALSE(kept.has_value());
    }
    // How many of a row's sends are put off.
    int row(int sends) {
        int put_off = 0;
        for (int i = 0; i < sends; ++i)
            put_off += places.puts_off_send() ? 1 : 0;
        places.end_row();
        return put_off;
    }
};

constexpr int kAtOnce = Places::kAtOnce;

} // namespace

TEST_SUITE_BEGIN("places");

TEST_CASE("where the newest place of a stream is over, the device is asked once for all") {
    Subject subject;
    std::vector<Place> places;
    for (int i = 0; i < 64; ++i)
        places.push_back(subject.keep(1));
    subject.come(places.back());
    for (const Place& each : places)
        CHECK(must(subject.places.is_over(each)));
    CHECK(subject.asked == 1);
    for (const Place& each : places)
        subject.give_back(each);
    CHECK(subject.idle.size() == 64);
}

TEST_CASE("a place that something stands before is not over, though those of other streams are") {
    Subject subject;
    const Place held = subject.keep(1), free = subject.keep(2), behind = subject.keep(1);
    subject.come(free);
    CHECK_FALSE(must(subject.places.is_over(held)));
    CHECK_FALSE(must(subject.places.is_over(behind)));
    CHECK(subject.asked == 1); // the second was told by the first
    CHECK(must(subject.places.is_over(free)));
    subject.come(behind);
    CHECK_FALSE(must(subject.places.is_over(held))); // nobody has looked again
    subject.places.look_again();
    CHECK(must(subject.places.is_over(held)));
    CHECK(must(subject.places.is_over(behind)));
    CHECK(subject.asked == 3);
}

TEST_CASE("when the newest place was given back, an older one is asked for itself") {
    Subject subject;
    const Place first = subject.keep(1), second = subject.keep(1);
    subject.give_back(second);
    const Place elsewhere = subject.keep(2); // by the same event
    CHECK(elsewhere.event == second.event);
    subject.come(elsewhere);
    subject.came[first.event.native] = 0;
    CHECK_FALSE(must(subject.places.is_over(first)));
    subject.come(first);
    CHECK(must(subject.places.is_over(first)));
}

TEST_CASE("a released place leaves its event to who has kept it") {
    Subject subject;
    std::optional<Place> kept = subject.keep(1);
    const device::Event event = kept->event;
    CHECK(subject.places.release(kept) == event);
    CHECK_FALSE(kept.has_value());
    CHECK(subject.idle.empty());
}

TEST_CASE("a stream that has another one's handle is another stream") {
    Subject subject;
    const Place before = subject.keep(1);
    subject.names[Subject::stream(1).native] = 77; // it was destroyed, and made again
    const Place after = subject.keep(1);
    subject.came[after.event.native] = 1; // what was before it has not come
    CHECK(must(subject.places.is_over(after)));
    CHECK_FALSE(must(subject.places.is_over(before)));
}

TEST_CASE("places of more streams than are remembered are asked for themselves") {
    Subject subject;
    std::vector<Place> places;
    for (uintptr_t each = 1; each <= 40; ++each)
        places.push_back(subject.keep(each));
    for (const Place& each : places) {
        CHECK_FALSE(must(subject.places.is_over(each)));
        subject.come(each);
        subject.places.look_again();
        CHECK(must(subject.places.is_over(each)));
    }
}

TEST_CASE("a device that fails says so") {
    Subject subject;
    const Place place = subject.keep(1);
    subject.fails = true;
    CHECK(!subject.places.is_over(place));
    CHECK(!subject.places.keep(Subject::stream(1)));
}

TEST_CASE("sends are put off in long rows, from the second on after one") {
    Subject subject;
    for (int i = 0; i < 10; ++i)
        CHECK(subject.row(kAtOnce) == 0);
    CHECK(subject.row(64) == 64 - kAtOnce);
    subject.places.end_row(); // one without sends
    CHECK(subject.row(64) == 63);
    CHECK(subject.row(1) == 0);
    CHECK(subject.row(kAtOnce + 1) == 1);
}

TEST_CASE("after a send that was put off in a busy stream, some long rows are not") {
    Subject subject;
    subject.row(64);
    const Place place = subject.keep(1);
    CHECK_FALSE(must(subject.places.is_over_for_send(place)));
    CHECK(subject.asked > 1); // it was worth some time
    for (uint32_t i = 0; i < Places::kRowsAtOnce; ++i) {
        CHECK(subject.row(64) == 0);
        CHECK(subject.row(1) == 0);
    }
    CHECK(subject.row(64) > 0);
    subject.come(place);
    subject.places.look_again();
    CHECK(must(subject.places.is_over_for_send(place)));
    CHECK(subject.row(64) > 0);
}
