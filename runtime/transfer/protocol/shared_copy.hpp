// A large host message that both ranks copy at once, each with its own core: the target reads pieces from the front,
// the source, if it waits for the message in a call, writes pieces from the back, until they meet.
//
// A piece is half of what is left, up to a limit: so there are few pieces, and the last ones are short, and neither
// side waits long for the other. One message at a time, in each direction of a pair. One word of the pair says who
// copies what: how many units the target has taken, the first one that the source has taken, and the number of the
// message, so that a source that looks late takes nothing of the next message.
#pragma once

#include "platform/job_segment.hpp"

#include <cstdint>
#include <optional>

namespace gpurun::transfer {

// Measured in windows and ping-pongs on two cores (tests/bench/RESULTS.md).
constexpr uint64_t kSharedUnitBytes = 32 * 1024; // of a piece; shorter ones cost more than they save
constexpr uint32_t kMostPieceUnits = 16;         // so that nobody waits long for the engine's lock
constexpr uint64_t kLeastSharedBytes = 4 * kSharedUnitBytes;
constexpr uint64_t kMostSharedBytes = ((1u << 20) - 1) * kSharedUnitBytes;

class SharedCopy {
  public:
    // The target's: a new message of `bytes` (up to kMostSharedBytes).
    static SharedCopy begin(platform::CopyClaims& claims, uint64_t bytes);
    // The source's, of the message that the target has begun.
    SharedCopy(platform::CopyClaims& claims, uint64_t bytes, uint32_t number)
        : claims_(&claims), bytes_(bytes), number_(number) {}

    struct Piece {
        uint64_t offset;
        uint64_t bytes;
    };
    // None if all are taken.
    std::optional<Piece> take_front(); // by the target
    std::optional<Piece> take_back();  // by the source

    // The source has written a piece that it had taken, or has failed to.
    void written(const Piece& piece, bool well);
    // By the target: no more pieces can be taken.
    void close();

    // By the target, when all pieces are taken.
    bool complete() const;      // the source has written all that it has taken
    bool failed() const;        // some of it could not be written
    uint64_t front_end() const; // where the source's part begins
    uint32_t number() const { return number_; }

  private:
    std::optional<Piece> take(bool front);
    static uint32_t units(uint64_t bytes) {
        return static_cast<uint32_t>((bytes + kSharedUnitBytes - 1) / kSharedUnitBytes);
    }

    platform::CopyClaims* claims_;
    uint64_t bytes_;
    uint32_t number_;
};

} // namespace gpurun::transfer
