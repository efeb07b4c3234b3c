// Messages of graphs: what may be captured, in which order, how much of it, and what says that it cannot.
#include "graphs.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace gpurun::test::graph_rules {

TEST_SUITE_BEGIN("graphs");

TEST_CASE("orders of calls that MPI allows do not deadlock in graphs") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    const bool first = rank() < partner();
    enum Order { kReceiveThenSend, kWaitForSendFirst, kSynchronousFirst, kOtherReceiveFirst };
    for (const size_t bytes : {size_t{64}, size_t{700'000}}) { // the latter waits until it is read
        CAPTURE(bytes);
        Exchange exchange(Kind::kDevice, Kind::kDevice, bytes);
        Memory word(Kind::kDevice, 8);
        const auto send = [&](const auto& start, gpurun_request* request) {
            return start(exchange.out, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream, request);
        };
        const auto receive = [&](gpurun_request* request) {
            return gpurun_irecv(exchange.in, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream, request);
        };
        for (const Order order : {kReceiveThenSend, kWaitForSendFirst, kSynchronousFirst, kOtherReceiveFirst}) {
            CAPTURE(static_cast<int>(order));
            const Graph graph(stream, [&] {
                gpurun_request in = GPURUN_REQUEST_NULL, out = GPURUN_REQUEST_NULL;
                exchange.begin(stream);
                switch (order) {
                case kReceiveThenSend: // the partner blocks in its send, which this receive lets go
                    REQUIRE_OK(receive(&in));
                    REQUIRE_OK(gpurun_send(exchange.out, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream));
                    break;
                case kWaitForSendFirst:
                case kSynchronousFirst:
                    REQUIRE_OK(send(order == kSynchronousFirst ? gpurun_issend : gpurun_isend, &out));
                    REQUIRE_OK(receive(&in));
                    REQUIRE_OK(gpurun_wait(&out, stream, nullptr));
                    break;
                case kOtherReceiveFirst: // of a message that comes after a blocking send which the started receive lets
                                         // go
                    if (first) {
                        REQUIRE_OK(receive(&in));
                        REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, partner(), kOther, kWorld, stream, nullptr));
                        REQUIRE_OK(send(gpurun_isend, &out));
                    } else {
                        REQUIRE_OK(gpurun_send(exchange.out, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream));
                        REQUIRE_OK(gpurun_send(word.get(), 8, GPURUN_BYTE, partner(), kOther, kWorld, stream));
                        REQUIRE_OK(receive(&in));
                    }
                    break;
                }
                REQUIRE_OK(gpurun_wait(&in, stream, nullptr));
                REQUIRE_OK(gpurun_wait(&out, stream, nullptr));
                exchange.end(stream);
            });
            run_and_check(graph, exchange, stream, partner(), 4);
        }
    }
}

