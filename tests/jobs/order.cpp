// The order rule: a message happens after what was issued before it in its order domain, and before what was issued
// after it. Delays hold back one side or the other; nothing is synchronized until the end of a case.
#include "support/job.hpp"

#include <algorithm>

namespace gpurun::test::order {

namespace {

constexpr size_t kSizes[] = {8, 5000, 40000, 1u << 20, 32768, (4u << 20) + 64};
constexpr size_t kRounds = 4 * std::size(kSizes);
constexpr size_t kLargest = *std::max_element(std::begin(kSizes), std::end(kSizes));
constexpr Kind kMovable[] = {Kind::kDevice, Kind::kOrdered, Kind::kPinned};

size_t bytes_of(size_t round) { return kSizes[round % std::size(kSizes)]; }
Bytes content_of(size_t round) { return pattern(bytes_of(round), round + 1); }

// Which side of a round is late: neither, the sender, the receiver, both.
int sender_delay_us(size_t round) { return round / 6 % 2 == 1 ? 3000 : 0; }
int receiver_delay_us(size_t round) { return round / 12 % 2 == 1 ? 3000 : 0; }

// Each round fills the one buffer, sends it, and overwrites it.
void send_all(Kind kind, gpurun_stream domain) {
    const Memory buffer(kind, kLargest);
    std::vector<Bytes> contents;
    for (size_t round = 0; round < kRounds; round++)
        contents.push_back(content_of(round));
    for (size_t round = 0; round < kRounds; round++) {
        delay(domain, sender_delay_us(round));
        REQUIRE_OK(gpurun_memcpy(buffer.get(), contents[round].data(), bytes_of(round), domain));
        REQUIRE_OK(gpurun_send(buffer.get(), bytes_of(round), GPURUN_BYTE, partner(), 6, kWorld, domain));
        REQUIRE_OK(gpurun_memset(buffer.get(), 0xee, bytes_of(round), domain));
    }
    synchronize(domain);
}

// Each round marks the one buffer, and keeps what is in it just before and just after the receive.
void receive_all(Kind kind, gpurun_stream domain) {
    const Memory buffer(kind, kLargest);
    std::vector<Bytes> before, after;
    for (size_t round = 0; round < kRounds; round++) {
        before.emplace_back(bytes_of(round));
        after.emplace_back(bytes_of(round));
    }
    for (size_t round = 0; round < kRounds; round++) {
        const size_t bytes = bytes_of(round);
        REQUIRE_OK(gpurun_memset(buffer.get(), static_cast<int>(round), bytes, domain));
        delay(domain, receiver_delay_us(round));
        REQUIRE_OK(gpurun_memcpy(before[round].data(), buffer.get(), bytes, domain));
        REQUIRE_OK(gpurun_recv(buffer.get(), bytes, GPURUN_BYTE, partner(), 6, kWorld, domain, nullptr));
        REQUIRE_OK(gpurun_memcpy(after[round].data(), buffer.get(), bytes, domain));
    }
    synchronize(domain);
    for (size_t round = 0; round < kRounds; round++) {
        CAPTURE(round);
        CAPTURE(bytes_of(round));
        CHECK(first_difference(before[round], Bytes(bytes_of(round), static_cast<uint8_t>(round))) == -1);
        CHECK(first_difference(after[round], content_of(round)) == -1);
    }
}

void check_order(bool send_on_stream, bool recv_on_stream) {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const Kind kind : kMovable) {
        CAPTURE(name(kind));
        if (rank() % 2 == 0)
            send_all(kind, send_on_stream ? static_cast<gpurun_stream>(stream) : GPURUN_HOST);
        else
            receive_all(kind, recv_on_stream ? static_cast<gpurun_stream>(stream) : GPURUN_HOST);
    }
}

} // namespace

TEST_SUITE_BEGIN("order");

TEST_CASE("from stream to stream, a message follows the work before it and precedes the work after it") {
    check_order(true, true);
}

TEST_CASE("from stream to thread, a message follows the work before it and precedes the work after it") {
    check_order(true, false);
}

TEST_CASE("from thread to stream, a message follows the work before it and precedes the work after it") {
    check_order(false, true);
}

