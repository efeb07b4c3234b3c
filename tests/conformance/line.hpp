// Both sides of a channel in one process.
#pragma once

#include "graph.hpp"

#include "device/capability/channels.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace gpurun::conformance {

using device::kChannelPlaces;
using device::kLaneBytes;
using device::kLargestInChannel;

inline constexpr size_t kChannelSizes[] = {0,    1,    2,    3,    7,     8,     9,     15,    16,   17,
                                           31,   63,   64,   65,   100,   1000,  4088,  4095,  4096, 4097,
                                           4103, 8191, 8192, 8193, 12293, 16384, 32767, 65535, 65536};
inline constexpr size_t kSkews = 16; // distances from an aligned address
inline constexpr std::byte kUntouched{0xee};

// Both sides of one channel after another, in memory of this process.
class Line {
  public:
    explicit Line(size_t bytes) : memory_(kBytes) {
        for (device::ChannelWait* each : {&waits()[0], &waits()[1]})
            new (each) device::ChannelWait{};
        clear(bytes);
    }

    // Another channel, of `bytes`. REQUIRES: nothing of the one before is under way.
    void clear(size_t bytes) {
        bytes_ = bytes;
        write(memory_.get(), Bytes(kPlaces + kChannelPlaces * device::channel_place_bytes(bytes)));
    }
    // Where both sides say when their runs are, by these names.
    void log(const device::RunLog* log, uint32_t source, uint32_t target) {
        log_ = log;
        names_[0] = source;
        names_[1] = target;
    }
    size_t bytes() const { return bytes_; }
    device::Channel source() const { return side(0, kSourceTurns, source_alive_, source_cut_); }
    device::Channel target() const { return side(1, kTargetTurns, target_alive_, target_cut_); }
    const device::ChannelWait& source_wait() const { return waits()[0]; }
    const device::ChannelWait& target_wait() const { return waits()[1]; }
    uint32_t* ticket() const { return reinterpret_cast<uint32_t*>(memory_.get() + kTicket); }

    void put(const std::byte* from, device::Stream stream) const {
        REQUIRE_OK(subject().channels()->channel_put(source(), from, stream));
    }
    void await_taken(device::Stream stream) const {
        REQUIRE_OK(subject().channels()->channel_await_taken(source(), stream));
    }
    void take(std::byte* into, size_t bytes, device::Stream stream) const {
        REQUIRE_OK(subject().channels()->channel_take(target(), into, bytes, stream));
    }
    void await_put(device::Stream stream) const {
        REQUIRE_OK(subject().channels()->channel_await_put(target(), stream));
    }
    void tell_taken(device::Stream stream) const {
        REQUIRE_OK(subject().channels()->channel_tell_taken(target(), stream));
    }
    void pull(std::byte* into, const std::byte* from, size_t bytes, device::Stream stream) const {
        REQUIRE_OK(subject().channels()->channel_pull(target(), into, from, bytes, ticket(), stream));
    }

    // The other side of each has died.
    void lose_target() const { lose(source_alive_); }
    void lose_source() const { lose(target_alive_); }
    uint64_t cut_at_source() const { return counter(source_cut_).load(); }
    uint64_t cut_at_target() const { return counter(target_cut_).load(); }

    // As if it had not: for another channel.
    void find_source() const {
        store(target_alive_, 0);
        store(target_cut_, 0);
    }

    // REQUIRES: nothing waits. `told`: of how many the source has been told that they were taken.
    void check_runs(uint64_t put, uint64_t taken) const { check_runs(put, taken, taken); }
    void check_runs(uint64_t put, uint64_t taken, uint64_t told) const {
        const Bytes all = read(memory_.get(), kPlaces);
        const auto count = [&](size_t offset, size_t lane) {
            uint64_t value = 0;
            std::memcpy(&value, &all[offset + lane * sizeof value], sizeof value);
            return value;
        };
        // The emulated device moves a message in one piece.
        const size_t lanes = is_emulated() ? 1 : device::channel_lanes(bytes_);
        for (size_t lane = 0; lane < lanes; ++lane) {
            CAPTURE(lane);
            CHECK(count(kSourceTurns, lane) == put);
            CHECK(count(kTargetTurns, lane) == taken);
            CHECK(count(kTaken, lane) == told);
        }
        CHECK(std::count(all.begin() + kTicket, all.begin() + kLogPlaces, std::byte{0}) == 256);
    }