TEST_CASE("a captured send that is completed on another stream of its capture has read its buffer there") {
    if (!can_capture(partner()))
        return;
    const Stream stream, beside;
    gpurun_event fork = nullptr, joint = nullptr;
    REQUIRE_OK(gpurun_event_create(&fork));
    REQUIRE_OK(gpurun_event_create(&joint));
    for (const Kind kind : {Kind::kDevice, Kind::kOrdered})
        for (const size_t bytes : {size_t{5000}, size_t{300'000}}) { // the latter in place, or copied aside
            CAPTURE(name(kind));
            CAPTURE(bytes);
            Exchange exchange(kind, Kind::kDevice, bytes);
            const Graph graph(stream, [&] {
                gpurun_request requests[2];
                exchange.begin(stream);
                REQUIRE_OK(gpurun_event_record(fork, stream));
                REQUIRE_OK(gpurun_stream_wait_event(beside, fork));
                delay(stream, 5000); // what is beside would be first
                REQUIRE_OK(
                    gpurun_isend(exchange.out, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream, &requests[0]));
                REQUIRE_OK(
                    gpurun_irecv(exchange.in, bytes, GPURUN_BYTE, partner(), kData, kWorld, beside, &requests[1]));
                REQUIRE_OK(gpurun_wait(&requests[0], beside, nullptr));
                REQUIRE_OK(gpurun_memset(exchange.out, 0xee, bytes, beside));
                REQUIRE_OK(gpurun_wait(&requests[1], beside, nullptr));
                REQUIRE_OK(gpurun_memcpy(exchange.got.get(), exchange.in, bytes, beside));
                REQUIRE_OK(gpurun_event_record(joint, beside));
                REQUIRE_OK(gpurun_stream_wait_event(stream, joint));
            });
            run_and_check(graph, exchange, stream, partner(), 3);
        }
    REQUIRE_OK(gpurun_event_destroy(fork));
    REQUIRE_OK(gpurun_event_destroy(joint));
}

TEST_CASE("persistent requests are captured as others are") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    Exchange exchange(Kind::kDevice, Kind::kDevice, 5000);
    gpurun_request requests[2];
    REQUIRE_OK(gpurun_send_init(exchange.out, 5000, GPURUN_BYTE, partner(), kData, kWorld, stream, &requests[0]));
    REQUIRE_OK(gpurun_recv_init(exchange.in, 5000, GPURUN_BYTE, partner(), kData, kWorld, stream, &requests[1]));
    {
        const Graph graph(stream, [&] {
            exchange.begin(stream);
            REQUIRE_OK(gpurun_startall(2, requests));
            REQUIRE_OK(gpurun_waitall(2, requests, stream, nullptr));
            exchange.end(stream);
        });
        run_and_check(graph, exchange, stream, partner(), 5);
    }
    exchange.prepare(9); // and once more without
    exchange.begin(stream);
    REQUIRE_OK(gpurun_startall(2, requests));
    REQUIRE_OK(gpurun_waitall(2, requests, stream, nullptr));
    exchange.end(stream);
    synchronize(stream);
    exchange.check(partner(), 9);
    for (gpurun_request& request : requests)
        REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("a captured message that is too long is cut to its buffer in every run, and the capture says so") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    for (const size_t bytes : {size_t{100}, size_t{50'000}, size_t{300'000}}) {
        Memory buffer(Kind::kDevice, bytes);
        const size_t room = bytes / 3;
        const bool sends = rank() < partner();
        const Graph graph(stream, [&] {
            if (sends) {
                REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, stream));
            } else {
                gpurun_message_status status{};
                CHECK(gpurun_recv(buffer.get(), room, GPURUN_BYTE, partner(), kData, kWorld, stream, &status) ==
                      GPURUN_ERR_TRUNCATED);
                CHECK(status.bytes == bytes);
            }
        });
        for (int run = 0; run < 3; run++) {
            buffer.write(sends ? pattern(bytes, seed_of(0, run, bytes)) : Bytes(bytes, 0xdd));
            graph.launch(stream);
            synchronize(stream);
            if (sends)
                continue;
            const Bytes got = buffer.read(), expected = pattern(bytes, seed_of(0, run, bytes));
            CHECK(first_difference(got.data(), expected.data(), room) == -1);
            CHECK(first_difference(got.data() + room, Bytes(bytes, 0xdd).data(), bytes - room) == -1);
        }
    }
}

TEST_CASE("a captured synchronous send comes after its receive in every run") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    Memory buffer(Kind::kDevice, 64);
    const Graph graph(stream, [&] {
        if (rank() < partner())
            REQUIRE_OK(gpurun_ssend(buffer.get(), 64, GPURUN_BYTE, partner(), kData, kWorld, stream));
        else
            REQUIRE_OK(gpurun_recv(buffer.get(), 64, GPURUN_BYTE, partner(), kData, kWorld, stream, nullptr));
    });
    for (int run = 0; run < 3; run++) {
        if (rank() < partner()) {
            graph.launch(stream);
            int done = 1;
            REQUIRE_OK(gpurun_stream_query(stream, &done));
            CHECK(done == 0); // its partner has not launched yet: it waits for this
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kEager, kWorld, GPURUN_HOST));
        } else {
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kEager, kWorld, GPURUN_HOST, nullptr));
            graph.launch(stream);
        }
        synchronize(stream);
    }
}

