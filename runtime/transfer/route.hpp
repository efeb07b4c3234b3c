// The route of a message: its path, and why that was chosen, as GPURUN_REPORT=paths and traces say it. Each protocol
// names its own routes. The target chooses, and tells the source in its answer.
#pragma once

#include "transfer/channel/record.hpp"

#include <cstdint>
#include <vector>

namespace gpurun::transfer {

// As people read them.
struct RouteText {
    const char* path;
    const char* reason;
};

// One of a protocol's routes. Travels in records.
struct Route {
    static constexpr size_t kMostOfProtocol = 16;

    ProtocolId protocol = 0;
    uint8_t index = 0;

    size_t number() const { return protocol * kMostOfProtocol + index; }
};

// Messages and bytes in one direction of a pair, by route.
class Tally {
  public:
    struct Entry {
        uint64_t messages = 0;
        uint64_t bytes = 0;
    };
    void count(Route route, uint64_t bytes) {
        if (route.number() >= entries_.size()) [[unlikely]]
            entries_.resize(route.number() + 1);
        Entry& entry = entries_[route.number()];
        ++entry.messages;
        entry.bytes += bytes;
    }
    Entry at(Route route) const { return route.number() < entries_.size() ? entries_[route.number()] : Entry{}; }

  private:
    std::vector<Entry> entries_;
};

} // namespace gpurun::transfer
