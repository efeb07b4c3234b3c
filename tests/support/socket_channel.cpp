#include "support/socket_channel.hpp"

#include "platform/wake.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace gpurun::test {

using base::Result;
using transfer::Edge;
using transfer::Liveness;
using transfer::Slot;
using transfer::SlotClass;

namespace {

constexpr size_t kPiece = 64 * 1024; // of a relay buffer, in one packet
constexpr size_t kLargestPacket = 2 * kPiece;

SocketChannel::Direction opposite(SocketChannel::Direction direction) {
    using Direction = SocketChannel::Direction;
    return direction == Direction::kOut ? Direction::kIn : Direction::kOut;
}

} // namespace

// Numbers in this side's memory, which the channel carries to the other side's when this one signals.
class SocketChannel::CarriedFence final : public transfer::Fence {
  public:
    CarriedFence(SocketChannel& channel, Direction direction, platform::FenceSlot* slots)
        : Fence(slots), channel_(channel), direction_(direction),
          numbers_(transfer::make_counter_fence(*channel.device_.counters(), slots)) {}

    Result<void> signal(Edge edge, const Slot& slot, device::Stream stream) override {
        GPURUN_TRY(numbers_->signal(edge, slot, stream));
        return channel_.carry_behind(stream, direction_, edge, slot);
    }
    void signal_now(Edge edge, const Slot& slot) override {
        numbers_->signal_now(edge, slot);
        channel_.carry(direction_, edge, slot);
    }
    Result<void> await(Edge edge, const Slot& slot, device::Stream stream) override {
        return numbers_->await(edge, slot, stream);
    }
    Result<bool> reached(Edge edge, const Slot& slot) override { return numbers_->reached(edge, slot); }
    Result<bool> cut_short(Edge edge, const Slot& slot) override { return numbers_->cut_short(edge, slot); }
    bool edges_last() const override { return numbers_->edges_last(); }

  private:
    SocketChannel& channel_;
    const Direction direction_;
    const std::unique_ptr<transfer::Fence> numbers_;
};

std::pair<platform::UniqueFd, platform::UniqueFd> SocketChannel::make_sockets() {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    return {platform::UniqueFd(ends[0]), platform::UniqueFd(ends[1])};
}

SocketChannel::SocketChannel(device::Device& device, const platform::JobSegment& own_job, base::WorldRank self,
                             base::WorldRank peer, platform::UniqueFd socket)
    : PeerChannel(peer, false), device_(device), own_job_(own_job), self_(self), socket_(std::move(socket)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), out_(device), in_(device), carrier_([this] { work(); }) {}

SocketChannel::~SocketChannel() {
    {
        const std::lock_guard lock(mutex_);
        enqueue({.frame = {.kind = FrameKind::kGoodbye}});
        leaves_ = true;
    }
    wake_carrier();
    carrier_.join();
}

void SocketChannel::cut() { ::shutdown(socket_.get(), SHUT_RDWR); }

// ------------------------------------------------------------------------------------------------------- records

bool SocketChannel::post(const Record& record, std::span<const std::byte> payload, Notify how) {
    std::vector<std::byte> bytes(record.head_bytes + payload.size());
    std::memcpy(bytes.data(), &record, record.head_bytes);
    std::copy(payload.begin(), payload.end(), bytes.begin() + record.head_bytes);
    bool was_waiting = false;
    {
        const std::lock_guard lock(mutex_);
        const bool full = posted_ - taken_by_peer_ >= kRoom;
        was_waiting = std::exchange(waits_for_room_, full);
        if (!full) {
            ++posted_;
            enqueue({.frame = {.kind = FrameKind::kRecord, .notify = how}, .kept = std::move(bytes)});
        }
    }
    if (!waits_for_room_) // changed only by calls like this one
        wake_carrier();
    else if (!was_waiting)
        notify(Notify::kAlways);
    return !waits_for_room_;
}

bool SocketChannel::post_few(transfer::ProtocolId protocol, const transfer::Envelope& envelope,
                             const std::byte* payload, uint64_t signature) {
    Record record(transfer::RecordKind::kMessage, protocol);
    record.envelope = envelope;
    if (signature != 0)
        record.sign(signature);
    return post(record, {payload, envelope.bytes}, Notify::kIfSleeping);
}

void SocketChannel::notify(Notify how) { send({.frame = {.kind = FrameKind::kNotify, .notify = how}}); }

void SocketChannel::tell_steps_of_leaving(uint32_t steps) {
    send({.frame = {.kind = FrameKind::kSteps, .number = steps}});
}

const transfer::Record* SocketChannel::front(std::span<const std::byte>& ret_payload) {
    if (!has_records())
        return nullptr;
    const std::lock_guard lock(mutex_);
    ret_payload = inbox_.front().payload;
    return &inbox_.front().record;
}

