// A stream that is held up holds up only its own messages. Where calls block, small ones: a large message may wait for
// its match.
#include "support/job.hpp"

#include <atomic>
#include <deque>
#include <optional>
#include <thread>

namespace gpurun::test::blocked_stream {

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
// So many messages of a rank that are matched may wait for streams: in a rank of 16 on a GPU, which has few queues.
constexpr size_t kAtOnce = 4;

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

constexpr size_t kSmall = 8, kLarge = 300000;

constexpr int kLater = 100; // more than there are internal streams

// The first of many to the same rank; its start is in the order of a stream that is held, here or there.
void send_held(Memory& late, const Memory& free, size_t bytes, bool here) {
    const Stream stream;
    late.write(pattern(bytes, here ? 7 : 8));
    std::optional<Gate> gate;
    if (here)
        gate.emplace(stream);
    gpurun_request request;
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_isend(late.get(), bytes, GPURUN_BYTE, partner(), kHeld, kWorld, stream, &request));
    for (int i = 0; i < kLater; i++)
        REQUIRE_OK(gpurun_send(free.get(), bytes, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
    if (here)
        gate->open();
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
}

void receive_held(Memory& late, const Memory& free, size_t bytes, bool there) {
    const Stream stream;
    late.write(Bytes(bytes));
    std::optional<Gate> gate;
    if (!there)
        gate.emplace(stream);
    gpurun_request request, later;
    REQUIRE_OK(gpurun_irecv(late.get(), bytes, GPURUN_BYTE, partner(), kHeld, kWorld, stream, &request));
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    for (int i = 0; i < kLater; i++) {
        REQUIRE_OK(gpurun_irecv(free.get(), bytes, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST, &later));
        REQUIRE_OK(gpurun_wait(&later, GPURUN_HOST, nullptr)); // would hang here
    }
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    if (!there)
        gate->open();
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    const Bytes got = late.read();
    CHECK(first_difference(got.data(), pattern(bytes, there ? 7 : 8).data(), bytes) == -1);
}

// More than there are internal streams, even if either kind had half of them.
constexpr size_t kFromHost = 200, kFromDevice = 30, kEach = 8;

void send_many() {
    const Stream free;
    const Bytes bytes = pattern((kFromHost + kFromDevice) * kEach, 10);
    Memory on_device(Kind::kDevice, kFromDevice * kEach);
    const Memory passing(Kind::kDevice, kEach);
    on_device.write(Bytes(bytes.begin() + kFromHost * kEach, bytes.end()));
    for (size_t i = 0; i < kFromHost; i++)
        REQUIRE_OK(gpurun_send(&bytes[i * kEach], kEach, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST));
    for (size_t i = 0; i < kFromDevice; i++)
        REQUIRE_OK(gpurun_send(on_device.at(i * kEach), kEach, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(free)})
        REQUIRE_OK(gpurun_send(passing.get(), kEach, GPURUN_BYTE, partner(), kFree, kWorld, domain));
    // Both ranks keep their memory until no stream is held.
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
}

// They have all come before their stream is held.
void receive_many() {
    const Stream held, free;
    const Memory in(Kind::kDevice, (kFromHost + kFromDevice) * kEach), passing(Kind::kDevice, kEach);
    std::vector<gpurun_request> requests(kFromHost + kFromDevice);
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
    Gate gate(held);
    for (size_t i = 0; i < requests.size(); i++)
        REQUIRE_OK(gpurun_irecv(in.at(i * kEach), kEach, GPURUN_BYTE, partner(), kHeld, kWorld, held, &requests[i]));
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(free)}) {
        gpurun_request request;
        REQUIRE_OK(gpurun_irecv(passing.get(), kEach, GPURUN_BYTE, partner(), kFree, kWorld, domain, &request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr)); // would hang here
    }
    for (int i = 0; i < 100; i++) { // which make no streams: CUDA may wait for the device then
        REQUIRE_OK(gpurun_memset(passing.get(), i, kEach, GPURUN_HOST));
        REQUIRE_OK(gpurun_memcpy(passing.get(), passing.at(kEach / 2), kEach / 2, GPURUN_HOST));
    }
    gate.open();
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    CHECK(first_difference(in.read(), pattern(in.size(), 10)) == -1);
}

