// Channels: messages that are sent again whenever the graphs of both sides run.
//
// All is captured, as it is made to be: one operation, or two that the contract allows beside each other, a graph. Each
// channel has its own memory, made and cleared before anything waits; while something waits, nothing is allocated,
// freed or waited for but streams that do not wait. Streams are declared last, so that they are the first to go, and
// release what waits in them, when a test fails.
#include "line.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::conformance::channels {

TEST_SUITE_BEGIN("channels");

namespace {

std::vector<Kind> all_kinds() {
    std::vector<Kind> kinds = device_kinds();
    kinds.push_back(Kind::kPinned);
    return kinds;
}

// Memory of any kind, as streams and the CPU see it: `by_cpu` is what goes into it, or came out.
struct Seen {
    Seen(Kind kind, size_t bytes) : pinned(kind == Kind::kPinned), memory(kind, bytes), staging(bytes) {}
    std::byte* by_cpu() const { return pinned ? memory.get() : staging.get(); }
    void load(size_t bytes, device::Stream stream) const {
        if (!pinned)
            REQUIRE_OK(subject().copy(memory.get(), staging.get(), bytes, stream));
    }
    void save(size_t bytes, device::Stream stream) const {
        if (!pinned)
            REQUIRE_OK(subject().copy(staging.get(), memory.get(), bytes, stream));
    }

    const bool pinned;
    const AnyMemory memory;
    const Pinned staging;
};

// Different in every run.
void set(const Seen& seen, size_t skew, size_t bytes, unsigned run) { put_pattern(seen.by_cpu() + skew, bytes, run); }

} // namespace

TEST_CASE(
    "a message arrives whole in every run, whatever its size, the alignment of both buffers, and where they are") {
    constexpr size_t kRoom = kLargestInChannel + 2 * kSkews;
    constexpr unsigned kRuns = 3;
    for (const Kind from : all_kinds())
        for (const Kind to : all_kinds()) {
            CAPTURE(name(from));
            CAPTURE(name(to));
            Line line(0);
            const Seen source(from, kRoom);
            const Seen target(to, kRoom);
            const Stream sender;
            const Stream receiver;
            unsigned skew = 0;
            for (const size_t bytes : kChannelSizes) {
                skew = (skew + 5) % kSkews;
                const size_t to_skew = skew * 7 % kSkews;
                const size_t room = bytes + 2 * kSkews;
                CAPTURE(bytes);
                CAPTURE(skew);
                line.clear(bytes);
                const Graph put(sender, [&](device::Stream in) {
                    source.load(room, in);
                    line.put(source.memory.get() + skew, in);
                });
                const Graph take(receiver, [&](device::Stream in) {
                    target.load(room, in);
                    line.take(target.memory.get() + to_skew, bytes, in);
                    target.save(room, in);
                });
                for (unsigned run = 0; run < kRuns; ++run) {
                    set(source, skew, bytes, run);
                    untouch(target.by_cpu(), room);
                    if (run % 2 != 0)
                        take.launch(receiver);
                    put.launch(sender);
                    if (run % 2 == 0)
                        take.launch(receiver);
                    receiver.finish();
                    sender.finish();
                    const std::byte* const got = target.by_cpu();
                    REQUIRE(Bytes(got + to_skew, got + to_skew + bytes) == pattern(bytes, run));
                    REQUIRE(untouched(got, to_skew));
                    REQUIRE(untouched(got + to_skew + bytes, room - to_skew - bytes));
                }
                line.check_runs(kRuns, kRuns);
                CHECK(line.cut_at_source() + line.cut_at_target() == 0);
            }
        }
}

