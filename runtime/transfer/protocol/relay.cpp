#include "transfer/protocol/relay.hpp"

#include "transfer/receive.hpp"
#include "transfer/send.hpp"

namespace gpurun::transfer {

using base::Result;
using device::Placement;
namespace wait_report = platform::wait_report;

namespace {

// In the order of kRelayRoutes.
enum RouteIndex : uint8_t {
    kSelf,
    kOtherDevice,
    kHosts,
    kHostsRefused,
    kHostAndDevice,
    kPinned,
    kBetweenDevices, // the first of those for which NotPulled is the reason
};
constexpr uint8_t index_of(NotPulled why) { return static_cast<uint8_t>(kBetweenDevices + static_cast<uint8_t>(why)); }
static_assert(index_of(NotPulled::kNotMapped) + 1 == kRelayRoutes.size());

constexpr bool is_bounce(uint8_t index) { return index == kPinned || index >= index_of(NotPulled::kBounceForced); }

// Pinned memory on a stream, which the copy engines reach, is copied to and from device memory: twice over the bus, and
// by no CPU.
bool may_bounce_in_chunks(Receive& receive, const RemoteBuffer& source) {
    const auto by_engine = [](Placement placement, bool in_host_order) {
        return placement != Placement::kPageable && (placement != Placement::kPinned || !in_host_order);
    };
    const Operand& into = receive.operand();
    const bool is_forced_elsewhere = receive.resources().settings.path == base::PathChoice::kStaged;
    return !is_forced_elsewhere && by_engine(source.placement, source.ready) &&
           by_engine(into.where.placement, !into.on_stream()) && receive.source().channel().shares_memory() &&
           is_direct(receive.source().memory().reach());
}

uint8_t find_index(Receive& receive, const ReadyToSend& ready, NotPulled not_pulled, bool refused) {
    const Operand& into = receive.operand();
    const RemoteBuffer& source = ready.source;
    if (receive.source().to_self())
        return kSelf;
    if (source.placement == Placement::kElsewhere || into.on_other_device())
        return kOtherDevice;
    const bool any_host = source.in_host_memory() || into.in_host_memory();
    if (any_host && may_bounce_in_chunks(receive, source))
        return kPinned;
    if (source.in_host_memory() && into.in_host_memory())
        return refused ? kHostsRefused : kHosts;
    if (any_host)
        return kHostAndDevice;
    return index_of(not_pulled);
}

Copiers copiers_of(const Receive& receive, const RemoteBuffer& source) {
    const Operand& into = receive.operand();
    const bool cpu_fills = source.in_host_memory() && source.ready;
    if (cpu_fills && into.by_cpu())
        return Copiers::kCpus;
    if (cpu_fills || into.by_cpu())
        return Copiers::kCpuAndStream;
    return Copiers::kStreams;
}

// Between nodes each chunk costs what a message costs, whatever its length, and those of host memory should stay in the
// cache.
RelayPlan plan_for(const Receive& receive, const RemoteBuffer& source, Route route, bool is_behind) {
    constexpr uint64_t kFarHostChunk = 512 * 1024;
    const bool hosts = route.index == kHosts || route.index == kHostsRefused;
    const uint64_t largest = receive.resources().settings.relay_chunk_bytes;
    if (!receive.source().channel().shares_memory())
        return plan_far_relay(receive.bytes(), hosts ? std::min(kFarHostChunk, largest) : largest, is_behind);
    if (!is_bounce(route.index))
        return plan_relay(RelayPool::kHost, copiers_of(receive, source), receive.bytes(), largest);
    return plan_relay(RelayPool::kDevice, route.index == kPinned ? Copiers::kStreams : Copiers::kWithinDevice,
                      receive.bytes(), largest);
}

struct ClearToSend {
    RelayPlan plan;
    Route route;
    uint64_t receive; // its serial
};

// To the receive. It answers the send if more chunks come.
struct SourceFailed {
    bool goes_on;
};

base::Error source_failed(const Receive& receive) {
    return base::error(base::Status::kDevice,
                       "rank {} could not read its buffer, so its message has not come: that rank's own error says why",
                       receive.source().rank().value);
}

void describe_relay(const RelayPipeline& pipeline, bool first, wait_report::Entry& entry) {
    entry.state = first ? wait_report::State::kRelay : wait_report::State::kTurn;
    entry.done = pipeline.moved();
    entry.all = pipeline.plan().chunks();
}

} // namespace

Route find_relay(Receive& receive, const ReadyToSend& ready, NotPulled not_pulled, bool single_copy_refused) {
    return {RelayPart::kProtocol, find_index(receive, ready, not_pulled, single_copy_refused)};
}

// ------------------------------------------------------------------------------------------------------- source

Result<void> RelaySend::on_record(Send& send, const Record& record) {
    if (pipeline_) { // the answer to source-failed
        pipeline_->go_on_without_copies();
        return advance(send);
    }
    const auto granted = record.as<ClearToSend>();
    Peer& target = send.target();
    send.note_matched();
    if (send.edge().valid)
        target.part<RendezvousPart>().settle(send.edge(), Edge::kForward);
    send.count(granted.route);
    receive_ = granted.receive;
    send.bounce().give_back_unmade(send.operand());
    if (send.ends_by_completion() && send.edge().valid) {
        GPURUN_ASSIGN(Fence * fence, target.fence_out());
        GPURUN_TRY(send.work().take_behind(*fence, Edge::kForward, send.edge()));
    } else if (!send.operand().by_cpu()) {
        GPURUN_TRY(send.take_stream(true));
    }
    pipeline_.emplace(send.resources(), target, RelayPipeline::Role::kFill, granted.plan, send.stream_times());
    target.part<RelayPart>().filling(granted.plan.window).push_back(send);
    return advance(send);
}

Result<void> RelaySend::advance(Send& send) {
    auto& filling = send.target().part<RelayPart>().filling(pipeline_->plan().window);
    if (filling.front() != &send)
        return {};
    GPURUN_ASSIGN(const bool filled, pipeline_->step(send.operand()));
    if (!filled) {
        if (pipeline_->copy_error() != nullptr && !told_failed_)
            tell_failed(send, true);
        return {};
    }
    filling.remove(send);
    if (pipeline_->copy_error() != nullptr)
        return *pipeline_->copy_error();
    if (send.operand().by_cpu()) {
        send.finish();
        return {};
    }
    GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
    send.bounce().leave(CompletionPoint::at(*fence, Edge::kForward, pipeline_->last_slot()));
    return send.end_behind(*fence, Edge::kForward, pipeline_->last_slot(), send.operand().stream);
}

std::optional<CompletionPoint> RelaySend::blocked_on(const Send&) const {
    return pipeline_ ? pipeline_->blocked_on() : std::nullopt;
}

void RelaySend::tell_failed(Send& send, bool goes_on) {
    told_failed_ = true;
    send.target().tell(Record(RecordKind::kToReceive, kProtocol, receive_).with(SourceFailed{goes_on}));
}

void RelaySend::give_up(Send& send) {
    if (!pipeline_)
        return;
    if (!told_failed_ && !send.target().lost() && !send.enqueued())
        tell_failed(send, false);
    pipeline_->give_up(send.operand());
    send.target().part<RelayPart>().filling(pipeline_->plan().window).remove(send);
}

void RelaySend::describe(const Send& send, wait_report::Entry& entry) const {
    if (pipeline_)
        describe_relay(*pipeline_, send.target().part<RelayPart>().filling(pipeline_->plan().window).front() == &send,
                       entry);
}

// ------------------------------------------------------------------------------------------------------- target

Result<void> RelayReceive::start(Receive& receive, const Arrival& arrival) {
    const auto ready = arrival.record.as<ReadyToSend>();
    Peer& source = receive.source();
    receive.count(arrival.route, arrival.record.envelope.bytes);
    ClearToSend granted{{}, arrival.route, receive.serial()};
    Record record(RecordKind::kToSend, kProtocol, receive.serial_of_send());
    if (source.lost())
        return base::Error{base::Status::kPeerLost, "the other rank died before the message had moved"};
    GPURUN_ASSIGN(const uint64_t stream, receive.stream_name());
    RelayPart& part = source.part<RelayPart>();
    GPURUN_ASSIGN(const uint32_t window, part.choose_window({ready.stream, stream}));
    granted.plan = plan_for(receive, ready.source, arrival.route, !part.draining(window).empty());
    granted.plan.window = window;
    if (!receive.operand().by_cpu())
        GPURUN_TRY(receive.take_stream(true));
    receive.resources().exchanges.launch(); // the stream may wait for the message from here on
    if (receive.ends_together())
        GPURUN_TRY(receive.work().take_beside());
    source.tell(record.with(granted));
    pipeline_.emplace(receive.resources(), source, RelayPipeline::Role::kDrain, granted.plan, receive.stream_times());
    part.draining(granted.plan.window).push_back(receive);
    return advance(receive);
}

Result<void> RelayReceive::on_record(Receive& receive, const Record& record) {
    if (!record.as<SourceFailed>().goes_on)
        return source_failed(receive);
    source_failed_ = true;
    receive.source().tell(Record(RecordKind::kToSend, kProtocol, receive.serial_of_send()));
    return {};
}

// What it cannot copy is drained all the same.
Result<bool> RelayReceive::step(Receive& receive) {
    GPURUN_ASSIGN(const bool drained, pipeline_->step(receive.operand()));
    if (drained || pipeline_->copy_error() == nullptr)
        return drained;
    pipeline_->go_on_without_copies();
    return pipeline_->step(receive.operand());
}

Result<void> RelayReceive::advance(Receive& receive) {
    auto& draining = receive.source().part<RelayPart>().draining(pipeline_->plan().window);
    if (draining.front() != &receive)
        return {};
    GPURUN_ASSIGN(const bool drained, step(receive));
    if (!drained)
        return {};
    draining.remove(receive);
    if (receive.work().rejoins()) { // what the message still needs of its source, the program's stream needs now
        GPURUN_TRY(receive.work().rejoin());
        receive.source().awaiting_forward.move(receive.work().internal(), receive.work().rejoined());
    }
    if (source_failed_)
        return source_failed(receive);
    if (pipeline_->copy_error() != nullptr)
        return *pipeline_->copy_error();
    if (receive.operand().by_cpu()) {
        receive.finish();
        return {};
    }
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    return receive.end_behind(*fence, Edge::kBackward, pipeline_->last_slot(), receive.operand().stream);
}

std::optional<CompletionPoint> RelayReceive::blocked_on(const Receive&) const {
    return pipeline_ ? pipeline_->blocked_on() : std::nullopt;
}

void RelayReceive::give_up(Receive& receive) {
    if (!pipeline_)
        return;
    pipeline_->give_up(receive.operand());
    receive.source().part<RelayPart>().draining(pipeline_->plan().window).remove(receive);
}

void RelayReceive::describe(const Receive& receive, wait_report::Entry& entry) const {
    if (pipeline_)
        describe_relay(*pipeline_,
                       receive.source().part<RelayPart>().draining(pipeline_->plan().window).front() == &receive,
                       entry);
}

} // namespace gpurun::transfer
