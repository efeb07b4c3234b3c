// Broadcasts.
#include "graphs.hpp"

#include <algorithm>

namespace gpurun::test::bcast {

namespace {

// Every rank with its own kind of memory and its own order domain; the root's buffer is overwritten at once.
void broadcast_once(size_t bytes, int root, Kind kind, gpurun_stream domain, uint64_t seed) {
    CAPTURE(bytes);
    CAPTURE(root);
    CAPTURE(name(kind));
    CAPTURE((domain == GPURUN_HOST));
    const Bytes content = pattern(bytes, seed);
    const Memory buffer(kind, bytes + 1);
    Bytes got(bytes + 1);
    REQUIRE_OK(gpurun_memset(buffer.get(), 0x33, bytes + 1, domain));
    if (rank() == root)
        REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), bytes, domain));
    REQUIRE_OK(gpurun_bcast(buffer.get(), bytes, GPURUN_BYTE, root, kWorld, domain));
    REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), bytes + 1, domain));
    REQUIRE_OK(gpurun_memset(buffer.get(), 0xff, bytes + 1, domain));
    synchronize(domain);
    CHECK(got[bytes] == 0x33);
    CHECK(first_difference(got.data(), content.data(), bytes) == -1);
}

constexpr size_t kSizes[] = {1, 8, 4097, 32769, 300000, (5u << 20) + 1};

} // namespace

TEST_SUITE_BEGIN("bcast");

TEST_CASE("every root reaches every rank, at every size, in both order domains") {
    const Stream stream;
    uint64_t seed = 100;
    for (const size_t bytes : kSizes)
        for (int root = 0; root < size(); root++)
            for (const Kind kind : {Kind::kDevice, Kind::kPageable})
                for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                    broadcast_once(bytes, root, kind, domain, ++seed);
}

TEST_CASE("each rank brings its own kind of memory and its own order domain") {
    const Stream stream;
    uint64_t seed = 200;
    for (const size_t bytes : kSizes)
        for (size_t turn = 0; turn < std::size(kKinds); turn++) {
            const size_t mine = static_cast<size_t>(rank()) + turn;
            const gpurun_stream domain = mine / 2 % 2 == 0 ? static_cast<gpurun_stream>(stream) : GPURUN_HOST;
            broadcast_once(bytes, static_cast<int>(turn) % size(), kKinds[mine % std::size(kKinds)], domain, ++seed);
        }
}

// In a graph that is run again: with three and more ranks long ones go in pieces, which ranks write into each other's
// memory where they can.
TEST_CASE("a captured broadcast is right in every run, from every root, at every offset and in every kind of memory") {
    const Stream stream;
    if (!can_capture_collectives(stream))
        return;
    uint64_t seed = 300;
    for (const size_t bytes : {size_t{100}, size_t{300'000}, size_t{1 << 20}, (size_t{3} << 20) + 8})
        for (int turn = 0; turn < 3 * size(); turn++) {
            const int root = turn % size();
            const auto offset = static_cast<size_t>(turn / size() * (rank() + 2)); // alike only in the first turns
            const Kind kind = turn % 4 == 3 && rank() % 2 == 1 ? Kind::kPinned : Kind::kDevice;
            CAPTURE(bytes);
            CAPTURE(root);
            CAPTURE(offset);
            const Memory buffer(kind, bytes + offset + 1);
            Memory copy(Kind::kDevice, buffer.size()), blank(Kind::kDevice, buffer.size());
            const Graph graph(stream, [&] {
                REQUIRE_OK(gpurun_bcast(buffer.at(offset), bytes, GPURUN_BYTE, root, kWorld, stream));
                REQUIRE_OK(gpurun_memcpy(copy.get(), buffer.get(), copy.size(), stream));
                REQUIRE_OK(gpurun_memcpy(buffer.get(), blank.get(), buffer.size(), stream));
            });
            for (int run = 0; run < 3; run++) {
                const Bytes content = pattern(bytes, ++seed);
                REQUIRE_OK(gpurun_memset(buffer.get(), 0x33, buffer.size(), stream));
                if (rank() == root)
                    REQUIRE_OK(gpurun_memcpy(buffer.at(offset), content.data(), bytes, stream));
                graph.launch(stream);
                stream.synchronize();
                const Bytes got = copy.read();
                CHECK(std::count(got.begin(), got.begin() + static_cast<ptrdiff_t>(offset), 0x33) ==
                      static_cast<ptrdiff_t>(offset));
                CHECK(got.back() == 0x33);
                CHECK(first_difference(got.data() + offset, content.data(), bytes) == -1);
            }
        }
}

TEST_CASE("broadcasts in a stream follow each other without waiting") {
    constexpr int kRounds = 100;
    constexpr size_t kBytes = 5000;
    const Stream stream;
    Memory buffer(Kind::kDevice, kBytes);
    Memory sources(Kind::kPinned, kRounds * kBytes);
    Memory results(Kind::kPinned, kRounds * kBytes);
    const Bytes content = pattern(sources.size(), 9);
    sources.write(content);
    for (size_t round = 0; round < kRounds; round++) {
        const int root = static_cast<int>(round) % size();
        if (rank() == root)
            REQUIRE_OK(gpurun_memcpy(buffer.get(), sources.at(round * kBytes), kBytes, stream));
        REQUIRE_OK(gpurun_bcast(buffer.get(), kBytes, GPURUN_BYTE, root, kWorld, stream));
        REQUIRE_OK(gpurun_memcpy(results.at(round * kBytes), buffer.get(), kBytes, stream));
    }
    stream.synchronize();
    CHECK(first_difference(results.read(), content) == -1);
}

TEST_CASE("a broadcast of nothing needs no buffer") {
    const Stream stream;
    REQUIRE_OK(gpurun_bcast(nullptr, 0, GPURUN_DOUBLE, size() - 1, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_bcast(nullptr, 0, GPURUN_DOUBLE, 0, kWorld, stream));
    stream.synchronize();
}

TEST_CASE("broadcasts and messages do not take each other's data") {
    if (size() < 2)
        return;
    uint32_t message = 5, broadcast = rank() == 0 ? 6 : 0;
    if (rank() == 0)
        for (int dest = 1; dest < size(); dest++)
            REQUIRE_OK(gpurun_send(&message, 1, GPURUN_UINT32, dest, 0, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_bcast(&broadcast, 1, GPURUN_UINT32, 0, kWorld, GPURUN_HOST));
    CHECK(broadcast == 6);
    if (rank() == 0)
        return;
    message = 0;
    REQUIRE_OK(
        gpurun_recv(&message, 1, GPURUN_UINT32, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld, GPURUN_HOST, nullptr));
    CHECK(message == 5);
}

TEST_SUITE_END();

} // namespace gpurun::test::bcast
