// Copies that wait for a counter by themselves, and write another when they are done.
//
// As in mails.cpp: nothing is allocated, freed or waited for while a copy waits, and streams are declared last.
#include "other_process.hpp"
#include "slot.hpp"

#include "platform/job_segment.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::conformance::fenced_copies {

TEST_SUITE_BEGIN("fenced copies");

namespace {

constexpr size_t kMiB = 1 << 20;

} // namespace

TEST_CASE("a fenced copy moves the bytes asked for and none beside them, whatever their number and place") {
    constexpr size_t kGuard = 64;
    const size_t sizes[] = {1,    15,    16,        17,   31,        100,          4096,
                            4097, 65545, kMiB - 16, kMiB, kMiB + 15, 4 * kMiB - 1, 4 * kMiB};
    const Bytes content = pattern(4 * kMiB + kGuard, 41);
    for (const Kind from : device_kinds())
        for (const Kind to : device_kinds()) {
            CAPTURE(name(from));
            CAPTURE(name(to));
            Slot slot;
            const AnyMemory source(from, content.size());
            source.set(content);
            const AnyMemory destination(to, 4 * kMiB + 2 * kGuard);
            const Pinned got(destination.size());
            const Stream stream;
            uint64_t gate = 0;
            size_t from_offset = 0, to_offset = 0;
            for (const size_t bytes : sizes)
                for (const bool waits : {false, true}) {
                    CAPTURE(bytes);
                    CAPTURE(waits);
                    from_offset = (from_offset + 7) % kGuard;
                    to_offset = (to_offset + 19) % kGuard;
                    const size_t room = bytes + 2 * kGuard;
                    REQUIRE_OK(subject().fill(destination.get(), 0xee, room, stream));
                    slot.begin();
                    slot.copy(destination.get() + to_offset, source.get() + from_offset, bytes, waits, stream);
                    if (waits) {
                        gate = slot.value();
                        slot.release();
                    }
                    REQUIRE_OK(subject().copy(got.get(), destination.get(), room, stream));
                    stream.finish();
                    Bytes expected(room, std::byte{0xee});
                    std::copy_n(&content[from_offset], bytes, &expected[to_offset]);
                    REQUIRE(std::memcmp(got.get(), expected.data(), room) == 0);
                    CHECK(slot.is_done());
                }
            slot.check_words(gate);
        }
}

TEST_CASE("a fenced copy reads and writes pinned memory") {
    for (const bool reads : {false, true})
        for (const size_t bytes : {size_t{1}, size_t{4097}, 4 * kMiB - 1}) {
            CAPTURE(reads);
            CAPTURE(bytes);
            Slot slot;
            const AnyMemory source(reads ? Kind::kPinned : Kind::kDevice, bytes);
            const AnyMemory destination(reads ? Kind::kDevice : Kind::kPinned, bytes);
            const Stream stream;
            for (int round = 0; round < 3; ++round) { // what the CPU has written since is read
                const Bytes content = pattern(bytes, 60 + round);
                source.set(content);
                slot.begin();
                slot.copy(destination.get(), source.get(), bytes, round != 0, stream);
                if (round != 0)
                    slot.release();
                stream.finish();
                CHECK(slot.is_done());
                CHECK(destination.content() == content);
            }
        }
}

