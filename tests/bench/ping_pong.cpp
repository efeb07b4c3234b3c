#include "ping_pong.hpp"

#include "call.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace gpurun::bench {

namespace {

constexpr int kTag = 1;
constexpr size_t kAnswerBytes = 8;

} // namespace

Buffer::Buffer(Memory memory, size_t bytes) : memory_(memory) {
    switch (memory) {
    case Memory::kDevice: CALL(gpurun_malloc(&data_, bytes)); break;
    case Memory::kPinned: CALL(gpurun_malloc_host(&data_, bytes)); break;
    case Memory::kHost:
        data_ = std::malloc(bytes);
        if (data_ == nullptr)
            gpurun_abort(1);
        std::memset(data_, 0, bytes);
        break;
    case Memory::kAsync: {
        gpurun_stream stream = nullptr;
        CALL(gpurun_stream_create(&stream));
        CALL(gpurun_malloc_async(&data_, bytes, stream));
        CALL(gpurun_stream_synchronize(stream));
        CALL(gpurun_stream_destroy(stream));
        break;
    }
    }
}

Buffer::~Buffer() {
    switch (memory_) {
    case Memory::kDevice:
    case Memory::kPinned: CALL(gpurun_free(data_)); break;
    case Memory::kHost: std::free(data_); break;
    case Memory::kAsync: {
        gpurun_stream stream = nullptr;
        CALL(gpurun_stream_create(&stream));
        CALL(gpurun_free_async(data_, stream));
        CALL(gpurun_stream_destroy(stream));
        break;
    }
    }
}

PingPong::PingPong(int rank, Memory memory, size_t largest)
    : rank_(rank), ball_(memory, largest), caught_(memory, largest), answer_(memory, kAnswerBytes), expected_(largest),
      read_(largest) {
    CALL(gpurun_stream_create(&stream_));
}

PingPong::~PingPong() { CALL(gpurun_stream_destroy(stream_)); }

void PingPong::prepare(size_t bytes) {
    uint64_t word = bytes * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < bytes; ++i) {
        if (i % 8 == 0)
            word = word * 6364136223846793005u + 1442695040888963407u;
        expected_[i] = static_cast<unsigned char>(word >> (i % 8 * 8));
    }
    CALL(gpurun_memcpy(ball_.data(), expected_.data(), bytes, GPURUN_HOST));
    CALL(gpurun_memset(caught_.data(), 0xee, bytes, GPURUN_HOST));
}

void PingPong::round(size_t bytes, gpurun_stream stream) {
    const gpurun_comm world = GPURUN_COMM_WORLD;
    if (rank_ == 0) {
        CALL(gpurun_send(ball_.data(), bytes, GPURUN_BYTE, 1, kTag, world, stream));
        CALL(gpurun_recv(caught_.data(), bytes, GPURUN_BYTE, 1, kTag, world, stream, nullptr));
    } else {
        CALL(gpurun_recv(caught_.data(), bytes, GPURUN_BYTE, 0, kTag, world, stream, nullptr));
        CALL(gpurun_send(caught_.data(), bytes, GPURUN_BYTE, 0, kTag, world, stream));
    }
}

void PingPong::wait(Order order) {
    if (order == Order::kStream)
        CALL(gpurun_stream_synchronize(stream_));
}

std::vector<double> PingPong::one_way_us(size_t bytes, int rounds, Order order) {
    const int batch = order == Order::kHost ? 1 : std::min(kBatch, rounds);
    std::vector<double> samples;
    CALL(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    for (int done = 0; done < rounds; done += batch) {
        const double start = gpurun_wtime();
        for (int i = 0; i < batch; ++i)
            round(bytes, domain(order));
        wait(order);
        samples.push_back((gpurun_wtime() - start) * 1e6 / (2.0 * batch));
    }
    return samples;
}

double PingPong::window_us(size_t bytes, int messages, Order order) {
    const gpurun_comm world = GPURUN_COMM_WORLD;
    const gpurun_stream stream = domain(order);
    CALL(gpurun_barrier(world, GPURUN_HOST));
    const double start = gpurun_wtime();
    for (int i = 0; i < messages; ++i) {
        if (rank_ == 0)
            CALL(gpurun_send(ball_.data(), bytes, GPURUN_BYTE, 1, kTag, world, stream));
        else
            CALL(gpurun_recv(caught_.data(), bytes, GPURUN_BYTE, 0, kTag, world, stream, nullptr));
    }
    if (rank_ == 0)
        CALL(gpurun_recv(answer_.data(), kAnswerBytes, GPURUN_BYTE, 1, kTag, world, stream, nullptr));
    else
        CALL(gpurun_send(answer_.data(), kAnswerBytes, GPURUN_BYTE, 0, kTag, world, stream));
    wait(order);
    return (gpurun_wtime() - start) * 1e6 / messages;
}

void PingPong::check(size_t bytes) {
    CALL(gpurun_memcpy(read_.data(), caught_.data(), bytes, GPURUN_HOST));
    if (std::memcmp(read_.data(), expected_.data(), bytes) == 0)
        return;
    const auto wrong = std::mismatch(read_.begin(), read_.begin() + static_cast<ptrdiff_t>(bytes), expected_.begin());
    std::fprintf(stderr, "rank %d: %zu bytes arrived, but byte %td is wrong\n", rank_, bytes,
                 wrong.first - read_.begin());
    gpurun_abort(1);
}

} // namespace gpurun::bench