  private:
    static constexpr size_t kCounts = device::kMostLanes * sizeof(uint64_t);
    static constexpr size_t kSourceTurns = 0;
    static constexpr size_t kTargetTurns = kSourceTurns + kCounts;
    static constexpr size_t kTaken = kTargetTurns + kCounts;
    static constexpr size_t kTicket = kTaken + kCounts;
    static constexpr size_t kLogPlaces = kTicket + 256;
    static constexpr size_t kPlaces = kLogPlaces + 256;
    static constexpr size_t kBytes = kPlaces + kChannelPlaces * device::channel_place_bytes(kLargestInChannel);

    device::Channel side(size_t number, size_t turns, size_t alive, size_t cut) const {
        device::Channel channel;
        channel.places = memory_.get() + kPlaces;
        channel.taken = reinterpret_cast<uint64_t*>(memory_.get() + kTaken);
        channel.turns = reinterpret_cast<uint64_t*>(memory_.get() + turns);
        channel.bytes = bytes_;
        channel.alive = &counter(alive);
        channel.cut = &counter(cut);
        channel.wait = &waits()[number];
        channel.log = log_;
        channel.log_place = reinterpret_cast<uint64_t*>(memory_.get() + kLogPlaces) + number;
        channel.log_name = names_[number];
        return channel;
    }
    device::ChannelWait* waits() const { return reinterpret_cast<device::ChannelWait*>(waits_.get()); }
    static void lose(size_t alive) {
        store(alive, counter(alive).load() | platform::kPoison);
        subject().release_peer(0);
    }

    const Memory memory_;
    const Pinned waits_{2 * sizeof(device::ChannelWait)};
    size_t bytes_ = 0;
    const device::RunLog* log_ = nullptr;
    uint32_t names_[2] = {};
    const size_t source_alive_ = new_counter();
    const size_t target_alive_ = new_counter();
    const size_t source_cut_ = new_counter();
    const size_t target_cut_ = new_counter();
};

// pattern(bytes, variant), where the CPU gets at it.
inline void put_pattern(std::byte* at, size_t bytes, unsigned variant) {
    const Bytes content = pattern(bytes, variant);
    std::copy(content.begin(), content.end(), at);
}
// What each of so many runs is to move, `distance` bytes from one to the next.
inline void put_patterns(std::byte* at, size_t distance, size_t bytes, unsigned runs) {
    for (unsigned run = 0; run < runs; ++run)
        put_pattern(at + run * distance, bytes, run);
}

inline void untouch(std::byte* memory, size_t bytes) { std::memset(memory, static_cast<int>(kUntouched), bytes); }
inline bool untouched(const std::byte* memory, size_t bytes) {
    return std::count(memory, memory + bytes, kUntouched) == static_cast<ptrdiff_t>(bytes);
}

// A line with a buffer, a stream and a graph on each side. The streams go before what they use, and release what waits
// in them.
struct Crossing {
    enum class Put { kOnly, kAwaitsTaken };
    explicit Crossing(size_t bytes, Put how = Put::kOnly)
        : line(bytes), put(sender,
                           [&](device::Stream in) {
                               line.put(source.get(), in);
                               if (how == Put::kAwaitsTaken)
                                   line.await_taken(in);
                           }),
          take(receiver, [&](device::Stream in) { line.take(destination.get(), bytes, in); }) {}

    bool took(const Bytes& content) const {
        return Bytes(destination.get(), destination.get() + content.size()) == content;
    }

    const Line line;
    const Memory source{kLargestInChannel};
    const Pinned destination{kLargestInChannel};
    const Stream sender, receiver;
    const Graph put, take;
};

} // namespace gpurun::conformance