TEST_CASE("both directions at once keep the order rule") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    const Memory outgoing(Kind::kDevice, kLargest);
    const Memory incoming(Kind::kDevice, kLargest);
    std::vector<Bytes> contents, received;
    for (size_t round = 0; round < kRounds; round++) {
        contents.push_back(content_of(round));
        received.emplace_back(bytes_of(round));
    }
    for (size_t round = 0; round < kRounds; round++) {
        const size_t bytes = bytes_of(round);
        delay(stream, rank() % 2 == 0 ? sender_delay_us(round) : receiver_delay_us(round));
        REQUIRE_OK(gpurun_memcpy(outgoing.get(), contents[round].data(), bytes, stream));
        REQUIRE_OK(gpurun_sendrecv(outgoing.get(), bytes, GPURUN_BYTE, partner(), 6, incoming.get(), bytes, GPURUN_BYTE,
                                   partner(), 6, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_memset(outgoing.get(), 0xee, bytes, stream));
        REQUIRE_OK(gpurun_memcpy(received[round].data(), incoming.get(), bytes, stream));
        REQUIRE_OK(gpurun_memset(incoming.get(), 0xdd, bytes, stream));
    }
    stream.synchronize();
    for (size_t round = 0; round < kRounds; round++) {
        CAPTURE(round);
        CHECK(first_difference(received[round], contents[round]) == -1);
    }
}

TEST_CASE("a message that is received and sent on in one stream carries what was received") {
    constexpr size_t kTimes = 12;
    const Stream stream;
    const int next = (rank() + 1) % size();
    const int previous = (rank() + size() - 1) % size();
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        const Memory buffer(Kind::kDevice, bytes);
        Bytes last(bytes);
        if (rank() != 0)
            REQUIRE_OK(gpurun_memset(buffer.get(), 0, bytes, stream));
        const Bytes content = pattern(bytes, 77);
        if (rank() == 0)
            REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), bytes, stream));
        if (size() > 1) // a large message to self would wait for its own receive
            for (size_t time = 0; time < kTimes; time++) {
                if (rank() == 0)
                    REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, next, 0, kWorld, stream));
                REQUIRE_OK(gpurun_recv(buffer.get(), bytes, GPURUN_BYTE, previous, 0, kWorld, stream, nullptr));
                if (rank() != 0)
                    REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, next, 0, kWorld, stream));
            }
        REQUIRE_OK(gpurun_memcpy(last.data(), buffer.get(), bytes, stream));
        stream.synchronize();
        CHECK(first_difference(last, content) == -1);
    }
}

TEST_CASE("an event carries the order of a message to another stream") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 1u << 20;
    const Stream work, messages;
    gpurun_event ready = nullptr;
    REQUIRE_OK(gpurun_event_create(&ready));
    const Memory buffer(Kind::kDevice, kBytes);
    const Bytes content = pattern(kBytes, 4);
    Bytes got(kBytes);
    if (rank() % 2 == 0) {
        delay(work, 20000);
        REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), kBytes, work));
        REQUIRE_OK(gpurun_event_record(ready, work));
        REQUIRE_OK(gpurun_stream_wait_event(messages, ready));
        REQUIRE_OK(gpurun_send(buffer.get(), kBytes, GPURUN_BYTE, partner(), 1, kWorld, messages));
    } else {
        REQUIRE_OK(gpurun_recv(buffer.get(), kBytes, GPURUN_BYTE, partner(), 1, kWorld, messages, nullptr));
        REQUIRE_OK(gpurun_event_record(ready, messages));
        REQUIRE_OK(gpurun_stream_wait_event(work, ready));
        REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), kBytes, work));
        work.synchronize();
        CHECK(first_difference(got, content) == -1);
    }
    messages.synchronize();
    REQUIRE_OK(gpurun_event_destroy(ready));
}

TEST_CASE("the default stream is an order domain like any other") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 200000;
    const gpurun_stream stream = nullptr;
    const Memory buffer(Kind::kDevice, kBytes);
    const Bytes content = pattern(kBytes, 12);
    if (rank() % 2 == 0) {
        delay(stream, 5000);
        REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), kBytes, stream));
        REQUIRE_OK(gpurun_send(buffer.get(), kBytes, GPURUN_BYTE, partner(), 1, kWorld, stream));
        REQUIRE_OK(gpurun_memset(buffer.get(), 0, kBytes, stream));
        REQUIRE_OK(gpurun_stream_synchronize(stream));
        return;
    }
    Bytes got(kBytes);
    REQUIRE_OK(gpurun_recv(buffer.get(), kBytes, GPURUN_BYTE, partner(), 1, kWorld, stream, nullptr));
    REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), kBytes, stream));
    REQUIRE_OK(gpurun_stream_synchronize(stream));
    CHECK(first_difference(got, content) == -1);
}

TEST_SUITE_END();

} // namespace gpurun::test::order
