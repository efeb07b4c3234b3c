// Several threads of a rank communicate at once.
#include "communicators.hpp"
#include "support/job.hpp"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace gpurun::test::threads {

namespace {

constexpr int kThreads = 4;
constexpr size_t kSizes[] = {16, 4096, 20000, 60000, 500000};

template <typename Body>
void on_threads(Body body, int number = kThreads) {
    std::vector<std::thread> threads;
    for (int i = 0; i < number; i++)
        threads.emplace_back(body, i);
    for (std::thread& thread : threads)
        thread.join();
}

uint64_t seed_of(int from, int thread, int round) {
    return static_cast<uint64_t>(from * 10000 + thread * 1000 + round);
}

void exchange_rounds(int thread, int rounds, gpurun_stream domain) {
    Memory outgoing(Kind::kDevice, 500000);
    Memory incoming(Kind::kDevice, 500000);
    for (int round = 0; round < rounds; round++) {
        const size_t bytes = kSizes[static_cast<size_t>(round + thread) % std::size(kSizes)];
        const Bytes content = pattern(bytes, seed_of(rank(), thread, round));
        Bytes got(bytes);
        REQUIRE_OK(gpurun_memcpy(outgoing.get(), content.data(), bytes, domain));
        REQUIRE_OK(gpurun_sendrecv(outgoing.get(), bytes, GPURUN_BYTE, partner(), thread, incoming.get(), bytes,
                                   GPURUN_BYTE, partner(), thread, kWorld, domain, nullptr));
        REQUIRE_OK(gpurun_memcpy(got.data(), incoming.get(), bytes, domain));
        synchronize(domain);
        CHECK(first_difference(got, pattern(bytes, seed_of(partner(), thread, round))) == -1);
    }
}

} // namespace

TEST_SUITE_BEGIN("threads");

TEST_CASE("threads exchange on tags of their own, each with a stream of its own") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    on_threads([](int thread) {
        const Stream stream;
        exchange_rounds(thread, 40, stream);
    });
}

TEST_CASE("threads exchange on tags of their own in their own order domains") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    on_threads([](int thread) { exchange_rounds(thread, 40, GPURUN_HOST); });
}

TEST_CASE("threads of one stream keep every message whole") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    on_threads([&stream](int thread) { exchange_rounds(thread, 20, stream); });
}

TEST_CASE("threads that receive with wildcards share the messages, each once") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr uint32_t kEach = 100;
    std::array<std::atomic<int>, kThreads * kEach> seen{};
    on_threads([&seen](int thread) {
        for (uint32_t i = 0; i < kEach; i++) {
            uint32_t number = static_cast<uint32_t>(thread) * kEach + i;
            if (rank() % 2 == 0) {
                REQUIRE_OK(gpurun_send(&number, 1, GPURUN_UINT32, partner(), thread, kWorld, GPURUN_HOST));
                continue;
            }
            REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_UINT32, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld, GPURUN_HOST,
                                   nullptr));
            seen.at(number)++;
        }
    });
    if (rank() % 2 == 1)
        for (const std::atomic<int>& times : seen)
            CHECK(times == 1);
}

TEST_CASE("one thread sends large messages while another receives them") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 2u << 20;
    constexpr int kRounds = 10;
    std::thread sender([] {
        Memory buffer(Kind::kDevice, kBytes);
        for (int round = 0; round < kRounds; round++) {
            buffer.write(pattern(kBytes, seed_of(rank(), 0, round)));
            REQUIRE_OK(gpurun_send(buffer.get(), kBytes, GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST));
        }
    });
    Memory buffer(Kind::kDevice, kBytes);
    for (int round = 0; round < kRounds; round++) {
        REQUIRE_OK(gpurun_recv(buffer.get(), kBytes, GPURUN_BYTE, partner(), 1, kWorld, GPURUN_HOST, nullptr));
        CHECK(first_difference(buffer.read(), pattern(kBytes, seed_of(partner(), 0, round))) == -1);
    }
    sender.join();
}

// They take internal streams, of which there are fewer; runs that shared one would wait for each other.
TEST_CASE("many threads reduce device memory in host order, each in a communicator of its own, in any order") {
    constexpr int kMany = 24;
    constexpr int kRounds = 20;
    std::vector<Comm> comms;
    for (int i = 0; i < kMany; i++)
        comms.push_back(Comm::dup());
    const auto reduce = [&](int thread) {
        const Comm& comm = comms[static_cast<size_t>(rank() % 2 == 0 ? thread : kMany - 1 - thread)];
        Memory memory(Kind::kDevice, sizeof(int));
        for (int round = 0; round < kRounds; round++) {
            int sum = rank() + round;
            REQUIRE_OK(gpurun_memcpy(memory.get(), &sum, sizeof sum, GPURUN_HOST));
            REQUIRE_OK(gpurun_allreduce(GPURUN_IN_PLACE, memory.get(), 1, GPURUN_INT32, GPURUN_SUM, comm, GPURUN_HOST));
            REQUIRE_OK(gpurun_memcpy(&sum, memory.get(), sizeof sum, GPURUN_HOST));
            CHECK(sum == size() * (size() - 1) / 2 + size() * round);
        }
    };
    on_threads(reduce, kMany);
}

TEST_SUITE_END();

} // namespace gpurun::test::threads
