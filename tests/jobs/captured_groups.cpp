// Groups of calls in graphs.
#include "graphs.hpp"

#include <cstdlib>
#include <deque>

namespace gpurun::test::captured_groups {

namespace {

uint64_t seed(int from, int to, size_t number) { return static_cast<uint64_t>(from * 64 + to) * 64 + number; }

void run_one_way(const Graph& graph, const Stream& stream, Memory& buffer, const Bytes& content, bool sends) {
    for (int run = 0; run < 3; ++run) {
        buffer.write(sends ? content : Bytes(content.size()));
        graph.launch(stream);
        stream.synchronize();
        CHECK(buffer.read() == content);
    }
}

// Of captured messages to the partner, until there is no room for one more; and as many from it.
void use_up_room(const Stream& stream) {
    Memory word(Kind::kDevice, 8);
    int sent = 0, received = 0;
    const Graph sends(stream, [&] {
        while (gpurun_send(word.get(), 8, GPURUN_BYTE, partner(), 1, kWorld, stream) == GPURUN_OK)
            ++sent;
    });
    CHECK(sent > 1000);
    REQUIRE_OK(gpurun_sendrecv(&sent, 1, GPURUN_INT32, partner(), 2, &received, 1, GPURUN_INT32, partner(), 2, kWorld,
                               GPURUN_HOST, nullptr));
    const Graph receives(stream, [&] {
        for (int i = 0; i < received; ++i)
            REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, partner(), 1, kWorld, stream, nullptr));
    });
}

} // namespace

TEST_SUITE_BEGIN("groups");

TEST_CASE("what a captured group starts does not wait for what else is in it") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    for (const size_t bytes : {size_t{64}, size_t{700'000}}) // the latter waits until it is read
        for (const bool synchronous : {false, true}) {
            CAPTURE(bytes);
            CAPTURE(synchronous);
            Memory out(Kind::kDevice, bytes), in(Kind::kDevice, bytes);
            gpurun_request request = GPURUN_REQUEST_NULL;
            const Graph graph(stream, [&] {
                REQUIRE_OK(gpurun_group_begin());
                REQUIRE_OK(gpurun_irecv(in.get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream, &request));
                if (synchronous)
                    REQUIRE_OK(gpurun_ssend(out.get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream));
                else
                    REQUIRE_OK(gpurun_send(out.get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream));
                REQUIRE_OK(gpurun_group_end());
                REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
            });
            for (size_t run = 0; run < 3; ++run) {
                out.write(pattern(bytes, seed(rank(), partner(), run)));
                graph.launch(stream);
                stream.synchronize();
                CHECK(in.read() == pattern(bytes, seed(partner(), rank(), run)));
            }
        }
}

TEST_CASE("a receive that a captured group starts does not wait for one that the group makes") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 700'000; // stays with its sender, which waits until it is read
    const Stream stream;
    Memory buffer(Kind::kDevice, kBytes), word(Kind::kDevice, 8);
    const Bytes content = pattern(kBytes, 2);
    const bool sends = rank() < peer;
    const auto tell = [&] { // that the messages are there
        if (sends)
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, peer, 3, kWorld, GPURUN_HOST));
        else
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, peer, 3, kWorld, GPURUN_HOST, nullptr));
    };
    if (!sends)
        tell();
    const Graph graph(stream, [&] {
        if (sends) {
            REQUIRE_OK(gpurun_send(buffer.get(), kBytes, GPURUN_BYTE, peer, 1, kWorld, stream));
            REQUIRE_OK(gpurun_send(word.get(), 8, GPURUN_BYTE, peer, 2, kWorld, stream));
            return;
        }
        gpurun_request request = GPURUN_REQUEST_NULL;
        REQUIRE_OK(gpurun_group_begin());
        REQUIRE_OK(gpurun_irecv(buffer.get(), kBytes, GPURUN_BYTE, peer, 1, kWorld, stream, &request));
        REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, peer, 2, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_group_end());
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    });
    if (sends)
        tell();
    run_one_way(graph, stream, buffer, content, sends);
}