// All of them in messages of kEach, then one to a stream that is not held.
void send_to_held_streams(const Bytes& bytes) {
    const Memory passing(Kind::kDevice, kEach);
    for (size_t at = 0; at < bytes.size(); at += kEach)
        REQUIRE_OK(gpurun_send(&bytes[at], kEach, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_send(passing.get(), kEach, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
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
    constexpr size_t kMany = kAtOnce;
    const Stream held;
    Memory buffer(Kind::kDevice, kMany * 8);
    gpurun_request requests[kMany];
    if (rank() < partner()) {
        buffer.write(pattern(kMany * 8, 6));
        Gate gate(held);
        REQUIRE_OK(gpurun_isend(buffer.at(0), 8, GPURUN_BYTE, partner(), kHeld, kWorld, held, &requests[0]));
        for (size_t i = 1; i < kMany; i++)
            REQUIRE_OK(
                gpurun_isend(buffer.at(i * 8), 8, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST, &requests[i]));
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        gate.open();
        REQUIRE_OK(gpurun_waitall(kMany, requests, GPURUN_HOST, nullptr));
        return;
    }
    REQUIRE_OK(gpurun_irecv(buffer.at(0), 8, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST, &requests[0]));
    for (size_t i = 1; i < kMany; i++)
        REQUIRE_OK(gpurun_irecv(buffer.at(i * 8), 8, GPURUN_BYTE, partner(), kFree, kWorld, GPURUN_HOST, &requests[i]));
    REQUIRE_OK(gpurun_waitall(kMany - 1, &requests[1], GPURUN_HOST, nullptr)); // would hang here
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_wait(&requests[0], GPURUN_HOST, nullptr));
    CHECK(first_difference(buffer.read(), pattern(kMany * 8, 6)) == -1);
}

// Both ranks keep the memory: what a rank frees its partner unmaps, which waits for the whole device.
TEST_CASE("a started message that is held up holds up none that is received later, however many") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory late(Kind::kDevice, kLarge), free(Kind::kDevice, kLarge);
    for (const size_t bytes : {kSmall, kLarge})
        for (const bool at_sender : {true, false}) {
            CAPTURE(bytes);
            CAPTURE(at_sender);
            if (rank() < partner())
                send_held(late, free, bytes, at_sender);
            else
                receive_held(late, free, bytes, at_sender);
        }
}

TEST_CASE("a small message that is held up at its sender holds up no stream that others were completed into") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = kAtOnce, kOfHeld = 2;
    const Stream held, free;
    Memory buffer(Kind::kDevice, kMany * 8);
    gpurun_request requests[kMany];
    if (rank() < partner()) {
        buffer.write(pattern(kMany * 8, 7));
        Gate gate(held);
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(gpurun_isend(buffer.at(i * 8), 8, GPURUN_BYTE, partner(), i == kOfHeld ? kHeld : kFree, kWorld,
                                    i == kOfHeld ? held : free, &requests[i]));
        REQUIRE_OK(gpurun_waitall(kOfHeld, requests, free, nullptr));
        REQUIRE_OK(gpurun_waitall(kMany - kOfHeld - 1, &requests[kOfHeld + 1], free, nullptr));
        free.synchronize();
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        gate.open();
        REQUIRE_OK(gpurun_wait(&requests[kOfHeld], GPURUN_HOST, nullptr));
        return;
    }
    for (size_t i = 0; i < kMany; i++)
        REQUIRE_OK(gpurun_irecv(buffer.at(i * 8), 8, GPURUN_BYTE, partner(), i == kOfHeld ? kHeld : kFree, kWorld,
                                i == kOfHeld ? held : free, &requests[i]));
    REQUIRE_OK(gpurun_wait(&requests[kOfHeld], held, nullptr));
    REQUIRE_OK(gpurun_waitall(kOfHeld, requests, free, nullptr));
    REQUIRE_OK(gpurun_waitall(kMany - kOfHeld - 1, &requests[kOfHeld + 1], free, nullptr));
    free.synchronize(); // would hang here
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    held.synchronize();
    CHECK(first_difference(buffer.read(), pattern(kMany * 8, 7)) == -1);
}

