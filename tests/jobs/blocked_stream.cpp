// A stream that is held up holds up only its own messages. Small ones: a large message may wait for its match.
#include "support/job.hpp"

#include <atomic>
#include <thread>

using namespace gpurun::test;

namespace {

// Holds a stream until it is opened.
class Gate {
  public:
    explicit Gate(gpurun_stream stream) {
        REQUIRE_OK(gpurun_launch_host(
            stream,
            [](void* gate) {
                while (!static_cast<Gate*>(gate)->open_)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
            },
            this));
    }
    void open() { open_ = true; }

  private:
    std::atomic<bool> open_ = false;
};

constexpr size_t kSizes[] = {8, 1000, 4096};
constexpr int kHeld = 1, kFree = 2, kGo = 3;

// While a stream is held nothing is allocated, freed, or copied from pageable memory: any of that may wait for the
// whole device.
void send_past_a_held_stream(size_t bytes) {
    const Stream held, free;
    Memory late(Kind::kDevice, bytes), early(Kind::kDevice, bytes);
    late.write(pattern(bytes, kHeld));
    early.write(pattern(bytes, kFree));
    Gate gate(held);
    REQUIRE_OK(gpurun_send(late.get(), bytes, GPURUN_BYTE, partner(), kHeld, kWorld, held));
    REQUIRE_OK(gpurun_send(early.get(), bytes, GPURUN_BYTE, partner(), kFree, kWorld, free));
    free.synchronize();
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
    gate.open();
    held.synchronize();
}

void receive(const Memory& buffer, int tag, const Stream& stream) {
    REQUIRE_OK(gpurun_recv(buffer.get(), buffer.size(), GPURUN_BYTE, partner(), tag, kWorld, stream, nullptr));
}

void receive_past_a_held_message(size_t bytes) {
    const Stream stream;
    const Memory late(Kind::kDevice, bytes), early(Kind::kDevice, bytes);
    receive(early, kFree, stream);
    stream.synchronize(); // would hang here if it had to wait for the held one
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    receive(late, kHeld, stream);
    stream.synchronize();
    CHECK(first_difference(early.read(), pattern(bytes, kFree)) == -1);
    CHECK(first_difference(late.read(), pattern(bytes, kHeld)) == -1);
}

void send_two(size_t bytes) {
    const Stream first, second;
    Memory buffer(Kind::kDevice, bytes);
    buffer.write(pattern(bytes, 3));
    REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), kHeld, kWorld, first));
    REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), kFree, kWorld, second));
    second.synchronize();
    first.synchronize();
}

void receive_past_a_held_stream(size_t bytes) {
    const Stream held, free;
    const Memory late(Kind::kDevice, bytes), early(Kind::kDevice, bytes);
    Gate gate(held);
    receive(late, kHeld, held);
    receive(early, kFree, free);
    free.synchronize();
    gate.open();
    held.synchronize();
    CHECK(first_difference(early.read(), pattern(bytes, 3)) == -1);
    CHECK(first_difference(late.read(), pattern(bytes, 3)) == -1);
}

} // namespace

TEST_SUITE_BEGIN("blocked stream");

TEST_CASE("a message passes another stream's message to the same rank that is held up at its sender") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        if (rank() % 2 == 0)
            send_past_a_held_stream(bytes);
        else
            receive_past_a_held_message(bytes);
    }
}

TEST_CASE("a message passes another stream's message from the same rank that is held up at its receiver") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        if (rank() % 2 == 0)
            send_two(bytes);
        else
            receive_past_a_held_stream(bytes);
    }
}

TEST_CASE("a small message that is held up at its sender holds up none that is received with it") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream held;
    Memory buffer(Kind::kDevice, 5 * 8);
    gpurun_request requests[5];
    if (rank() < partner()) {
        buffer.write(pattern(5 * 8, 6));
        Gate gate(held);
        REQUIRE_OK(gpurun_isend(buffer.at(0), 8, GPURUN_BYTE, partner(), kHeld, kWorld, held, &requests[0]));
        for (size_t i = 1; i < 5; i++)
            REQUIRE_OK(
                gpurun_isend(buffer.at(i * 8), 8, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST, &requests[i]));
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        gate.open();
        REQUIRE_OK(gpurun_waitall(5, requests, GPURUN_HOST, nullptr));
        return;
    }
    REQUIRE_OK(gpurun_irecv(buffer.at(0), 8, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST, &requests[0]));
    for (size_t i = 1; i < 5; i++)
        REQUIRE_OK(gpurun_irecv(buffer.at(i * 8), 8, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST, &requests[i]));
    REQUIRE_OK(gpurun_waitall(4, &requests[1], GPURUN_HOST, nullptr)); // would hang here
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_wait(&requests[0], GPURUN_HOST, nullptr));
    CHECK(first_difference(buffer.read(), pattern(5 * 8, 6)) == -1);
}

TEST_CASE("a small message that is held up at its sender holds up none that is received later, however many") {
    constexpr int kLater = 100; // more than there are internal streams
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream held;
    Memory late(Kind::kDevice, 8), free(Kind::kDevice, 8);
    gpurun_request request;
    if (rank() < partner()) {
        late.write(pattern(8, 7));
        Gate gate(held);
        REQUIRE_OK(gpurun_isend(late.get(), 8, GPURUN_BYTE, partner(), kHeld, kWorld, held, &request));
        for (int i = 0; i < kLater; i++)
            REQUIRE_OK(gpurun_send(free.get(), 8, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST));
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        gate.open();
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        return;
    }
    REQUIRE_OK(gpurun_irecv(late.get(), 8, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST, &request));
    for (int i = 0; i < kLater; i++) {
        gpurun_request later;
        REQUIRE_OK(gpurun_irecv(free.get(), 8, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST, &later));
        REQUIRE_OK(gpurun_wait(&later, GPURUN_HOST, nullptr)); // would hang here
    }
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    CHECK(first_difference(late.read(), pattern(8, 7)) == -1);
}

TEST_SUITE_END();
