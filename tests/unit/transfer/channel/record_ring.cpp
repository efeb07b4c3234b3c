// The ring between two ranks: order, wrapping, and no room.
#include "transfer/channel/record_ring.hpp"
#include "support/unit.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <array>
#include <thread>
#include <vector>

using namespace gpurun;
using namespace gpurun::transfer;
using gpurun::test::must;

namespace {

struct RingEnds {
    platform::JobSegment job = must(platform::JobSegment::create(2, 1));
    platform::Mapping source = must(job.map_ring(0, 1));
    platform::Mapping target = must(job.map_ring(0, 1)); // its own mapping, as in another process
    RingProducer producer{job.control(0, 1), source.data()};
    RingConsumer consumer{job.control(0, 1), target.data()};
};

constexpr ProtocolId kProtocol = 5;

constexpr size_t kMostBody = Record::kMostBodyBytes - sizeof(uint64_t); // a signature may follow

Record numbered(uint64_t number) { return {RecordKind::kMessage, kProtocol, number}; }

template <size_t kBytes>
std::array<std::byte, kBytes> body(uint64_t number) {
    std::array<std::byte, kBytes> made;
    for (size_t i = 0; i < kBytes; ++i)
        made[i] = static_cast<std::byte>(number + i);
    return made;
}

std::vector<std::byte> filled(size_t bytes, uint64_t number) {
    return std::vector<std::byte>(bytes, static_cast<std::byte>(number));
}

} // namespace

TEST_SUITE_BEGIN("record ring");

TEST_CASE("an empty ring has no front") {
    RingEnds ends;
    CHECK(ends.consumer.front() == nullptr);
}

TEST_CASE("records of every length come out whole and in order, round and round") {
    RingEnds ends;
    uint64_t pushed = 0;
    uint64_t popped = 0;
    while (popped < 2000) {
        const size_t length = pushed * 977 % (kLargestInline + 1);
        if (ends.producer.push(numbered(pushed), filled(length, pushed))) {
            ++pushed;
            continue;
        }
        for (int i = 0; i < 3; ++i) { // full: make some room
            const Record* record = ends.consumer.front();
            REQUIRE((record != nullptr || i > 0)); // an empty ring takes everything
            if (record == nullptr)
                break;
            CHECK(record->serial == popped);
            const auto payload = ends.consumer.payload();
            CHECK(payload.size() == popped * 977 % (kLargestInline + 1));
            CHECK(std::equal(payload.begin(), payload.end(), filled(payload.size(), popped).begin()));
            ends.consumer.pop();
            ++popped;
        }
    }
}

TEST_CASE("every kind of record crosses with its whole head and body, and a payload of any length") {
    RingEnds ends;
    const auto cross = [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>, RecordKind kind, size_t length) {
        Record sent(kind, kProtocol, 0x0102030405060708);
        sent.envelope = Envelope{11, -12, uint64_t{13} << 40};
        const auto content = body<kBytes>(kBytes + length);
        REQUIRE(ends.producer.push(sent.with(content), filled(length, kBytes)));
        const Record* received = ends.consumer.front();
        REQUIRE(received != nullptr);
        CHECK(received->kind == kind);
        CHECK(received->protocol == kProtocol);
        CHECK(received->serial == sent.serial);
        CHECK(received->envelope.context == 11);
        CHECK(received->envelope.tag == -12);
        CHECK(received->envelope.bytes == uint64_t{13} << 40);
        Record kept;
        copy_record(kept, *received);
        CHECK(kept.as<std::array<std::byte, kBytes>>() == content);
        const auto payload = ends.consumer.payload();
        CHECK(payload.size() == length);
        CHECK(std::equal(payload.begin(), payload.end(), filled(length, kBytes).begin()));
        ends.consumer.pop();
    };
    for (const RecordKind kind : {RecordKind::kMessage, RecordKind::kToSend, RecordKind::kToReceive,
                                  RecordKind::kNotice, RecordKind::kUnwanted})
        for (const size_t length : {0, 1, 31, 32, 33, 88, 89, 1000}) {
            cross(std::integral_constant<size_t, 1>(), kind, length);
            cross(std::integral_constant<size_t, 16>(), kind, length);
            cross(std::integral_constant<size_t, 32>(), kind, length);
            cross(std::integral_constant<size_t, 33>(), kind, length);
            cross(std::integral_constant<size_t, kMostBody>(), kind, length);
        }
}

TEST_CASE("a full ring takes nothing, and loses nothing") {
    RingEnds ends;
    uint64_t pushed = 0;
    while (ends.producer.push(numbered(pushed)))
        ++pushed;
    CHECK(pushed == platform::kRingEntryBytes / 64); // a record without a body and a payload takes a cache line
    CHECK_FALSE(ends.producer.push(numbered(pushed)));
    for (uint64_t expected = 0; expected < pushed; ++expected) {
        REQUIRE(ends.consumer.front() != nullptr);
        CHECK(ends.consumer.front()->serial == expected);
        ends.consumer.pop();
    }
    CHECK(ends.consumer.front() == nullptr);
    CHECK(ends.producer.push(numbered(0)));
}