TEST_CASE("graphs come and go thousands of times, and what they had is used again") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    Exchange small(Kind::kDevice, Kind::kDevice, 8), large(Kind::kDevice, Kind::kDevice, 65536);
    for (int round = 0; round < 700; round++) {
        const Graph graph(stream, [&] {
            small.begin(stream);
            large.begin(stream);
            for (int i = 0; i < 4; i++)
                REQUIRE_OK(small.sendrecv(partner(), kData, stream));
            REQUIRE_OK(large.sendrecv(partner(), kOther, stream));
            small.end(stream);
            large.end(stream);
        });
        if (round % 10 != 0)
            continue; // most never run
        small.prepare(round);
        large.prepare(round);
        graph.launch(stream);
        graph.launch(stream);
        synchronize(stream);
        small.check(partner(), round);
        large.check(partner(), round);
    }
}

TEST_CASE("more captured messages than there is room for are an error that says what to do, and nothing is lost") {
    if (!can_capture(partner()))
        return;
    constexpr int kMost = 100'000;
    const Stream stream;
    Memory word(Kind::kDevice, 8);
    for (int round = 0; round < 2; round++) {
        if (rank() < partner()) {
            int sent = 0;
            gpurun_status status = GPURUN_OK;
            const Graph graph(stream, [&] {
                while (sent < kMost && status == GPURUN_OK) {
                    status = gpurun_send(word.get(), 8, GPURUN_BYTE, partner(), kData, kWorld, stream);
                    sent += status == GPURUN_OK ? 1 : 0;
                }
            });
            CHECK(status == GPURUN_ERR_MEMORY);
            CHECK(std::string(gpurun_error_detail()).find("destroy") != std::string::npos);
            CHECK(sent > 1000);
            REQUIRE_OK(gpurun_send(&sent, 1, GPURUN_INT32, partner(), kEager, kWorld, GPURUN_HOST));
            graph.launch(stream);
            synchronize(stream);
        } else {
            int sent = 0;
            REQUIRE_OK(gpurun_recv(&sent, 1, GPURUN_INT32, partner(), kEager, kWorld, GPURUN_HOST, nullptr));
            const Graph graph(stream, [&] {
                for (int i = 0; i < sent; i++)
                    REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, partner(), kData, kWorld, stream, nullptr));
            });
            graph.launch(stream);
            synchronize(stream);
        }
        REQUIRE_OK(exchange_nothing(GPURUN_HOST, partner())); // both graphs are gone
    }
}

TEST_CASE("where the device has no graphs, each call for them says so") {
    if (has_graphs())
        return;
    const Stream stream;
    const auto graph = reinterpret_cast<gpurun_graph>(uintptr_t{8});
    gpurun_graph captured = nullptr;
    for (const gpurun_status status : {gpurun_capture_begin(stream), gpurun_capture_end(stream, &captured),
                                       gpurun_graph_launch(graph, stream), gpurun_graph_destroy(graph)}) {
        CHECK(status == GPURUN_ERR_UNSUPPORTED);
        CHECK(std::string(gpurun_error_detail()).find("'graphs'") != std::string::npos);
    }
    CHECK(captured == nullptr);
    CHECK(gpurun_graph_destroy(nullptr) == GPURUN_OK);
}

