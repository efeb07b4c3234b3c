// Elements of every basic type.
#include "support/job.hpp"

namespace gpurun::test::datatypes {

namespace {

template <typename Value>
struct Pair {
    Value value;
    int index;
};
struct Type {
    gpurun_datatype type;
    size_t bytes;
};
constexpr Type kTypes[] = {
    {GPURUN_BYTE, 1},
    {GPURUN_CHAR, 1},
    {GPURUN_INT8, 1},
    {GPURUN_UINT8, 1},
    {GPURUN_INT16, 2},
    {GPURUN_UINT16, 2},
    {GPURUN_INT32, 4},
    {GPURUN_UINT32, 4},
    {GPURUN_INT64, 8},
    {GPURUN_UINT64, 8},
    {GPURUN_FLOAT16, 2},
    {GPURUN_BFLOAT16, 2},
    {GPURUN_FLOAT, 4},
    {GPURUN_DOUBLE, 8},
    {GPURUN_COMPLEX_FLOAT, 8},
    {GPURUN_COMPLEX_DOUBLE, 16},
    {GPURUN_BOOL, sizeof(bool)},
    {GPURUN_SHORT_INT, sizeof(Pair<short>)},
    {GPURUN_2INT, sizeof(Pair<int>)},
    {GPURUN_LONG_INT, sizeof(Pair<long>)},
    {GPURUN_FLOAT_INT, sizeof(Pair<float>)},
    {GPURUN_DOUBLE_INT, sizeof(Pair<double>)},
};

} // namespace

TEST_SUITE_BEGIN("datatypes");

TEST_CASE("every datatype has its size") {
    for (const Type& type : kTypes) {
        size_t bytes = 0;
        REQUIRE_OK(gpurun_type_size(type.type, &bytes));
        CHECK(bytes == type.bytes);
    }
}

TEST_CASE("elements of every type arrive, and are counted in that type") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const Type& type : kTypes)
        for (const Kind kind : {Kind::kDevice, Kind::kPageable})
            for (const size_t count : {1u, 7u, 20000u}) {
                CAPTURE(type.type);
                CAPTURE(name(kind));
                CAPTURE(count);
                const Bytes content = pattern(count * type.bytes, count + type.type);
                Memory buffer(kind, content.size());
                if (rank() % 2 == 0) {
                    buffer.write(content);
                    REQUIRE_OK(gpurun_send(buffer.get(), count, type.type, partner(), 1, kWorld, stream));
                    stream.synchronize();
                    continue;
                }
                gpurun_message_status status{};
                REQUIRE_OK(gpurun_recv(buffer.get(), count, type.type, partner(), 1, kWorld, stream, &status));
                stream.synchronize();
                CHECK(first_difference(buffer.read(), content) == -1);
                CHECK(status.count == count);
                CHECK(status.bytes == content.size());
            }
}

TEST_CASE("a receive in another type counts the whole elements of its own") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Bytes content = pattern(11, 3);
    if (rank() % 2 == 0) {
        REQUIRE_OK(gpurun_send(content.data(), content.size(), GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST));
        return;
    }
    Bytes got(16);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_recv(got.data(), 4, GPURUN_INT32, partner(), 1, kWorld, GPURUN_HOST, &status));
    CHECK(status.count == 2);
    CHECK(status.bytes == 11);
    size_t count = 41;
    CHECK(gpurun_get_count(&status, GPURUN_INT32, &count) == GPURUN_ERR_COUNT);
    CHECK(count == 41);
    CHECK(first_difference(got.data(), content.data(), content.size()) == -1);
}

TEST_CASE("a message that was probed, received or truncated is counted in elements of any type") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Bytes content = pattern(48, 5);
    if (rank() % 2 == 0) {
        for (int i = 0; i < 3; i++)
            REQUIRE_OK(gpurun_send(content.data(), content.size(), GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST));
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST));
        return;
    }
    const auto check_counts = [](const gpurun_message_status& status, size_t bytes) {
        for (const Type& type : kTypes) {
            size_t count = 41;
            REQUIRE_OK(gpurun_get_count(&status, type.type, &count));
            CHECK(count == bytes / type.bytes);
        }
    };
    Bytes got(48);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_probe(partner(), 1, kWorld, &status));
    check_counts(status, 48);
    REQUIRE_OK(gpurun_recv(got.data(), 6, GPURUN_DOUBLE, partner(), 1, kWorld, GPURUN_HOST, &status));
    check_counts(status, 48);
    CHECK(gpurun_recv(got.data(), 2, GPURUN_INT32, partner(), 1, kWorld, GPURUN_HOST, &status) == GPURUN_ERR_TRUNCATED);
    check_counts(status, 48);
    gpurun_request request{};
    REQUIRE_OK(gpurun_irecv(got.data(), 1, GPURUN_INT32, partner(), 1, kWorld, GPURUN_HOST, &request));
    CHECK(gpurun_wait(&request, GPURUN_HOST, &status) == GPURUN_ERR_TRUNCATED);
    check_counts(status, 48);
    REQUIRE_OK(gpurun_recv(got.data(), 1, GPURUN_INT32, partner(), 1, kWorld, GPURUN_HOST, &status));
    check_counts(status, 0);
}

TEST_SUITE_END();

} // namespace gpurun::test::datatypes
