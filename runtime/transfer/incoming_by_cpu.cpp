// Host messages that the target's CPU reads out of the source's memory, in pieces, with the source's help if it has a
// hand free, and in doubt whether it still lives.
#include "transfer/incoming.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

// The source helps if some thread of it is in a call. That takes a core for each rank.
bool Incoming::can_share_copy() const {
    return bytes_ >= kLeastSharedBytes && bytes_ <= kMostSharedBytes &&
           context_.job.size() <= context_.job.header().cores;
}

// REQUIRES that the link shares none.
void Incoming::share_copy() {
    link_->longest_shared = link_->to_share.empty() ? bytes_ : std::max(bytes_, link_->longest_shared);
    shared_ = SharedCopy::begin(link_->in.control(), bytes_);
    link_->shares_copy = true;
    Record share{};
    share.kind = RecordKind::kShare;
    share.serial = serial_;
    share.share.address = reinterpret_cast<uint64_t>(operand_.address);
    share.share.bytes = bytes_;
    share.share.number = shared_->number();
    link_->tell(share);
}

// Nobody writes into the buffer any more.
void Incoming::stop_sharing() {
    shared_->close();
    while (!shared_->complete() && !context_.job.is_gone(link_->peer)) {
    } // a piece of the source's is short
    shared_.reset();
    link_->shares_copy = false;
}

// A piece of the message, or nothing while the source still writes its last ones.
Result<void> Incoming::read_shared() {
    if (const auto piece = shared_->take_front()) {
        auto read = platform::read_peer(context_.job.rank(link_->peer).pid, operand_.address + piece->offset,
                                        reinterpret_cast<uint64_t>(from_ + piece->offset), piece->bytes);
        if (read)
            return {};
        stop_sharing();
        return doubt_peer(std::move(read).error());
    }
    if (!shared_->complete())
        return {};
    read_ = shared_->failed() ? shared_->front_end() : bytes_;
    shared_.reset();
    link_->shares_copy = false;
    return read_from_peer();
}

// Messages that both can copy come one after the other: if this side went on with the next alone, the source would
// finish the one, and then have nothing to do. But none waits for one that is far longer than itself.
Result<void> Incoming::start_reading() {
    constexpr uint64_t kFarLonger = 16;
    if (link_->is_gone())
        return source_died(); // and its pid may be another's
    const bool shares = can_share_copy();
    const bool turn_comes = !link_->shares_copy && link_->to_share.empty();
    if (shares && !turn_comes && bytes_ >= link_->longest_shared / kFarLonger) {
        state_ = State::kToShare;
        link_->to_share.push_back(*this);
        link_->longest_shared = std::max(bytes_, link_->longest_shared);
        return {};
    }
    state_ = State::kReading;
    if (shares && turn_comes)
        share_copy();
    return read_from_peer();
}

Result<void> Incoming::read_in_turn() {
    CHECK(state_ == State::kToShare && !link_->shares_copy);
    link_->to_share.remove(*this);
    state_ = State::kReading;
    share_copy();
    return read_from_peer();
}

// A piece of the message, so that nobody waits long for the engine lock.
Result<void> Incoming::read_from_peer() {
    if (shared_)
        return read_shared();
    if (read_ == bytes_) {
        answer_pulled({Path::kShm, Reason::kSingleCopy});
        finish();
        return {};
    }
    constexpr uint64_t kPiece = 1 << 20;
    const uint64_t piece = std::min(kPiece, bytes_ - read_);
    auto read = platform::read_peer(context_.job.rank(link_->peer).pid, operand_.address + read_,
                                    reinterpret_cast<uint64_t>(from_ + read_), piece);
    if (!read)
        return doubt_peer(std::move(read).error());
    read_ += piece;
    return read_ == bytes_ ? read_from_peer() : Result<void>();
}

// Either the rank is going, and the launcher says so soon, which ends the message (Engine::lose()); or it lives, and
// has unmapped the message's memory.
Result<void> Incoming::doubt_peer(base::Error error) {
    constexpr int64_t kVerdictWithinNs = 30'000'000'000; // a process with much memory takes its time to go
    const platform::RankRecord& source = context_.job.rank(link_->peer);
    if (!context_.job.is_gone(link_->peer) && platform::can_read_peer(source.pid, source.token)) {
        answer_pulled({Path::kShm, Reason::kSingleCopy}, true);
        return base::error(base::Status::kSystem,
                           "the message's memory cannot be read in rank {} any more: was it unmapped or protected "
                           "before the message was complete? ({})",
                           link_->peer, error.detail);
    }
    state_ = State::kInDoubt;
    verdict_by_ns_ = platform::now_ns() + kVerdictWithinNs;
    return {};
}

} // namespace gpurun::transfer
