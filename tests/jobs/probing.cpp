// Looking at messages before they are received, and taking them for one receive alone.
#include "support/job.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

namespace gpurun::test::probing {

namespace {

constexpr size_t kSizes[] = {0, 8, 4097, 40000, (2u << 20) + 3};
constexpr int kData = 1, kGo = 2, kLast = 5000;

void send(const Bytes& content, int tag) {
    REQUIRE_OK(gpurun_send(content.data(), content.size(), GPURUN_BYTE, partner(), tag, kWorld, GPURUN_HOST));
}

// Every way to find out that the partner's message of `bytes` bytes is there; the message stays, or is taken.
void look(int turn, int source, int tag, size_t bytes, gpurun_message* message) {
    gpurun_message_status status{};
    int found = 0;
    if (turn % 2 == 0)
        REQUIRE_OK(message == nullptr ? gpurun_probe(source, tag, kWorld, &status)
                                      : gpurun_mprobe(source, tag, kWorld, message, &status));
    else
        while (found == 0)
            REQUIRE_OK(message == nullptr ? gpurun_iprobe(source, tag, kWorld, &found, &status)
                                          : gpurun_improbe(source, tag, kWorld, &found, message, &status));
    CHECK(status.source == partner());
    CHECK(status.tag == kData);
    CHECK(status.bytes == bytes);
    CHECK(status.count == bytes);
    CHECK(status.error == GPURUN_OK);
    CHECK(status.cancelled == 0);
}

// Receives what a matched probe has taken, blocking or not; gives the receive's own answer.
gpurun_status receive(const Memory& buffer, size_t room, gpurun_message& message, gpurun_stream domain, bool blocking,
                      gpurun_message_status& status) {
    gpurun_status result = GPURUN_OK;
    if (blocking) {
        result = gpurun_mrecv(buffer.get(), room, GPURUN_BYTE, &message, domain, &status);
    } else {
        gpurun_request request{};
        REQUIRE_OK(gpurun_imrecv(buffer.get(), room, GPURUN_BYTE, &message, domain, &request));
        result = gpurun_wait(&request, domain, &status);
        CHECK(request.id == 0);
    }
    CHECK(message.id == 0);
    synchronize(domain);
    return result;
}

void check_taken(const Bytes& content, size_t room, Kind kind, gpurun_stream domain, bool blocking) {
    CAPTURE(content.size());
    CAPTURE(room);
    CAPTURE(name(kind));
    CAPTURE(blocking);
    CAPTURE((domain == GPURUN_HOST));
    Memory buffer(kind, room + 8);
    buffer.write(Bytes(room + 8, 0x44));
    gpurun_message message{};
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_mprobe(partner(), kData, kWorld, &message, nullptr));
    CHECK(receive(buffer, room, message, domain, blocking, status) ==
          (room < content.size() ? GPURUN_ERR_TRUNCATED : GPURUN_OK));
    CHECK(status.source == partner());
    CHECK(status.tag == kData);
    CHECK(status.bytes == content.size());
    CHECK(status.error == (room < content.size() ? GPURUN_ERR_TRUNCATED : GPURUN_OK));
    const size_t moved = std::min(room, content.size());
    const Bytes got = buffer.read();
    CHECK(first_difference(got.data(), content.data(), moved) == -1);
    CHECK(got[moved] == 0x44);
}

} // namespace

TEST_SUITE_BEGIN("probing");

TEST_CASE("a probe describes the message that the next receive takes, and leaves it there") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    int turn = 0;
    for (const size_t bytes : kSizes)
        for (const int source : {partner(), GPURUN_ANY_SOURCE})
            for (const int tag : {kData, GPURUN_ANY_TAG})
                for (int way = 0; way < 2; way++) {
                    const Bytes content = pattern(bytes, static_cast<uint64_t>(turn++));
                    if (rank() % 2 == 0) {
                        send(content, kData);
                        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
                        continue;
                    }
                    const Memory buffer(Kind::kDevice, bytes);
                    gpurun_message_status status{};
                    look(way, source, tag, bytes, nullptr);
                    look(way + 1, source, tag, bytes, nullptr); // still there
                    REQUIRE_OK(
                        gpurun_recv(buffer.get(), bytes, GPURUN_BYTE, source, tag, kWorld, GPURUN_HOST, &status));
                    CHECK(status.bytes == bytes);
                    CHECK(status.source == partner());
                    CHECK(first_difference(buffer.read(), content) == -1);
                    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
                }
}

TEST_CASE("a probe finds no message with another tag or source, and none that a receive has taken") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Bytes content = pattern(100, 1);
    if (rank() % 2 == 0) {
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        send(content, kData); // for the receive that is there
        send(content, kLast);
        return;
    }
    int found = 7;
    gpurun_message message = gpurun_make_message(77);
    gpurun_message_status status{3, 3, 3, 3};
    gpurun_request request{};
    Memory buffer(Kind::kPageable, content.size());
    REQUIRE_OK(
        gpurun_irecv(buffer.get(), content.size(), GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, &request));
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_probe(partner(), kLast, kWorld, nullptr)); // both have come
    REQUIRE_OK(gpurun_iprobe(partner(), kData, kWorld, &found, &status));
    CHECK(found == 0);
    found = 7;
    REQUIRE_OK(gpurun_improbe(rank(), kLast, kWorld, &found, &message, &status));
    CHECK(found == 0);
    CHECK(message.id == 77);
    CHECK(status.source == 3);
    CHECK(status.bytes == 3);
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    CHECK(first_difference(buffer.read(), content) == -1);
    REQUIRE_OK(gpurun_recv(buffer.get(), content.size(), GPURUN_BYTE, partner(), kLast, kWorld, GPURUN_HOST, nullptr));
}