TEST_CASE("small messages that were started before their stream was held arrive, and can be completed elsewhere") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 40;
    const Stream held, free;
    Memory out(Kind::kDevice, kMany * 8), in(Kind::kDevice, kMany * 8);
    gpurun_request requests[2 * kMany];
    for (int round = 0; round < 3; ++round) { // the first of windows is sent otherwise than those that follow
        out.write(pattern(kMany * 8, static_cast<uint64_t>(100 * rank() + round)));
        held.synchronize();
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(gpurun_irecv(in.at(i * 8), 8, GPURUN_BYTE, partner(), kFree, kWorld, held, &requests[i]));
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_isend(out.at(i * 8), 8, GPURUN_BYTE, partner(), kFree, kWorld, held, &requests[kMany + i]));
        Gate gate(held);
        REQUIRE_OK(gpurun_waitall(2 * kMany, requests, round == 1 ? static_cast<gpurun_stream>(free) : GPURUN_HOST,
                                  nullptr)); // would hang here
        free.synchronize();
        gate.open();
        held.synchronize();
        CHECK(first_difference(in.read(), pattern(kMany * 8, static_cast<uint64_t>(100 * partner() + round))) == -1);
    }
    // Both keep the memory until no stream is held: what a rank frees its partner unmaps (above).
    REQUIRE_OK(gpurun_sendrecv(nullptr, 0, GPURUN_BYTE, partner(), kGo, nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld,
                               GPURUN_HOST, nullptr));
}

// CUDA calls host functions one at a time, and what wakes a call that has waited for long is one.
TEST_CASE("a call that waits for long returns although a host function of another stream blocks") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 8;
    constexpr auto kLongerThanCallsSpin = std::chrono::milliseconds(30);
    const Stream held, free;
    Memory buffer(Kind::kDevice, kBytes);
    gpurun_request request;
    for (const bool host_waits : {false, true}) {
        CAPTURE(host_waits);
        if (rank() < partner()) {
            buffer.write(pattern(kBytes, 9));
            Gate gate(held);
            REQUIRE_OK(gpurun_isend(buffer.get(), kBytes, GPURUN_BYTE, partner(), kHeld, kWorld, held, &request));
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
            std::this_thread::sleep_for(kLongerThanCallsSpin);
            gate.open();
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
            // Sends nothing before it has heard: that would wake the other.
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
            continue;
        }
        buffer.write(Bytes(kBytes));
        Gate gate(held);
        REQUIRE_OK(gpurun_irecv(buffer.get(), kBytes, GPURUN_BYTE, partner(), kHeld, kWorld, free, &request));
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
        REQUIRE_OK(gpurun_wait(&request, host_waits ? GPURUN_HOST : static_cast<gpurun_stream>(free), nullptr));
        free.synchronize(); // would hang here, or in the call before
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
        gate.open();
        held.synchronize();
        CHECK(first_difference(buffer.read(), pattern(kBytes, 9)) == -1);
    }
}

TEST_CASE("small messages that are held up at their sender hold up nothing else, however many") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 48, kBytes = 8; // more than there are internal streams
    const Stream held, free;
    Memory out(Kind::kDevice, kMany * kBytes), in(Kind::kDevice, kBytes);
    std::vector<gpurun_request> requests(kMany);
    const gpurun_stream domains[] = {GPURUN_HOST, free};
    if (rank() < partner()) {
        out.write(pattern(kMany * kBytes, 8));
        Gate gate(held);
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_isend(out.at(i * kBytes), kBytes, GPURUN_BYTE, partner(), kHeld, kWorld, held, &requests[i]));
        for (const gpurun_stream domain : domains) {
            gpurun_request request;
            REQUIRE_OK(gpurun_irecv(in.at(0), kBytes, GPURUN_BYTE, partner(), kFree, kWorld, domain, &request));
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr)); // would hang here
        }
        gate.open();
        REQUIRE_OK(gpurun_waitall(kMany, requests.data(), GPURUN_HOST, nullptr));
        return;
    }
    for (const gpurun_stream domain : domains)
        REQUIRE_OK(gpurun_send(in.at(0), kBytes, GPURUN_BYTE, partner(), kFree, kWorld, domain));
    for (size_t i = 0; i < kMany; i++)
        REQUIRE_OK(
            gpurun_irecv(out.at(i * kBytes), kBytes, GPURUN_BYTE, partner(), kHeld, kWorld, GPURUN_HOST, &requests[i]));
    REQUIRE_OK(gpurun_waitall(kMany, requests.data(), GPURUN_HOST, nullptr));
    CHECK(first_difference(out.read(), pattern(kMany * kBytes, 8)) == -1);
}

