// Channels between two processes: each has one side, in a graph of its own.
#include "line.hpp"
#include "other_process.hpp"

namespace gpurun::conformance::shared_channels {

TEST_SUITE_BEGIN("shared channels");

namespace {

// The other process's side of channels, with what of its memory this process uses.
struct Far {
    OtherProcess& other;
    uint32_t memory, places, taken, turns;
    explicit Far(OtherProcess& process)
        : other(process), memory(process.allocate(kBuffer)), places(cleared(kPlaces)), taken(cleared(kCounts)),
          turns(cleared(kCounts)) {}

    // For a message of a channel that has not been used yet.
    void clear() const {
        clear(places, kPlaces);
        clear(taken, kCounts);
        clear(turns, kCounts);
    }
    ChannelOrder order(uint32_t places_used, uint32_t taken_used) const {
        ChannelOrder order;
        order.places = places_used;
        order.taken = taken_used;
        order.turns = turns;
        order.buffer = memory;
        order.alive = alive;
        order.cut = cut;
        return order;
    }

    static constexpr size_t kBuffer = 1 << 20;
    static constexpr size_t kPlaces = kChannelPlaces * device::channel_place_bytes(kLargestInChannel);
    static constexpr size_t kCounts = 2 * device::kMostLanes * sizeof(uint64_t); // with room for a ticket

    uint32_t cleared(size_t bytes) const {
        const uint32_t made = other.allocate(bytes);
        clear(made, bytes);
        return made;
    }
    void clear(uint32_t object, size_t bytes) const {
        other.fill(object, 0, bytes);
        other.synchronize();
    }

    const uint32_t alive = static_cast<uint32_t>(new_counter()), cut = static_cast<uint32_t>(new_counter());
};

// This process's side.
struct Near {
    Near() : places(Far::kPlaces), taken(Far::kCounts), turns(Far::kCounts) { clear(); }
    void clear() const {
        write(places.get(), Bytes(Far::kPlaces));
        write(taken.get(), Bytes(Far::kCounts));
        write(turns.get(), Bytes(Far::kCounts));
    }
    device::Channel channel(std::byte* places_used, std::byte* taken_used, size_t bytes) const {
        device::Channel channel;
        channel.places = places_used;
        channel.taken = reinterpret_cast<uint64_t*>(taken_used);
        channel.turns = reinterpret_cast<uint64_t*>(turns.get());
        channel.bytes = bytes;
        channel.alive = &counter(alive);
        channel.cut = &counter(cut);
        return channel;
    }

    const Memory places, taken, turns;
    const size_t alive = new_counter(), cut = new_counter();
};

constexpr unsigned kFarRuns = 2 * kChannelPlaces + 1;

} // namespace

TEST_CASE("messages go to another process's graph") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const Far far(other);
        const Near near;
        const Import places(other.peer(), other.export_memory(far.places));
        const uint32_t far_taken = other.import_memory(must(subject().export_memory(near.taken.describe())));
        const Memory source(kLargestInChannel + kSkews);
        const Pinned fresh(kLargestInChannel);
        const Stream stream;
        for (const size_t bytes : {size_t{1}, size_t{9}, size_t{4097}, kLargestInChannel}) {
            CAPTURE(bytes);
            near.clear();
            far.clear();
            const size_t skew = bytes % kSkews;
            const Graph put(stream, [&](device::Stream in) {
                REQUIRE_OK(subject().copy(source.get() + skew, fresh.get(), bytes, in));
                REQUIRE_OK(subject().channels()->channel_put(near.channel(places.get(), near.taken.get(), bytes),
                                                             source.get() + skew, in));
            });
            ChannelOrder order = far.order(far.places, far_taken);
            order.bytes = static_cast<uint32_t>(bytes);
            order.offset = 3;
            order.bytes_got = bytes;
            const uint32_t take = other.take_from_channel(order);
            for (unsigned run = 0; run < kFarRuns; ++run) {
                put_pattern(fresh.get(), bytes, run);
                if (run % 2 == 0)
                    other.launch(take);
                put.launch(stream);
                if (run % 2 != 0)
                    other.launch(take);
                stream.finish();
                REQUIRE(other.matches_pattern(far.memory, 3, bytes, run));
            }
        }
        other.close(far_taken);
    }
}

