// What the tests that run on several ranks share: who this rank is, memory of every kind, streams, and patterns.
//
// All ranks run the same test cases in the same order (job_main.cpp), each with its own part. Everything goes through
// the public API, so the tests run unchanged on emulated devices and on GPUs.
#pragma once

#include <gpurun/gpurun.h>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

// So that doctest prints a status by its name.
inline doctest::String toString(gpurun_status status) { return gpurun_status_string(status); }

#define REQUIRE_OK(call)                                                                                               \
    do {                                                                                                               \
        const gpurun_status require_ok_status = (call);                                                                \
        REQUIRE_MESSAGE(require_ok_status == GPURUN_OK, #call, ": ", toString(require_ok_status), ": ",                \
                        doctest::String(gpurun_error_detail()));                                                       \
    } while (0)

namespace gpurun::test {

int rank();
int size();
inline const gpurun_comm kWorld = GPURUN_COMM_WORLD;

// Ranks 0-1, 2-3, ... are partners; the last of an odd number has none (GPURUN_PROC_NULL).
int partner();

// ---- order domains

class Stream {
  public:
    Stream() { REQUIRE_OK(gpurun_stream_create(&stream_)); }
    ~Stream() { (void)gpurun_stream_destroy(stream_); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator gpurun_stream() const { return stream_; }
    void synchronize() const { REQUIRE_OK(gpurun_stream_synchronize(stream_)); }

  private:
    gpurun_stream stream_ = nullptr;
};

// Whether streams can be captured; if not, gpurun_capture_begin() has said so, and what to do.
bool has_graphs();

// Whether the rank's device is a GPU, whose room is limited: an emulated device has as much as anybody wants.
bool is_cuda();

// Waits for a stream; nothing to wait for in the host's order domain.
void synchronize(gpurun_stream stream);

// ---- memory

enum class Kind {
    kDevice,   // gpurun_malloc
    kOrdered,  // gpurun_malloc_async: other processes cannot map it; where the device lacks that, gpurun_malloc
    kPinned,   // gpurun_malloc_host
    kPageable, // malloc
};
constexpr Kind kKinds[] = {Kind::kDevice, Kind::kOrdered, Kind::kPinned, Kind::kPageable};
doctest::String name(Kind kind);

using Bytes = std::vector<uint8_t>;

class Memory {
  public:
    Memory(Kind kind, size_t bytes);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    uint8_t* at(size_t offset) const { return static_cast<uint8_t*>(pointer_) + offset; }
    uint8_t* get() const { return at(0); }
    size_t size() const { return bytes_; }

    // On return, in the host's order domain.
    void write(const Bytes& bytes, size_t offset = 0);
    Bytes read() const;

  private:
    Kind kind_;
    size_t bytes_;
    void* pointer_ = nullptr;
};

// ---- contents

// Bytes that differ in every position and for every seed.
Bytes pattern(size_t bytes, uint64_t seed);

Bytes bytes_of(const std::vector<int32_t>& numbers);

// -1 if equal, else the first index that differs: one assertion for a whole buffer.
ptrdiff_t first_difference(const uint8_t* got, const uint8_t* expected, size_t bytes);
inline ptrdiff_t first_difference(const Bytes& got, const Bytes& expected) {
    if (got.size() != expected.size())
        return static_cast<ptrdiff_t>(got.size() < expected.size() ? got.size() : expected.size());
    return first_difference(got.data(), expected.data(), got.size());
}

// ---- time

// Makes what follows in `stream` wait about this long. On the host's order domain: sleeps.
void delay(gpurun_stream stream, int delay_us);
// When `stream` comes here, by a clock that all ranks of a machine share; in seconds.
void note_time(gpurun_stream stream, double& when);

} // namespace gpurun::test
