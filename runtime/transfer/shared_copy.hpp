// A large host message that both ranks copy at once, each with its own core: the target reads pieces from the front,
// the source, if it waits for the message in a call, writes pieces from the back, until they meet.
//
// One message of a pair at a time, in each direction. Who copies a piece is decided by one word in the pair's control:
// how many pieces the target has taken, the first that the source has, and which message it is, so that a source that
// looks late takes nothing of the next.
#pragma once

#include "platform/job_segment.hpp"

#include <cstdint>
#include <optional>

namespace gpurun::transfer {

constexpr uint64_t kSharedPieceBytes = 128 * 1024; // long enough for a system call, short enough to meet soon
constexpr uint64_t kLeastSharedBytes = 4 * kSharedPieceBytes;
constexpr uint64_t kMostSharedPieces = (1u << 20) - 1;

class SharedCopy {
  public:
    // The target's: a new message of `bytes` (kLeastSharedBytes up to kMostSharedPieces pieces).
    static SharedCopy begin(platform::PairControl& control, uint64_t bytes);
    // The source's, of the message that the target has begun.
    SharedCopy(platform::PairControl& control, uint64_t bytes, uint32_t number)
        : control_(&control), bytes_(bytes), number_(number) {}

    struct Piece {
        uint64_t offset;
        uint64_t bytes;
    };
    // None if all are taken.
    std::optional<Piece> take_front(); // by the target
    std::optional<Piece> take_back();  // by the source

    // By the source, for each piece that it has taken.
    void written(bool well);
    // By the target: nobody takes any more.
    void close();

    // By the target, when nothing is left to take.
    bool complete() const;      // the source has written all that it has taken
    bool failed() const;        // some of it could not be written
    uint64_t front_end() const; // where the source's part begins
    uint32_t number() const { return number_; }

  private:
    std::optional<Piece> take(bool front);
    uint32_t pieces() const { return static_cast<uint32_t>((bytes_ + kSharedPieceBytes - 1) / kSharedPieceBytes); }

    platform::PairControl* control_;
    uint64_t bytes_;
    uint32_t number_;
};

} // namespace gpurun::transfer
