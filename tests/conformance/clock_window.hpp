// Memory that the device writes times to, and whether what its clock says fits the CPU's.
#pragma once

#include "subject.hpp"

#include "device/capability/clock.hpp"
#include "platform/clock.hpp"

#include <new>

namespace gpurun::conformance {

class PinnedTimes {
  public:
    explicit PinnedTimes(size_t count) : memory_(count * sizeof(device::Times)) {
        for (size_t i = 0; i < count; ++i)
            new (memory_.get() + i * sizeof(device::Times)) device::Times{};
    }
    device::Times* operator[](size_t index) const { return reinterpret_cast<device::Times*>(memory_.get()) + index; }

  private:
    Pinned memory_;
};

// What the device's clock says about the CPU's, as well as one can tell from readings before and after.
class ClockWindow {
  public:
    ClockWindow() : first_(must(subject().clock()->read_clock())), begin_ns_(platform::now_ns()) {}
    // REQUIRES: what was timed is over.
    void close() {
        end_ns_ = platform::now_ns();
        last_ = must(subject().clock()->read_clock());
    }
    // Whether all of it happened in between, one after the other.
    void check(const device::Times& times) const { check(times, begin_ns_); }
    // And moved not before `earliest_ns`.
    void check(const device::Times& times, int64_t earliest_ns) const {
        CHECK(host_ns(times.began) >= begin_ns_ - error_ns());
        CHECK(times.began <= times.moving);
        CHECK(host_ns(times.moving) >= earliest_ns - error_ns());
        CHECK(times.moving <= times.done);
        CHECK(host_ns(times.done) <= end_ns_ + error_ns());
    }

  private:
    int64_t host_ns(int64_t device_ns) const {
        const auto passed = static_cast<double>(device_ns - first_.device_ns);
        const auto whole = static_cast<double>(last_.device_ns - first_.device_ns);
        const auto host = static_cast<double>(last_.host_ns - first_.host_ns);
        return first_.host_ns + static_cast<int64_t>(whole > 0 ? passed * host / whole : passed);
    }
    int64_t error_ns() const {
        constexpr int64_t kStepNs = 2000; // of a GPU's clock
        return first_.error_ns + last_.error_ns + (is_emulated() ? 1 : kStepNs);
    }

    platform::ClockReading first_;
    platform::ClockReading last_{};
    int64_t begin_ns_;
    int64_t end_ns_ = 0;
};

} // namespace gpurun::conformance