TEST_CASE("a message that a matched probe has taken is found by nobody else") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    for (const size_t bytes : kSizes) {
        const Bytes first = pattern(bytes, 1), second = pattern(bytes, 2);
        if (rank() % 2 == 0) {
            gpurun_request requests[2]{};
            REQUIRE_OK(
                gpurun_isend(first.data(), bytes, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, &requests[0]));
            REQUIRE_OK(
                gpurun_isend(second.data(), bytes, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, &requests[1]));
            REQUIRE_OK(gpurun_waitall(2, requests, GPURUN_HOST, nullptr));
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
            continue;
        }
        const Memory one(Kind::kDevice, bytes), two(Kind::kDevice, bytes);
        gpurun_message message{};
        gpurun_message_status status{};
        int found = 7;
        look(static_cast<int>(bytes % 2), GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, bytes, &message);
        REQUIRE_OK(gpurun_recv(two.get(), bytes, GPURUN_BYTE, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld, GPURUN_HOST,
                               nullptr));
        REQUIRE_OK(gpurun_iprobe(partner(), GPURUN_ANY_TAG, kWorld, &found, nullptr));
        CHECK(found == 0);
        REQUIRE_OK(receive(one, bytes, message, GPURUN_HOST, bytes % 3 == 0, status));
        CHECK(first_difference(one.read(), first) == -1);
        CHECK(first_difference(two.read(), second) == -1);
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    }
}

TEST_CASE("what a matched probe has taken is received in both order domains, blocking or not, and truncated") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const size_t bytes : kSizes)
        for (const Kind kind : {Kind::kDevice, Kind::kOrdered, Kind::kPageable})
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                for (const bool blocking : {false, true})
                    for (const size_t room : {bytes, bytes / 2}) {
                        const Bytes content = pattern(bytes, bytes + (blocking ? 1 : 0));
                        if (rank() % 2 == 1) {
                            check_taken(content, room, kind, domain, blocking);
                            continue;
                        }
                        Memory buffer(kind, bytes);
                        buffer.write(content);
                        REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain));
                        synchronize(domain);
                    }
}

TEST_CASE("threads that take messages by matched probes receive each once, and the one that they probed") {
    constexpr int kThreads = 4;
    constexpr uint32_t kEach = 100;
    if (partner() == GPURUN_PROC_NULL)
        return;
    std::array<std::atomic<int>, kThreads * kEach> seen{};
    std::array<std::thread, kThreads> threads;
    const auto body = [&seen](uint32_t thread) {
        std::vector<uint32_t> words(3000);
        for (uint32_t i = 0; i < kEach; i++) {
            const uint32_t number = thread * kEach + i;
            if (rank() % 2 == 0) {
                const size_t count = 1 + number * 7 % words.size();
                std::fill(words.begin(), words.end(), number);
                REQUIRE_OK(gpurun_send(words.data(), count, GPURUN_UINT32, partner(), static_cast<int>(number), kWorld,
                                       GPURUN_HOST));
                continue;
            }
            gpurun_message message{};
            gpurun_message_status probed{}, received{};
            REQUIRE_OK(gpurun_mprobe(GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld, &message, &probed));
            REQUIRE_OK(gpurun_mrecv(words.data(), words.size(), GPURUN_UINT32, &message, GPURUN_HOST, &received));
            CHECK(received.bytes == probed.bytes);
            CHECK(received.tag == probed.tag);
            CHECK(received.count == 1 + static_cast<size_t>(probed.tag) * 7 % words.size());
            CHECK(words[received.count - 1] == static_cast<uint32_t>(probed.tag));
            seen.at(words[0])++;
        }
    };
    for (uint32_t i = 0; i < kThreads; i++)
        threads[i] = std::thread(body, i);
    for (std::thread& thread : threads)
        thread.join();
    if (rank() % 2 == 1)
        for (const std::atomic<int>& times : seen)
            CHECK(times == 1);
}

TEST_CASE("a probe of GPURUN_PROC_NULL finds what a receive from it gives") {
    const Stream stream;
    uint32_t number = 8;
    for (int way = 0; way < 4; way++) {
        gpurun_message message{};
        gpurun_message_status status{1, 1, 1, 1};
        int found = 1;
        switch (way) {
        case 0: REQUIRE_OK(gpurun_probe(GPURUN_PROC_NULL, 3, kWorld, &status)); break;
        case 1: REQUIRE_OK(gpurun_iprobe(GPURUN_PROC_NULL, 3, kWorld, &(found = 0), &status)); break;
        case 2: REQUIRE_OK(gpurun_mprobe(GPURUN_PROC_NULL, 3, kWorld, &message, &status)); break;
        case 3: REQUIRE_OK(gpurun_improbe(GPURUN_PROC_NULL, 3, kWorld, &(found = 0), &message, &status)); break;
        }
        CHECK(found == 1);
        CHECK(status.source == GPURUN_PROC_NULL);
        CHECK(status.tag == GPURUN_ANY_TAG);
        CHECK(status.bytes == 0);
        CHECK(message.id == (way < 2 ? 0 : GPURUN_MESSAGE_NO_PROC.id));
        if (way < 2)
            continue;
        const Memory buffer(Kind::kPageable, sizeof number);
        std::memcpy(buffer.get(), &number, sizeof number);
        status = {1, 1, 1, 1};
        REQUIRE_OK(receive(buffer, sizeof number, message, stream, way == 2, status));
        CHECK(status.source == GPURUN_PROC_NULL);
        CHECK(status.tag == GPURUN_ANY_TAG);
        CHECK(status.bytes == 0);
        CHECK(std::memcmp(buffer.get(), &number, sizeof number) == 0);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::probing
