// What this rank has borrowed by one loan. The lender may have borrowed it itself; then the memory is another rank's,
// its owner's, and mapped from there.
#pragma once

#include "transfer/loan_kind.hpp"
#include "transfer/memory/remote_buffer.hpp"

#include <algorithm>
#include <vector>

namespace gpurun::transfer {

class Peer;

struct Borrowing {
    // A buffer, or an allocation, of another process, as it is mapped here. If this rank is its owner, it is mapped
    // nowhere.
    struct Part {
        std::byte* first = nullptr;
        size_t bytes = 0;
        RemoteBuffer lent; // from its first byte on
        Peer* owner = nullptr;
    };
    Peer* lender = nullptr;
    uint64_t serial = 0; // of its send
    LoanOrigin origin;
    std::vector<Part> parts;

    // The part that has these bytes; null if none has.
    const Part* find(const std::byte* first, size_t bytes) const {
        const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& each) {
            return each.first <= first && first + bytes <= each.first + each.bytes;
        });
        return found == parts.end() ? nullptr : &*found;
    }
    // The same bytes, as whoever they are lent on to gets to know them.
    static RemoteBuffer describe(const Part& part, const std::byte* first) {
        RemoteBuffer described = part.lent;
        described.exporter = Exporter::kOwner;
        described.loan = {};
        described.ready = false;
        described.offset += static_cast<uint64_t>(first - part.first);
        described.address = reinterpret_cast<uint64_t>(first);
        return described;
    }
};

} // namespace gpurun::transfer
