// Holds streams of a device until it is opened.
#pragma once

#include "device/capability/counters.hpp"
#include "platform/wake.hpp"
#include "support/pinned_pages.hpp"

namespace gpurun::test {

class Gate {
  public:
    explicit Gate(device::Device& device) : device_(device), pages_(device, sizeof(device::Counter)) {
        must(pages_.pin());
    }
    // What holds would stay for ever.
    ~Gate() {
        open();
        (void)device_.synchronize_all();
    }
    // What follows in the stream waits for open().
    void hold(device::Stream stream) { must(device_.counters()->await_counter(stream, counter(), 1)); }
    void open() { platform::store_and_wake(*counter(), 1); }

  private:
    device::Counter* counter() const { return pages_.as<device::Counter>(); }

    device::Device& device_;
    PinnedPages pages_;
};

} // namespace gpurun::test
