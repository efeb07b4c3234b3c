#include "support/job.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

namespace gpurun::test {

int rank() {
    int rank = -1;
    REQUIRE_OK(gpurun_comm_rank(kWorld, &rank));
    return rank;
}

int size() {
    int size = -1;
    REQUIRE_OK(gpurun_comm_size(kWorld, &size));
    return size;
}

int partner() {
    const int other = rank() ^ 1;
    return other < size() ? other : GPURUN_PROC_NULL;
}

bool is_cuda() {
    gpurun_device_info device{};
    device.size = sizeof(device);
    REQUIRE_OK(gpurun_device(&device));
    return device.kind == GPURUN_DEVICE_CUDA;
}

bool has_graphs() {
    const Stream stream;
    const gpurun_status begun = gpurun_capture_begin(stream);
    if (begun == GPURUN_ERR_UNSUPPORTED) {
        CHECK(std::string(gpurun_error_detail()).find("graphs") != std::string::npos);
        return false;
    }
    REQUIRE_OK(begun);
    gpurun_graph graph = nullptr;
    REQUIRE_OK(gpurun_capture_end(stream, &graph));
    REQUIRE_OK(gpurun_graph_destroy(graph));
    return true;
}

void synchronize(gpurun_stream stream) {
    if (stream != GPURUN_HOST)
        REQUIRE_OK(gpurun_stream_synchronize(stream));
}

doctest::String name(Kind kind) {
    switch (kind) {
    case Kind::kDevice: return "device";
    case Kind::kOrdered: return "stream-ordered device";
    case Kind::kPinned: return "pinned";
    case Kind::kPageable: return "pageable";
    }
    return "?";
}

Memory::Memory(Kind kind, size_t bytes) : kind_(kind), bytes_(bytes) {
    switch (kind_) {
    case Kind::kDevice: REQUIRE_OK(gpurun_malloc(&pointer_, bytes)); break;
    case Kind::kOrdered: {
        Stream stream;
        const gpurun_status status = gpurun_malloc_async(&pointer_, bytes, stream);
        if (status == GPURUN_ERR_UNSUPPORTED) {
            kind_ = Kind::kDevice;
            REQUIRE_OK(gpurun_malloc(&pointer_, bytes));
            break;
        }
        REQUIRE_OK(status);
        stream.synchronize(); // usable in every order domain
        break;
    }
    case Kind::kPinned: REQUIRE_OK(gpurun_malloc_host(&pointer_, bytes)); break;
    case Kind::kPageable: pointer_ = std::malloc(bytes); break;
    }
}

Memory::~Memory() {
    switch (kind_) {
    case Kind::kDevice:
    case Kind::kPinned: (void)gpurun_free(pointer_); break;
    case Kind::kOrdered: {
        Stream stream;
        (void)gpurun_free_async(pointer_, stream);
        break;
    }
    case Kind::kPageable: std::free(pointer_); break;
    }
}

void Memory::write(const Bytes& bytes, size_t offset) {
    REQUIRE(offset + bytes.size() <= bytes_);
    REQUIRE_OK(gpurun_memcpy(at(offset), bytes.data(), bytes.size(), GPURUN_HOST));
}

Bytes Memory::read() const {
    Bytes bytes(bytes_);
    REQUIRE_OK(gpurun_memcpy(bytes.data(), pointer_, bytes_, GPURUN_HOST));
    return bytes;
}

Bytes bytes_of(const std::vector<int32_t>& numbers) {
    const auto* const first = reinterpret_cast<const uint8_t*>(numbers.data());
    return {first, first + numbers.size() * sizeof(int32_t)};
}

Bytes pattern(size_t bytes, uint64_t seed) {
    Bytes made(bytes + 8);
    uint64_t word = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < bytes; i += 8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        std::memcpy(&made[i], &word, 8);
    }
    made.resize(bytes);
    return made;
}

ptrdiff_t first_difference(const uint8_t* got, const uint8_t* expected, size_t bytes) {
    if (bytes == 0 || std::memcmp(got, expected, bytes) == 0)
        return -1;
    ptrdiff_t i = 0;
    while (got[i] == expected[i])
        i++;
    return i;
}

void delay(gpurun_stream stream, int delay_us) {
    const auto sleep = [](void* us) {
        std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<intptr_t>(us)));
    };
    void* us = reinterpret_cast<void*>(static_cast<intptr_t>(delay_us));
    if (stream == GPURUN_HOST)
        sleep(us);
    else
        REQUIRE_OK(gpurun_launch_host(stream, sleep, us));
}

void note_time(gpurun_stream stream, double& when) {
    const auto note = [](void* target) {
        timespec time{};
        clock_gettime(CLOCK_MONOTONIC, &time);
        *static_cast<double*>(target) = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    if (stream == GPURUN_HOST)
        note(&when);
    else
        REQUIRE_OK(gpurun_launch_host(stream, note, &when));
}

} // namespace gpurun::test
