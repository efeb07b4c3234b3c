// One message each way at once.
#include "support/job.hpp"

#include <algorithm>

namespace gpurun::test::sendrecv {

namespace {

void shift(Kind kind, gpurun_stream domain, size_t bytes, int dest, int source) {
    CAPTURE(name(kind));
    CAPTURE(bytes);
    CAPTURE((domain == GPURUN_HOST));
    const Bytes content = pattern(bytes, static_cast<uint64_t>(rank()));
    Memory outgoing(kind, bytes);
    Memory incoming(kind, bytes);
    Bytes got(bytes);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_memcpy(outgoing.get(), content.data(), bytes, domain));
    REQUIRE_OK(gpurun_memset(incoming.get(), 0, bytes, domain));
    REQUIRE_OK(gpurun_sendrecv(outgoing.get(), bytes, GPURUN_BYTE, dest, 3, incoming.get(), bytes, GPURUN_BYTE, source,
                               3, kWorld, domain, &status));
    REQUIRE_OK(gpurun_memset(outgoing.get(), 0xff, bytes, domain));
    REQUIRE_OK(gpurun_memcpy(got.data(), incoming.get(), bytes, domain));
    synchronize(domain);
    CHECK(status.source == source);
    if (source != GPURUN_PROC_NULL) {
        CHECK(status.bytes == bytes);
        CHECK(first_difference(got, pattern(bytes, static_cast<uint64_t>(source))) == -1);
    } else {
        CHECK(status.bytes == 0);
        CHECK(first_difference(got, Bytes(bytes, 0)) == -1);
    }
}

// The same in place.
void pass_on(Kind kind, gpurun_stream domain, size_t bytes, int dest, int source) {
    CAPTURE(name(kind));
    CAPTURE(bytes);
    CAPTURE((domain == GPURUN_HOST));
    const Bytes content = pattern(bytes, static_cast<uint64_t>(rank()));
    const Memory buffer(kind, bytes);
    Bytes got(bytes);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), bytes, domain));
    REQUIRE_OK(gpurun_sendrecv_replace(buffer.get(), bytes, GPURUN_BYTE, dest, 4, source, 4, kWorld, domain, &status));
    REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), bytes, domain));
    REQUIRE_OK(gpurun_memset(buffer.get(), 0xff, bytes, domain));
    synchronize(domain);
    const int expected = source == GPURUN_PROC_NULL ? rank() : source;
    CHECK(status.source == source);
    CHECK(status.bytes == (source == GPURUN_PROC_NULL ? 0 : bytes));
    CHECK(status.error == GPURUN_OK);
    CHECK(first_difference(got, pattern(bytes, static_cast<uint64_t>(expected))) == -1);
}

constexpr size_t kSizes[] = {0, 8, 4097, 32768, 100000, 300000, (6u << 20) + 5};

} // namespace

TEST_SUITE_BEGIN("sendrecv");

TEST_CASE("two ranks exchange messages of any size head to head") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const size_t bytes : kSizes)
        for (const Kind kind : kKinds)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                shift(kind, domain, bytes, partner(), partner());
}

TEST_CASE("all ranks shift messages round a ring") {
    const Stream stream;
    const int next = (rank() + 1) % size();
    const int previous = (rank() + size() - 1) % size();
    for (const size_t bytes : kSizes)
        for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
            shift(Kind::kDevice, domain, bytes, next, previous);
}

TEST_CASE("all ranks shift messages along a line whose ends have no neighbour") {
    const Stream stream;
    const int next = rank() + 1 < size() ? rank() + 1 : GPURUN_PROC_NULL;
    const int previous = rank() > 0 ? rank() - 1 : GPURUN_PROC_NULL;
    for (const size_t bytes : kSizes)
        for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
            shift(Kind::kDevice, domain, bytes, next, previous);
}

TEST_CASE("ranks exchange from different order domains and kinds of memory") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const size_t bytes : kSizes)
        for (const int turned : {0, 1})
            if (rank() % 2 == turned)
                shift(Kind::kDevice, stream, bytes, partner(), partner());
            else
                shift(Kind::kPageable, GPURUN_HOST, bytes, partner(), partner());
}

TEST_CASE("messages that cross may have different sizes, types and tags") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    const bool even = rank() % 2 == 0;
    const size_t large = 1000000, small = 3;
    const Bytes content = pattern(large * 4, 1);
    Memory outgoing(Kind::kDevice, large * 4);
    Memory incoming(Kind::kDevice, large * 4);
    outgoing.write(content);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_sendrecv(outgoing.get(), even ? large : small, even ? GPURUN_FLOAT : GPURUN_INT16, partner(),
                               even ? 20 : 21, incoming.get(), large, even ? GPURUN_INT16 : GPURUN_FLOAT, partner(),
                               even ? 21 : 20, kWorld, stream, &status));
    stream.synchronize();
    CHECK(status.count == (even ? small : large));
    CHECK(status.tag == (even ? 21 : 20));
    CHECK(first_difference(incoming.read().data(), content.data(), even ? small * 2 : large * 4) == -1);
}

TEST_CASE("gpurun_sendrecv_replace exchanges one buffer of any kind for the other's") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const size_t bytes : kSizes)
        for (const Kind kind : kKinds)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                pass_on(kind, domain, bytes, partner(), partner());
}

TEST_CASE("gpurun_sendrecv_replace passes a buffer round a ring, along a line, and back to its own rank") {
    const Stream stream;
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    for (const size_t bytes : kSizes)
        for (const Kind kind : {Kind::kDevice, Kind::kPageable})
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                pass_on(kind, domain, bytes, next, previous);
                pass_on(kind, domain, bytes, next > 0 ? next : GPURUN_PROC_NULL,
                        rank() > 0 ? previous : GPURUN_PROC_NULL);
                pass_on(kind, domain, bytes, rank(), rank());
            }
}

TEST_CASE("gpurun_sendrecv_replace keeps what a shorter message leaves, and truncates a longer one") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    const bool even = rank() % 2 == 0;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t longer : {size_t{1000}, size_t{300000}}) {
            const size_t bytes = even ? longer : longer / 2;
            Memory buffer(Kind::kDevice, longer);
            Bytes expected = pattern(longer, static_cast<uint64_t>(rank()));
            buffer.write(expected);
            gpurun_message_status status{};
            const gpurun_status result = gpurun_sendrecv_replace(buffer.get(), bytes, GPURUN_BYTE, partner(), 4,
                                                                 partner(), 4, kWorld, domain, &status);
            synchronize(domain);
            const Bytes theirs = pattern(longer, static_cast<uint64_t>(partner()));
            std::copy_n(theirs.begin(), longer / 2, expected.begin());
            CHECK(result == (even ? GPURUN_OK : GPURUN_ERR_TRUNCATED));
            CHECK(status.error == result);
            CHECK(status.bytes == (even ? longer / 2 : longer));
            CHECK(first_difference(buffer.read(), expected) == -1);
        }
}

TEST_SUITE_END();

} // namespace gpurun::test::sendrecv