TEST_CASE("fenced copies move bytes between addresses of all alignments") {
    constexpr size_t kAlignments = 16, kMost = 3001, kRoom = kMost + 2 * kAlignments, kRooms = kAlignments * kRoom;
    const Bytes content = pattern(kRoom, 47);
    const Memory source(kRoom), destination(kRooms);
    const Pinned got(kRooms);
    write(source.get(), content);
    Slot slot;
    const Stream stream;
    for (const size_t bytes : {size_t{1}, size_t{16}, size_t{33}, size_t{47}, size_t{1000}, kMost})
        for (size_t from = 0; from < kAlignments; ++from) {
            REQUIRE_OK(subject().fill(destination.get(), 0xee, kRooms, stream));
            Bytes expected(kRooms, std::byte{0xee});
            for (size_t to = 0; to < kAlignments; ++to) { // a room for each
                const size_t at = (to * kRoom + kAlignments - 1) / kAlignments * kAlignments + to;
                slot.begin();
                slot.copy(destination.get() + at, source.get() + from, bytes, false, stream);
                std::copy_n(&content[from], bytes, &expected[at]);
            }
            REQUIRE_OK(subject().copy(got.get(), destination.get(), kRooms, stream));
            stream.finish();
            CAPTURE(bytes);
            CAPTURE(from);
            CHECK(std::memcmp(got.get(), expected.data(), kRooms) == 0);
        }
}

TEST_CASE("a fenced copy waits until its counter has come, and holds up what follows it") {
    for (const size_t bytes : {size_t{16}, size_t{4096}, 4 * kMiB}) {
        CAPTURE(bytes);
        Slot slot;
        const Memory source(bytes);
        const Memory destination(bytes);
        const Pinned got(bytes);
        write(source.get(), Bytes(bytes, std::byte{1}));
        const Stream stream;
        const Stream other;
        for (int round = 0; round < 2; ++round) { // the gate of the second reads the value of the first
            slot.begin();
            slot.copy(destination.get(), source.get(), bytes, true, stream);
            REQUIRE_OK(subject().copy(got.get(), destination.get(), bytes, stream));
            watch();
            CHECK_FALSE(stream.done());
            CHECK_FALSE(slot.is_done());
            store(slot.before(), slot.value() - kStep);
            watch();
            CHECK_FALSE(stream.done());
            REQUIRE_OK(subject().fill(source.get(), 2 + round, bytes, other)); // is read only now
            REQUIRE_OK(subject().counters()->write_counter(other, &counter(slot.before()), slot.value()));
            stream.finish();
            CHECK(slot.is_done());
            CHECK(std::count(got.get(), got.get() + bytes, static_cast<std::byte>(2 + round)) ==
                  static_cast<ptrdiff_t>(bytes));
        }
        slot.check_words(slot.value());
    }
}

TEST_CASE("a counter that has come, and none at all, hold no fenced copy up") {
    Slot slot;
    const Memory source(4096);
    const Memory destination(4096);
    const Stream stream;
    slot.begin();
    store(slot.before(), slot.value() + 100 * kStep);
    slot.copy(destination.get(), source.get(), 4096, true, stream);
    stream.finish();
    slot.check_words(slot.value());
    slot.begin();
    slot.copy(destination.get(), source.get(), 4096, false, stream);
    stream.finish();
    CHECK(slot.is_done());
}

TEST_CASE("a fenced copy comes after what was before it in its stream, and before what follows") {
    constexpr size_t kBytes = 100'000;
    Slot slot;
    const Memory source(kBytes);
    const Memory destination(kBytes);
    const Pinned got(kBytes);
    const Stream stream;
    for (int round = 1; round <= 20; ++round) {
        slot.begin();
        REQUIRE_OK(subject().fill(source.get(), round, kBytes, stream));
        slot.copy(destination.get(), source.get(), kBytes, false, stream);
        REQUIRE_OK(subject().fill(source.get(), 0xff, kBytes, stream));
        REQUIRE_OK(subject().copy(got.get(), destination.get(), kBytes, stream));
        REQUIRE_OK(subject().fill(destination.get(), 0xfe, kBytes, stream));
        stream.finish();
        REQUIRE(std::count(got.get(), got.get() + kBytes, static_cast<std::byte>(round)) == kBytes);
    }
    slot.check_words(0);
}

