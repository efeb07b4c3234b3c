// The device under test, and what every test of it needs: streams and memory that clean up, bytes, counters.
//
// There is one device for the whole process, as in a rank. GPURUN_TEST_DEVICE chooses the implementation (emulated,
// the default, or cuda), GPURUN_TEST_SEED the emulated device's delays, GPURUN_EMULATED_CAPABILITIES what that can do.
#pragma once

#include "device/capabilities.hpp"
#include "device/capability/counters.hpp"
#include "device/capability/ordered_memory.hpp"
#include "device/open.hpp"
#include "platform/wake.hpp"
#include "support/unit.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpurun::conformance {

using base::Status;
using test::must;

// ---- the device

// Opens it; to be called once, before subject().
base::Result<void> open_subject();
void close_subject();
device::Device& subject();
bool is_emulated();
uint64_t seed();
device::Options options_for(const std::string& selector);

// Devices for another process: the subject's own and, where there are, another that can reach it and be reached.
std::vector<std::string> reachable_selectors();
// One that cannot; "" where there is none.
std::string unreachable_selector();

// ---- bytes

using Bytes = std::vector<std::byte>;
Bytes pattern(size_t bytes, unsigned variant);

// Device memory of the subject (or imported memory), read and written through pinned memory. They wait.
void write(void* destination, const Bytes& content);
Bytes read(const void* source, size_t bytes);

class Memory {
  public:
    explicit Memory(size_t bytes) : data_(must(subject().allocate(bytes))) {}
    ~Memory() { (void)subject().free(data_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    std::byte* get() const { return static_cast<std::byte*>(data_); }
    device::Buffer describe() const { return must(subject().describe(data_, 1)); }

  private:
    void* data_;
};

class Pinned {
  public:
    explicit Pinned(size_t bytes) : data_(must(subject().allocate_pinned(bytes))) {}
    ~Pinned() { (void)subject().free_pinned(data_); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    std::byte* get() const { return static_cast<std::byte*>(data_); }

  private:
    void* data_;
};

// Every kind of memory that streams reach.
enum class Kind { kPinned, kDevice, kOrdered, kManaged };
std::vector<Kind> device_kinds(); // that the subject has; not pinned
const char* name(Kind kind);

class AnyMemory {
  public:
    AnyMemory(Kind kind, size_t bytes);
    ~AnyMemory();
    AnyMemory(const AnyMemory&) = delete;
    AnyMemory& operator=(const AnyMemory&) = delete;
    std::byte* get() const { return static_cast<std::byte*>(data_); }
    size_t size() const { return bytes_; }
    // The whole. They wait, by the CPU if the memory is pinned.
    void set(const Bytes& content) const;
    Bytes content() const;

  private:
    Kind kind_;
    size_t bytes_;
    void* data_ = nullptr;
};

// ---- order

// A stream that is not left blocked when a test fails: its destructor first releases every counter.
class Stream {
  public:
    Stream() : stream_(must(subject().create_stream())) {}
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator device::Stream() const { return stream_; }
    void synchronize() const { REQUIRE_OK(subject().synchronize(stream_)); }
    bool done() const { return must(subject().query(stream_)); }
    // As synchronize(), but fails after seconds, so that what waits there is released.
    void finish() const;

  private:
    device::Stream stream_;
};

class Event {
  public:
    Event() : event_(must(subject().create_event())) {}
    explicit Event(device::Event event) : event_(event) {}
    ~Event() { (void)subject().destroy_event(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    operator device::Event() const { return event_; }
    bool done() const { return must(subject().query(event_)); }

  private:
    device::Event event_;
};

// Counters live in one registered segment that other processes map as well; each test takes fresh ones, which read 0.
constexpr size_t kCounterBytes = 128 << 10;
constexpr uint64_t kReleaseAll = uint64_t{1} << 62;
int counter_segment();
constexpr uint64_t kStep = 2; // between values: bit 0 belongs to poison
size_t new_counter();         // its index
device::Counter& counter(size_t index);
void store(size_t index, uint64_t value);
void release_all_counters();
// Enqueue: what follows in the stream starts once the counter reads `value` or more. Where the device has no counters,
// by a host function, of which one may hold up all others: so what is held later comes free later, too.
class Holder {
  public:
    explicit Holder(device::Device& device) : device_(device) {}
    base::Result<void> hold(device::Stream stream, device::Counter& counter, uint64_t value);

  private:
    device::Device& device_;
    device::Event latest_; // behind the latest host function; null before there is one
};
void hold(device::Stream stream, size_t index, uint64_t value = 1); // of the subject

// ---- time

// How long a test watches something that must not happen.
constexpr int kWatchMs = 30;
void watch();
// Whether the counter reads the value or more, at once when it does; gives up after seconds.
bool reads(size_t index, uint64_t value);
// Whether `condition` comes true; gives up after seconds.
template <typename Condition>
bool soon(const Condition& condition) {
    for (int tries = 0; tries < 400; ++tries) {
        if (condition())
            return true;
        watch();
    }
    return false;
}

} // namespace gpurun::conformance
