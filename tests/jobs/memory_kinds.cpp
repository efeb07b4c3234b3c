// Every pair of memory kinds, in every pair of order domains, at sizes on both sides of each bound; every byte checked.
#include "support/job.hpp"

#include <algorithm>
#include <deque>

namespace gpurun::test::memory_kinds {

namespace {

struct Side {
    Kind kind;
    bool on_stream;
};

constexpr size_t kGuard = 64; // bytes around the message that must stay as they are
constexpr uint8_t kUntouched = 0x5a;
constexpr int kTag = 11;

// Odd sizes also start at odd addresses.
size_t offset_of(size_t bytes) { return kGuard + bytes % 2; }

// Filled, sent and overwritten without a pause: in a stream, all three are only enqueued when the call returns.
void send_once(const Side& side, gpurun_stream stream, const Bytes& content) {
    const gpurun_stream domain = side.on_stream ? stream : GPURUN_HOST;
    const Memory buffer(side.kind, content.size() + 2 * kGuard + 1);
    uint8_t* const start = buffer.at(offset_of(content.size()));
    REQUIRE_OK(gpurun_memcpy(start, content.data(), content.size(), domain));
    REQUIRE_OK(gpurun_send(start, content.size(), GPURUN_BYTE, partner(), kTag, kWorld, domain));
    REQUIRE_OK(gpurun_memset(buffer.get(), 0xee, buffer.size(), domain));
    synchronize(domain);
}

void receive_once(const Side& side, gpurun_stream stream, const Bytes& content) {
    const gpurun_stream domain = side.on_stream ? stream : GPURUN_HOST;
    const Memory buffer(side.kind, content.size() + 2 * kGuard + 1);
    const size_t offset = offset_of(content.size());
    Bytes got(buffer.size());
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_memset(buffer.get(), kUntouched, buffer.size(), domain));
    REQUIRE_OK(gpurun_recv(buffer.at(offset), content.size(), GPURUN_BYTE, partner(), kTag, kWorld, domain, &status));
    REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), buffer.size(), domain));
    synchronize(domain);

    Bytes expected(buffer.size(), kUntouched);
    std::copy(content.begin(), content.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
    CHECK(first_difference(got, expected) == -1);
    CHECK(status.source == partner());
    CHECK(status.tag == kTag);
    CHECK(status.count == content.size());
    CHECK(status.bytes == content.size());
}

void exchange_all(std::initializer_list<size_t> sizes) {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    uint64_t seed = 1;
    for (const size_t bytes : sizes)
        for (const Kind from : kKinds)
            for (const Kind to : kKinds)
                for (const bool from_stream : {false, true})
                    for (const bool to_stream : {false, true}) {
                        CAPTURE(bytes);
                        CAPTURE(name(from));
                        CAPTURE(name(to));
                        CAPTURE(from_stream);
                        CAPTURE(to_stream);
                        const Bytes content = pattern(bytes, ++seed);
                        if (static_cast<uint64_t>(rank()) % 2 == seed / 2 % 2)
                            send_once({from, from_stream}, stream, content);
                        else
                            receive_once({to, to_stream}, stream, content);
                    }
}

} // namespace

TEST_SUITE_BEGIN("memory kinds");

TEST_CASE("small messages arrive whole between every two kinds of memory and order domains") {
    exchange_all({0, 1, 8, 4095, 4096, 4097, 8191, 8192, 8193, 32767, 32768, 32769});
}

TEST_CASE("middle-sized messages arrive whole between every two kinds of memory and order domains") {
    exchange_all({32767, 32768, 32769, 65537, 1u << 20, (2u << 20) + 1});
}

// What a stream sends is copied by then, or will be: memory in between is used again.
TEST_CASE("messages of several streams into the host, one after the other, keep their bytes") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 3'000'000, kStreams = 3, kRounds = 12;
    if (rank() > partner()) {
        Bytes got(kBytes);
        for (uint64_t i = 0; i < kRounds * kStreams; i++) {
            REQUIRE_OK(gpurun_recv(got.data(), kBytes, GPURUN_BYTE, partner(), kTag, kWorld, GPURUN_HOST, nullptr));
            CHECK(first_difference(got, pattern(kBytes, i)) == -1);
        }
        return;
    }
    const Stream streams[kStreams];
    std::deque<Memory> buffers;
    for (uint64_t i = 0; i < kRounds * kStreams; i++)
        buffers.emplace_back(i % 2 == 0 ? Kind::kPinned : Kind::kOrdered, kBytes).write(pattern(kBytes, i));
    for (size_t i = 0; i < buffers.size(); i++)
        REQUIRE_OK(gpurun_ssend(buffers[i].get(), kBytes, GPURUN_BYTE, partner(), kTag, kWorld, streams[i % kStreams]));
    for (const Stream& each : streams)
        each.synchronize();
}

TEST_CASE("large messages arrive whole between every two kinds of memory and order domains") {
    exchange_all({(9u << 20) + 3});
}

TEST_SUITE_END();

} // namespace gpurun::test::memory_kinds
