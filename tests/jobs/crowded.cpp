// More messages of a pair are under way, and not received, than it has fence slots: those behind them are found, keep
// their order, and may be the first to be received.
#include "support/job.hpp"

#include <algorithm>

namespace gpurun::test::crowded {

namespace {

constexpr int kMessages = 150; // a pair has 96 slots for messages that are not received, and 24 for others
constexpr size_t kBytes = 300000;
constexpr int kGoTag = 1000;

size_t offset_of(int tag) { return static_cast<size_t>(tag) * 16; }
constexpr size_t kWindow = kBytes + kMessages * 16;

using Start = gpurun_status (*)(const void*, size_t, gpurun_datatype, int, int, gpurun_comm, gpurun_stream,
                                gpurun_request*);
using Requests = std::vector<gpurun_request>;

// Tags 0, 1, ... of a window on one pattern.
Requests start_all(const Memory& window, size_t bytes, int dest, gpurun_stream domain, Start start = gpurun_isend) {
    Requests requests(kMessages);
    for (int tag = 0; tag < kMessages; tag++)
        REQUIRE_OK(start(window.at(offset_of(tag)), bytes, GPURUN_BYTE, dest, tag, kWorld, domain,
                         &requests[static_cast<size_t>(tag)]));
    return requests;
}

void complete(Requests& requests, gpurun_stream domain) {
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), domain, nullptr));
    synchronize(domain);
}

void receive_backwards(const Bytes& content, size_t bytes, int source, gpurun_stream domain, Kind kind) {
    const Memory buffer(kind, kBytes);
    Bytes got(kBytes);
    for (int tag = kMessages - 1; tag >= 0; tag--) {
        gpurun_message_status status{};
        REQUIRE_OK(gpurun_recv(buffer.get(), buffer.size(), GPURUN_BYTE, source, tag, kWorld, domain, &status));
        REQUIRE(status.bytes == bytes);
        REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), bytes, domain));
        synchronize(domain);
        REQUIRE(first_difference(got.data(), &content[offset_of(tag)], bytes) == -1);
    }
}

// Each rank to its partner, or alone to itself.
int other() { return partner() == GPURUN_PROC_NULL ? rank() : partner(); }

template <typename Visit>
void for_every_domain(const Visit& visit) {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        CAPTURE((domain == GPURUN_HOST));
        visit(domain);
    }
}

} // namespace

TEST_SUITE_BEGIN("crowded");

TEST_CASE("a hundred started messages are received last to first, between every two kinds of memory") {
    const Bytes content = pattern(kWindow, 5);
    for (const Kind from : kKinds)
        for (const Kind to : kKinds) {
            CAPTURE(name(from));
            CAPTURE(name(to));
            Memory window(from, kWindow);
            window.write(content);
            for_every_domain([&](gpurun_stream domain) {
                Requests requests = start_all(window, kBytes, other(), domain);
                receive_backwards(content, kBytes, other(), domain, to);
                complete(requests, domain);
            });
        }
}

TEST_CASE("a hundred started messages to oneself are received last to first") {
    const Bytes content = pattern(kWindow, 6);
    Memory window(Kind::kDevice, kWindow);
    window.write(content);
    for_every_domain([&](gpurun_stream domain) {
        Requests requests = start_all(window, kBytes, rank(), domain);
        receive_backwards(content, kBytes, rank(), domain, Kind::kDevice);
        complete(requests, domain);
    });
}

TEST_CASE("a hundred synchronous messages of no bytes are received last to first, each complete when it is matched") {
    const Bytes content = pattern(kWindow, 7);
    Memory window(Kind::kPageable, kWindow);
    for_every_domain([&](gpurun_stream domain) {
        Requests requests = start_all(window, 0, other(), domain, gpurun_issend);
        REQUIRE_OK(gpurun_barrier(kWorld, domain)); // behind all of them
        int done = 1;
        REQUIRE_OK(gpurun_test(&requests.back(), domain, &done, nullptr));
        CHECK(done == 0);
        REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
        receive_backwards(content, 0, other(), domain, Kind::kPageable);
        complete(requests, domain);
    });
}

TEST_CASE("collectives pass any number of messages that nobody has received") {
    const Bytes content = pattern(kWindow, 8);
    Memory window(Kind::kDevice, kWindow);
    window.write(content);
    const Memory shared(Kind::kDevice, kBytes);
    for_every_domain([&](gpurun_stream domain) {
        Requests requests = start_all(window, kBytes, other(), domain);
        REQUIRE_OK(gpurun_barrier(kWorld, domain));
        REQUIRE_OK(gpurun_bcast(shared.get(), kBytes, GPURUN_BYTE, size() - 1, kWorld, domain));
        REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
        receive_backwards(content, kBytes, other(), domain, Kind::kDevice);
        complete(requests, domain);
    });
}

TEST_CASE("sendrecv passes any number of messages that nobody has received") {
    const Bytes content = pattern(kWindow, 9);
    Memory window(Kind::kDevice, kWindow), sent(Kind::kDevice, kBytes);
    const Memory received(Kind::kDevice, kBytes);
    window.write(content);
    sent.write(pattern(kBytes, static_cast<uint64_t>(100 + rank())));
    for_every_domain([&](gpurun_stream domain) {
        Requests requests = start_all(window, kBytes, other(), domain);
        for (int round = 0; round < 5; round++) {
            REQUIRE_OK(gpurun_memset(received.get(), 0, kBytes, domain));
            REQUIRE_OK(gpurun_sendrecv(sent.get(), kBytes, GPURUN_BYTE, other(), kGoTag, received.get(), kBytes,
                                       GPURUN_BYTE, other(), kGoTag, kWorld, domain, nullptr));
            synchronize(domain);
            CHECK(first_difference(received.read(), pattern(kBytes, static_cast<uint64_t>(100 + other()))) == -1);
        }
        receive_backwards(content, kBytes, other(), domain, Kind::kDevice);
        complete(requests, domain);
    });
}