TEST_CASE("what cannot be part of a graph is refused, and the capture goes on") {
    if (!has_graphs())
        return;
    const Stream stream;
    Memory device(Kind::kDevice, 64), pinned(Kind::kPinned, 64), pageable(Kind::kPageable, 64);
    gpurun_request eager = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_irecv(device.get(), 8, GPURUN_BYTE, rank(), kEager, kWorld, stream, &eager));
    const auto refused = [](gpurun_status status) {
        CHECK(status == GPURUN_ERR_UNSUPPORTED);
        CHECK(std::strlen(gpurun_error_detail()) > 0);
    };
    {
        const Graph graph(stream, [&] {
            refused(gpurun_recv(device.get(), 8, GPURUN_BYTE, GPURUN_ANY_SOURCE, kData, kWorld, stream, nullptr));
            refused(gpurun_recv(device.get(), 8, GPURUN_BYTE, rank(), GPURUN_ANY_TAG, kWorld, stream, nullptr));
            gpurun_request request = GPURUN_REQUEST_NULL;
            refused(gpurun_irecv(device.get(), 8, GPURUN_BYTE, GPURUN_ANY_SOURCE, kData, kWorld, stream, &request));
            refused(gpurun_sendrecv_replace(device.get(), 8, GPURUN_BYTE, rank(), kData, rank(), kData, kWorld, stream,
                                            nullptr));
            refused(gpurun_send(pageable.get(), 8, GPURUN_BYTE, rank(), kData, kWorld, stream));
            refused(gpurun_recv(pageable.get(), 8, GPURUN_BYTE, rank(), kData, kWorld, stream, nullptr));
            refused(gpurun_memset(pageable.get(), 0, 8, stream));
            refused(gpurun_memcpy(device.get(), pageable.get(), 8, stream));
            refused(gpurun_memcpy(pageable.get(), device.get(), 8, stream));
            refused(gpurun_memcpy(pinned.get(), pageable.get(), 8, stream));
            refused(gpurun_memcpy(pageable.get(), pageable.at(32), 8, stream));
            refused(gpurun_stream_synchronize(stream));
            int done = 0;
            refused(gpurun_stream_query(stream, &done));
            refused(gpurun_stream_destroy(stream));
            refused(gpurun_capture_begin(stream));
            refused(gpurun_wait(&eager, stream, nullptr));
            REQUIRE_OK(gpurun_memset(device.get(), 7, 64, stream));
        });
        device.write(Bytes(64));
        graph.launch(stream);
        synchronize(stream);
        CHECK(device.read() == Bytes(64, 7));
    }
    REQUIRE_OK(gpurun_send(device.get(), 8, GPURUN_BYTE, rank(), kEager, kWorld, stream));
    REQUIRE_OK(gpurun_wait(&eager, GPURUN_HOST, nullptr));
    gpurun_graph none = nullptr;
    CHECK(gpurun_capture_end(stream, &none) == GPURUN_ERR_STREAM);
    CHECK(gpurun_capture_begin(GPURUN_HOST) == GPURUN_ERR_STREAM);
    CHECK(gpurun_graph_launch(nullptr, stream) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_graph_destroy(nullptr) == GPURUN_OK);
    CHECK(gpurun_capture_end(stream, nullptr) == GPURUN_ERR_ARGUMENT);
}

TEST_CASE("a captured request is completed in its capture only") {
    if (!can_capture(partner()))
        return;
    const Stream stream, other;
    Memory buffer(Kind::kDevice, 64);
    gpurun_request request = GPURUN_REQUEST_NULL;
    const Graph graph(stream, [&] {
        if (rank() < partner()) {
            REQUIRE_OK(gpurun_send(buffer.get(), 64, GPURUN_BYTE, partner(), kData, kWorld, stream));
            return;
        }
        REQUIRE_OK(gpurun_irecv(buffer.get(), 64, GPURUN_BYTE, partner(), kData, kWorld, stream, &request));
        CHECK(gpurun_wait(&request, GPURUN_HOST, nullptr) == GPURUN_ERR_UNSUPPORTED);
        CHECK(gpurun_wait(&request, other, nullptr) == GPURUN_ERR_UNSUPPORTED);
        CHECK(gpurun_request_free(&request) == GPURUN_ERR_UNSUPPORTED);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    });
    graph.launch(stream);
    synchronize(stream);
}

