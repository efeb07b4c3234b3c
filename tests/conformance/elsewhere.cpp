// Memory of another device of the same process: what it is, and that what touches it keeps its stream's order. On CUDA
// it takes a second GPU.
#include "cuda_memory.hpp"

#include "subject.hpp"

#include "device/capability/other_devices.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::conformance::elsewhere {

namespace {

constexpr size_t kBytes = 100'003;

// A device and memory that lies elsewhere, of its process. The emulated one is not the subject: its ordered memory
// passes for another device's.
class Foreign {
  public:
    Foreign() {
        if (is_emulated()) {
            device::Options options = options_for("emulated:0/3");
            options.emulated_ordered = device::Placement::kElsewhere;
            own_ = must(device::open_device(options));
            memory_ = must(own_->ordered_memory()->allocate_ordered(kBytes, {}));
        } else {
            memory_ = allocate_elsewhere(kBytes);
        }
        pinned_ = static_cast<std::byte*>(must(device().allocate_pinned(kBytes)));
        stream_ = must(device().create_stream());
    }
    ~Foreign() {
        (void)device().destroy_stream(stream_);
        (void)device().free_pinned(pinned_);
        if (own_)
            (void)own_->ordered_memory()->free_ordered(memory_, {});
        else
            free_elsewhere(memory_);
    }
    Foreign(const Foreign&) = delete;
    Foreign& operator=(const Foreign&) = delete;

    device::Device& device() const { return own_ ? *own_ : subject(); }
    std::byte* memory() const { return static_cast<std::byte*>(memory_); }
    std::byte* pinned() const { return pinned_; }
    device::Stream stream() const { return stream_; }

  private:
    std::unique_ptr<device::Device> own_;
    void* memory_ = nullptr;
    std::byte* pinned_ = nullptr;
    device::Stream stream_;
};

bool skipped() {
    if (is_emulated() || has_elsewhere())
        return false;
    MESSAGE("skipped: there is no second GPU");
    return true;
}

} // namespace

TEST_SUITE_BEGIN("elsewhere");

TEST_CASE("memory of another device is told from the device's own, is not exported, and has an end") {
    if (skipped())
        return;
    const Foreign foreign;
    const device::Buffer buffer = must(foreign.device().describe(foreign.memory() + 5, kBytes - 5));
    const bool reached = !is_emulated() && reaches(foreign.memory());
    CHECK(buffer.placement == (reached ? device::Placement::kDevice : device::Placement::kElsewhere));
    CHECK_FALSE(buffer.exportable);
    CHECK(buffer.base == foreign.memory());
    CHECK_STATUS(foreign.device().describe(foreign.memory() + 5, size_t{1} << 40), Status::kBuffer);
}

TEST_CASE("bytes go to another device's memory and back, at any offset") {
    if (skipped())
        return;
    const Foreign foreign;
    const Bytes content = pattern(kBytes, 5);
    for (const size_t skip : {size_t{0}, size_t{1}, size_t{4097}, kBytes - 3}) {
        CAPTURE(skip);
        std::memcpy(foreign.pinned(), content.data(), kBytes);
        const size_t bytes = kBytes - skip;
        REQUIRE_OK(foreign.device().other_devices()->fill_elsewhere(foreign.memory(), 0x11, kBytes, foreign.stream()));
        REQUIRE_OK(foreign.device().other_devices()->copy_elsewhere(foreign.memory() + skip, foreign.pinned(), bytes,
                                                                    foreign.stream()));
        REQUIRE_OK(foreign.device().other_devices()->copy_elsewhere(foreign.pinned(), foreign.memory(), kBytes,
                                                                    foreign.stream()));
        REQUIRE_OK(foreign.device().synchronize(foreign.stream()));
        CHECK(std::count(foreign.pinned(), foreign.pinned() + skip, std::byte{0x11}) == static_cast<ptrdiff_t>(skip));
        CHECK(std::memcmp(foreign.pinned() + skip, content.data(), bytes) == 0);
    }
}

TEST_CASE("what touches another device's memory comes after what is in its stream, and before what follows there") {
    if (skipped())
        return;
    const Foreign foreign;
    device::Device& device = foreign.device();
    void* const own = must(device.allocate(kBytes));
    auto* const second = static_cast<std::byte*>(must(device.allocate_pinned(kBytes)));
    for (int round = 1; round < 20; ++round) {
        std::memset(foreign.pinned(), 0, kBytes);
        std::memset(second, 0, kBytes);
        REQUIRE_OK(device.fill(own, round, kBytes, foreign.stream()));
        REQUIRE_OK(device.copy(foreign.pinned(), own, kBytes, foreign.stream()));
        REQUIRE_OK(
            device.other_devices()->copy_elsewhere(foreign.memory(), foreign.pinned(), kBytes, foreign.stream()));
        REQUIRE_OK(device.fill(own, 0xee, kBytes, foreign.stream()));
        REQUIRE_OK(device.copy(foreign.pinned(), own, kBytes, foreign.stream()));
        REQUIRE_OK(device.other_devices()->copy_elsewhere(second, foreign.memory(), kBytes, foreign.stream()));
        REQUIRE_OK(device.other_devices()->fill_elsewhere(foreign.memory(), 0xdd, kBytes, foreign.stream()));
        REQUIRE_OK(device.synchronize(foreign.stream()));
        CHECK(std::count(second, second + kBytes, static_cast<std::byte>(round)) == static_cast<ptrdiff_t>(kBytes));
    }
    (void)device.free_pinned(second);
    (void)device.free(own);
}

TEST_CASE("a stream that is held up holds up its own copies elsewhere, and no other's") {
    if (skipped() || is_emulated()) // there each stream has a thread of its own
        return;
    const Foreign foreign;
    const Stream held;
    const size_t gate = new_counter();
    const Pinned late(8);
    std::memset(late.get(), 0, 8);
    REQUIRE_OK(subject().other_devices()->fill_elsewhere(foreign.memory(), 1, kBytes, foreign.stream()));
    REQUIRE_OK(subject().synchronize(foreign.stream()));
    hold(held, gate);
    REQUIRE_OK(subject().other_devices()->copy_elsewhere(late.get(), foreign.memory(), 8, held));
    REQUIRE_OK(subject().other_devices()->copy_elsewhere(foreign.pinned(), foreign.memory(), kBytes, foreign.stream()));
    REQUIRE_OK(subject().synchronize(foreign.stream()));
    CHECK(foreign.pinned()[kBytes - 1] == std::byte{1});
    CHECK_FALSE(held.done());
    CHECK(late.get()[0] == std::byte{0});
    store(gate, 1);
    held.finish();
    CHECK(late.get()[0] == std::byte{1});
}

TEST_SUITE_END();

} // namespace gpurun::conformance::elsewhere