void SocketChannel::pop() {
    {
        const std::lock_guard lock(mutex_);
        inbox_.pop_front();
        arrived_.fetch_sub(1, std::memory_order_relaxed);
        if (++taken_ % (kRoom / 4) != 0)
            return;
        enqueue({.frame = {.kind = FrameKind::kTaken, .value = taken_}});
    }
    wake_carrier();
}

void SocketChannel::set_total(Direction direction, transfer::Total total, uint64_t value) {
    half(direction).totals[total].store(value, std::memory_order_release);
    send({.frame = {.kind = FrameKind::kTotal, .direction = direction, .number = total, .value = value}});
}

// ------------------------------------------------------------------------------------------------ edges and buffers

Result<transfer::Fence*> SocketChannel::fence(Direction direction) {
    Half& of = half(direction);
    if (!of.fence) {
        GPURUN_TRY(of.slots.pin());
        of.fence = std::make_unique<CarriedFence>(*this, direction, of.slots.as<platform::FenceSlot>());
    }
    return of.fence.get();
}

Result<std::byte*> SocketChannel::eager_buffer(Direction, uint32_t, bool) {
    return base::Error{base::Status::kUnsupported, "there are no eager buffers without memory in common"};
}

PinnedPages& SocketChannel::relay_pages(Direction direction, uint32_t window) {
    const std::lock_guard lock(mutex_);
    auto& pages = half(direction).relay[window];
    if (!pages)
        pages = std::make_unique<PinnedPages>(device_, platform::kRelayBuffers * platform::kRelayBufferBytes);
    return *pages;
}

Result<std::byte*> SocketChannel::relay_buffer(Direction direction, uint32_t window, uint32_t index, bool for_streams) {
    PinnedPages& pages = relay_pages(direction, window);
    if (for_streams)
        GPURUN_TRY(pages.pin());
    return pages.data() + index * platform::kRelayBufferBytes;
}

// What the edge says is here is sent before it: at once, or by whoever signals.
void SocketChannel::relay_buffer_filled(uint32_t window, uint32_t index, size_t bytes, const Slot& slot) {
    (void)relay_pages(Direction::kOut, window);
    {
        const std::lock_guard lock(mutex_);
        const Filled filled{window, index, bytes};
        if (platform::load_published(out_.fence->counter(Edge::kForward, slot)) < slot.value) {
            filled_.emplace(Use{slot.number(), slot.value}, filled);
            return;
        }
        enqueue_filled(filled, slot);
    }
    wake_carrier();
}

void SocketChannel::enqueue_filled(const Filled& filled, const Slot& slot) {
    const std::byte* const buffer = out_.relay[filled.window]->data() + filled.index * platform::kRelayBufferBytes;
    for (size_t offset = 0; offset < filled.bytes; offset += kPiece)
        enqueue({.frame = {.kind = FrameKind::kFilled, .number = filled.window, .index = filled.index, .value = offset},
                 .lent = {buffer + offset, std::min(kPiece, filled.bytes - offset)}});
    enqueue({.frame = {.kind = FrameKind::kEdge, .number = slot.number(), .value = slot.value}});
}

void SocketChannel::carry(Direction direction, Edge edge, const Slot& slot) {
    {
        const std::lock_guard lock(mutex_);
        if (direction == Direction::kOut && edge == Edge::kForward && slot.slots == SlotClass::kRelay) {
            const auto filled = filled_.extract(Use{slot.number(), slot.value});
            if (filled.empty())
                return; // it is not told of yet, or has been sent
            enqueue_filled(filled.mapped(), slot);
        } else {
            enqueue({.frame = {.kind = FrameKind::kEdge,
                               .direction = direction,
                               .edge = edge,
                               .number = slot.number(),
                               .value = slot.value}});
        }
    }
    wake_carrier();
}

Result<void> SocketChannel::carry_behind(device::Stream stream, Direction direction, Edge edge, const Slot& slot) {
    Signal* signal = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (unused_signals_.empty())
            unused_signals_.push_back(&signals_.emplace_back());
        signal = unused_signals_.back();
        unused_signals_.pop_back();
        *signal = Signal{this, direction, edge, slot};
    }
    const auto made = [](void* argument) {
        Signal* const of = static_cast<Signal*>(argument);
        const Signal copy = *of;
        {
            const std::lock_guard lock(copy.channel->mutex_);
            copy.channel->unused_signals_.push_back(of);
        }
        copy.channel->carry(copy.direction, copy.edge, copy.slot);
    };
    return device_.call_host(stream, made, signal);
}

// ------------------------------------------------------------------------------------------------------ the carrier

void SocketChannel::enqueue(Packet packet) { outbox_.push_back(std::move(packet)); }

void SocketChannel::send(Packet packet) {
    {
        const std::lock_guard lock(mutex_);
        enqueue(std::move(packet));
    }
    wake_carrier();
}

void SocketChannel::wake_carrier() const { (void)::eventfd_write(bell_.get(), 1); }

