// Rows of captured operations that wait for peers leave room on a GPU that several ranks share: whatever stands behind
// an operation that waits, the peer's own work starts.
#include "graphs.hpp"

#include <algorithm>

namespace gpurun::test::graph_rows {

namespace {

constexpr size_t kWork = size_t{64} << 20; // set by as many threads as a GPU has

struct Row {
    size_t bytes; // of a message, or of a reduction
    int length;
};

} // namespace

TEST_SUITE_BEGIN("graphs");

TEST_CASE("captured receives of one graph leave room for the work behind which the first one's message comes") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    const Stream stream;
    const Memory work(Kind::kDevice, kWork);
    for (const Row& row : {Row{4, 150}, Row{4096, 150}, Row{65536, 60}, Row{262144, 60}, Row{524288, 30}}) {
        const size_t bytes = row.bytes;
        CAPTURE(bytes);
        const int messages = is_cuda() ? row.length : 4;
        const Memory first(Kind::kDevice, 4);
        Memory buffers(Kind::kDevice, static_cast<size_t>(messages) * bytes);
        const Bytes content = pattern(buffers.size(), bytes);
        std::vector<gpurun_request> requests(static_cast<size_t>(messages));
        const bool sends = rank() < peer;
        buffers.write(sends ? content : Bytes(content.size()));
        const Graph graph(stream, [&] {
            if (!sends)
                REQUIRE_OK(gpurun_recv(first.get(), 4, GPURUN_BYTE, peer, kOther, kWorld, stream, nullptr));
            for (int i = 0; i < messages; i++) {
                const auto at = static_cast<size_t>(i);
                if (sends)
                    REQUIRE_OK(gpurun_isend(buffers.at(at * bytes), bytes, GPURUN_BYTE, peer, kData, kWorld, stream,
                                            &requests[at]));
                else
                    REQUIRE_OK(
                        gpurun_recv(buffers.at(at * bytes), bytes, GPURUN_BYTE, peer, kData, kWorld, stream, nullptr));
            }
            if (sends) {
                REQUIRE_OK(gpurun_memset(work.get(), 1, kWork, stream));
                REQUIRE_OK(gpurun_send(first.get(), 4, GPURUN_BYTE, peer, kOther, kWorld, stream));
                REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), stream, nullptr));
            }
        });
        for (int round = 0; round < 6; round++)
            graph.launch(stream);
        stream.synchronize();
        CHECK(first_difference(buffers.read(), content) == -1);
    }
}

TEST_CASE("started receives of one graph leave room for the sends that come behind large work") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    const Stream stream;
    const Memory work(Kind::kDevice, kWork);
    for (const Row& row : {Row{4096, 100}, Row{65536, 24}, Row{65536, 50}, Row{131072, 24}}) {
        CAPTURE(row.bytes);
        const size_t messages = is_cuda() ? static_cast<size_t>(row.length) : 4;
        Memory from(Kind::kDevice, messages * row.bytes), into(Kind::kDevice, messages * row.bytes);
        const Graph graph(stream, [&] {
            std::vector<gpurun_request> requests(2 * messages);
            for (size_t i = 0; i < messages; i++)
                REQUIRE_OK(gpurun_irecv(into.at(i * row.bytes), row.bytes, GPURUN_BYTE, peer, kData, kWorld, stream,
                                        &requests[i]));
            REQUIRE_OK(gpurun_memset(work.get(), 1, kWork, stream));
            for (size_t i = 0; i < messages; i++)
                REQUIRE_OK(gpurun_isend(from.at(i * row.bytes), row.bytes, GPURUN_BYTE, peer, kData, kWorld, stream,
                                        &requests[messages + i]));
            REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), stream, nullptr));
        });
        for (int run = 0; run < 6; run++) {
            from.write(pattern(from.size(), seed_of(rank(), run, row.bytes)));
            graph.launch(stream);
            stream.synchronize();
            CHECK(first_difference(into.read(), pattern(into.size(), seed_of(peer, run, row.bytes))) == -1);
        }
    }
}

TEST_CASE("captured reductions of one graph leave room for those of a rank that comes late") {
    const Stream stream;
    if (!can_capture_collectives(stream))
        return;
    const Memory work(Kind::kDevice, kWork);
    for (const Row& row : {Row{4, 150}, Row{4096, 150}, Row{65536, 100}, Row{262144, 60}}) {
        const size_t bytes = row.bytes;
        CAPTURE(bytes);
        const int reductions = is_cuda() ? row.length : 4;
        Memory buffer(Kind::kDevice, bytes);
        buffer.write(Bytes(bytes, static_cast<uint8_t>(rank() + 1)));
        const Graph graph(stream, [&] {
            for (int i = 0; i < reductions; i++)
                REQUIRE_OK(
                    gpurun_allreduce(GPURUN_IN_PLACE, buffer.get(), bytes, GPURUN_UINT8, GPURUN_MAX, kWorld, stream));
        });
        for (int round = 0; round < std::max(size(), 6); round++) {
            REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
            if (round % size() == rank()) {
                delay(stream, 3000);
                REQUIRE_OK(gpurun_memset(work.get(), 1, kWork, stream));
            }
            graph.launch(stream);
            stream.synchronize();
        }
        CHECK(first_difference(buffer.read(), Bytes(bytes, static_cast<uint8_t>(size()))) == -1);
    }
}

