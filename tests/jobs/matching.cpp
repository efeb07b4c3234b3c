// Which receive gets which message: tags, wildcards, order, statuses, GPURUN_PROC_NULL.
#include "support/job.hpp"

#include <cstring>

namespace gpurun::test::matching {

namespace {

void send_number(uint32_t number, int dest, int tag) {
    REQUIRE_OK(gpurun_send(&number, 1, GPURUN_UINT32, dest, tag, kWorld, GPURUN_HOST));
}

// To be received in any order: nothing waits for a match before all have been started.
void send_together(const std::vector<uint32_t>& numbers, int dest, const std::vector<int>& tags) {
    std::vector<gpurun_request> requests(numbers.size());
    for (size_t i = 0; i < numbers.size(); i++)
        REQUIRE_OK(gpurun_isend(&numbers[i], 1, GPURUN_UINT32, dest, tags[i], kWorld, GPURUN_HOST, &requests[i]));
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
}

uint32_t receive_number(int source, int tag, gpurun_message_status* status = nullptr) {
    uint32_t number = ~0u;
    REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_UINT32, source, tag, kWorld, GPURUN_HOST, status));
    return number;
}

} // namespace

TEST_SUITE_BEGIN("matching");

TEST_CASE("a receive takes the message with its tag, not the first one") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const std::vector<int> tags = {0, 1, 7, 4096, GPURUN_TAG_MAX};
    if (rank() % 2 == 0) {
        send_together({tags.begin(), tags.end()}, partner(), tags);
    } else {
        for (size_t i = tags.size(); i-- > 0;)
            CHECK(receive_number(partner(), tags[i]) == static_cast<uint32_t>(tags[i]));
    }
}

TEST_CASE("two streams of messages are received in reverse order of their tags") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr uint32_t kMessages = 20;
    const Stream stream;
    Memory numbers(Kind::kDevice, 2 * kMessages * sizeof(uint32_t));
    const auto number_at = [&](uint32_t i) { return numbers.at(i * sizeof(uint32_t)); };
    if (rank() % 2 == 0) {
        std::vector<gpurun_request> requests(2 * kMessages);
        for (uint32_t i = 0; i < 2 * kMessages; i++) {
            REQUIRE_OK(gpurun_memcpy(number_at(i), &i, sizeof i, GPURUN_HOST));
            REQUIRE_OK(gpurun_isend(number_at(i), 1, GPURUN_UINT32, partner(), i < kMessages ? 1 : 2, kWorld, stream,
                                    &requests[i]));
        }
        REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), stream, nullptr));
        stream.synchronize();
        return;
    }
    for (uint32_t i = 2 * kMessages; i-- > 0;) // tag 2 first, each tag's own messages in order
        REQUIRE_OK(
            gpurun_recv(number_at(i), 1, GPURUN_UINT32, partner(), i < kMessages ? 1 : 2, kWorld, stream, nullptr));
    stream.synchronize();
    Bytes got = numbers.read();
    for (uint32_t i = 0; i < 2 * kMessages; i++) {
        uint32_t number = 0;
        std::memcpy(&number, &got[i * sizeof number], sizeof number);
        CHECK(number == (i < kMessages ? kMessages - 1 - i : 3 * kMessages - 1 - i));
    }
}

TEST_CASE("GPURUN_ANY_SOURCE and GPURUN_ANY_TAG find every sender, and the status names it") {
    if (rank() != 0) {
        send_number(static_cast<uint32_t>(rank()) * 3, 0, 100 + rank());
        return;
    }
    std::vector<bool> heard(static_cast<size_t>(size()), false);
    for (int i = 1; i < size(); i++) {
        gpurun_message_status status{};
        const uint32_t number = receive_number(GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, &status);
        REQUIRE(status.source > 0);
        REQUIRE(status.source < size());
        CHECK(status.tag == 100 + status.source);
        CHECK(number == static_cast<uint32_t>(status.source) * 3);
        CHECK(status.count == 1);
        CHECK(status.bytes == sizeof number);
        CHECK_FALSE(heard[static_cast<size_t>(status.source)]);
        heard[static_cast<size_t>(status.source)] = true;
    }
}