TEST_CASE("receives of a captured group do not wait for each other, in the order in which they are sent") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 65536;
    const Stream stream;
    Memory buffers(Kind::kDevice, 2 * kBytes);
    const Bytes content = pattern(2 * kBytes, 1);
    const bool sends = rank() < peer;
    const Graph graph(stream, [&] {
        if (sends) { // the second once the first is taken
            REQUIRE_OK(gpurun_ssend(buffers.get(), kBytes, GPURUN_BYTE, peer, 1, kWorld, stream));
            REQUIRE_OK(gpurun_send(buffers.at(kBytes), kBytes, GPURUN_BYTE, peer, 2, kWorld, stream));
            return;
        }
        REQUIRE_OK(gpurun_group_begin());
        REQUIRE_OK(gpurun_recv(buffers.get(), kBytes, GPURUN_BYTE, peer, 1, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_recv(buffers.at(kBytes), kBytes, GPURUN_BYTE, peer, 2, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_group_end());
    });
    run_one_way(graph, stream, buffers, content, sends);
}

// Also if they had come before the group began.
TEST_CASE("receives of a captured group are behind each other in the order in which their source sends") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 700'000; // stays with its sender, which waits until it is read
    const Stream stream;
    for (const size_t bytes : {size_t{64}, size_t{700'000}}) {
        CAPTURE(bytes);
        Memory buffers(Kind::kDevice, kBytes + bytes);
        const Bytes content = pattern(kBytes + bytes, 3);
        const bool sends = rank() < peer;
        if (!sends)
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, peer, 3, kWorld, GPURUN_HOST, nullptr));
        const Graph graph(stream, [&] {
            if (sends) {
                REQUIRE_OK(gpurun_send(buffers.get(), kBytes, GPURUN_BYTE, peer, 1, kWorld, stream));
                REQUIRE_OK(gpurun_ssend(buffers.at(kBytes), bytes, GPURUN_BYTE, peer, 2, kWorld, stream));
                return;
            }
            REQUIRE_OK(gpurun_group_begin());
            REQUIRE_OK(gpurun_recv(buffers.at(kBytes), bytes, GPURUN_BYTE, peer, 2, kWorld, stream, nullptr));
            REQUIRE_OK(gpurun_recv(buffers.get(), kBytes, GPURUN_BYTE, peer, 1, kWorld, stream, nullptr));
            REQUIRE_OK(gpurun_group_end());
        });
        if (sends)
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, peer, 3, kWorld, GPURUN_HOST));
        run_one_way(graph, stream, buffers, content, sends);
    }
}

// Whether the first three ranks can capture messages to each other. All ranks come to the same answer.
bool can_first_three_capture() {
    if (size() < 3)
        return false;
    int32_t can = 1, all = 0;
    for (int peer = 0; peer < 3 && rank() < 3; ++peer)
        if (peer != rank() && !can_capture(peer))
            can = 0;
    REQUIRE_OK(gpurun_allreduce(&can, &all, 1, GPURUN_INT32, GPURUN_MIN, kWorld, GPURUN_HOST));
    return all == 1;
}

TEST_CASE("receives of a captured group from several ranks do not wait for each other") {
    if (!can_first_three_capture())
        return;
    const Stream stream;
    constexpr size_t kBytes = 700'000;
    Memory buffers(Kind::kDevice, 2 * kBytes), word(Kind::kDevice, 8);
    const Bytes content = pattern(2 * kBytes, 4);
    const auto part = [&](int of) {
        return Bytes(content.begin() + (of - 1) * ptrdiff_t{kBytes}, content.begin() + of * ptrdiff_t{kBytes});
    };
    const int self = rank();
    if (self == 0) // both have come by then
        for (const int each : {1, 2})
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, each, 3, kWorld, GPURUN_HOST, nullptr));
    {
        const Graph graph(stream, [&] {
            if (self == 2) // once that of rank 1 is read
                REQUIRE_OK(gpurun_recv(word.get(), 8, GPURUN_BYTE, 1, 1, kWorld, stream, nullptr));
            if (self == 1 || self == 2)
                REQUIRE_OK(gpurun_send(buffers.get(), kBytes, GPURUN_BYTE, 0, 1, kWorld, stream));
            if (self == 1)
                REQUIRE_OK(gpurun_send(word.get(), 8, GPURUN_BYTE, 2, 1, kWorld, stream));
            if (self != 0)
                return;
            REQUIRE_OK(gpurun_group_begin());
            for (const int each : {2, 1})
                REQUIRE_OK(gpurun_recv(buffers.at((each - 1) * kBytes), kBytes, GPURUN_BYTE, each, 1, kWorld, stream,
                                       nullptr));
            REQUIRE_OK(gpurun_group_end());
        });
        if (self == 1 || self == 2)
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, 0, 3, kWorld, GPURUN_HOST));
        for (int run = 0; run < 3; ++run) {
            if (self == 1 || self == 2)
                buffers.write(part(self));
            else
                buffers.write(Bytes(2 * kBytes));
            graph.launch(stream);
            stream.synchronize();
            if (self == 0)
                CHECK(buffers.read() == content);
        }
    }
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
}

