// What all ranks of a collective have to agree on: the function, the root, the type, the operation and the count. It
// fits into 64 bits, so that each message of the collective can carry it, and is no hash, so that whoever sees another
// one can say what the other rank has called. A count of 2^36 - 2 or more is said to be that.
#pragma once

#include "base/collectives.hpp"
#include "base/format.hpp"
#include "base/operation.hpp"
#include "comm/group.hpp"

#include <algorithm>
#include <string>

namespace gpurun::comm {

class Signature {
  public:
    // Of a collective of which nothing but the function has to agree.
    constexpr Signature(base::Collective kind) : bits_(static_cast<uint64_t>(kind) + 1) {}
    // As another rank has sent it. REQUIRES that it is not 0.
    explicit constexpr Signature(uint64_t bits) : bits_(bits) {}

    constexpr Signature with_root(int root) const { return with(static_cast<uint64_t>(root) + 1, kRootAt); }
    // Blocks of so many bytes.
    constexpr Signature with_bytes(size_t bytes) const { return with(bounded(bytes), kCountAt); }
    // Elements that are reduced, by the number of an operation.
    constexpr Signature with_elements(size_t count, int type, uint32_t op) const {
        return with(bounded(count), kCountAt).with(static_cast<uint64_t>(type), kTypeAt).with(op, kOpAt);
    }

    constexpr uint64_t bits() const { return bits_; }
    constexpr base::Collective kind() const { return static_cast<base::Collective>(field(0) - 1); }
    bool operator==(const Signature&) const = default;

    // "gpurun_reduce() of 8 FLOAT by SUM to root 0".
    std::string text() const {
        const auto name = static_cast<size_t>(kind());
        std::string text = kind() == base::Collective::kNewComm ? "a function that makes or changes a communicator"
                           : name < base::kCollectiveNames.size()
                               ? base::format("gpurun_{}()", base::kCollectiveNames[name])
                               : "another collective";
        const uint64_t count = bits_ >> kCountAt;
        const auto type = static_cast<int>(field(kTypeAt));
        if (count != 0)
            text += base::format(" of {} {}", count - 1, type == 0 ? "bytes" : base::info_of_type(type).name);
        if (const uint64_t op = field(kOpAt); op != 0)
            text += base::format(" by {}", op < base::kOps ? base::kOpNames[op] : "an operation of the program's");
        if (const uint64_t root = bits_ >> kRootAt & ((1 << kRootBits) - 1); root != 0)
            text += base::format(" with root {}", root - 1);
        return text;
    }

  private:
    // From the lowest bit on: the collective, the type, the operation, the root, the count. Each but the first is 0 if
    // it does not count.
    static constexpr int kFieldBits = 6;
    static constexpr int kTypeAt = kFieldBits;
    static constexpr int kOpAt = kTypeAt + kFieldBits;
    static constexpr int kRootAt = kOpAt + kFieldBits;
    static constexpr int kRootBits = 10;
    static constexpr int kCountAt = kRootAt + kRootBits;
    static_assert(base::kTypes <= 1 << kFieldBits && static_cast<size_t>(base::Op::kOfProgram) < 1 << kFieldBits);

    static constexpr uint64_t bounded(size_t count) {
        return std::min<uint64_t>(count, (uint64_t{1} << (64 - kCountAt)) - 2) + 1;
    }
    constexpr uint64_t field(int at) const { return bits_ >> at & ((1 << kFieldBits) - 1); }
    constexpr Signature with(uint64_t value, int at) const { return Signature(bits_ | value << at); }

    uint64_t bits_;
};

} // namespace gpurun::comm
