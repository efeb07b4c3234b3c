// Messages of graphs: captured once, matched once, and moved by every run.
#include "graphs.hpp"

#include <memory>

namespace gpurun::test::graphs {

TEST_SUITE_BEGIN("graphs");

namespace {

// Captures one exchange with the partner, and runs it.
void capture_and_check(Exchange& exchange, gpurun_stream stream, int runs) {
    const Graph graph(stream, [&] {
        exchange.begin(stream);
        REQUIRE_OK(exchange.sendrecv(partner(), kData, stream));
        exchange.end(stream);
    });
    run_and_check(graph, exchange, stream, partner(), runs);
}

} // namespace

TEST_CASE("a captured exchange moves new bytes in every run, of every size and kind of memory") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    for (const Kind from : {Kind::kDevice, Kind::kOrdered, Kind::kPinned})
        for (const Kind into : {Kind::kDevice, Kind::kPinned})
            for (const size_t bytes : kGraphSizes) {
                CAPTURE(name(from));
                CAPTURE(name(into));
                CAPTURE(bytes);
                Exchange exchange(from, into, bytes);
                // A stream copies to or from a device: pinned buffers are filled between runs.
                if (from == Kind::kPinned || into == Kind::kPinned) {
                    const Graph graph(stream, [&] { REQUIRE_OK(exchange.sendrecv(partner(), kData, stream)); });
                    for (int run = 0; run < 4; run++) {
                        exchange.outgoing.write(pattern(bytes, seed_of(rank(), run, bytes)));
                        graph.launch(stream);
                        synchronize(stream);
                        CHECK(first_difference(exchange.incoming.read(),
                                               pattern(bytes, seed_of(partner(), run, bytes))) == -1);
                    }
                    continue;
                }
                capture_and_check(exchange, stream, 6);
            }
}

TEST_CASE("captured buffers may lie anywhere in their allocations") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    for (const size_t bytes : {size_t{9}, size_t{5000}, size_t{200'003}}) {
        Exchange exchange(Kind::kDevice, Kind::kDevice, bytes, 3);
        capture_and_check(exchange, stream, 3);
    }
}

TEST_CASE("a captured ping-pong takes turns, run after run, without the hosts") {
    if (!can_capture(partner()))
        return;
    constexpr int kRounds = 5, kRuns = 20;
    const Stream stream;
    for (const size_t bytes : {size_t{8}, size_t{20'000}, size_t{700'000}}) {
        Exchange exchange(Kind::kDevice, Kind::kDevice, bytes);
        const auto ping = [&] {
            REQUIRE_OK(gpurun_send(exchange.out, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream));
        };
        const auto pong = [&] {
            gpurun_message_status status{};
            REQUIRE_OK(gpurun_recv(exchange.in, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream, &status));
            CHECK(status.source == partner());
            CHECK(status.bytes == bytes);
            REQUIRE_OK(gpurun_memcpy(exchange.out, exchange.in, bytes, stream)); // and back
        };
        const Graph graph(stream, [&] {
            for (int round = 0; round < kRounds; round++) {
                if (rank() < partner())
                    ping();
                pong();
                if (rank() > partner())
                    ping();
            }
        });
        const Bytes first = pattern(bytes, 77);
        if (rank() < partner())
            exchange.outgoing.write(first);
        for (int run = 0; run < kRuns; run++)
            graph.launch(stream);
        synchronize(stream);
        CHECK(first_difference(exchange.incoming.read(), first) == -1);
    }
}

TEST_CASE("captured requests do not hold up each other, however large") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    for (const size_t bytes : {size_t{0}, size_t{64}, size_t{65536}, size_t{1'000'000}}) {
        CAPTURE(bytes);
        Exchange exchange(Kind::kDevice, Kind::kDevice, bytes);
        const Graph graph(stream, [&] {
            gpurun_request requests[2];
            gpurun_message_status statuses[2]{};
            exchange.begin(stream);
            REQUIRE_OK(gpurun_isend(exchange.out, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream, &requests[0]));
            REQUIRE_OK(gpurun_irecv(exchange.in, bytes, GPURUN_BYTE, partner(), kData, kWorld, stream, &requests[1]));
            REQUIRE_OK(gpurun_waitall(2, requests, stream, statuses));
            CHECK(requests[1].id == GPURUN_REQUEST_NULL.id);
            CHECK(statuses[1].bytes == bytes);
            exchange.end(stream);
        });
        run_and_check(graph, exchange, stream, partner(), 5);
    }
}

TEST_CASE("runs and eager messages with the same tag keep apart") {
    if (!can_capture(partner()))
        return;
    const Stream stream, beside;
    Exchange captured(Kind::kDevice, Kind::kDevice, 3000);
    Exchange eager(Kind::kDevice, Kind::kDevice, 3000);
    const Graph graph(stream, [&] {
        captured.begin(stream);
        REQUIRE_OK(captured.sendrecv(partner(), kData, stream));
        captured.end(stream);
    });
    for (int run = 0; run < 20; run++) {
        captured.prepare(run);
        eager.prepare(run + 100);
        const gpurun_stream other =
            run % 2 == 0 ? static_cast<gpurun_stream>(stream) : static_cast<gpurun_stream>(beside);
        graph.launch(stream);
        eager.begin(other);
        REQUIRE_OK(eager.sendrecv(partner(), kData, other));
        eager.end(other);
        synchronize(stream);
        synchronize(other);
        captured.check(partner(), run);
        eager.check(partner(), run + 100);
    }
}

