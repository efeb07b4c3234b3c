// Messages that a rank sends to itself.
#include "support/job.hpp"

#include <atomic>
#include <thread>

namespace gpurun::test::self {

TEST_SUITE_BEGIN("self");

TEST_CASE("a small message to self waits there for its receive") {
    const Stream stream;
    for (const Kind from : kKinds)
        for (const Kind to : kKinds)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                CAPTURE(name(from));
                CAPTURE(name(to));
                CAPTURE((domain == GPURUN_HOST));
                const Bytes content = pattern(1000, 5);
                Memory source(from, content.size());
                Memory target(to, content.size());
                source.write(content);
                target.write(Bytes(content.size(), 0));
                REQUIRE_OK(gpurun_send(source.get(), 1000, GPURUN_BYTE, rank(), 2, kWorld, domain));
                REQUIRE_OK(gpurun_memset(source.get(), 0xff, source.size(), domain));
                gpurun_message_status status{};
                REQUIRE_OK(gpurun_recv(target.get(), 1000, GPURUN_BYTE, GPURUN_ANY_SOURCE, 2, kWorld, domain, &status));
                synchronize(domain);
                CHECK(status.source == rank());
                CHECK(status.bytes == 1000);
                CHECK(first_difference(target.read(), content) == -1);
            }
}

TEST_CASE("small messages to self are received by tag, in any order") {
    for (uint32_t i = 0; i < 10; i++)
        REQUIRE_OK(gpurun_send(&i, 1, GPURUN_UINT32, rank(), static_cast<int>(i), kWorld, GPURUN_HOST));
    for (uint32_t i = 10; i-- > 0;) {
        uint32_t got = 0;
        REQUIRE_OK(gpurun_recv(&got, 1, GPURUN_UINT32, rank(), static_cast<int>(i), kWorld, GPURUN_HOST, nullptr));
        CHECK(got == i);
    }
}

TEST_CASE("a small message to self in a group does not wait for a receive that comes later, or takes another one") {
    const Stream stream;
    Memory source(Kind::kDevice, 300), target(Kind::kDevice, 300);
    const Bytes content = pattern(300, 9);
    source.write(content);
    for (const int tag : {2, 3}) { // in a group alone, and beside a receive of the first
        REQUIRE_OK(gpurun_group_begin());
        REQUIRE_OK(gpurun_send(source.at(tag == 2 ? 0 : 100), 100, GPURUN_BYTE, rank(), 2, kWorld, stream));
        if (tag == 3)
            REQUIRE_OK(gpurun_recv(target.get(), 100, GPURUN_BYTE, rank(), 2, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_group_end());
    }
    REQUIRE_OK(gpurun_recv(target.at(100), 100, GPURUN_BYTE, rank(), 2, kWorld, stream, nullptr));
    REQUIRE_OK(gpurun_memcpy(target.at(200), source.at(200), 100, stream));
    stream.synchronize();
    CHECK(first_difference(target.read(), content) == -1);
}

TEST_CASE("a small message to self in a group does not wait for a receive that a request beside it gets") {
    const Stream stream;
    Memory source(Kind::kDevice, 200), target(Kind::kDevice, 200);
    const Bytes content = pattern(200, 10);
    source.write(content);
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_isend(source.get(), 100, GPURUN_BYTE, rank(), 2, kWorld, stream, &request));
    REQUIRE_OK(gpurun_send(source.at(100), 100, GPURUN_BYTE, rank(), 2, kWorld, stream));
    REQUIRE_OK(gpurun_recv(target.get(), 100, GPURUN_BYTE, rank(), 2, kWorld, stream, nullptr));
    REQUIRE_OK(gpurun_group_end());
    REQUIRE_OK(gpurun_recv(target.at(100), 100, GPURUN_BYTE, rank(), 2, kWorld, stream, nullptr));
    REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    stream.synchronize();
    CHECK(first_difference(target.read(), content) == -1);
}