// The other half of each message is captured all the same: its channel has to be used again.
TEST_CASE("a request whose capture ends without it ends in an error, and takes nothing with it") {
    if (!can_capture(partner()))
        return;
    constexpr size_t kBytes = 65536; // in pinned memory: only few of them have room at a time
    constexpr int kRounds = 8;
    const Stream stream;
    Memory buffer(Kind::kPinned, kBytes);
    const auto tell = [](int to) { REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, to, kEager, kWorld, GPURUN_HOST)); };
    const auto hear = [](int from) {
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, from, kEager, kWorld, GPURUN_HOST, nullptr));
    };
    for (int round = 0; round < kRounds; round++) {
        CAPTURE(round);
        const bool sent_before = round % 2 == 0; // the receive is matched before its capture ends, or after
        if (rank() < partner()) {
            if (!sent_before)
                hear(partner());
            const Graph graph(stream, [&] {
                REQUIRE_OK(gpurun_send(buffer.get(), kBytes, GPURUN_BYTE, partner(), kData, kWorld, stream));
            });
            if (sent_before)
                tell(partner());
            hear(partner());
            continue;
        }
        gpurun_request request = GPURUN_REQUEST_NULL;
        gpurun_graph graph = nullptr;
        if (sent_before)
            hear(partner());
        REQUIRE_OK(gpurun_capture_begin(stream));
        REQUIRE_OK(gpurun_irecv(buffer.get(), kBytes, GPURUN_BYTE, partner(), kData, kWorld, stream, &request));
        REQUIRE_OK(gpurun_capture_end(stream, &graph));
        REQUIRE_OK(gpurun_graph_destroy(graph));
        const Graph another(stream, [&] { CHECK(gpurun_wait(&request, stream, nullptr) == GPURUN_ERR_UNSUPPORTED); });
        if (!sent_before)
            tell(partner());
        const gpurun_stream order = round % 4 < 2 ? GPURUN_HOST : static_cast<gpurun_stream>(stream);
        if (round < kRounds / 2) {
            CHECK(gpurun_wait(&request, order, nullptr) == GPURUN_ERR_STREAM);
        } else {
            int done = 0;
            gpurun_status status = GPURUN_OK;
            while (status == GPURUN_OK && done == 0)
                status = gpurun_test(&request, order, &done, nullptr);
            CHECK(status == GPURUN_ERR_STREAM);
            CHECK(done == 1);
        }
        CHECK(request.id == 0);
        tell(partner());
    }
}

// What is awaited of it belongs to no later graph.
TEST_CASE("a captured send that is completed once its capture has ended is in the graph") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 700'000; // stays with its sender
    const Stream stream;
    Exchange exchange(Kind::kDevice, Kind::kDevice, kBytes);
    const auto capture = [&](gpurun_request* request) {
        exchange.begin(stream);
        if (rank() < peer)
            REQUIRE_OK(gpurun_isend(exchange.out, kBytes, GPURUN_BYTE, peer, kData, kWorld, stream, request));
        else
            REQUIRE_OK(gpurun_recv(exchange.in, kBytes, GPURUN_BYTE, peer, kData, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_memcpy(exchange.got.get(), exchange.in, kBytes, stream));
    };
    for (int round = 0; round < 3; round++) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        const Graph graph(stream, [&] { capture(&request); });
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        for (int run = 0; run < 2; run++) {
            exchange.prepare(run);
            graph.launch(stream);
            synchronize(stream);
            if (rank() > peer)
                exchange.check(peer, run);
            REQUIRE_OK(exchange_nothing(GPURUN_HOST, peer)); // nothing is written over before it is read
        }
    }
}

// Each that is read out of its sender's memory waits in a branch of its own, for which the device has so many queues
// (gpurun(7), LIMITS).
size_t pulled_at_once() {
    constexpr size_t kMany = 48, kQueues = 32;
    const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const size_t queues = set == nullptr ? kQueues : std::strtoul(set, nullptr, 10);
    return queues < kQueues / 2 ? queues / 2 : kMany;
}

TEST_CASE("many started receives of a graph leave room for the sends that their partners wait for") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    for (const bool pulled : {false, true}) {
        CAPTURE(pulled);
        const size_t bytes = pulled ? 600'000 : 4096, many = pulled ? pulled_at_once() : 200;
        Memory from(Kind::kDevice, many * bytes), into(Kind::kDevice, many * bytes);
        const Graph graph(stream, [&] {
            std::vector<gpurun_request> requests(2 * many);
            for (size_t i = 0; i < many; i++)
                REQUIRE_OK(gpurun_irecv(into.at(i * bytes), bytes, GPURUN_BYTE, partner(), static_cast<int>(i), kWorld,
                                        stream, &requests[i]));
            for (size_t i = many; i-- > 0;)
                REQUIRE_OK(gpurun_isend(from.at(i * bytes), bytes, GPURUN_BYTE, partner(), static_cast<int>(i), kWorld,
                                        stream, &requests[2 * many - 1 - i]));
            REQUIRE_OK(gpurun_waitall(2 * many, requests.data(), stream, nullptr));
        });
        for (int run = 0; run < 3; run++) {
            from.write(pattern(many * bytes, seed_of(rank(), run, bytes)));
            graph.launch(stream);
            synchronize(stream);
            CHECK(into.read() == pattern(many * bytes, seed_of(partner(), run, bytes)));
        }
    }
}

} // namespace gpurun::test::graph_rules