TEST_CASE("what a captured group starts waits for the room of graphs that have ended") {
    // Where some ranks cannot capture, tests of collectives leave messages that nobody receives, and room never comes.
    if (std::getenv("GPURUN_EMULATED_PEER_ACCESS") != nullptr || !can_capture(partner()))
        return;
    const Stream stream;
    Memory out(Kind::kDevice, 8), in(Kind::kDevice, 8);
    use_up_room(stream);
    gpurun_request request = GPURUN_REQUEST_NULL;
    const Graph graph(stream, [&] {
        REQUIRE_OK(gpurun_group_begin());
        REQUIRE_OK(gpurun_isend(out.get(), 8, GPURUN_BYTE, partner(), 1, kWorld, stream, &request));
        REQUIRE_OK(gpurun_recv(in.get(), 8, GPURUN_BYTE, partner(), 1, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_group_end());
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    });
    for (size_t run = 0; run < 3; ++run) {
        out.write(pattern(8, seed(rank(), partner(), run)));
        graph.launch(stream);
        stream.synchronize();
        CHECK(in.read() == pattern(8, seed(partner(), rank(), run)));
    }
}

TEST_CASE("a group that is captured runs as often as its graph") {
    if (!can_capture(partner()))
        return;
    const Stream stream;
    constexpr size_t kMessages = 3;
    for (const size_t bytes : {size_t{8}, size_t{65536}, size_t{300'001}}) {
        CAPTURE(bytes);
        std::deque<Memory> fresh, out, in, got;
        for (size_t i = 0; i < kMessages; ++i) {
            fresh.emplace_back(Kind::kPinned, bytes);
            out.emplace_back(Kind::kDevice, bytes);
            in.emplace_back(Kind::kDevice, bytes);
            got.emplace_back(Kind::kPinned, bytes);
        }
        const Graph graph(stream, [&] {
            for (size_t i = 0; i < kMessages; ++i)
                REQUIRE_OK(gpurun_memcpy(out[i].get(), fresh[i].get(), bytes, stream));
            REQUIRE_OK(gpurun_group_begin());
            for (size_t i = 0; i < kMessages; ++i)
                REQUIRE_OK(gpurun_send(out[i].get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream));
            for (size_t i = 0; i < kMessages; ++i)
                REQUIRE_OK(gpurun_recv(in[i].get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream, nullptr));
            REQUIRE_OK(gpurun_group_end());
            for (size_t i = 0; i < kMessages; ++i) {
                REQUIRE_OK(gpurun_memset(out[i].get(), 0xee, bytes, stream));
                REQUIRE_OK(gpurun_memcpy(got[i].get(), in[i].get(), bytes, stream));
            }
        });
        for (size_t run = 0; run < 4; ++run) {
            for (size_t i = 0; i < kMessages; ++i)
                fresh[i].write(pattern(bytes, seed(rank(), partner(), 10 * run + i)));
            graph.launch(stream);
            stream.synchronize();
            for (size_t i = 0; i < kMessages; ++i)
                CHECK(first_difference(got[i].read(), pattern(bytes, seed(partner(), rank(), 10 * run + i))) == -1);
        }
    }
}

} // namespace gpurun::test::captured_groups
