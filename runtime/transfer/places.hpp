// Places of requests in streams of the user's: whether all that stands before one there is over, so that a small
// message may be moved at once, and share a kernel with others.
//
// To record an event is cheap; to ask the device about one is not (it reads over the bus: half a launch and more, once
// as much as 2.5 us). So each request keeps its place by an event of its own, but the newest place of a stream is asked
// for all: if that is over, so are those before it. What was not over is not asked again until look_again().
//
// Sends are put off behind their places only where that promises something (puts_off_send()): each row of starts, which
// ends with a call that waits or completes, begins with some that go into their stream at once, unless the one before
// was long; and where a stream was found busy, the next rows go at once, too.
//
// One a rank, in Context; used under the engine lock.
#pragma once

#include "device/device.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

namespace gpurun::transfer {

struct Place {
    device::Event event;
    uint64_t stream = 0; // its name (Device::name)
    uint64_t number = 0; // later places have greater ones
};

class Places {
  public:
    // What the device can be asked, and what keeps events.
    struct Ground {
        std::function<base::Result<device::Event>(device::Stream)> mark;
        std::function<void(device::Event)> give_back;
        std::function<base::Result<uint64_t>(device::Stream)> name;
        std::function<base::Result<bool>(device::Event)> query;
    };
    explicit Places(Ground ground) : ground_(std::move(ground)) {}

    // The place of what is started in `stream` now.
    base::Result<Place> keep(device::Stream stream);
    // A number for that place, of which no event is kept.
    uint64_t take_number() { return ++places_; }
    // Whoever has kept it needs it no more; release() leaves the event to the caller, who gives it back.
    void give_back(std::optional<Place>& place);
    device::Event release(std::optional<Place>& place);
    // May say no although it is.
    base::Result<bool> is_over(const Place& place);
    // The same of a send that was put off: with others, so it is worth a few microseconds.
    base::Result<bool> is_over_for_send(const Place& place);
    // From now on places that were not over may be.
    void look_again() { ++looks_; }

    // Whether a small send that is being started should be put off behind its place. Counts it.
    bool puts_off_send() { return ++sends_in_row_ > (last_was_long_ ? 1 : kAtOnce) && rows_at_once_ == 0; }
    void end_row();

    static constexpr uint32_t kAtOnce = 4;            // sends of a row, which do not wait to learn whether more follow
    static constexpr uint32_t kRowsAtOnce = 16;       // after a stream was found busy
    static constexpr int64_t kLongestLookNs = 10'000; // a place that nothing stands before is over within three

  private:
    // What is known of a stream.
    struct Stream {
        uint64_t name = 0;
        std::optional<device::Event> newest; // while it is kept
        uint64_t newest_number = 0;
        uint64_t over = 0; // all places up to this number
        uint64_t busy = 0; // when it was asked last and was not idle (looks_)
    };
    Stream* find(uint64_t name);
    void forget(const Place& place);
    base::Result<bool> ask(const Place& place, int64_t longest_ns);

    const Ground ground_;
    std::array<Stream, 8> streams_; // in turn; of others nothing is known
    size_t next_stream_ = 0;
    uint64_t places_ = 0;
    uint64_t looks_ = 1;
    uint64_t waited_ = 0; // for a stream that was not idle at once (looks_): only for one at a time
    uint32_t sends_in_row_ = 0;
    bool last_was_long_ = false;
    uint32_t rows_at_once_ = 0;
};

} // namespace gpurun::transfer