TEST_CASE("a large message to self goes through sendrecv") {
    const Stream stream;
    for (const Kind from : kKinds)
        for (const Kind to : kKinds)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                CAPTURE(name(from));
                CAPTURE(name(to));
                CAPTURE((domain == GPURUN_HOST));
                const Bytes content = pattern(3000001, 6);
                Memory source(from, content.size());
                Memory target(to, content.size());
                Bytes got(content.size());
                REQUIRE_OK(gpurun_memcpy(source.get(), content.data(), content.size(), domain));
                REQUIRE_OK(gpurun_sendrecv(source.get(), content.size(), GPURUN_BYTE, rank(), 2, target.get(),
                                           content.size(), GPURUN_BYTE, rank(), 2, kWorld, domain, nullptr));
                REQUIRE_OK(gpurun_memset(source.get(), 0xff, source.size(), domain));
                REQUIRE_OK(gpurun_memcpy(got.data(), target.get(), got.size(), domain));
                synchronize(domain);
                CHECK(first_difference(got, content) == -1);
            }
}

TEST_CASE("a large message to self moves between two threads, and between two streams") {
    const Bytes content = pattern(2000000, 7);
    for (const bool on_stream : {false, true}) {
        const Stream sending, receiving;
        Memory source(Kind::kDevice, content.size());
        Memory target(Kind::kDevice, content.size());
        source.write(content);
        std::thread sender([&] {
            const gpurun_stream domain = on_stream ? static_cast<gpurun_stream>(sending) : GPURUN_HOST;
            REQUIRE_OK(gpurun_send(source.get(), content.size(), GPURUN_BYTE, rank(), 8, kWorld, domain));
            synchronize(domain);
        });
        const gpurun_stream domain = on_stream ? static_cast<gpurun_stream>(receiving) : GPURUN_HOST;
        REQUIRE_OK(gpurun_recv(target.get(), content.size(), GPURUN_BYTE, rank(), 8, kWorld, domain, nullptr));
        synchronize(domain);
        sender.join();
        CHECK(first_difference(target.read(), content) == -1);
    }
}

TEST_CASE("a started message to self from a stream that is held up is complete in another stream, and moves later") {
    std::atomic<bool> open = false;
    const auto hold = [](void* flag) {
        while (!*static_cast<std::atomic<bool>*>(flag))
            std::this_thread::yield();
    };
    for (const Kind from : kKinds)
        for (const Kind to : kKinds)
            for (const size_t bytes : {size_t{0}, size_t{200000}}) {
                CAPTURE(name(from));
                CAPTURE(name(to));
                CAPTURE(bytes);
                const Stream held, after;
                const Bytes content = pattern(bytes, 12);
                Memory source(from, bytes), target(to, bytes);
                gpurun_request requests[2]{};
                source.write(content);
                for (const bool holds : {false, true}) { // first without, so that nothing is set up while it is held
                    open = !holds;
                    target.write(Bytes(bytes, 0));
                    REQUIRE_OK(gpurun_launch_host(held, hold, &open));
                    REQUIRE_OK(
                        gpurun_irecv(target.get(), bytes, GPURUN_BYTE, rank(), 3, kWorld, GPURUN_HOST, &requests[0]));
                    REQUIRE_OK(gpurun_issend(source.get(), bytes, GPURUN_BYTE, rank(), 3, kWorld, held, &requests[1]));
                    REQUIRE_OK(gpurun_wait(&requests[1], after, nullptr)); // does not wait for the device
                    open = true;
                    REQUIRE_OK(gpurun_wait(&requests[0], GPURUN_HOST, nullptr));
                    CHECK(first_difference(target.read(), content) == -1);
                    after.synchronize();
                }
            }
}

TEST_CASE("a message to self is truncated like any other") {
    const Bytes content = pattern(500, 8);
    Bytes got(500, 0x11);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_send(content.data(), 500, GPURUN_BYTE, rank(), 1, kWorld, GPURUN_HOST));
    CHECK(gpurun_recv(got.data(), 100, GPURUN_BYTE, rank(), 1, kWorld, GPURUN_HOST, &status) == GPURUN_ERR_TRUNCATED);
    CHECK(status.bytes == 500);
    CHECK(first_difference(got.data(), content.data(), 100) == -1);
    CHECK(got[100] == 0x11);
}

TEST_SUITE_END();

} // namespace gpurun::test::self
