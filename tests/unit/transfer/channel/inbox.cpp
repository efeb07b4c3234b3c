// The inbox of a carried channel, filled by a sender that counts room as it does.
#include "transfer/channel/inbox.hpp"
#include "support/unit.hpp"
#include "transfer/channel/reused_queue.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace gpurun;
using namespace gpurun::transfer;

namespace {

using Bytes = std::vector<std::byte>;

Bytes payload_of(size_t bytes, uint32_t number) { return Bytes(bytes, static_cast<std::byte>(number)); }

// A record with its payload, as it is carried.
Bytes message(size_t payload_bytes, uint32_t number) {
    Record record(RecordKind::kMessage, ProtocolId{1}, number);
    Bytes all(record.head_bytes + payload_bytes, static_cast<std::byte>(number));
    std::memcpy(all.data(), &record, record.head_bytes);
    return all;
}

struct Ends {
    InboxRoom room;
    Inbox inbox;

    bool send(const Bytes& all, size_t part = SIZE_MAX) {
        if (!room.take(all.size()))
            return false;
        for (size_t done = 0; done < all.size();) {
            const size_t bytes = std::min(part, all.size() - done);
            done += bytes;
            const auto added = inbox.add(std::span(all).subspan(done - bytes, bytes), all.size());
            REQUIRE(added == (done == all.size() ? Inbox::Added::kWhole : Inbox::Added::kPart));
            REQUIRE((done == all.size() || inbox.empty()));
        }
        return true;
    }
    void take(size_t payload_bytes, uint32_t number) {
        std::span<const std::byte> payload;
        const Record* const record = inbox.front(payload);
        REQUIRE(record != nullptr);
        REQUIRE(record->serial == number);
        REQUIRE(Bytes(payload.begin(), payload.end()) == payload_of(payload_bytes, number));
        if (const auto emptied = inbox.pop()) {
            inbox.told(*emptied);
            REQUIRE(room.give_back(*emptied));
        }
    }
};

} // namespace

TEST_SUITE_BEGIN("inbox");

TEST_CASE("records of any length come out whole and in order, round and round") {
    Ends ends;
    constexpr size_t kLengths[] = {0, 8, 16'384, 1, 5000, 13, 16'000, 300};
    for (uint32_t number = 0; number < 1000; ++number) {
        const size_t bytes = kLengths[number % std::size(kLengths)];
        REQUIRE(ends.send(message(bytes, number), number % 3 == 0 ? 100 : SIZE_MAX));
        ends.take(bytes, number);
        REQUIRE(ends.inbox.empty());
    }
}

TEST_CASE("a sender that fills it gets room again, however long its records are, and none is lost") {
    for (const size_t bytes : {size_t{8}, size_t{1000}, size_t{16'384}}) {
        CAPTURE(bytes);
        Ends ends;
        uint32_t sent = 0, taken = 0;
        for (int round = 0; round < 50; ++round) {
            while (ends.send(message(bytes, sent)))
                ++sent;
            const uint32_t before = sent;
            while (taken < sent)
                ends.take(bytes, taken++);
            REQUIRE(ends.inbox.empty());
            REQUIRE(ends.send(message(bytes, sent))); // all of it was taken out, so there is room
            ++sent;
            REQUIRE(before != 0);
        }
        CHECK(sent > 50 * (kInboxBytes / (bytes + 128)) / 2);
    }
}

TEST_CASE("what no sender that counts would send is damaged") {
    const Bytes good = message(8, 1);
    const auto added = [](const Bytes& part, uint64_t all) { return Inbox().add(part, all); };
    CHECK(added(good, good.size()) == Inbox::Added::kWhole);
    CHECK(added(good, good.size() - 1) == Inbox::Added::kDamaged); // more than it was to be
    CHECK(added({}, good.size()) == Inbox::Added::kDamaged);
    CHECK(added(Bytes(8), 8) == Inbox::Added::kDamaged); // no record is so short
    CHECK(added(good, kMostInboxEntry) == Inbox::Added::kDamaged);
    Bytes wrong_head = good;
    const uint16_t head = 4000;
    std::memcpy(wrong_head.data() + offsetof(Record, head_bytes), &head, sizeof head);
    CHECK(added(wrong_head, wrong_head.size()) == Inbox::Added::kDamaged);

    Inbox inbox; // more than there is room for
    Inbox::Added last = Inbox::Added::kWhole;
    for (int i = 0; i < 10 && last == Inbox::Added::kWhole; ++i)
        last = inbox.add(message(16'384, 1), message(16'384, 1).size());
    CHECK(last == Inbox::Added::kDamaged);

    Inbox changed; // its length, after the first part
    REQUIRE(changed.add(std::span(good).first(10), good.size()) == Inbox::Added::kPart);
    CHECK(changed.add(std::span(good).subspan(10), good.size() + 8) == Inbox::Added::kDamaged);

    InboxRoom room;
    REQUIRE(room.take(100));
    CHECK_FALSE(room.give_back(kInboxBytes));
    CHECK(room.give_back(50));
    CHECK_FALSE(room.give_back(49));
}

TEST_CASE("a reused queue gives what was put, and takes no more memory than it was long") {
    ReusedQueue<int> queue;
    int put = 0, got = 0;
    const int* lowest = nullptr;
    for (int round = 0; round < 10'000; ++round) {
        for (int i = 0; i < 7; ++i)
            queue.append(put++);
        while (put - got > round % 5) {
            REQUIRE(queue.front() == got++);
            queue.drop(1);
        }
        if (round == 100)
            lowest = queue.content().data();
    }
    REQUIRE(lowest != nullptr);
    CHECK(static_cast<int>(queue.content().size()) == put - got);
    queue.clear();
    CHECK(queue.empty());
}

TEST_SUITE_END();