TEST_CASE(
    "a graph has more messages than there is room for in channels, from memory of any kind, and short ones behind") {
    const int peer = partner();
    if (!can_capture(peer))
        return;
    constexpr size_t kBytes = 4096, kShort = 8;
    constexpr size_t kLong = 1000, kMessages = kLong + 50; // of the long ones, 952 cross in channels
    const Stream stream;
    for (const Kind kind : {Kind::kDevice, Kind::kOrdered}) {
        CAPTURE(name(kind));
        Exchange all(kind, Kind::kDevice, kMessages * kBytes);
        const Graph graph(stream, [&] {
            all.begin(stream);
            for (size_t i = 0; i < kMessages; i++) {
                const size_t bytes = i < kLong ? kBytes : kShort;
                REQUIRE_OK(gpurun_sendrecv(all.out + i * kBytes, bytes, GPURUN_BYTE, peer, kData, all.in + i * kBytes,
                                           bytes, GPURUN_BYTE, peer, kData, kWorld, stream, nullptr));
            }
            all.end(stream);
        });
        for (int run = 0; run < 3; run++) {
            all.prepare(run);
            graph.launch(stream);
            stream.synchronize();
            const Bytes expected = pattern(all.bytes, seed_of(peer, run, all.bytes));
            CHECK(first_difference(all.got.get(), expected.data(), kLong * kBytes) == -1);
            for (size_t i = kLong; i < kMessages; i++)
                CHECK(first_difference(all.got.at(i * kBytes), expected.data() + i * kBytes, kShort) == -1);
        }
    }
}

// What crosses in channels at one rank, and in place of that stays with its source at another.
TEST_CASE("captured reductions are right where one rank's messages no longer find room in channels, also in place") {
    const Stream stream;
    if (!can_capture_collectives(stream))
        return;
    constexpr size_t kCount = 16384, kBytes = kCount * sizeof(int32_t); // of which 59 at most find room
    constexpr int kMessages = 70;
    const Memory filling(Kind::kDevice, kMessages * kBytes);
    for (int full = 0; full < size(); full++) {
        CAPTURE(full);
        const Graph holds_room(stream, [&] {
            for (int i = 0; i < kMessages; i++)
                for (int other = 0; other < size(); other++) {
                    uint8_t* const at = filling.at(static_cast<size_t>(i) * kBytes);
                    if (rank() == full && other != full)
                        REQUIRE_OK(gpurun_send(at, kBytes, GPURUN_BYTE, other, kData, kWorld, stream));
                    else if (rank() == other && other != full)
                        REQUIRE_OK(gpurun_recv(at, kBytes, GPURUN_BYTE, full, kData, kWorld, stream, nullptr));
                }
        });
        Memory input(Kind::kDevice, kBytes), sum(Kind::kDevice, kBytes), prefix(Kind::kDevice, kBytes);
        const Graph graph(stream, [&] {
            REQUIRE_OK(gpurun_allreduce(input.get(), sum.get(), kCount, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
            REQUIRE_OK(gpurun_scan(input.get(), prefix.get(), kCount, GPURUN_INT32, GPURUN_SUM, kWorld, stream));
            REQUIRE_OK(
                gpurun_allreduce(GPURUN_IN_PLACE, input.get(), kCount, GPURUN_INT32, GPURUN_MAX, kWorld, stream));
        });
        for (int32_t run = 1; run <= 3; run++) {
            std::vector<int32_t> own(kCount), sums(kCount), prefixes(kCount), most(kCount);
            for (size_t i = 0; i < kCount; i++) {
                const int32_t factor = run * static_cast<int32_t>(i % 1009);
                own[i] = factor * (rank() + 1);
                sums[i] = factor * size() * (size() + 1) / 2;
                prefixes[i] = factor * (rank() + 1) * (rank() + 2) / 2;
                most[i] = factor * size();
            }
            input.write(bytes_of(own));
            graph.launch(stream);
            stream.synchronize();
            CHECK(first_difference(sum.read(), bytes_of(sums)) == -1);
            CHECK(first_difference(prefix.read(), bytes_of(prefixes)) == -1);
            CHECK(first_difference(input.read(), bytes_of(most)) == -1);
        }
    }
}

} // namespace gpurun::test::graph_rows
