// Parts of allocations, and allocations that come and go: what a cache of peers' memory must survive.
#include "support/job.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace gpurun::test::allocations {

namespace {

void send_whole(const Memory& memory, size_t offset, size_t bytes) {
    REQUIRE_OK(gpurun_send(memory.at(offset), bytes, GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST));
}

void receive_whole(const Memory& memory, size_t offset, size_t bytes) {
    REQUIRE_OK(gpurun_recv(memory.at(offset), bytes, GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST, nullptr));
}

} // namespace

TEST_SUITE_BEGIN("allocations");

TEST_CASE("a message is any part of an allocation, and goes to any part of another") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 3u << 20;
    struct Part {
        size_t from, to, bytes;
    };
    constexpr Part kParts[] = {{0, 1, 100},
                               {1, 0, 40000},
                               {4097, 8191, 500000},
                               {kBytes - 7, 3, 7},
                               {kBytes - 70001, kBytes - 70001, 70001},
                               {1u << 20, 0, 2u << 20},
                               {2u << 20, 1u << 19, 1u << 20}};
    const Bytes content = pattern(kBytes, 1);
    Memory memory(Kind::kDevice, kBytes);
    for (const Part& part : kParts) {
        CAPTURE(part.from);
        CAPTURE(part.to);
        CAPTURE(part.bytes);
        if (rank() % 2 == 0) {
            memory.write(content);
            send_whole(memory, part.from, part.bytes);
            continue;
        }
        Bytes expected(kBytes, 0x22);
        memory.write(expected);
        receive_whole(memory, part.to, part.bytes);
        std::copy_n(content.begin() + static_cast<ptrdiff_t>(part.from), part.bytes,
                    expected.begin() + static_cast<ptrdiff_t>(part.to));
        CHECK(first_difference(memory.read(), expected) == -1);
    }
}

TEST_CASE("memory that is freed and allocated again at the same address is never mistaken for the old one") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kSizes[] = {512u << 10, 512u << 10, 1u << 20, 300u << 10};
    for (uint64_t round = 0; round < 200; round++) {
        const size_t bytes = kSizes[round % std::size(kSizes)];
        CAPTURE(round);
        Memory memory(Kind::kDevice, bytes); // freed at the end of the round
        if (static_cast<uint64_t>(rank()) % 2 == round / 4 % 2) {
            memory.write(pattern(bytes, round));
            send_whole(memory, 0, bytes);
        } else {
            receive_whole(memory, 0, bytes);
            CHECK(first_difference(memory.read(), pattern(bytes, round)) == -1);
        }
    }
}

TEST_CASE("memory may be freed as soon as the stream that sent it is done") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (uint64_t round = 0; round < 50; round++) {
        const size_t bytes = 300000 + round % 3 * 100000;
        CAPTURE(round);
        const Bytes content = pattern(bytes, round);
        Memory memory(Kind::kDevice, bytes);
        if (rank() % 2 == 0) {
            REQUIRE_OK(gpurun_memcpy(memory.get(), content.data(), bytes, stream));
            REQUIRE_OK(gpurun_send(memory.get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream));
            stream.synchronize();
        } else {
            REQUIRE_OK(gpurun_recv(memory.get(), bytes, GPURUN_BYTE, partner(), 1, kWorld, stream, nullptr));
            stream.synchronize();
            CHECK(first_difference(memory.read(), content) == -1);
        }
    }
}

TEST_CASE("hundreds of allocations are in use at once") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kCount = 300, kBytes = 300000;
    std::vector<std::unique_ptr<Memory>> all;
    for (size_t i = 0; i < kCount; i++)
        all.push_back(std::make_unique<Memory>(Kind::kDevice, kBytes));
    for (const int pass : {0, 1})
        for (size_t i = 0; i < kCount; i++) {
            const uint64_t seed = i * 2 + static_cast<uint64_t>(pass);
            CAPTURE(i);
            if (rank() % 2 == 0) {
                all[i]->write(pattern(kBytes, seed));
                send_whole(*all[i], 0, kBytes);
            } else {
                receive_whole(*all[i], 0, kBytes);
                CHECK(first_difference(all[i]->read(), pattern(kBytes, seed)) == -1);
            }
        }
}

TEST_CASE("memory allocated in a stream is sent and freed in that stream without a wait") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (uint64_t round = 0; round < 30; round++) {
        const size_t bytes = round % 2 == 0 ? 500000 : 3000;
        CAPTURE(round);
        const Bytes content = pattern(bytes, round);
        Bytes got(bytes);
        void* memory = nullptr;
        const gpurun_status allocated = gpurun_malloc_async(&memory, bytes, stream);
        if (allocated == GPURUN_ERR_UNSUPPORTED) { // and what to do is said
            CHECK(std::string(gpurun_error_detail()).find("gpurun_malloc()") != std::string::npos);
            CHECK(memory == nullptr);
            return;
        }
        REQUIRE_OK(allocated);
        if (rank() % 2 == 0) {
            REQUIRE_OK(gpurun_memcpy(memory, content.data(), bytes, stream));
            REQUIRE_OK(gpurun_send(memory, bytes, GPURUN_BYTE, partner(), 1, kWorld, stream));
        } else {
            REQUIRE_OK(gpurun_recv(memory, bytes, GPURUN_BYTE, partner(), 1, kWorld, stream, nullptr));
            REQUIRE_OK(gpurun_memcpy(got.data(), memory, bytes, stream));
        }
        REQUIRE_OK(gpurun_free_async(memory, stream));
        stream.synchronize();
        if (rank() % 2 == 1)
            CHECK(first_difference(got, content) == -1);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::allocations
