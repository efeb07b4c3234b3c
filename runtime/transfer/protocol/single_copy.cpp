#include "transfer/protocol/single_copy.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using base::Status;
namespace wait_report = platform::wait_report;

namespace {

constexpr Route kBySingleCopy{SingleCopyPart::kProtocol, 0};
constexpr uint64_t kFarLonger = 16;
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr int64_t kLongestStopNs = 100'000'000;
constexpr int64_t kVerdictWithinNs = 30'000'000'000; // a process with much memory takes long to end

// What the target tells the source: that it may write (share), or that everything is read (finish).
struct Word {
    enum class Kind : uint32_t { kShare, kFinish } kind;
    uint32_t number;     // of a shared copy
    uint64_t into;       // kShare: where the message goes, in the target's process
    uint64_t bytes;      // kShare: that move
    uint64_t unreadable; // kFinish: the source's memory is gone, and nothing was read
};

base::Error source_died() { return {Status::kPeerLost, "the other rank died before the message had moved"}; }

} // namespace

std::optional<Route> find_single_copy(Receive& receive, const ReadyToSend& ready, uint64_t message_bytes,
                                      bool& refused) {
    PeerMemory* const memory = receive.source().channel().memory();
    refused = false;
    if (receive.source().to_self() || message_bytes == 0 || !ready.source.in_host_memory() || ready.source.ready == 0 ||
        !receive.operand().by_cpu() || !receive.resources().settings.single_copy || memory == nullptr)
        return std::nullopt;
    refused = !memory->is_readable();
    return refused ? std::nullopt : std::optional(kBySingleCopy);
}

// ----------------------------------------------------------------------------------------------------- the part

bool SingleCopyPart::has_to_wait(uint64_t bytes) const {
    return (sharing_ || !waiting_.empty()) && bytes >= longest_ / kFarLonger;
}

void SingleCopyPart::wait(Receive& receive) {
    waiting_.push_back(receive);
    peer_.attend(kProtocol);
    longest_ = std::max(receive.bytes(), longest_);
}

void SingleCopyPart::forget(Receive& receive) { waiting_.remove(receive); }

void SingleCopyPart::begin_sharing(uint64_t bytes) {
    longest_ = waiting_.empty() ? bytes : std::max(bytes, longest_);
    sharing_ = true;
}

// Begins the next message that both ranks copy, if none is being copied.
bool SingleCopyPart::progress() {
    bool any = false;
    while (!sharing_ && !waiting_.empty()) {
        waiting_.front()->advance();
        any = true;
    }
    return any;
}

void SingleCopyPart::lose(const base::Error& error) {
    waiting_.for_each([&](Receive& each) { each.fail(error); });
}

// ------------------------------------------------------------------------------------------------------- source

Result<void> SingleCopySend::on_record(Send& send, const Record& record) {
    const auto word = record.as<Word>();
    send.note_matched();
    if (word.kind == Word::Kind::kShare) {
        shared_.emplace(send.target().channel().memory()->claims(Direction::kOut), word.bytes, word.number);
        into_ = word.into;
        return {};
    }
    shared_.reset(); // nothing is left of it
    send.count(kBySingleCopy);
    if (word.unreadable != 0)
        return base::error(Status::kBuffer,
                           "rank {} could not read the message's memory any more: it was unmapped or protected before "
                           "the message was complete",
                           send.target().rank().value);
    send.trace().read_by_peer();
    send.finish();
    return {};
}

Activity SingleCopySend::activity(const Send&) const { return shared_ ? Activity::kBusy : Activity::kIdle; }

Result<void> SingleCopySend::advance(Send& send) {
    const auto piece = shared_->take_back();
    if (!piece) {
        shared_.reset();
        return {};
    }
    const auto wrote = send.target().channel().memory()->write(into_ + piece->offset,
                                                               send.operand().address + piece->offset, piece->bytes);
    shared_->written(*piece, static_cast<bool>(wrote));
    if (!wrote) // the target reads it itself
        shared_.reset();
    return {};
}

void SingleCopySend::give_up(Send&) { shared_.reset(); }

void SingleCopySend::describe(const Send&, wait_report::Entry& entry) const {
    entry.state = shared_ ? wait_report::State::kCopying : wait_report::State::kUnmatched;
}

// ------------------------------------------------------------------------------------------------------- target

Result<void> SingleCopyReceive::start(Receive& receive, const Arrival& arrival) {
    receive.count(kBySingleCopy, arrival.record.envelope.bytes);
    from_ = arrival.record.as<ReadyToSend>().source.address;
    if (receive.source().channel().is_gone())
        return source_died(); // its pid may name another process by now
    SingleCopyPart& part = receive.source().part<SingleCopyPart>();
    // The source helps if it has a thread in a call. That pays only if each rank has a core.
    const bool shares = receive.bytes() >= kLeastSharedBytes && receive.bytes() <= kMostSharedBytes &&
                        receive.resources().place.core_for_each_rank;
    if (shares && part.has_to_wait(receive.bytes())) {
        step_ = Step::kTurn;
        part.wait(receive);
        return {};
    }
    if (shares && part.can_share_next() && part.quiet())
        share(receive);
    return read(receive);
}