TEST_CASE("a take waits for its run, and holds up what follows it") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        constexpr unsigned kRuns = 2 * kChannelPlaces + 1; // each place is used again
        Line line(bytes);
        const Seen source(Kind::kDevice, kLargestInChannel);
        const Pinned destination(kLargestInChannel);
        const Stream sender;
        const Stream receiver;
        const Graph put(sender, [&](device::Stream in) {
            source.load(bytes, in);
            line.put(source.memory.get(), in);
        });
        const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), bytes, in); });
        for (unsigned run = 0; run < kRuns; ++run) {
            set(source, 0, bytes, run);
            take.launch(receiver);
            watch();
            CHECK_FALSE(receiver.done());
            put.launch(sender);
            receiver.finish();
            CHECK(Bytes(destination.get(), destination.get() + bytes) == pattern(bytes, run));
            sender.finish();
        }
        line.check_runs(kRuns, kRuns);
    }
}

TEST_CASE("a source is as many runs ahead as there are places, then waits for one to be taken") {
    constexpr unsigned kRuns = kChannelPlaces + 2;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, kLargestInChannel}) {
        CAPTURE(bytes);
        const Pinned fresh(kRuns * kLargestInChannel);
        put_patterns(fresh.get(), bytes, bytes, kRuns);
        const Crossing crossing(bytes);
        const Stream& sender = crossing.sender;
        const auto start = [&](unsigned run) {
            if (bytes != 0)
                REQUIRE_OK(subject().copy(crossing.source.get(), fresh.get() + run * bytes, bytes, sender));
            crossing.put.launch(sender);
        };
        for (unsigned run = 0; run < kChannelPlaces; ++run)
            start(run);
        sender.finish();
        for (unsigned run = kChannelPlaces; run < kRuns; ++run)
            start(run);
        watch();
        CHECK_FALSE(sender.done());
        for (unsigned run = 0; run < kRuns; ++run) {
            CHECK_FALSE((run + kChannelPlaces < kRuns && sender.done()));
            crossing.take.launch(crossing.receiver);
            crossing.receiver.finish();
            CHECK(crossing.took(pattern(bytes, run)));
        }
        sender.finish();
        crossing.line.check_runs(kRuns, kRuns);
    }
}

TEST_CASE("both sides run far ahead of the CPU, and every run gets its own message") {
    constexpr unsigned kRuns = 150;
    for (const size_t bytes : {size_t{3}, size_t{4097}}) {
        CAPTURE(bytes);
        Line line(bytes);
        const Memory source(bytes);
        const Memory destination(bytes);
        const Pinned fresh(kRuns * bytes);
        const Pinned log(kRuns * bytes);
        put_patterns(fresh.get(), bytes, bytes, kRuns);
        const Stream sender;
        const Stream receiver;
        const Graph put(sender, [&](device::Stream in) { line.put(source.get(), in); });
        const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), bytes, in); });
        for (unsigned run = 0; run < kRuns; ++run) {
            REQUIRE_OK(subject().copy(source.get(), fresh.get() + run * bytes, bytes, sender));
            put.launch(sender);
            take.launch(receiver);
            REQUIRE_OK(subject().copy(log.get() + run * bytes, destination.get(), bytes, receiver));
        }
        receiver.finish();
        sender.finish();
        for (unsigned run = 0; run < kRuns; ++run)
            REQUIRE(Bytes(log.get() + run * bytes, log.get() + (run + 1) * bytes) == pattern(bytes, run));
        line.check_runs(kRuns, kRuns);
    }
}

