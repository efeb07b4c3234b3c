// What goes on beside graphs: while a stream is captured, and while a run waits for its partner's.
#include "graphs.hpp"

#include <optional>
#include <thread>

namespace gpurun::test::graphs_beside {

TEST_SUITE_BEGIN("graphs");

TEST_CASE("messages outside of a capture leave it alone, whatever memory they use") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    const Stream captured, other;
    Exchange exchange(Kind::kDevice, Kind::kDevice, 4096);
    const Graph graph(captured, [&] {
        exchange.begin(captured);
        for (const Kind kind : kKinds) {
            for (const size_t bytes : {size_t{100}, size_t{1} << 20}) {
                CAPTURE(name(kind));
                CAPTURE(bytes);
                const Memory out(kind, bytes), in(kind, bytes); // made and freed while the capture goes on, too
                for (const gpurun_stream order : {static_cast<gpurun_stream>(other), GPURUN_HOST}) {
                    REQUIRE_OK(gpurun_memset(out.get(), rank() + 1, bytes, GPURUN_HOST));
                    REQUIRE_OK(gpurun_sendrecv(out.get(), bytes, GPURUN_BYTE, peer, kEager, in.get(), bytes,
                                               GPURUN_BYTE, peer, kEager, kWorld, order, nullptr));
                    synchronize(order);
                    CHECK(in.read() == Bytes(bytes, static_cast<uint8_t>(peer + 1)));
                }
            }
        }
        REQUIRE_OK(exchange.sendrecv(peer, kData, captured));
        exchange.end(captured);
    });
    run_and_check(graph, exchange, captured, peer, 2);
}

// A graph is not guarded against two threads that add to it (seen by a crash on GPUs, by the thread sanitizer here).
TEST_CASE("a request of a graph that another thread matches is enqueued by the thread that captures") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    const Stream captured;
    Exchange exchange(Kind::kDevice, Kind::kDevice, 4096);
    const Memory word(Kind::kDevice, 8);
    const Graph graph(captured, [&] {
        gpurun_request request = GPURUN_REQUEST_NULL;
        exchange.begin(captured);
        REQUIRE_OK(gpurun_irecv(exchange.in, 4096, GPURUN_BYTE, peer, kData, kWorld, captured, &request));
        REQUIRE_OK(gpurun_send(exchange.out, 4096, GPURUN_BYTE, peer, kData, kWorld, captured));
        for (int i = 0; i < 2000; i++) // meanwhile the partner's send is matched
            REQUIRE_OK(gpurun_memset(word.get(), i % 256, 8, captured));
        REQUIRE_OK(gpurun_wait(&request, captured, nullptr));
        exchange.end(captured);
    });
    run_and_check(graph, exchange, captured, peer, 2);
    CHECK(word.read() == Bytes(8, static_cast<uint8_t>(1999 % 256)));
}

// CUDA waits for the device when memory is freed, and lets no other call of the process through meanwhile. The rank
// whose run waits has to get through to its partner, or that never launches its own.
TEST_CASE("what is freed while a run waits for its partner's holds up no call") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    const bool waits = rank() < peer;
    constexpr int kRuns = 3;
    const Stream stream;
    const Memory got(Kind::kPinned, 4096);
    Memory message(Kind::kDevice, 4096);
    for (int round = 0; round < 3; round++) {
        const Bytes expected = pattern(4096, static_cast<uint64_t>(round));
        if (!waits)
            message.write(expected);
        {
            const Graph graph(stream, [&] {
                if (waits) {
                    REQUIRE_OK(gpurun_recv(message.get(), 4096, GPURUN_BYTE, peer, kData, kWorld, stream, nullptr));
                    REQUIRE_OK(gpurun_memcpy(got.get(), message.get(), 4096, stream));
                } else {
                    REQUIRE_OK(gpurun_send(message.get(), 4096, GPURUN_BYTE, peer, kData, kWorld, stream));
                }
            });
            if (!waits) // the partner's has been launched, and what it freed is behind it
                REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, peer, kOther, kWorld, GPURUN_HOST, nullptr));
            for (int run = 0; run < kRuns; run++)
                graph.launch(stream);
            const Memory device(Kind::kDevice, 8 << 20), pinned(Kind::kPinned, 1 << 20);
            REQUIRE_OK(gpurun_memset(device.get(), 1, 64, GPURUN_HOST));
        } // both are freed here, then the graph is destroyed
        if (waits)
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, peer, kOther, kWorld, GPURUN_HOST));
        synchronize(stream);
        if (waits)
            CHECK(first_difference(got.get(), expected.data(), 4096) == -1);
    }
}

