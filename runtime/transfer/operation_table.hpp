// Finds the operation that a peer's answer is for, by the serial in it. A serial is never given twice, so an answer to
// an operation that has failed meanwhile finds nothing.
//
// Owned by a peer; used under the engine lock.
#pragma once

#include "base/check.hpp"

#include <cstdint>
#include <vector>

namespace gpurun::transfer {

template <typename Op>
class OperationTable {
  public:
    // Its serial, never 0.
    uint64_t add(Op& operation) {
        if (unused_.empty()) {
            unused_.reserve(entries_.size() + 1); // so that remove() never allocates
            unused_.push_back(entries_.size());
            entries_.push_back(Entry{entries_.size(), nullptr});
        }
        Entry& entry = entries_[unused_.back()];
        unused_.pop_back();
        entry.serial += kUse;
        entry.operation = &operation;
        return entry.serial;
    }
    // Null if there is none any more.
    Op* find(uint64_t serial) const {
        const uint64_t index = serial & kIndex;
        return index < entries_.size() && entries_[index].serial == serial ? entries_[index].operation : nullptr;
    }
    void remove(uint64_t serial) {
        GPURUN_ASSERT(find(serial) != nullptr);
        entries_[serial & kIndex].operation = nullptr;
        unused_.push_back(serial & kIndex);
    }
    bool empty() const { return unused_.size() == entries_.size(); }
    // `visit` may remove the operation that it is given, and others.
    template <typename Visit>
    void for_each(const Visit& visit) const {
        for (size_t i = 0; i < entries_.size(); ++i)
            if (entries_[i].operation != nullptr)
                visit(*entries_[i].operation);
    }

  private:
    // A serial: the use of an entry above, its index below.
    static constexpr uint64_t kUse = uint64_t{1} << 24;
    static constexpr uint64_t kIndex = kUse - 1;

    struct Entry {
        uint64_t serial;
        Op* operation;
    };
    std::vector<Entry> entries_;
    std::vector<uint64_t> unused_;
};

} // namespace gpurun::transfer