TEST_CASE("a message behind many others has its place in its stream, and its receiver's stream waits for that") {
    const Memory filler(Kind::kDevice, kWindow), received(Kind::kDevice, kBytes);
    const Stream sending, receiving;
    const Bytes content(kBytes, 1);
    for (const size_t bytes : {kBytes, size_t{0}}) {
        CAPTURE(bytes);
        Memory buffer(Kind::kDevice, kBytes);
        Requests requests = start_all(filler, kBytes, other(), GPURUN_HOST);
        gpurun_request last{};
        double left = 0, came = 0, left_there = 0;
        delay(sending, 30000);
        REQUIRE_OK(gpurun_memset(buffer.get(), 1, kBytes, sending));
        note_time(sending, left);
        REQUIRE_OK(gpurun_isend(buffer.get(), bytes, GPURUN_BYTE, other(), kGoTag, kWorld, sending, &last));
        REQUIRE_OK(gpurun_recv(received.get(), kBytes, GPURUN_BYTE, other(), kGoTag, kWorld, receiving, nullptr));
        note_time(receiving, came);
        REQUIRE_OK(gpurun_wait(&last, sending, nullptr));
        REQUIRE_OK(gpurun_memset(buffer.get(), 2, kBytes, sending)); // after the message
        receiving.synchronize();
        sending.synchronize();
        REQUIRE_OK(gpurun_sendrecv(&left, 1, GPURUN_DOUBLE, other(), kGoTag, &left_there, 1, GPURUN_DOUBLE, other(),
                                   kGoTag, kWorld, GPURUN_HOST, nullptr));
        CHECK(left_there <= came);
        if (bytes != 0)
            CHECK(first_difference(received.read(), content) == -1);
        for (int tag = kMessages - 1; tag >= 0; tag--)
            REQUIRE_OK(gpurun_recv(received.get(), kBytes, GPURUN_BYTE, other(), tag, kWorld, GPURUN_HOST, nullptr));
        complete(requests, GPURUN_HOST);
    }
}

TEST_CASE("a stream goes on past any number of messages that nobody has received") {
    const Bytes content = pattern(kWindow, 10);
    const Stream stream;
    for (const size_t bytes : {kBytes, size_t{0}}) {
        CAPTURE(bytes);
        Memory window(Kind::kDevice, kWindow);
        window.write(content);
        Requests requests = start_all(window, bytes, other(), stream);
        double reached = 0;
        note_time(stream, reached);
        stream.synchronize();
        CHECK(reached != 0);
        REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
        receive_backwards(content, bytes, other(), GPURUN_HOST, Kind::kDevice);
        complete(requests, stream);
    }
}

TEST_CASE("what a hundred receives wait for comes in the order of sending, and completes into a stream") {
    const Bytes content = pattern(kWindow, 11);
    Memory window(Kind::kDevice, kWindow), received(Kind::kDevice, kMessages * kBytes);
    window.write(content);
    for_every_domain([&](gpurun_stream domain) {
        Requests sends = start_all(window, kBytes, other(), domain), receives(kMessages);
        for (size_t i = 0; i < kMessages; i++) // of any tag: each takes the oldest that is there
            REQUIRE_OK(gpurun_irecv(received.at(i * kBytes), kBytes, GPURUN_BYTE, other(), GPURUN_ANY_TAG, kWorld,
                                    domain, &receives[i]));
        complete(receives, domain);
        complete(sends, domain);
        const Bytes got = received.read();
        for (int tag = 0; tag < kMessages; tag++)
            CHECK(first_difference(&got[static_cast<size_t>(tag) * kBytes], &content[offset_of(tag)], kBytes) == -1);
    });
}

TEST_CASE("a truncated receive of a message behind many others delivers what fits, of none nothing") {
    const Bytes content = pattern(kWindow, 12);
    Memory window(Kind::kDevice, kWindow), received(Kind::kDevice, kBytes);
    window.write(content);
    for_every_domain([&](gpurun_stream domain) {
        Requests requests = start_all(window, kBytes, other(), domain);
        for (int tag = kMessages - 1; tag >= 0; tag--) {
            const size_t room = tag % 2 == 0 ? 0 : 12345;
            REQUIRE_OK(gpurun_memset(received.get(), 0xee, kBytes, domain));
            gpurun_message_status status{};
            const gpurun_status result =
                gpurun_recv(received.get(), room, GPURUN_BYTE, other(), tag, kWorld, domain, &status);
            REQUIRE(result == GPURUN_ERR_TRUNCATED);
            CHECK(status.bytes == kBytes);
            synchronize(domain);
            const Bytes got = received.read();
            CHECK(first_difference(got.data(), &content[offset_of(tag)], room) == -1);
            CHECK(std::all_of(got.begin() + static_cast<ptrdiff_t>(room), got.end(),
                              [](uint8_t byte) { return byte == 0xee; }));
        }
        complete(requests, domain);
    });
}

TEST_SUITE_END();

} // namespace gpurun::test::crowded