TEST_CASE("small messages that are held up at their receiver hold up nothing else, however many") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    if (rank() < partner())
        send_many();
    else
        receive_many();
}

TEST_CASE("small messages that are completed into the stream that holds them up hold up nothing else") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 60; // more than there are internal streams
    const Stream held, free;
    const Memory in(Kind::kDevice, kMany * kEach), passing(Kind::kDevice, kEach);
    const Bytes bytes = pattern(kMany * kEach, 11);
    if (rank() < partner()) {
        send_to_held_streams(bytes);
        return;
    }
    Gate gate(held);
    for (size_t i = 0; i < kMany; i++) {
        gpurun_request request;
        REQUIRE_OK(gpurun_irecv(in.at(i * kEach), kEach, GPURUN_BYTE, partner(), kHeld, kWorld, held, &request));
        REQUIRE_OK(gpurun_wait(&request, held, nullptr));
    }
    receive(passing, kFree, free);
    free.synchronize(); // would hang here
    gate.open();
    held.synchronize();
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    CHECK(first_difference(in.read(), bytes) == -1);
}

TEST_CASE("small messages that blocking calls have received into streams that are held hold up nothing else") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kStreams = 3, kOfStream = 400, kMany = kStreams * kOfStream; // CUDA takes 1021 a stream
    const Stream free, held[kStreams];
    const Memory in(Kind::kDevice, kMany * kEach), passing(Kind::kDevice, kEach);
    const Bytes bytes = pattern(kMany * kEach, 12);
    if (rank() < partner()) {
        send_to_held_streams(bytes);
        return;
    }
    std::deque<Gate> gates; // opened together: host functions are called one at a time, whichever comes first
    for (const Stream& each : held)
        gates.emplace_back(each);
    for (size_t i = 0; i < kMany; i++)
        REQUIRE_OK(
            gpurun_recv(in.at(i * kEach), kEach, GPURUN_BYTE, partner(), kHeld, kWorld, held[i % kStreams], nullptr));
    receive(passing, kFree, free);
    free.synchronize(); // would hang here, or in the call before
    for (Gate& each : gates)
        each.open();
    for (const Stream& each : held)
        each.synchronize();
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    CHECK(first_difference(in.read(), bytes) == -1);
}

TEST_CASE("a small message is not held up by those that were received later in its stream, and came first") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 40;
    const Stream held;
    const Memory in(Kind::kDevice, (1 + kMany) * kEach);
    const Bytes bytes = pattern((1 + kMany) * kEach, 13);
    if (rank() < partner()) {
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        for (size_t i = 1; i <= 1 + kMany; i++) { // the first last
            const size_t next = i % (1 + kMany);
            REQUIRE_OK(gpurun_send(&bytes[next * kEach], kEach, GPURUN_BYTE, partner(), static_cast<int>(next), kWorld,
                                   GPURUN_HOST));
        }
        return;
    }
    std::vector<gpurun_request> requests(1 + kMany);
    std::optional<Gate> gate;
    for (size_t i = 0; i < requests.size(); i++) {
        REQUIRE_OK(gpurun_irecv(in.at(i * kEach), kEach, GPURUN_BYTE, partner(), static_cast<int>(i), kWorld, held,
                                &requests[i]));
        if (!gate)
            gate.emplace(held);
    }
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_wait(&requests[0], GPURUN_HOST, nullptr)); // would hang here
    gate->open();
    REQUIRE_OK(gpurun_waitall(kMany, &requests[1], GPURUN_HOST, nullptr));
    CHECK(first_difference(in.read(), bytes) == -1);
}

TEST_SUITE_END();

} // namespace gpurun::test::blocked_stream