TEST_CASE("graphs run in any order, each with its partner's") {
    if (!can_capture(partner()))
        return;
    const Stream stream, first, second;
    Exchange one(Kind::kDevice, Kind::kDevice, 64), two(Kind::kDevice, Kind::kDevice, 100'000);
    const auto capture = [&](const Exchange& exchange) {
        return std::make_unique<Graph>(stream, [&] {
            exchange.begin(stream);
            REQUIRE_OK(exchange.sendrecv(partner(), kData, stream));
            exchange.end(stream);
        });
    };
    const auto graph_one = capture(one), graph_two = capture(two);
    for (int run = 0; run < 10; run++) {
        one.prepare(run);
        two.prepare(run);
        if (rank() < partner()) {
            graph_one->launch(first);
            graph_two->launch(second);
        } else {
            graph_two->launch(first);
            graph_one->launch(second);
        }
        synchronize(first);
        synchronize(second);
        one.check(partner(), run);
        two.check(partner(), run);
    }
}

namespace {

// What the functions of a graph count, in pinned memory.
struct Log {
    uint64_t* number;
    std::vector<uint64_t> seen;
};

} // namespace

TEST_CASE("a source's runs may be ahead of its target's, and none is lost or overtaken") {
    if (!can_capture(partner()))
        return;
    constexpr int kRuns = 60;
    const Stream stream;
    Memory word(Kind::kPinned, sizeof(uint64_t));
    word.write(Bytes(sizeof(uint64_t)));
    Log log{reinterpret_cast<uint64_t*>(word.get()), {}};
    log.seen.reserve(kRuns);
    const bool sends = rank() < partner();
    const Graph graph(stream, [&] {
        if (sends) {
            REQUIRE_OK(gpurun_launch_host(
                stream, [](void* argument) { ++*static_cast<Log*>(argument)->number; }, &log));
            REQUIRE_OK(gpurun_send(word.get(), 1, GPURUN_UINT64, partner(), kData, kWorld, stream));
        } else {
            REQUIRE_OK(gpurun_recv(word.get(), 1, GPURUN_UINT64, partner(), kData, kWorld, stream, nullptr));
            const auto note = [](void* argument) {
                auto* const into = static_cast<Log*>(argument);
                into->seen.push_back(*into->number);
            };
            REQUIRE_OK(gpurun_launch_host(stream, note, &log));
        }
    });
    for (int run = 0; run < kRuns; run++) {
        if (!sends && run % 7 == 0)
            delay(stream, 2000);
        graph.launch(stream);
    }
    synchronize(stream);
    if (sends)
        return;
    REQUIRE(log.seen.size() == kRuns);
    for (size_t run = 0; run < kRuns; run++)
        CHECK(log.seen[run] == run + 1);
}

TEST_CASE("broadcasts and barriers are captured") {
    bool all = true; // rank 0 and everybody: a tree of messages between any two
    for (int peer = 0; peer < size(); peer++)
        if (peer != rank())
            all = can_capture(peer) && all;
    int mine = all ? 1 : 0, sum = 0;
    for (int root = 0; root < size(); root++) {
        int said = mine;
        REQUIRE_OK(gpurun_bcast(&said, 1, GPURUN_INT32, root, kWorld, GPURUN_HOST));
        sum += said;
    }
    if (sum != size())
        return;
    const Stream stream;
    for (const size_t bytes : {size_t{8}, size_t{9000}, size_t{400'000}}) {
        Exchange all_of_it(Kind::kDevice, Kind::kDevice, bytes);
        const Graph graph(stream, [&] {
            REQUIRE_OK(gpurun_memcpy(all_of_it.in, all_of_it.fresh.get(), bytes, stream));
            REQUIRE_OK(gpurun_bcast(all_of_it.in, bytes, GPURUN_BYTE, 0, kWorld, stream));
            REQUIRE_OK(gpurun_barrier(kWorld, stream));
            REQUIRE_OK(gpurun_memcpy(all_of_it.got.get(), all_of_it.in, bytes, stream));
        });
        for (int run = 0; run < 5; run++) {
            all_of_it.prepare(run);
            graph.launch(stream);
            synchronize(stream);
            all_of_it.check(0, run);
        }
    }
}

TEST_CASE("a rank's graph sends to itself, also in a job of one rank") {
    REQUIRE((can_capture(rank()) || size() > 1 || !has_graphs()));
    if (!can_capture(rank()))
        return;
    const Stream stream;
    for (const size_t bytes : kGraphSizes) {
        Exchange exchange(Kind::kDevice, Kind::kDevice, bytes);
        const Graph graph(stream, [&] {
            exchange.begin(stream);
            REQUIRE_OK(exchange.sendrecv(rank(), kData, stream));
            exchange.end(stream);
        });
        run_and_check(graph, exchange, stream, rank(), 3);
    }
}

} // namespace gpurun::test::graphs