TEST_CASE("a take of fewer bytes than were put gets the first ones, in every run, and writes no more") {
    struct Lengths {
        size_t put, taken;
    };
    constexpr Lengths kLengths[] = {{1, 0},
                                    {2, 1},
                                    {9, 8},
                                    {100, 1},
                                    {4096, 4095},
                                    {4097, 0},
                                    {4097, 4096},
                                    {8193, 4096},
                                    {8193, 4097},
                                    {kLargestInChannel, 1},
                                    {kLargestInChannel, 0},
                                    {kLargestInChannel, 4097},
                                    {kLargestInChannel, 65535}};
    constexpr unsigned kRuns = 2 * kChannelPlaces + 1;
    Line line(0);
    const Seen source(Kind::kDevice, kLargestInChannel);
    const Pinned destination(kLargestInChannel);
    const Stream sender;
    const Stream receiver;
    for (const Lengths& lengths : kLengths) {
        CAPTURE(lengths.put);
        CAPTURE(lengths.taken);
        line.clear(lengths.put);
        const Graph put(sender, [&](device::Stream in) {
            source.load(lengths.put, in);
            line.put(source.memory.get(), in);
        });
        const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), lengths.taken, in); });
        for (unsigned run = 0; run < kRuns; ++run) {
            untouch(destination.get(), kLargestInChannel);
            set(source, 0, lengths.put, run);
            take.launch(receiver);
            if (run == 0) {
                watch();
                CHECK_FALSE(receiver.done());
            }
            put.launch(sender);
            receiver.finish();
            sender.finish();
            Bytes expected = pattern(lengths.put, run);
            expected.resize(lengths.taken);
            REQUIRE(Bytes(destination.get(), destination.get() + lengths.taken) == expected);
            REQUIRE(untouched(destination.get() + lengths.taken, kLargestInChannel - lengths.taken));
        }
        line.check_runs(kRuns, kRuns);
    }
}

TEST_CASE("a source waits until its latest run was taken, and not when it has made none") {
    for (const size_t bytes : {size_t{0}, size_t{100}, kLargestInChannel}) {
        CAPTURE(bytes);
        constexpr unsigned kRuns = 3;
        const Crossing crossing(bytes, Crossing::Put::kAwaitsTaken);
        const Stream& sender = crossing.sender;
        const Graph await(sender, [&](device::Stream in) { crossing.line.await_taken(in); });
        await.launch(sender);
        sender.finish();
        for (unsigned run = 0; run < kRuns; ++run) {
            crossing.put.launch(sender);
            watch();
            CHECK_FALSE(sender.done());
            crossing.take.launch(crossing.receiver);
            sender.finish();
            crossing.receiver.finish();
            await.launch(sender);
            sender.finish();
        }
        crossing.line.check_runs(kRuns, kRuns);
    }
}

TEST_CASE("a signal says that what came before it is there, and its answer that the target is done with it") {
    constexpr size_t kBytes = 300'001;
    constexpr unsigned kRuns = 6;
    Line line(0);
    const Memory source(kBytes);
    const Memory destination(kBytes);
    const Pinned fresh(kRuns * kBytes);
    const Pinned log(kRuns * kBytes);
    put_patterns(fresh.get(), kBytes, kBytes, kRuns);
    const size_t gate = new_counter();
    const Stream sender;
    const Stream receiver;
    const Graph put(sender, [&](device::Stream in) {
        line.put(nullptr, in);
        line.await_taken(in);
    });
    const Graph await(receiver, [&](device::Stream in) { line.await_put(in); });
    const Graph copy_and_tell(receiver, [&](device::Stream in) {
        REQUIRE_OK(subject().copy(destination.get(), source.get(), kBytes, in));
        line.tell_taken(in);
    });
    for (unsigned run = 0; run < kRuns; ++run) {
        REQUIRE_OK(subject().copy(source.get(), fresh.get() + run * kBytes, kBytes, sender));
        put.launch(sender);
        REQUIRE_OK(subject().fill(source.get(), 0xee, kBytes, sender)); // the target is done with it
        await.launch(receiver);
        if (run == 0)
            REQUIRE_OK(subject().counters()->await_counter(receiver, &counter(gate), 2));
        copy_and_tell.launch(receiver);
        REQUIRE_OK(subject().copy(log.get() + run * kBytes, destination.get(), kBytes, receiver));
    }
    watch();
    CHECK_FALSE(sender.done());
    store(gate, 2);
    receiver.finish();
    sender.finish();
    for (unsigned run = 0; run < kRuns; ++run)
        CHECK(Bytes(log.get() + run * kBytes, log.get() + (run + 1) * kBytes) == pattern(kBytes, run));
    line.check_runs(kRuns, kRuns);
}

