// One receive, from its call until it is complete for the caller: its pattern, and its operation once it needs one.
// Lives with the caller, on the stack or in a request.
//
// A message that comes inline for a receive in the host's order is copied when it is matched, without an operation. All
// others get one when they are matched, receives of requests on a stream when they are started.
#pragma once

#include "comm/matcher.hpp"
#include "transfer/operation_pool.hpp"
#include "transfer/protocol/inline.hpp"
#include "transfer/receive.hpp"

#include <optional>

namespace gpurun::comm {

// Where the operation of a receive is made.
class ReceiveHome {
  public:
    virtual transfer::Receive* make(transfer::Resources& resources, const transfer::Operand& operand,
                                    transfer::Ending ending) = 0;
    virtual void destroy(transfer::Receive* op) = 0;

  protected:
    ~ReceiveHome() = default;
};
// Of a blocking call: on its stack.
class LocalReceive final : public ReceiveHome {
  public:
    transfer::Receive* make(transfer::Resources& resources, const transfer::Operand& operand,
                            transfer::Ending ending) override {
        return &op_.emplace(resources, operand, ending);
    }
    void destroy(transfer::Receive*) override { op_.reset(); }

  private:
    std::optional<transfer::Receive> op_;
};
// Of requests. Used under the engine lock.
class ReceivePool final : public ReceiveHome {
  public:
    transfer::Receive* make(transfer::Resources& resources, const transfer::Operand& operand,
                            transfer::Ending ending) override {
        return pool_.make(resources, operand, ending);
    }
    void destroy(transfer::Receive* op) override { pool_.destroy(op); }

  private:
    transfer::OperationPool<transfer::Receive> pool_;
};

struct ReceiveMode {
    transfer::Ending ending = transfer::Ending::kInStream;
    platform::TraceEvent* call = nullptr; // of the trace: the call that is this message and nothing else
    bool borrows = false;                 // what its message lends
};

class PostedReceive final : public Expected {
  public:
    // `home` and `operand` stay where they are.
    PostedReceive(transfer::Resources& resources, ReceiveHome& home, const transfer::Operand& operand,
                  const Pattern& pattern_, const ReceiveMode& mode = {})
        : Expected(pattern_), resources_(resources), home_(home), operand_(operand), call_(mode.call),
          ending_(mode.ending), borrows_(mode.borrows) {
        if (operand.captured())
            pattern.context |= transfer::kCapturedContexts;
    }
    ~PostedReceive() {
        if (op_ != nullptr)
            home_.destroy(op_);
    }
    PostedReceive(const PostedReceive&) = delete;
    PostedReceive& operator=(const PostedReceive&) = delete;

    // Before it is posted.
    void begin() {
        if (resources_.trace != nullptr) [[unlikely]]
            tell_trace();
    }
    // It is matched to this message.
    void start(transfer::Peer& from, uint64_t ordinal, const transfer::Record& record,
               std::span<const std::byte> payload) {
        source_ = from.rank();
        envelope_ = record.envelope;
        matched_ = true;
        if (op_ == nullptr && operand_.by_cpu() && record.protocol == transfer::InlinePart::kProtocol) {
            transfer::take_inline(from, payload, {operand_.address, operand_.bytes});
            copied_ = true;
            ++resources_.changes;
        } else {
            start_op(from, ordinal, record, payload);
        }
    }
    // Of a request that is not matched yet: the marker of where it stands in its stream.
    base::Result<void> set_marker() {
        const bool goes_on = operand_.on_stream() && ending_ == transfer::Ending::kByCompletion;
        return goes_on ? op().set_marker() : base::Result<void>();
    }
    // Of a request that is completed directly behind its start, in its stream.
    void end_together() {
        if (op_ != nullptr)
            op_->end_together();
    }
    void fail(base::Error error) { op().fail(std::move(error)); }

    bool started() const { return matched_; }
    bool done() const { return copied_ || (op_ != nullptr && op_->done()); }
    bool enqueued() const { return copied_ || (op_ != nullptr && op_->enqueued()); }
    const transfer::Operand& operand() const { return operand_; }
    // Its operation, made if there is none. REQUIRES: it was not copied.
    transfer::Receive& op();
    transfer::Receive* made_op() const { return op_; } // null: there is none
    const base::Error* error() const {                 // null: none so far
        return op_ != nullptr && op_->error() ? &*op_->error() : nullptr;
    }
    // What it has got. REQUIRES started().
    Arrived arrived() const { return {pattern.rank_of(source_), envelope_.tag, static_cast<size_t>(envelope_.bytes)}; }
    WorldRank source() const { return source_; }
    const transfer::Envelope& envelope() const { return envelope_; }

  private:
    void start_op(transfer::Peer& from, uint64_t ordinal, const transfer::Record& record,
                  std::span<const std::byte> payload);
    [[gnu::noinline]] void tell_trace();

    transfer::Resources& resources_;
    ReceiveHome& home_;
    const transfer::Operand& operand_;
    platform::TraceEvent* call_;
    transfer::Receive* op_ = nullptr;
    WorldRank source_{}; // once matched, as the next
    transfer::Envelope envelope_{};
    transfer::Ending ending_;
    const bool borrows_;
    bool matched_ = false;
    bool copied_ = false; // inline, and complete
};

} // namespace gpurun::comm
