#include "transfer/receive.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
namespace wait_report = platform::wait_report;

Receive::~Receive() = default;

void Receive::start(Peer& source, const Record& record, std::span<const std::byte> payload) {
    GPURUN_ASSERT(phase() == Phase::kNew);
    set_peer(source);
    set_active();
    bytes_ = std::min<uint64_t>(record.envelope.bytes, operand().bytes);
    serial_of_send_ = record.serial;
    Arrival arrival{record, payload, {}};
    const ProtocolTable& protocols = resources().protocols;
    ProtocolId by = record.protocol;
    if (const auto choose = protocols[by].choose_route) {
        arrival.route = choose(*this, record);
        by = arrival.route.protocol;
    }
    protocols[by].make_receive(holder());
    settle(state()->start(*this, arrival));
}

Result<void> Receive::set_marker() {
    return ends_by_completion() && !operand().captured() ? work().set_marker() : Result<void>();
}

wait_report::Entry Receive::describe() const {
    wait_report::Entry entry = Operation::describe(wait_report::What::kReceive);
    if (phase() == Phase::kNew)
        entry.state = wait_report::State::kUnmatched;
    else if (phase() == Phase::kActive)
        state()->describe(*this, entry);
    return entry;
}

template <typename Operand>
Result<Operand> Receive::end_with(Result<Operand> handed_over) {
    if (handed_over)
        finish();
    else
        fail(handed_over.error());
    return handed_over;
}

Result<device::FusedReduction::Operand> Receive::hand_over(device::Stream stream) {
    return end_with(state()->hand_over(*this, stream));
}

Result<CapturedExchange::Operand> Receive::hand_over_captured(device::Stream stream) {
    return end_with(state()->hand_over_captured(*this, stream));
}

Result<void> Receive::take_stream(bool waits_for_peer) {
    return ends_in_stream() ? Result<void>() : work().take(waits_for_peer);
}

Result<uint64_t> Receive::stream_name() { return work().stream_name(); }

Result<bool> Receive::is_marker_passed() {
    return operand().on_stream() ? work().is_marker_passed() : Result<bool>(true);
}

Result<void> Receive::note_dependence(Fence& fence, const Slot& slot, std::optional<device::Stream> stream) {
    if (source().lost()) {
        GPURUN_ASSIGN(const bool cut_short, fence.cut_short(Edge::kForward, slot));
        if (cut_short)
            return base::Error{base::Status::kPeerLost, "the other rank died before the message had moved"};
    }
    source().awaiting_forward.note(slot, stream);
    return {};
}

bool Receive::kernel_may_spin(Fence& fence, const Slot& slot, uint32_t blocks) {
    return ends_in_stream() && resources().pools.kernels.admits(operand().stream, blocks,
                                                                {fence.counter(Edge::kBackward, slot), slot.value});
}

Result<void> Receive::copy_from_host(const void* from, uint64_t bytes) {
    if (bytes == 0)
        return {};
    const Operand& into = operand();
    return copy_in_stream(resources(), into, into.address, from, bytes, into.stream);
}

Result<void> Receive::end_behind(StagingPool::Buffer& staged) {
    GPURUN_TRY(device().record(staged.copied, operand().stream));
    staged_ = &staged;
    end_at(CompletionPoint::at(staged.copied));
    return {};
}

// ----------------------------------------------------------------------------------------------------- of graphs

Result<void> Receive::complete_captured(device::Stream stream) {
    if (done())
        return {};
    if (state() != nullptr && !missed_capture_)
        state()->enqueue_captured(*this, stream);
    captured_start_.reset();
    if (!done())
        finish();
    return {};
}

void Receive::capture_missed() {
    missed_capture_ = true; // it fails once it is matched, so that its source gets an answer
    if (state() != nullptr)
        state()->capture_missed(*this);
}

// ------------------------------------------------------------------------------------------------- for Operation

void Receive::on_finish() {
    if (staged_ == nullptr)
        return;
    StagingPool::Buffer& staged = *std::exchange(staged_, nullptr);
    if (drained())
        resources().pools.staging.give_back(staged);
    else
        resources().pools.staging.leave(staged);
}

} // namespace gpurun::transfer
