// Stream markers: events that say where requests stand in streams of the program's. Once everything before its marker
// is over (the marker is *passed*), a small message may be moved at once, and share a kernel with others.
//
// Recording an event is cheap; asking the device about one is not (a read over the bus: half a launch or more, up to
// 2.5 us). So each request records an event, and the newest marker of a stream is asked for all: if that is passed, so
// are those before it. A stream whose newest marker was not passed is not asked again until look_again().
//
// A small send is deferred behind its marker only if that promises a gain (defers_send()). The first few sends of a
// batch go into their stream at once, and, after a stream was found busy, so do all sends of the next batches.
//
// Requests that one call starts share a marker of their stream, since nothing of the program's is between them.
//
// One a rank; used under the engine lock.
#pragma once

#include "device/device.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gpurun::transfer {

struct Marker {
    device::Event event;
    uint64_t stream = 0; // its name (Device::name)
    uint64_t number = 0; // later markers have greater ones
    bool shared = false; // with other requests of the call
};

class StreamMarkers {
  public:
    // What it needs of the device and of the pool of events.
    struct Source {
        std::function<base::Result<device::Event>(device::Stream)> record;
        std::function<void(device::Event)> give_back;
        std::function<base::Result<uint64_t>(device::Stream)> name;
        std::function<base::Result<bool>(device::Event)> query;
    };
    explicit StreamMarkers(Source source) : source_(std::move(source)) {}

    // A marker of where `stream` is now.
    base::Result<Marker> set(device::Stream stream);
    // While one call starts several requests: what it sets in a stream is one marker.
    void begin_sharing() { shares_since_ = numbers_ + 1; }
    void end_sharing() { shares_since_.reset(); }
    // Only the number of such a marker.
    uint64_t take_number() { return ++numbers_; }
    // Nobody needs it any more.
    void give_back(std::optional<Marker>& marker);
    // May be false although it is passed.
    base::Result<bool> is_passed(const Marker& marker);
    // The same for a deferred send, on which others depend: takes a few microseconds if need be.
    base::Result<bool> is_passed_for_send(const Marker& marker);
    // From now on streams whose markers were not passed are asked again.
    void look_again() { ++looks_; }

    // Whether a small send that is being started should be deferred behind its marker. Counts it.
    bool defers_send() { return ++sends_in_batch_ > (last_was_long_ ? 1 : kAtOnce) && batches_at_once_ == 0; }
    void end_batch();

    static constexpr uint32_t kAtOnce = 4;            // sends of a batch that are never deferred
    static constexpr uint32_t kBatchesAtOnce = 16;    // after a stream was found busy
    static constexpr int64_t kLongestLookNs = 10'000; // a marker with nothing before it is passed within 3 us

  private:
    // What is known of a stream.
    struct Stream {
        uint64_t name = 0;
        std::optional<device::Event> newest; // while it is kept
        uint64_t newest_number = 0;
        uint64_t passed = 0; // all markers up to this number
        uint64_t busy = 0;   // when it was asked last and was not idle (looks_)
    };
    // A marker, and how many requests have it.
    struct Shared {
        Marker marker;
        device::Stream stream;
        uint32_t users = 1;
    };
    Stream* find(uint64_t name);
    std::optional<Marker> share(device::Stream stream);
    bool others_have(const Marker& marker);
    base::Result<bool> ask(const Marker& marker, int64_t longest_ns);

    const Source source_;
    std::array<Stream, 8> streams_; // the last few; of others nothing is known
    size_t next_stream_ = 0;
    uint64_t numbers_ = 0;
    std::optional<uint64_t> shares_since_; // the number of the first marker that the call may have set
    std::vector<Shared> shared_;           // in the order of their numbers
    uint64_t looks_ = 1;
    uint64_t waited_ = 0; // for a stream that was not idle at once (looks_): only for one at a time
    uint32_t sends_in_batch_ = 0;
    bool last_was_long_ = false;
    uint32_t batches_at_once_ = 0;
};

} // namespace gpurun::transfer
