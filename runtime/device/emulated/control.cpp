#include "device/emulated/control.hpp"

#include "base/format.hpp"
#include "platform/wake.hpp"

namespace gpurun::device::emulated {

namespace {

constexpr uint32_t kMagic = 0x756d6567; // "gemu"
constexpr uint32_t kControlLayout = 1;

struct ControlHeader {
    uint32_t magic;
    uint32_t layout;
    uint64_t token;
    std::atomic<uint32_t> streams; // stream numbers ever used: all below; by the owner
};

struct ControlArea {
    ControlHeader header;
    alignas(4096) std::atomic<uint64_t> progress[kStreams];
    std::atomic<uint64_t> events[kSharedEvents];
    std::atomic<uint64_t> exports[kExports];
};
static_assert(sizeof(ControlHeader) == 24);
static_assert(sizeof(ControlArea) == 4096 + 8 * (size_t{kStreams} + kSharedEvents + kExports));
static_assert(std::atomic<uint64_t>::is_always_lock_free);

ControlArea& area_of(const platform::Mapping& mapping) { return *reinterpret_cast<ControlArea*>(mapping.data()); }

} // namespace

size_t Control::bytes() {
    const size_t page = platform::page_size();
    return (sizeof(ControlArea) + page - 1) / page * page;
}

base::Result<Control> Control::create(int fd, uint64_t token) {
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(fd, 0, bytes()));
    // The segment is new, so all words are zero: touching them here would cost a megabyte for nothing.
    ControlHeader& header = area_of(mapping).header;
    header.token = token;
    header.layout = kControlLayout;
    header.magic = kMagic;
    return Control(std::move(mapping));
}

base::Result<Control> Control::attach(int fd) {
    GPURUN_ASSIGN(const size_t size, platform::segment_size(fd));
    if (size < bytes())
        return base::error(base::Status::kVersion, "a peer's descriptor is not an emulated device's memory");
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(fd, 0, bytes()));
    const ControlHeader& header = area_of(mapping).header;
    if (header.magic != kMagic || header.layout != kControlLayout)
        return base::error(base::Status::kVersion,
                           "a peer's emulated device has another layout: run the same gpurun in all ranks");
    return Control(std::move(mapping));
}

uint64_t Control::token() const { return area_of(mapping_).header.token; }

std::atomic<uint64_t>* Control::progress(uint32_t stream) const {
    return stream < kStreams ? &area_of(mapping_).progress[stream] : nullptr;
}

std::atomic<uint64_t>* Control::event(uint32_t index) const {
    return index < kSharedEvents ? &area_of(mapping_).events[index] : nullptr;
}

std::atomic<uint64_t>* Control::exported(uint32_t index) const {
    return index < kExports ? &area_of(mapping_).exports[index] : nullptr;
}

void Control::release_all() const {
    // Unused streams are released too: the owner may have died between claiming one and noting it.
    const uint32_t used = area_of(mapping_).header.streams.load(std::memory_order_acquire);
    for (uint32_t stream = 0; stream < kStreams; ++stream) {
        std::atomic<uint64_t>& word = *progress(stream);
        word.fetch_or(kReleased, std::memory_order_release);
        if (stream < used)
            platform::wake_all(word);
    }
}

void Control::note_stream(uint32_t stream) const {
    std::atomic<uint32_t>& streams = area_of(mapping_).header.streams;
    uint32_t seen = streams.load(std::memory_order_relaxed);
    // Release: pairs with release_all()'s acquire in a survivor.
    while (seen <= stream && !streams.compare_exchange_weak(seen, stream + 1, std::memory_order_release)) {
    }
}

base::Result<uint32_t> Slots::claim(const char* what) {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
        const uint32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }
    if (used_ == limit_)
        return base::error(base::Status::kMemory, "an emulated device has at most {} {}: destroy some first", limit_,
                           what);
    return used_++;
}

void Slots::release(uint32_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
}

} // namespace gpurun::device::emulated