TEST_CASE("what earlier laps have left in the ring is never taken for a record") {
    RingEnds ends;
    const std::vector<std::byte> content(80, std::byte{2});
    Record record = numbered(0).with(body<kMostBody>(3));
    constexpr int kAtOnce = 30; // of 5 lines each: the end of the ring is skipped, in every lap another part of it
    bool right = true;
    for (uint64_t round = 0; round < 115'000; ++round) { // the lap has 16 bits, and comes round
        for (int i = 0; i < kAtOnce; ++i) {
            record.serial = round + static_cast<uint64_t>(i);
            right = right && ends.producer.push(record, content);
        }
        for (int i = 0; i < kAtOnce; ++i) {
            const Record* const there = ends.consumer.front();
            right = right && there != nullptr && there->serial == round + static_cast<uint64_t>(i);
            if (there != nullptr)
                ends.consumer.pop();
        }
        right = right && ends.consumer.empty() && ends.consumer.front() == nullptr;
    }
    CHECK(right);
}

TEST_CASE("short messages cross as others do, among them") {
    RingEnds ends;
    uint64_t pushed = 0;
    uint64_t popped = 0;
    bool was_full = false;
    while (popped < 3000) {
        const size_t length = pushed * 7 % 60;
        const auto content = filled(length, pushed);
        Record record = numbered(0);
        record.envelope = Envelope{1, static_cast<int32_t>(pushed), length};
        const uint64_t signature = pushed % 3 == 0 ? pushed + 1 : 0;
        const size_t most = signature == 0 ? RingProducer::kLargestShort : PeerChannel::kMostFewSigned;
        if (signature != 0)
            record.sign(signature);
        if ((length <= most && ends.producer.push_short(kProtocol, record.envelope, content.data(), signature)) ||
            ends.producer.push(record, content)) {
            ++pushed;
            continue;
        }
        was_full = true;
        for (int i = 0; i < 100; ++i) {
            const Record* there = ends.consumer.front();
            if (there == nullptr)
                break;
            CHECK(there->kind == RecordKind::kMessage);
            CHECK(there->protocol == kProtocol);
            CHECK(there->envelope.tag == static_cast<int32_t>(popped));
            CHECK(there->envelope.bytes == popped * 7 % 60);
            CHECK(there->signature() == (popped % 3 == 0 ? popped + 1 : 0));
            const auto payload = ends.consumer.payload();
            CHECK(payload.size() == popped * 7 % 60);
            CHECK(std::equal(payload.begin(), payload.end(), filled(payload.size(), popped).begin()));
            ends.consumer.pop();
            ++popped;
        }
        CHECK(ends.consumer.gave_wanted_room());
        CHECK_FALSE(ends.consumer.gave_wanted_room());
    }
    CHECK(was_full);
}

TEST_CASE("room is told of only to a producer that has found none") {
    RingEnds ends;
    constexpr uint64_t kRecords = 10 * platform::kRingEntryBytes / kRingLine;
    for (uint64_t number = 0; number < kRecords; ++number) {
        REQUIRE(ends.producer.push(numbered(number)));
        REQUIRE(ends.consumer.front() != nullptr);
        ends.consumer.pop();
        CHECK_FALSE(ends.consumer.gave_wanted_room());
    }
    const auto take_all = [&] {
        while (ends.consumer.front() != nullptr)
            ends.consumer.pop();
    };
    while (ends.producer.push(numbered(0))) {
    }
    take_all();
    CHECK(ends.consumer.gave_wanted_room());
    // It was told once. If it finds none again, it is told again.
    for (uint64_t number = 0; number < platform::kRingEntryBytes / kRingLine; ++number)
        REQUIRE(ends.producer.push(numbered(number)));
    take_all();
    CHECK_FALSE(ends.consumer.gave_wanted_room());
    while (ends.producer.push(numbered(0))) {
    }
    take_all();
    CHECK(ends.consumer.gave_wanted_room());
}

TEST_CASE("a producer that sleeps for room is told of it each time") {
    RingEnds ends;
    constexpr uint64_t kRecords = 200'000;
    std::atomic<uint32_t> bell = 0;
    std::thread producer([&] {
        for (uint64_t number = 0; number < kRecords;) {
            const uint32_t seen = bell.load();
            if (ends.producer.push(numbered(number)))
                ++number;
            else
                bell.wait(seen); // for ever, if the consumer tells nobody
        }
    });
    for (uint64_t number = 0; number < kRecords;) {
        if (ends.consumer.front() == nullptr) {
            std::this_thread::yield();
            continue;
        }
        ends.consumer.pop();
        ++number;
        if (ends.consumer.gave_wanted_room()) {
            bell.fetch_add(1);
            bell.notify_one();
        }
    }
    producer.join();
}

TEST_CASE("producer and consumer run at the same time") {
    RingEnds ends;
    constexpr uint64_t kRecords = 20'000;
    std::thread producer([&] {
        for (uint64_t number = 0; number < kRecords;) {
            if (ends.producer.push(numbered(number), filled(number % 300, number)))
                ++number;
            else
                std::this_thread::yield();
        }
    });
    bool right = true;
    for (uint64_t number = 0; number < kRecords;) {
        const Record* record = ends.consumer.front();
        if (record == nullptr) {
            std::this_thread::yield();
            continue;
        }
        const auto payload = ends.consumer.payload();
        right = right && record->serial == number && payload.size() == number % 300 &&
                (payload.empty() || payload.back() == static_cast<std::byte>(number));
        ends.consumer.pop();
        ++number;
    }
    producer.join();
    CHECK(right);
}

TEST_SUITE_END();
