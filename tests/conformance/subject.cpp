#include "subject.hpp"

#include "cuda_memory.hpp"
#include "platform/shared_memory.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

namespace gpurun::conformance {

namespace {

constexpr size_t kEmulatedBytes = size_t{256} << 20;
constexpr int64_t kDelayUs = 200;
constexpr auto kBound = std::chrono::seconds(10); // of waits that give up

std::unique_ptr<device::Device>& the_device() {
    static std::unique_ptr<device::Device> device;
    return device;
}

struct CounterSegment {
    platform::UniqueFd fd;
    platform::Mapping mapping;
    std::atomic<size_t> used{0};

    CounterSegment() {
        fd = must(platform::create_segment("conformance-counters", kCounterBytes));
        mapping = must(platform::Mapping::map(fd.get(), 0, kCounterBytes));
        REQUIRE_OK(subject().register_host(mapping.data(), mapping.size()));
    }
};

CounterSegment& segment() {
    static CounterSegment segment;
    return segment;
}

} // namespace

bool is_emulated() {
    const char* device = std::getenv("GPURUN_TEST_DEVICE");
    return device == nullptr || std::strcmp(device, "cuda") != 0;
}

uint64_t seed() {
    const char* text = std::getenv("GPURUN_TEST_SEED");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

device::Options options_for(const std::string& selector) {
    device::Options options;
    options.selector = selector;
    options.emulated_memory_bytes = kEmulatedBytes;
    options.emulated_peer_access = "0-1";
    options.emulated_seed = seed();
    options.emulated_delay_us = kDelayUs;
    if (const char* capabilities = std::getenv("GPURUN_EMULATED_CAPABILITIES"))
        options.emulated_capabilities = capabilities;
    return options;
}

std::vector<std::string> reachable_selectors() {
    if (is_emulated())
        return {"emulated:0/3", "emulated:1/3"};
    std::vector<std::string> selectors = {"cuda:0"};
    const char* other = std::getenv("GPURUN_TEST_OTHER_DEVICE"); // a second GPU with peer access, for example cuda:1
    if (other != nullptr)
        selectors.emplace_back(other);
    return selectors;
}

std::string unreachable_selector() { return is_emulated() ? "emulated:2/3" : ""; }

base::Result<void> open_subject() {
    GPURUN_ASSIGN(the_device(), device::open_device(options_for(reachable_selectors().front())));
    return {};
}

void close_subject() { the_device().reset(); }

device::Device& subject() { return *the_device(); }

Bytes pattern(size_t bytes, unsigned variant) {
    Bytes content(bytes);
    uint32_t state = variant * 2654435761u + 1;
    for (std::byte& byte : content) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<std::byte>(state >> 24);
    }
    return content;
}

void write(void* destination, const Bytes& content) {
    const Pinned pinned(content.size());
    std::memcpy(pinned.get(), content.data(), content.size());
    const Stream stream;
    REQUIRE_OK(subject().copy(destination, pinned.get(), content.size(), stream));
    stream.synchronize();
}

Bytes read(const void* source, size_t bytes) {
    const Pinned pinned(bytes);
    const Stream stream;
    REQUIRE_OK(subject().copy(pinned.get(), source, bytes, stream));
    stream.synchronize();
    return Bytes(pinned.get(), pinned.get() + bytes);
}

std::vector<Kind> device_kinds() {
    std::vector<Kind> kinds = {Kind::kDevice};
    if (subject().ordered_memory() != nullptr)
        kinds.push_back(Kind::kOrdered);
    if (has_managed_memory())
        kinds.push_back(Kind::kManaged);
    return kinds;
}

const char* name(Kind kind) {
    switch (kind) {
    case Kind::kPinned: return "pinned";
    case Kind::kDevice: return "device";
    case Kind::kOrdered: return "stream-ordered";
    case Kind::kManaged: return "managed";
    }
    return "?";
}

AnyMemory::AnyMemory(Kind kind, size_t bytes) : kind_(kind), bytes_(bytes) {
    switch (kind_) {
    case Kind::kPinned: data_ = must(subject().allocate_pinned(bytes)); break;
    case Kind::kDevice: data_ = must(subject().allocate(bytes)); break;
    case Kind::kOrdered: {
        const Stream stream;
        data_ = must(subject().ordered_memory()->allocate_ordered(bytes, stream));
        stream.synchronize();
        break;
    }
    case Kind::kManaged: data_ = allocate_managed(bytes); break;
    }
    REQUIRE(data_ != nullptr);
}

AnyMemory::~AnyMemory() {
    switch (kind_) {
    case Kind::kPinned: (void)subject().free_pinned(data_); break;
    case Kind::kDevice: (void)subject().free(data_); break;
    case Kind::kOrdered: (void)subject().ordered_memory()->free_ordered(data_, device::Stream{}); break;
    case Kind::kManaged: free_managed(data_); break;
    }
}

void AnyMemory::set(const Bytes& content) const {
    REQUIRE(content.size() == bytes_);
    if (kind_ == Kind::kPinned)
        std::memcpy(data_, content.data(), bytes_);
    else
        write(data_, content);
}

Bytes AnyMemory::content() const { return kind_ == Kind::kPinned ? Bytes(get(), get() + bytes_) : read(data_, bytes_); }

Stream::~Stream() {
    // An exception is on its way: the test failed, perhaps with this stream blocked.
    if (std::uncaught_exceptions() > 0)
        release_all_counters();
    (void)subject().destroy_stream(stream_);
}

void Stream::finish() const {
    const auto end = std::chrono::steady_clock::now() + kBound;
    while (!done()) {
        REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, "the stream's work does not end");
        std::this_thread::yield();
    }
    synchronize();
}