TEST_CASE("a pull copies between signal and answer, of every size") {
    constexpr size_t kPulled[] = {1, 15, 16, 17, 100, 4097, 65537, 300'001, 1 << 20};
    constexpr size_t kMost = 1 << 20;
    constexpr unsigned kRuns = 3;
    Line line(0);
    const Memory source(kMost);
    const Memory destination(kMost);
    const Pinned fresh(kRuns * kMost);
    const Pinned log(kRuns * kMost);
    const Stream sender;
    const Stream receiver;
    for (const size_t bytes : kPulled) {
        CAPTURE(bytes);
        put_patterns(fresh.get(), kMost, bytes, kRuns);
        untouch(log.get(), kRuns * kMost);
        write(destination.get(), Bytes(kMost, kUntouched));
        line.clear(0);
        const Graph put(sender, [&](device::Stream in) {
            line.put(nullptr, in);
            line.await_taken(in);
        });
        const Graph pull(receiver, [&](device::Stream in) { line.pull(destination.get(), source.get(), bytes, in); });
        for (unsigned run = 0; run < kRuns; ++run) {
            pull.launch(receiver);
            REQUIRE_OK(subject().copy(log.get() + run * kMost, destination.get(), kMost, receiver));
            if (run == 0) {
                watch();
                CHECK_FALSE(receiver.done());
            }
            REQUIRE_OK(subject().copy(source.get(), fresh.get() + run * kMost, bytes, sender));
            put.launch(sender);
            REQUIRE_OK(subject().fill(source.get(), 0x99, bytes, sender));
        }
        receiver.finish();
        sender.finish();
        for (unsigned run = 0; run < kRuns; ++run) {
            const std::byte* const got = log.get() + run * kMost;
            CHECK(Bytes(got, got + bytes) == pattern(bytes, run));
            CHECK(untouched(got + bytes, kMost - bytes));
        }
        line.check_runs(kRuns, kRuns);
    }
}

TEST_CASE("what a stream takes comes behind what was before it, and before what follows") {
    constexpr size_t kBytes = 1 << 20;
    constexpr size_t kSmall = 64;
    constexpr unsigned kRuns = 20;
    Line large(0);
    Line small(kSmall);
    const Memory source(kBytes);
    const Memory note(kSmall);
    const Memory destination(kBytes);
    const Pinned got(kRuns * kBytes);
    write(note.get(), pattern(kSmall, 999));
    const Stream sender;
    const Stream receiver;
    const Graph put(sender, [&](device::Stream in) {
        small.put(note.get(), in); // it is there long before the other
        large.put(nullptr, in);
        large.await_taken(in);
    });
    const Graph take(receiver, [&](device::Stream in) {
        large.pull(destination.get(), source.get(), kBytes, in);
        small.take(destination.get() + kBytes - kSmall, kSmall, in); // over the end of the other
        REQUIRE_OK(subject().copy(got.get(), destination.get(), kBytes, in));
    });
    for (unsigned run = 0; run < kRuns; ++run) {
        REQUIRE_OK(subject().fill(destination.get(), 0, kBytes, receiver));
        REQUIRE_OK(subject().fill(source.get(), static_cast<int>(run) + 1, kBytes, sender));
        put.launch(sender);
        take.launch(receiver);
        receiver.finish();
        sender.finish();
        CHECK(std::count(got.get(), got.get() + kBytes - kSmall, static_cast<std::byte>(run + 1)) ==
              static_cast<ptrdiff_t>(kBytes - kSmall));
        CHECK(Bytes(got.get() + kBytes - kSmall, got.get() + kBytes) == pattern(kSmall, 999));
    }
}

TEST_CASE("channels cross side by side") {
    constexpr size_t kLines = 4;
    constexpr size_t kBytes = 4096;
    const Line lines[kLines] = {Line(kBytes), Line(kBytes), Line(kBytes), Line(kBytes)};
    const Bytes content = pattern(kBytes + kLines, 28);
    const Memory source(content.size());
    write(source.get(), content);
    const Pinned destination(kLines * kBytes);
    const Stream senders[kLines];
    const Stream receivers[kLines];
    std::vector<Graph> puts;
    std::vector<Graph> takes;
    for (size_t i = 0; i < kLines; ++i) {
        puts.emplace_back(senders[i], [&](device::Stream in) { lines[i].put(source.get() + i, in); });
        takes.emplace_back(receivers[i],
                           [&](device::Stream in) { lines[i].take(destination.get() + i * kBytes, kBytes, in); });
    }
    for (size_t i = 0; i < kLines; ++i)
        takes[i].launch(receivers[i]);
    for (size_t i = kLines; i-- > 0;) { // last to first: none stands behind another
        CHECK_FALSE(receivers[i].done());
        puts[i].launch(senders[i]);
        receivers[i].finish();
        CHECK(std::memcmp(destination.get() + i * kBytes, &content[i], kBytes) == 0);
    }
    for (const Stream& sender : senders)
        sender.finish();
}

TEST_CASE("a graph that is destroyed while it waits for its message still takes it") {
    constexpr size_t kBytes = 5000;
    Line line(kBytes);
    const Memory source(kBytes);
    write(source.get(), pattern(kBytes, 41));
    const Pinned destination(kBytes);
    EndCount end;
    const Stream sender;
    const Stream receiver;
    Graph put(sender, [&](device::Stream in) { line.put(source.get(), in); });
    Graph take(receiver, [&](device::Stream in) {
        REQUIRE_OK(end.watch(in));
        line.take(destination.get(), kBytes, in);
    });
    take.launch(receiver);
    take.destroy_later();
    watch();
    CHECK_FALSE(receiver.done());
    CHECK(end.calls() == 0);
    put.launch(sender);
    put.destroy_later();
    receiver.finish();
    sender.finish();
    CHECK(Bytes(destination.get(), destination.get() + kBytes) == pattern(kBytes, 41));
    subject().give_back();
    CHECK(soon([&] { return end.calls() == 1; }));
}

TEST_CASE("what is no channel is refused") {
    if (!is_emulated())
        return; // CUDA finds out in the kernel, if at all
    Line line(64);
    const Memory memory(64);
    std::byte pageable[64] = {};
    const Stream stream;
    CHECK_STATUS(subject().channels()->channel_put(line.source(), pageable, stream), Status::kBuffer);
    CHECK_STATUS(subject().channels()->channel_take(line.target(), pageable, 64, stream), Status::kBuffer);
    CHECK_STATUS(subject().channels()->channel_take(line.target(), memory.get(), 65, stream), Status::kArgument);
    device::Channel wrong = line.source();
    wrong.bytes = kLargestInChannel + 1;
    CHECK_STATUS(subject().channels()->channel_put(wrong, memory.get(), stream), Status::kArgument);
    wrong = line.source();
    wrong.places += 8;
    CHECK_FALSE(static_cast<bool>(subject().channels()->channel_put(wrong, memory.get(), stream)));
    wrong = line.source();
    wrong.turns = reinterpret_cast<uint64_t*>(pageable);
    CHECK_FALSE(static_cast<bool>(subject().channels()->channel_put(wrong, memory.get(), stream)));
    wrong = line.source();
    device::Counter unregistered{0};
    wrong.alive = &unregistered;
    CHECK_FALSE(static_cast<bool>(subject().channels()->channel_put(wrong, memory.get(), stream)));
    wrong = line.source();
    wrong.cut = &unregistered;
    CHECK_FALSE(static_cast<bool>(subject().channels()->channel_put(wrong, memory.get(), stream)));
    stream.finish();
}

} // namespace gpurun::conformance::channels