TEST_CASE("GPURUN_ANY_SOURCE with a tag leaves the messages with other tags") {
    if (rank() != 0) {
        send_together({1, 2}, 0, {1, 2});
        return;
    }
    for (const int tag : {2, 1})
        for (int i = 1; i < size(); i++)
            CHECK(receive_number(GPURUN_ANY_SOURCE, tag) == static_cast<uint32_t>(tag));
}

TEST_CASE("large messages of several senders match one wildcard receive each, in a stream") {
    constexpr size_t kCount = 100000;
    const Stream stream;
    Memory buffer(Kind::kDevice, kCount * sizeof(uint32_t));
    if (rank() != 0) {
        buffer.write(pattern(buffer.size(), static_cast<uint64_t>(rank())));
        REQUIRE_OK(gpurun_send(buffer.get(), kCount, GPURUN_UINT32, 0, rank(), kWorld, stream));
        stream.synchronize();
        return;
    }
    for (int i = 1; i < size(); i++) {
        gpurun_message_status status{};
        REQUIRE_OK(gpurun_recv(buffer.get(), kCount, GPURUN_UINT32, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld, stream,
                               &status));
        stream.synchronize();
        CHECK(status.tag == status.source);
        CHECK(first_difference(buffer.read(), pattern(buffer.size(), static_cast<uint64_t>(status.source))) == -1);
    }
}

TEST_CASE("a wildcard receive takes the messages of a sender in the order in which they were sent") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    for (uint32_t i = 0; i < 200; i++) {
        if (rank() % 2 == 0) {
            send_number(i, partner(), static_cast<int>(i % 3));
            continue;
        }
        gpurun_message_status status{};
        CHECK(receive_number(partner(), GPURUN_ANY_TAG, &status) == i);
        CHECK(status.tag == static_cast<int>(i % 3));
    }
}

TEST_CASE("messages of one tag do not overtake each other, whatever their sizes, memory and order domains") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kSizes[] = {8, 4000, 5000, 40000, 16, 300000, 4097, 32768, 12, 70000};
    const Stream stream;
    Memory device(Kind::kDevice, 300000);
    Memory host(Kind::kPageable, 300000);
    for (uint64_t i = 0; i < 400; i++) {
        const size_t bytes = kSizes[i % std::size(kSizes)];
        const gpurun_stream domain = i % 3 == 0 ? GPURUN_HOST : stream;
        const Memory& buffer = i % 7 < 4 ? device : host;
        const Bytes content = pattern(bytes, i);
        CAPTURE(i);
        if (rank() % 2 == 0) {
            REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), bytes, domain));
            REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), 5, kWorld, domain));
            synchronize(domain);
        } else {
            Bytes got(bytes);
            gpurun_message_status status{};
            REQUIRE_OK(gpurun_recv(buffer.get(), buffer.size(), GPURUN_BYTE, partner(), 5, kWorld, domain, &status));
            REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), bytes, domain));
            synchronize(domain);
            CHECK(status.bytes == bytes);
            CHECK(first_difference(got, content) == -1);
        }
    }
}

TEST_CASE("a message of no bytes matches like any other") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        if (rank() % 2 == 0) {
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_DOUBLE, partner(), 9, kWorld, domain));
            synchronize(domain);
            continue;
        }
        gpurun_message_status status{};
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_DOUBLE, GPURUN_ANY_SOURCE, 9, kWorld, domain, &status));
        synchronize(domain);
        CHECK(status.source == partner());
        CHECK(status.tag == 9);
        CHECK(status.count == 0);
        CHECK(status.bytes == 0);
    }
}

TEST_CASE("GPURUN_PROC_NULL takes anything and gives nothing") {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        uint32_t number = 77;
        gpurun_message_status status{1, 1, 1, 1};
        REQUIRE_OK(gpurun_send(&number, 1, GPURUN_UINT32, GPURUN_PROC_NULL, 3, kWorld, domain));
        REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_UINT32, GPURUN_PROC_NULL, 3, kWorld, domain, &status));
        synchronize(domain);
        CHECK(number == 77);
        CHECK(status.source == GPURUN_PROC_NULL);
        CHECK(status.tag == GPURUN_ANY_TAG);
        CHECK(status.count == 0);
        CHECK(status.bytes == 0);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::matching