TEST_CASE("messages come from another process's graph") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const Far far(other);
        const Near near;
        const Import taken(other.peer(), other.export_memory(far.taken));
        const uint32_t far_places = other.import_memory(must(subject().export_memory(near.places.describe())));
        const Pinned destination(kLargestInChannel);
        const Stream stream;
        for (const size_t bytes : {size_t{1}, size_t{9}, size_t{4097}, kLargestInChannel}) {
            CAPTURE(bytes);
            near.clear();
            far.clear();
            const Graph take(stream, [&](device::Stream in) {
                REQUIRE_OK(subject().channels()->channel_take(near.channel(near.places.get(), taken.get(), bytes),
                                                              destination.get(), bytes, in));
            });
            ChannelOrder order = far.order(far_places, far.taken);
            order.bytes = static_cast<uint32_t>(bytes);
            order.offset = bytes % kSkews;
            const uint32_t put = other.put_in_channel(order);
            for (unsigned run = 0; run < kFarRuns; ++run) {
                other.write_pattern(far.memory, order.offset, bytes, run);
                if (run % 2 == 0)
                    take.launch(stream);
                other.launch(put);
                if (run % 2 != 0)
                    take.launch(stream);
                stream.finish();
                REQUIRE(Bytes(destination.get(), destination.get() + bytes) == pattern(bytes, run));
                other.synchronize();
            }
        }
        other.close(far_places);
    }
}

TEST_CASE("another process's graph pulls out of this one's memory") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const Far far(other);
        const Near near;
        const Memory source(Far::kBuffer);
        const Import places(other.peer(), other.export_memory(far.places));
        const uint32_t far_taken = other.import_memory(must(subject().export_memory(near.taken.describe())));
        const uint32_t far_source = other.import_memory(must(subject().export_memory(source.describe())));
        const Pinned fresh(Far::kBuffer);
        const Stream stream;
        for (const size_t bytes : {size_t{65537}, Far::kBuffer}) {
            CAPTURE(bytes);
            near.clear();
            far.clear();
            const device::Channel channel = near.channel(places.get(), near.taken.get(), 0);
            const Graph put(stream, [&](device::Stream in) {
                REQUIRE_OK(subject().copy(source.get(), fresh.get(), bytes, in));
                REQUIRE_OK(subject().channels()->channel_put(channel, nullptr, in));
                REQUIRE_OK(subject().channels()->channel_await_taken(channel, in));
                REQUIRE_OK(subject().fill(source.get(), 0xee, bytes, in)); // the other is done with it
            });
            ChannelOrder order = far.order(far.places, far_taken);
            order.from = far_source;
            order.bytes_got = bytes;
            const uint32_t pull = other.pull_through_channel(order);
            for (unsigned run = 0; run < kFarRuns; ++run) {
                put_pattern(fresh.get(), bytes, run);
                other.launch(pull);
                put.launch(stream);
                stream.finish();
                REQUIRE(other.matches_pattern(far.memory, 0, bytes, run));
            }
        }
        other.close(far_source);
        other.close(far_taken);
    }
}

TEST_CASE("a take whose source's process is killed ends by a survivor's poison") {
    constexpr size_t kBytes = 5000;
    OtherProcess other(reachable_selectors().front());
    const Far far(other);
    const Near near;
    const Import taken(other.peer(), other.export_memory(far.taken));
    const Pinned destination(kBytes);
    untouch(destination.get(), kBytes);
    const Stream stream;
    const Graph take(stream, [&](device::Stream in) {
        REQUIRE_OK(subject().channels()->channel_take(near.channel(near.places.get(), taken.get(), kBytes),
                                                      destination.get(), kBytes, in));
    });
    take.launch(stream);
    take.launch(stream);
    watch();
    CHECK_FALSE(stream.done());
    other.kill_it();
    watch();
    CHECK_FALSE(stream.done());
    CHECK(counter(near.cut).load() == 0);
    store(near.alive, platform::kPoison);
    subject().release_peer(other.peer());
    stream.finish(); // which tells a dead process that its messages were taken
    CHECK(counter(near.cut).load() == 1);
    CHECK(untouched(destination.get(), kBytes));
}

} // namespace gpurun::conformance::shared_channels
