// Many messages: every bounded thing inside fills up and is used again.
#include "support/job.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::test::volume {

namespace {

constexpr uint32_t kSmallMessages = 10000;

struct Numbered {
    uint32_t number;
    uint32_t inverse;
};

} // namespace

TEST_SUITE_BEGIN("volume");

TEST_CASE("ten thousand small host messages one way arrive in order") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    for (uint32_t i = 0; i < kSmallMessages; i++) {
        Numbered message{i, ~i};
        if (rank() % 2 == 0) {
            REQUIRE_OK(gpurun_send(&message, sizeof message, GPURUN_BYTE, partner(), 0, kWorld, GPURUN_HOST));
            continue;
        }
        message = {};
        REQUIRE_OK(gpurun_recv(&message, sizeof message, GPURUN_BYTE, partner(), 0, kWorld, GPURUN_HOST, nullptr));
        REQUIRE(message.number == i);
        REQUIRE(message.inverse == ~i);
    }
}

TEST_CASE("thousands of small device messages one way arrive in order, without a wait between them") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr uint32_t kMessages = 3000;
    const Stream stream;
    Memory device(Kind::kDevice, kMessages * sizeof(uint32_t));
    Bytes numbers(device.size());
    for (uint32_t i = 0; i < kMessages; i++)
        std::memcpy(&numbers[i * sizeof i], &i, sizeof i);
    if (rank() % 2 == 0)
        device.write(numbers);
    for (size_t i = 0; i < kMessages; i++) {
        void* const number = device.at(i * sizeof(uint32_t));
        if (rank() % 2 == 0)
            REQUIRE_OK(gpurun_send(number, 1, GPURUN_UINT32, partner(), 0, kWorld, stream));
        else
            REQUIRE_OK(gpurun_recv(number, 1, GPURUN_UINT32, partner(), 0, kWorld, stream, nullptr));
    }
    stream.synchronize();
    CHECK(first_difference(device.read(), numbers) == -1);
}

TEST_CASE("hundreds of large device messages one way arrive in order, without a wait between them") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMessages = 300;
    constexpr size_t kBytes = 300000;
    const Stream stream;
    Memory buffer(Kind::kDevice, kBytes);
    Memory kept(Kind::kPinned, kMessages);
    for (size_t i = 0; i < kMessages; i++) {
        if (rank() % 2 == 0) {
            REQUIRE_OK(gpurun_memset(buffer.get(), static_cast<int>(i % 251), kBytes, stream));
            REQUIRE_OK(gpurun_send(buffer.get(), kBytes, GPURUN_BYTE, partner(), 0, kWorld, stream));
        } else {
            REQUIRE_OK(gpurun_recv(buffer.get(), kBytes, GPURUN_BYTE, partner(), 0, kWorld, stream, nullptr));
            REQUIRE_OK(gpurun_memcpy(kept.at(i), buffer.at(i * 300), 1, stream));
        }
    }
    stream.synchronize();
    if (rank() % 2 == 1)
        for (size_t i = 0; i < kMessages; i++)
            CHECK(kept.get()[i] == i % 251);
}

TEST_CASE("windows of large host messages of any length cross whole, both ways at once") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMessages = 24;
    const auto bytes_of = [](size_t i) { return 20'000 + i * i * 2'500 + i; }; // up to 1.3 MB
    const auto seed_of = [](int source, size_t i) { return static_cast<uint64_t>(source) * kMessages + i; };
    std::vector<Bytes> outgoing, incoming;
    for (size_t i = 0; i < kMessages; i++) {
        outgoing.push_back(pattern(bytes_of(i), seed_of(rank(), i)));
        incoming.emplace_back(bytes_of(i));
    }
    for (int round = 0; round < 4; round++) {
        std::vector<gpurun_request> requests;
        const auto start_sends = [&] {
            for (const Bytes& each : outgoing)
                REQUIRE_OK(gpurun_isend(each.data(), each.size(), GPURUN_BYTE, partner(), 0, kWorld, GPURUN_HOST,
                                        &requests.emplace_back()));
        };
        const bool unexpected = (round + rank()) % 2 == 0; // of the other's
        if (unexpected)
            start_sends();
        for (Bytes& each : incoming) {
            std::fill(each.begin(), each.end(), uint8_t{0});
            REQUIRE_OK(gpurun_irecv(each.data(), each.size(), GPURUN_BYTE, partner(), 0, kWorld, GPURUN_HOST,
                                    &requests.emplace_back()));
        }
        if (!unexpected)
            start_sends();
        REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
        for (size_t i = 0; i < kMessages; i++)
            CHECK(first_difference(incoming[i], pattern(bytes_of(i), seed_of(partner(), i))) == -1);
    }
}

TEST_CASE("a flood of small messages nobody waits for yet is kept, and received last to first") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr int kMessages = 300;
    uint64_t number = 0;
    if (rank() % 2 == 0) {
        for (int i = 0; i < kMessages; i++) {
            number = static_cast<uint64_t>(i) * 7;
            REQUIRE_OK(gpurun_send(&number, 1, GPURUN_UINT64, partner(), i, kWorld, GPURUN_HOST));
        }
        return;
    }
    for (int i = kMessages; i-- > 0;) {
        REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_UINT64, partner(), i, kWorld, GPURUN_HOST, nullptr));
        CHECK(number == static_cast<uint64_t>(i) * 7);
    }
}

TEST_CASE("everybody floods rank 0") {
    constexpr uint32_t kEach = 2000;
    if (rank() != 0) {
        for (uint32_t i = 0; i < kEach; i++)
            REQUIRE_OK(gpurun_send(&i, 1, GPURUN_UINT32, 0, 1, kWorld, GPURUN_HOST));
        return;
    }
    std::vector<uint32_t> next(static_cast<size_t>(size()), 0);
    for (uint32_t i = 0; i < kEach * static_cast<uint32_t>(size() - 1); i++) {
        uint32_t number = 0;
        gpurun_message_status status{};
        REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_UINT32, GPURUN_ANY_SOURCE, 1, kWorld, GPURUN_HOST, &status));
        REQUIRE(number == next.at(static_cast<size_t>(status.source))++);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::volume