TEST_CASE("poison ends a fenced copy's wait") {
    for (const size_t bytes : {size_t{16}, kMiB + 15}) {
        CAPTURE(bytes);
        Slot slot;
        const Memory source(bytes);
        const Memory destination(bytes);
        const Stream stream;
        slot.begin();
        slot.release();
        slot.begin();
        slot.copy(destination.get(), source.get(), bytes, true, stream);
        watch();
        CHECK_FALSE(stream.done());
        store(slot.before(), counter(slot.before()).load() | platform::kPoison);
        stream.finish();
        CHECK(slot.is_done());
        slot.check_words(slot.value());
    }
}

TEST_CASE("whoever sees that a fenced copy is done sees its bytes") {
    for (const size_t bytes : {size_t{16}, size_t{10'001}, 2 * kMiB}) {
        CAPTURE(bytes);
        Slot slot;
        const Memory source(bytes);
        const Memory destination(bytes);
        const Pinned got(bytes);
        const Stream filler;
        const Stream copier;
        const Stream reader;
        for (int round = 1; round <= 20; ++round) {
            slot.begin();
            // Enqueued by the last first, so that everybody waits.
            REQUIRE_OK(subject().counters()->await_counter(reader, &counter(slot.after()), slot.value()));
            REQUIRE_OK(subject().copy(got.get(), destination.get(), bytes, reader));
            slot.copy(destination.get(), source.get(), bytes, true, copier);
            REQUIRE_OK(subject().fill(source.get(), round, bytes, filler));
            REQUIRE_OK(subject().counters()->write_counter(filler, &counter(slot.before()), slot.value()));
            reader.finish();
            REQUIRE(std::count(got.get(), got.get() + bytes, static_cast<std::byte>(round)) ==
                    static_cast<ptrdiff_t>(bytes));
        }
        copier.finish();
        filler.finish();
    }
}

TEST_CASE("a slot is used again, many times ahead of the CPU, by copies that wait and that do not") {
    constexpr size_t kRounds = 120;
    constexpr size_t kBytes = 40'000; // several blocks
    Slot slot;
    const Bytes content = pattern(kBytes + 16 * kRounds, 42);
    const Memory source(content.size());
    write(source.get(), content);
    const Memory destination(kBytes);
    const Pinned log(kRounds * kBytes);
    const Stream signaller;
    const Stream stream;
    uint64_t gate = 0;
    for (size_t round = 0; round < kRounds; ++round) {
        const bool waits = round % 3 != 2;
        REQUIRE_OK(subject().counters()->await_counter(signaller, &counter(slot.after()), slot.value()));
        slot.begin();
        REQUIRE_OK(subject().counters()->write_counter(signaller, &counter(slot.before()), slot.value()));
        slot.copy(destination.get(), source.get() + 16 * round, kBytes, waits, stream);
        REQUIRE_OK(subject().copy(log.get() + round * kBytes, destination.get(), kBytes, stream));
        gate = waits ? slot.value() : gate;
    }
    stream.finish();
    signaller.finish();
    for (size_t round = 0; round < kRounds; ++round) {
        CAPTURE(round);
        CHECK(std::memcmp(log.get() + round * kBytes, &content[16 * round], kBytes) == 0);
    }
    slot.check_words(gate);
}

TEST_CASE("fenced copies with slots of their own wait beside each other") {
    constexpr size_t kSlots = 4;
    constexpr size_t kBytes = 8192; // of one block: all of them fit on the smallest device
    Slot slots[kSlots];
    const Memory source(kBytes);
    write(source.get(), pattern(kBytes, 43));
    const Memory destination(kSlots * kBytes);
    const Stream streams[kSlots];
    for (int round = 0; round < 5; ++round) {
        for (size_t i = 0; i < kSlots; ++i) {
            slots[i].begin();
            slots[i].copy(destination.get() + i * kBytes, source.get(), kBytes, true, streams[i]);
        }
        for (size_t i = kSlots; i-- > 0;) { // last to first
            CHECK_FALSE(streams[i].done());
            slots[i].release();
            REQUIRE(reads(slots[i].after(), slots[i].value()));
        }
    }
    for (const Stream& stream : streams)
        stream.finish();
    for (size_t i = 0; i < kSlots; ++i)
        CHECK(read(destination.get() + i * kBytes, kBytes) == pattern(kBytes, 43));
}

TEST_CASE("large fenced copies run beside each other") {
    constexpr size_t kSlots = 3;
    const size_t bytes = 4 * kMiB;
    Slot slots[kSlots];
    const Memory source(bytes);
    write(source.get(), pattern(bytes, 44));
    const Memory destination(kSlots * bytes);
    const Stream streams[kSlots];
    for (int round = 0; round < 5; ++round) {
        for (size_t i = 0; i < kSlots; ++i) {
            slots[i].begin();
            slots[i].copy(destination.get() + i * bytes, source.get(), bytes, true, streams[i]);
        }
        for (const Slot& slot : slots) // all, before any is waited for: there may not be room for all of them at once
            slot.release();
        for (const Stream& stream : streams)
            stream.finish();
    }
    for (size_t i = 0; i < kSlots; ++i)
        CHECK(read(destination.get() + i * bytes, bytes) == pattern(bytes, 44));
}

TEST_CASE("a fenced copy reads another process's memory between that process's edges") {
    for (const std::string& selector : reachable_selectors())
        for (const size_t bytes : {size_t{16}, kMiB + 7}) {
            CAPTURE(selector);
            CAPTURE(bytes);
            OtherProcess other(selector);
            const uint32_t memory = other.allocate(bytes);
            Slot slot;
            const Import import(other.peer(), other.export_memory(memory));
            const Memory own(bytes);
            const Pinned got(bytes);
            const Stream stream;
            for (int round = 1; round <= 10; ++round) {
                CAPTURE(round);
                slot.begin();
                const auto enqueue = [&] {
                    slot.copy(own.get(), import.get(), bytes, true, stream);
                    REQUIRE_OK(subject().copy(got.get(), own.get(), bytes, stream));
                };
                if (round % 2 == 0)
                    enqueue();
                other.fill(memory, round, bytes);
                other.write_counter(slot.before(), slot.value());
                other.await_counter(slot.after(), slot.value());
                other.fill(memory, 0xff, bytes);
                if (round % 2 != 0)
                    enqueue();
                stream.finish();
                REQUIRE(std::count(got.get(), got.get() + bytes, static_cast<std::byte>(round)) ==
                        static_cast<ptrdiff_t>(bytes));
            }
            other.synchronize();
            slot.check_words(slot.value());
        }
}

TEST_CASE("a fenced copy writes into another process's memory") {
    OtherProcess other(reachable_selectors().back());
    const uint32_t memory = other.allocate(kMiB);
    Slot slot;
    const Import import(other.peer(), other.export_memory(memory));
    const Memory own(kMiB);
    const Stream stream;
    for (int round = 1; round <= 5; ++round) {
        slot.begin();
        REQUIRE_OK(subject().fill(own.get(), round, kMiB, stream));
        slot.copy(import.get(), own.get(), kMiB, false, stream);
        REQUIRE(reads(slot.after(), slot.value()));
        CHECK(other.count_bytes(memory, round, kMiB) == kMiB);
    }
}

TEST_CASE("a fenced copy that waits for a dead process ends by a survivor's poison") {
    constexpr size_t kBytes = 100'000;
    OtherProcess other(reachable_selectors().front());
    const uint32_t memory = other.allocate(kBytes);
    Slot slot;
    const Import import(other.peer(), other.export_memory(memory));
    const Memory own(kBytes);
    const Stream stream;
    slot.begin();
    slot.copy(own.get(), import.get(), kBytes, true, stream);
    other.kill_it();
    watch();
    CHECK_FALSE(stream.done());
    store(slot.before(), counter(slot.before()).load() | platform::kPoison);
    stream.finish();
    subject().release_peer(other.peer());
    write(own.get(), pattern(kBytes, 2)); // the device is still well
    CHECK(read(own.get(), kBytes) == pattern(kBytes, 2));
}

} // namespace gpurun::conformance::fenced_copies