// A thread that sleeps until a message is there has a stream wait for it, on its device. The message stands behind a
// run of its source's, which waits for one that another thread of the target launches when it has freed something.
TEST_CASE("what is freed while a thread sleeps for a message behind a run holds up no call") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 1 << 20;
    const bool waits = rank() < peer;
    const Stream stream;
    Memory word(Kind::kDevice, 8), message(waits ? Kind::kPinned : Kind::kPageable, kBytes); // a processor copies it
    if (waits)
        message.write(pattern(kBytes, 1));
    const Graph graph(stream, [&] {
        if (waits)
            REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, peer, kData, kWorld, stream, nullptr));
        else
            REQUIRE_OK(gpurun_send(word.get(), 8, GPURUN_BYTE, peer, kData, kWorld, stream));
    });
    if (waits) {
        graph.launch(stream);
        REQUIRE_OK(gpurun_send(message.get(), kBytes, GPURUN_BYTE, peer, kOther, kWorld, stream));
    } else {
        std::thread receiver([&] {
            REQUIRE_OK(gpurun_recv(message.get(), kBytes, GPURUN_BYTE, peer, kOther, kWorld, GPURUN_HOST, nullptr));
        });
        for (const double until = gpurun_wtime() + 0.02; gpurun_wtime() < until;) // before it sleeps, and after
            const Memory freed(Kind::kDevice, 1 << 20), pinned(Kind::kPinned, 4096);
        graph.launch(stream);
        receiver.join();
        CHECK(first_difference(message.get(), pattern(kBytes, 1).data(), kBytes) == -1);
    }
    synchronize(stream);
}

// What a peer frees and allocates anew may lie where its old memory was. That is still mapped by whoever has received
// from it, and to unmap it waits for the device: a capture that needs the new memory comes after the runs that wait.
TEST_CASE("memory in the place of other memory is received into a graph while a run waits") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 700'000; // more than words carry
    const bool receives = rank() < peer;
    const Stream stream, other;
    const Memory word(Kind::kDevice, 8), in(Kind::kDevice, kBytes);
    const auto move = [&](const void* out, gpurun_stream captured, bool by_request) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        if (!receives) {
            REQUIRE_OK(gpurun_send(out, kBytes, GPURUN_BYTE, peer, kData, kWorld, captured));
        } else if (by_request) {
            REQUIRE_OK(gpurun_irecv(in.get(), kBytes, GPURUN_BYTE, peer, kData, kWorld, captured, &request));
            REQUIRE_OK(gpurun_wait(&request, captured, nullptr));
        } else {
            REQUIRE_OK(gpurun_recv(in.get(), kBytes, GPURUN_BYTE, peer, kData, kWorld, captured, nullptr));
        }
    };
    for (int round = 0; round < 4; round++) {
        CAPTURE(round);
        std::optional<Memory> first(std::in_place, Kind::kDevice, kBytes);
        {
            const Graph maps(stream, [&] { move(first->get(), stream, false); });
            maps.launch(stream);
            synchronize(stream);
        }
        const Graph waits(stream, [&] {
            if (receives)
                REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, peer, kOther, kWorld, stream, nullptr));
            else
                REQUIRE_OK(gpurun_send(word.get(), 8, GPURUN_BYTE, peer, kOther, kWorld, stream));
        });
        if (receives) {
            waits.launch(stream);
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, peer, kOther, kWorld, GPURUN_HOST));
        } else {
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, peer, kOther, kWorld, GPURUN_HOST, nullptr));
        }
        first.reset();
        Memory second(Kind::kDevice, kBytes); // mostly where the first was
        if (!receives)
            second.write(pattern(kBytes, static_cast<uint64_t>(round)));
        const Graph moves(other, [&] { move(second.get(), other, round % 2 == 1); });
        if (!receives) // it is captured, and the partner is about to
            waits.launch(stream);
        moves.launch(other);
        synchronize(stream);
        synchronize(other);
        if (receives)
            CHECK(in.read() == pattern(kBytes, static_cast<uint64_t>(round)));
    }
}

} // namespace gpurun::test::graphs_beside