bool SocketChannel::is_finished() {
    const std::lock_guard lock(mutex_);
    return leaves_ && (outbox_.empty() || ended_);
}

void SocketChannel::work() {
    while (!is_finished()) {
        bool has_packets = false;
        {
            const std::lock_guard lock(mutex_);
            has_packets = !outbox_.empty();
        }
        // What has ended is readable for ever.
        pollfd polled[] = {{bell_.get(), POLLIN, 0},
                           {ended_ ? -1 : socket_.get(), static_cast<short>(POLLIN | (has_packets ? POLLOUT : 0)), 0}};
        if (::poll(polled, 2, -1) < 0)
            continue;
        eventfd_t rung = 0;
        (void)::eventfd_read(bell_.get(), &rung);
        read_some();
        write_some();
    }
}

void SocketChannel::write_some() {
    const std::lock_guard lock(mutex_);
    while (!outbox_.empty()) {
        Packet& packet = outbox_.front();
        const std::span<const std::byte> bytes =
            packet.kept.empty() ? packet.lent : std::span<const std::byte>(packet.kept);
        iovec parts[] = {{&packet.frame, sizeof packet.frame}, {const_cast<std::byte*>(bytes.data()), bytes.size()}};
        msghdr message{};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        outbox_.pop_front(); // sent, or there is nobody left to read it
    }
}

void SocketChannel::read_some() {
    std::vector<std::byte> buffer(kLargestPacket);
    while (!ended_) {
        const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) // the latter once; what came before can be read
            continue;
        if (got < 0)
            return;
        if (got == 0) {
            ended_ = true;
            if (!heard_goodbye_)
                lose();
            return;
        }
        Frame frame;
        if (static_cast<size_t>(got) < sizeof frame)
            std::abort(); // nobody else writes there
        std::memcpy(&frame, buffer.data(), sizeof frame);
        handle(frame, std::span(buffer).first(static_cast<size_t>(got)).subspan(sizeof frame));
    }
}

void SocketChannel::handle(const Frame& frame, std::span<const std::byte> bytes) {
    const Direction direction = opposite(frame.direction);
    switch (frame.kind) {
    case FrameKind::kRecord: handle_record(frame, bytes); return;
    case FrameKind::kTaken: handle_taken(frame.value); return;
    case FrameKind::kNotify: notify_self(frame.notify); return;
    case FrameKind::kTotal: half(direction).totals[frame.number].store(frame.value, std::memory_order_release); return;
    case FrameKind::kEdge: {
        platform::FenceSlot& slot = half(direction).slots.as<platform::FenceSlot>()[frame.number];
        platform::store_and_wake(frame.edge == Edge::kForward ? slot.forward : slot.backward, frame.value);
        return;
    }
    case FrameKind::kFilled:
        std::memcpy(relay_pages(Direction::kIn, frame.number).data() + frame.index * platform::kRelayBufferBytes +
                        frame.value,
                    bytes.data(), bytes.size());
        return;
    case FrameKind::kSteps:
        steps_.store(frame.number, std::memory_order_release);
        notify_self(Notify::kIfSleeping);
        return;
    case FrameKind::kGoodbye: heard_goodbye_ = true; return;
    }
}

void SocketChannel::handle_record(const Frame& frame, std::span<const std::byte> bytes) {
    {
        const std::lock_guard lock(mutex_);
        Arrived& arrived = inbox_.emplace_back();
        uint16_t head_bytes = 0;
        std::memcpy(&head_bytes, bytes.data() + offsetof(Record, head_bytes), sizeof head_bytes);
        std::memcpy(static_cast<void*>(&arrived.record), bytes.data(), head_bytes);
        arrived.payload.assign(bytes.begin() + head_bytes, bytes.end());
        arrived_.fetch_add(1, std::memory_order_release);
    }
    notify_self(frame.notify);
}

void SocketChannel::handle_taken(uint64_t taken) {
    bool waits = false;
    {
        const std::lock_guard lock(mutex_);
        taken_by_peer_ = taken;
        waits = waits_for_room_;
    }
    if (waits)
        notify_self(Notify::kAlways);
}

void SocketChannel::lose() {
    liveness_.store(Liveness::kDying, std::memory_order_release);
    for (size_t i = 0; i < platform::kFenceSlots; ++i) {
        std::atomic<uint64_t>& from_peer = in_.slots.as<platform::FenceSlot>()[i].forward;
        std::atomic<uint64_t>& to_peer = out_.slots.as<platform::FenceSlot>()[i].backward;
        platform::store_and_wake(from_peer, from_peer.load() | platform::kPoison);
        platform::store_and_wake(to_peer, to_peer.load() | platform::kPoison);
    }
    liveness_.store(Liveness::kDead, std::memory_order_release);
    notify_self(Notify::kAlways);
}

} // namespace gpurun::test