int counter_segment() { return segment().fd.get(); }

size_t new_counter() {
    // One cache line each, as fences have.
    const size_t index = segment().used.fetch_add(8, std::memory_order_relaxed);
    REQUIRE(index * sizeof(device::Counter) < kCounterBytes);
    return index;
}

device::Counter& counter(size_t index) { return reinterpret_cast<device::Counter*>(segment().mapping.data())[index]; }

void store(size_t index, uint64_t value) { platform::store_and_wake(counter(index), value); }

void release_all_counters() {
    const size_t used = segment().used.load(std::memory_order_relaxed);
    for (size_t index = 0; index < used; index += 8)
        store(index, kReleaseAll);
    subject().release_peer(0); // what waits in a channel, whose other side counts as dead now
}

namespace {

struct Held {
    device::Counter* counter;
    uint64_t value;
};

void wait_for_counter(void* argument) {
    const std::unique_ptr<const Held> held(static_cast<const Held*>(argument));
    for (uint64_t now = 0; (now = platform::load_published(*held->counter)) < held->value;)
        platform::sleep_while(*held->counter, now, platform::kForever);
}

} // namespace

base::Result<void> Holder::hold(device::Stream stream, device::Counter& counter, uint64_t value) {
    if (device_.counters() != nullptr)
        return device_.counters()->await_counter(stream, &counter, value);
    if (latest_.native == nullptr) {
        GPURUN_ASSIGN(latest_, device_.create_event());
    }
    GPURUN_TRY(device_.await_event(stream, latest_));
    GPURUN_TRY(device_.call_host(stream, wait_for_counter, new Held{&counter, value}));
    return device_.record(latest_, stream);
}

void hold(device::Stream stream, size_t index, uint64_t value) {
    static Holder holder(subject());
    REQUIRE_OK(holder.hold(stream, counter(index), value));
}

bool reads(size_t index, uint64_t value) {
    const auto end = std::chrono::steady_clock::now() + kBound;
    while (platform::load_published(counter(index)) < value) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::yield();
    }
    return true;
}

void watch() { std::this_thread::sleep_for(std::chrono::milliseconds(kWatchMs)); }

} // namespace gpurun::conformance