Result<void> SingleCopyReceive::share_in_turn(Receive& receive) {
    receive.source().part<SingleCopyPart>().forget(receive);
    step_ = Step::kReading;
    share(receive);
    return read(receive);
}

void SingleCopyReceive::share(Receive& receive) {
    Peer& source = receive.source();
    source.part<SingleCopyPart>().begin_sharing(receive.bytes());
    shared_ = SharedCopy::begin(source.channel().memory()->claims(Direction::kIn), receive.bytes());
    Record record(RecordKind::kToSend, kProtocol, receive.serial_of_send());
    // kIfSleeping: a source that computes is not interrupted to help.
    source.tell(record.with(Word{Word::Kind::kShare, shared_->number(),
                                 reinterpret_cast<uint64_t>(receive.operand().address), receive.bytes(), 0}),
                Notify::kIfSleeping);
}

Activity SingleCopyReceive::activity(const Receive&) const {
    switch (step_) {
    case Step::kTurn: return Activity::kQueued;
    case Step::kReading: return Activity::kBusy;
    case Step::kStopping:
    case Step::kInDoubt: break;
    }
    return Activity::kInDoubt;
}

Result<void> SingleCopyReceive::advance(Receive& receive) {
    switch (step_) {
    case Step::kTurn: return share_in_turn(receive);
    case Step::kReading: return read(receive);
    case Step::kStopping: return stop(receive);
    case Step::kInDoubt: break;
    }
    return look_for_verdict(receive);
}

Result<void> SingleCopyReceive::read(Receive& receive) {
    if (shared_)
        return read_shared(receive);
    const uint64_t piece = std::min(kPieceBytes, receive.bytes() - read_);
    if (piece != 0) {
        auto read = receive.source().channel().memory()->read(receive.operand().address + read_, from_ + read_, piece);
        if (!read)
            return doubt(receive, std::move(read).error());
        read_ += piece;
    }
    if (read_ == receive.bytes())
        finish(receive, false);
    return {};
}

// Reads a piece, or nothing while the source writes its last pieces.
Result<void> SingleCopyReceive::read_shared(Receive& receive) {
    if (const auto piece = shared_->take_front()) {
        auto read = receive.source().channel().memory()->read(receive.operand().address + piece->offset,
                                                              from_ + piece->offset, piece->bytes);
        if (read)
            return {};
        failure_ = std::move(read).error();
        shared_->close();
        step_ = Step::kStopping;
        return stop(receive);
    }
    if (!shared_->complete())
        return {};
    read_ = shared_->failed() ? shared_->front_end() : receive.bytes();
    shared_.reset();
    receive.source().part<SingleCopyPart>().end_sharing();
    return read(receive);
}

// Waits until the source has written its last piece into the buffer.
Result<void> SingleCopyReceive::stop(Receive& receive) {
    if (!shared_->complete() && !receive.source().channel().is_gone())
        return {};
    shared_.reset();
    receive.source().part<SingleCopyPart>().end_sharing();
    return doubt(receive, *std::exchange(failure_, std::nullopt));
}

// The source's memory cannot be read. Either the source is dying: then the launcher will say so, which fails the
// message. Or it lives, and has unmapped the message's memory.
Result<void> SingleCopyReceive::doubt(Receive& receive, base::Error error) {
    const PeerChannel& channel = receive.source().channel();
    if (!channel.is_gone() && receive.source().channel().memory()->is_still_readable()) {
        finish(receive, true);
        return base::error(Status::kSystem,
                           "the message's memory cannot be read in rank {} any more: was it unmapped or protected "
                           "before the message was complete? ({})",
                           channel.peer().value, error.detail);
    }
    step_ = Step::kInDoubt;
    verdict_by_ns_ = platform::now_ns() + kVerdictWithinNs;
    return {};
}

Result<void> SingleCopyReceive::look_for_verdict(Receive& receive) {
    if (platform::now_ns() <= verdict_by_ns_)
        return {};
    return base::error(Status::kSystem,
                       "the memory of rank {} cannot be read any more, and nobody knows whether it has died",
                       receive.source().rank().value);
}

void SingleCopyReceive::finish(Receive& receive, bool unreadable) {
    Record record(RecordKind::kToSend, kProtocol, receive.serial_of_send());
    const Word word{Word::Kind::kFinish, 0, 0, 0, unreadable ? uint64_t{1} : 0};
    receive.source().tell(record.with(word), Notify::kIfSleeping);
    if (!unreadable)
        receive.finish();
}

void SingleCopyReceive::give_up(Receive& receive) {
    SingleCopyPart& part = receive.source().part<SingleCopyPart>();
    part.forget(receive);
    if (!shared_)
        return;
    // Only after a device has failed, when the call has to end at once. The source's last piece is short.
    shared_->close();
    const int64_t end_ns = platform::now_ns() + kLongestStopNs;
    while (!shared_->complete() && !receive.source().channel().is_gone() && platform::now_ns() < end_ns) {
    }
    shared_.reset();
    part.end_sharing();
}

void SingleCopyReceive::describe(const Receive&, wait_report::Entry& entry) const {
    entry.state = step_ == Step::kTurn      ? wait_report::State::kTurn
                  : step_ == Step::kInDoubt ? wait_report::State::kInDoubt
                                            : wait_report::State::kCopying;
}

} // namespace gpurun::transfer
