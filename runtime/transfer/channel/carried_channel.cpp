#include "transfer/channel/carried_channel.hpp"

#include "platform/wake.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::transfer {

using base::Result;
using platform::FenceSlot;

namespace {

constexpr uint32_t kEagerWindow = PeerChannel::kEagerWindow;

size_t buffers_of(uint32_t window) {
    return window == kEagerWindow ? platform::kEagerBuffers : platform::kRelayBuffers;
}
size_t buffer_bytes(uint32_t window) { return window == kEagerWindow ? kEagerPiece : platform::kRelayBufferBytes; }
static_assert(kEagerPiece >= platform::kEagerBufferBytes);

// Of its first byte.
size_t offset_of(uint32_t window, uint32_t index, size_t room) { return index * (room + buffer_bytes(window)) + room; }

Direction opposite(Direction direction) { return direction == Direction::kOut ? Direction::kIn : Direction::kOut; }

} // namespace

// Numbers in this side's memory, which the channel carries to the other side's when this one signals.
class CarriedChannel::CarriedFence final : public Fence {
  public:
    CarriedFence(CarriedChannel& channel, Direction direction, FenceSlot* slots)
        : Fence(slots), channel_(channel), direction_(direction),
          numbers_(make_counter_fence(*channel.site_.device.counters(), slots)) {}

    Result<void> signal(Edge edge, const Slot& slot, device::Stream stream) override {
        GPURUN_TRY(numbers_->signal(edge, slot, stream));
        channel_.watch({direction_, edge, slot});
        return {};
    }
    void signal_now(Edge edge, const Slot& slot) override {
        platform::store_and_wake_here(counter(edge, slot), slot.value);
        channel_.carry({direction_, edge, slot});
    }
    Result<void> await(Edge edge, const Slot& slot, device::Stream stream) override {
        return numbers_->await(edge, slot, stream);
    }
    Result<bool> reached(Edge edge, const Slot& slot) override { return numbers_->reached(edge, slot); }
    Result<bool> cut_short(Edge edge, const Slot& slot) override { return numbers_->cut_short(edge, slot); }
    bool edges_last() const override { return numbers_->edges_last(); }

  private:
    CarriedChannel& channel_;
    const Direction direction_;
    const std::unique_ptr<Fence> numbers_;
};

Result<CarriedChannel::Pages> CarriedChannel::Pages::create(device::Device& device) {
    Pages pages;
    constexpr size_t kBytes = platform::kFenceSlots * sizeof(FenceSlot);
    GPURUN_ASSIGN(pages.out, OwnPages::create(device, kBytes));
    GPURUN_ASSIGN(pages.in, OwnPages::create(device, kBytes));
    return pages;
}

CarriedChannel::CarriedChannel(const Site& site, Pages pages, RankFacts facts)
    : PeerChannel(site.peer, false, site.first_device_peer), site_(site), facts_(facts) {
    out_.slots = std::move(pages.out);
    in_.slots = std::move(pages.in);
}

// ------------------------------------------------------------------------------------------------------- records

bool CarriedChannel::post(const Record& record, std::span<const std::byte> payload, Notify how) {
    const std::lock_guard lock(mutex());
    const size_t bytes = record.head_bytes + payload.size();
    const bool full = !room_.take(bytes);
    const bool was_waiting = std::exchange(waits_for_room_, full);
    if (full) {
        if (!was_waiting) {
            enqueue({.kind = ItemKind::kNotify, .notify = static_cast<uint8_t>(Notify::kAlways)});
            carry_on();
        }
        return false;
    }
    if (may_enqueue()) {
        kept_.append({reinterpret_cast<const std::byte*>(&record), record.head_bytes});
        kept_.append(payload);
        outbox_.append(
            {{.kind = ItemKind::kRecord, .notify = static_cast<uint8_t>(how), .value = bytes}, nullptr, bytes, 0});
        carry_on();
    }
    return true;
}

bool CarriedChannel::post_few(ProtocolId protocol, const Envelope& envelope, const std::byte* payload,
                              uint64_t signature) {
    Record record(RecordKind::kMessage, protocol);
    record.envelope = envelope;
    if (signature != 0)
        record.sign(signature);
    return post(record, {payload, envelope.bytes}, Notify::kIfSleeping);
}

void CarriedChannel::notify(Notify how) { send({.kind = ItemKind::kNotify, .notify = static_cast<uint8_t>(how)}); }

// What the record in the job says comes after all that the peer knows to have met has taken note of it. So if nothing
// of the peer has come here by then, nothing is on its way.
uint32_t CarriedChannel::steps_of_leaving() const {
    const uint32_t told = site_.job.rank(site_.peer.value).steps_told.load(std::memory_order_acquire);
    const bool met = met_.load(std::memory_order_acquire); // in this order
    const uint32_t carried = steps_.load(std::memory_order_acquire);
    return met ? carried : std::max(carried, told);
}

void CarriedChannel::tell_steps_of_leaving(uint32_t steps) {
    const std::lock_guard lock(mutex());
    steps_told_.store(steps, std::memory_order_release);
    if (met_.load(std::memory_order_relaxed) && may_enqueue())
        carry_on();
}

bool CarriedChannel::knows_steps_of_leaving() const {
    return !met_.load(std::memory_order_acquire) || liveness() != Liveness::kAlive ||
           steps_seen_.load(std::memory_order_acquire) >= steps_told_.load(std::memory_order_acquire);
}

const Record* CarriedChannel::front(std::span<const std::byte>& ret_payload) { return inbox_.front(ret_payload); }

void CarriedChannel::pop() {
    const std::optional<uint64_t> emptied = inbox_.pop();
    if (!emptied)
        return;
    const std::lock_guard lock(mutex());
    inbox_.told(*emptied);
    enqueue({.kind = ItemKind::kTaken, .value = *emptied});
    carry_soon();
}

void CarriedChannel::set_total(Direction direction, Total total, uint64_t value) {
    half(direction).totals[total].store(value, std::memory_order_release);
    const std::lock_guard lock(mutex());
    enqueue({.kind = ItemKind::kTotal, .direction = static_cast<uint8_t>(direction), .number = total, .value = value});
    carry_soon();
}

// ------------------------------------------------------------------------------------------------ edges and buffers

Result<Fence*> CarriedChannel::fence(Direction direction) {
    Half& of = half(direction);
    if (!of.fence) {
        GPURUN_TRY(of.slots->pin());
        of.fence = std::make_unique<CarriedFence>(*this, direction, of.slots->as<FenceSlot>());
    }
    return of.fence.get();
}

Result<OwnPages*> CarriedChannel::pages_of(Direction direction, uint32_t window) {
    auto& pages = half(direction).buffers[window];
    if (!pages) {
        GPURUN_ASSIGN(pages, OwnPages::create(site_.device, buffers_of(window) * (kFrameRoom + buffer_bytes(window))));
        if (direction == Direction::kIn)
            on_landing_made(window, *pages);
    }
    return pages.get();
}

Result<std::byte*> CarriedChannel::buffer(Direction direction, uint32_t window, uint32_t index, bool for_streams) {
    OwnPages* pages = nullptr;
    {
        const std::lock_guard lock(mutex());
        GPURUN_ASSIGN(pages, pages_of(direction, window));
    }
    if (for_streams)
        GPURUN_TRY(pages->pin());
    return pages->data() + offset_of(window, index, kFrameRoom);
}

Result<std::byte*> CarriedChannel::eager_buffer(Direction direction, uint32_t index, bool for_streams) {
    return buffer(direction, kEagerWindow, index, for_streams);
}

Result<std::byte*> CarriedChannel::relay_buffer(Direction direction, uint32_t window, uint32_t index,
                                                bool for_streams) {
    return buffer(direction, window, index, for_streams);
}

// What the edge says is here is carried before it: at once, or when it has come.
void CarriedChannel::relay_buffer_filled(uint32_t window, uint32_t index, size_t bytes, const Slot& slot) {
    const std::lock_guard lock(mutex());
    const Filled filled{slot.number(), window, index, slot.value, bytes};
    if (!has_come({Direction::kOut, Edge::kForward, slot})) {
        filled_.push_back(filled);
        return;
    }
    enqueue_filled(filled);
    carry_soon();
}

void CarriedChannel::push() {
    const std::lock_guard lock(mutex());
    carry_on();
}

void CarriedChannel::enqueue_filled(const Filled& filled) {
    if (filled.bytes != 0)
        enqueue(
            {.kind = ItemKind::kFilled,
             .number = static_cast<uint16_t>(filled.window),
             .index = static_cast<uint16_t>(filled.index)},
            {out_.buffers[filled.window]->data() + offset_of(filled.window, filled.index, kFrameRoom), filled.bytes});
    enqueue({.kind = ItemKind::kEdge, .number = static_cast<uint16_t>(filled.slot_number), .value = filled.value});
}

void CarriedChannel::enqueue_edge(const Signal& signal) {
    const Slot& slot = signal.slot;
    if (signal.direction == Direction::kOut && signal.edge == Edge::kForward &&
        (slot.slots == SlotClass::kRelay || slot.slots == SlotClass::kEager)) {
        const auto filled = std::find_if(filled_.begin(), filled_.end(), [&](const Filled& each) {
            return each.slot_number == slot.number() && each.value == slot.value;
        });
        if (filled == filled_.end())
            return; // it is not told of yet, or is carried already
        enqueue_filled(*filled);
        filled_.erase(filled);
        return;
    }
    enqueue({.kind = ItemKind::kEdge,
             .direction = static_cast<uint8_t>(signal.direction),
             .edge = static_cast<uint8_t>(signal.edge),
             .number = static_cast<uint16_t>(slot.number()),
             .value = slot.value});
}

void CarriedChannel::carry(const Signal& signal) {
    const std::lock_guard lock(mutex());
    enqueue_edge(signal);
    carry_soon();
}

void CarriedChannel::watch(const Signal& signal) {
    const std::lock_guard lock(mutex());
    if (lost_)
        return;
    watched_.push_back(signal);
    on_watched();
}

bool CarriedChannel::has_come(const Signal& signal) const {
    return platform::load_published(half(signal.direction).fence->counter(signal.edge, signal.slot)) >=
           signal.slot.value;
}

bool CarriedChannel::carry_reached() {
    return std::erase_if(watched_, [&](const Signal& each) {
               const bool is_due = has_come(each);
               if (is_due)
                   enqueue_edge(each);
               return is_due;
           }) != 0;
}

// ------------------------------------------------------------------------------------------------ what is carried

// False: there is nobody left to read it.
bool CarriedChannel::may_enqueue() {
    if (lost_)
        return false;
    met_.store(true, std::memory_order_release);
    if (const uint32_t told = steps_told_.load(std::memory_order_relaxed); told != steps_carried_) {
        steps_carried_ = told;
        outbox_.append({{.kind = ItemKind::kSteps, .value = told}, nullptr, 0, 0});
    }
    if (!told_captured_ && site_.job.rank(site_.self.value).captures.load(std::memory_order_relaxed) != 0) {
        told_captured_ = true;
        outbox_.append({{.kind = ItemKind::kCaptured}, nullptr, 0, 0});
    }
    return true;
}

void CarriedChannel::enqueue(const Item& item, std::span<const std::byte> lent) {
    if (!may_enqueue())
        return;
    outbox_.append({item, lent.data(), lent.size(), 0});
    lent_bytes_ += lent.size();
}

void CarriedChannel::send(const Item& item) {
    const std::lock_guard lock(mutex());
    enqueue(item);
    carry_on();
}

size_t CarriedChannel::write_item(std::span<std::byte> to) {
    constexpr size_t kLeastPiece = 512; // of what is cut
    Packet& packet = outbox_.front();
    if (to.size() < sizeof(Item) + std::min(packet.left, kLeastPiece))
        return 0;
    Item item = packet.item;
    item.bytes = static_cast<uint32_t>(std::min(packet.left, to.size() - sizeof item));
    if (item.kind == ItemKind::kFilled)
        item.value = packet.carried;
    std::memcpy(to.data(), &item, sizeof item);
    const std::byte* const from = packet.lent != nullptr ? packet.lent + packet.carried : kept_.content().data();
    if (item.bytes != 0)
        std::memcpy(to.data() + sizeof item, from, item.bytes);
    if (packet.lent == nullptr)
        kept_.drop(item.bytes);
    else
        lent_bytes_ -= item.bytes;
    packet.carried += item.bytes;
    packet.left -= item.bytes;
    if (packet.left == 0)
        outbox_.drop(1);
    return sizeof item + item.bytes;
}

std::optional<FilledBytes> CarriedChannel::next_bytes() const {
    const Packet& next = outbox_.content().front();
    if (next.item.kind != ItemKind::kFilled || next.carried != 0)
        return std::nullopt;
    const Item& edge = outbox_.content()[1].item; // enqueue_filled()
    return FilledBytes{next.item.number,
                       offset_of(next.item.number, next.item.index, kFrameRoom),
                       {next.lent, next.left},
                       static_cast<uint8_t>(edge.number),
                       static_cast<uint8_t>(edge.value / kSlotStep)};
}

// Each use of a slot of a buffer is signalled, and comes before the next one.
bool CarriedChannel::arrive_bytes(uint8_t slot, uint8_t use) {
    static_assert(platform::kFenceSlots >= 256); // any `slot` is one
    std::atomic<uint64_t>& edge = in_.slots->as<FenceSlot>()[slot].forward;
    const uint64_t value = edge.load(std::memory_order_relaxed) + kSlotStep;
    if (static_cast<uint8_t>(value / kSlotStep) != use)
        return false;
    platform::store_and_wake_here(edge, value);
    return true;
}

std::span<const std::byte> CarriedChannel::room_before(uint8_t slot, size_t bytes) {
    constexpr uint32_t kEager = first_slot(SlotClass::kEager), kRelay = first_slot(SlotClass::kRelay);
    static_assert(kRelay == kEager + platform::kEagerBuffers && first_slot(SlotClass::kLargeMail) <= 256);
    if (slot < kEager || slot >= first_slot(SlotClass::kLargeMail) || bytes > kFrameRoom)
        return {};
    const uint32_t number = slot - (slot < kRelay ? kEager : kRelay);
    const uint32_t window = slot < kRelay ? kEagerWindow : number / platform::kRelayBuffers;
    const uint32_t index = slot < kRelay ? number : number % platform::kRelayBuffers;
    const auto& pages = in_.buffers[window];
    if (!pages)
        return {};
    return std::span<const std::byte>(pages->bytes()).subspan(offset_of(window, index, kFrameRoom) - bytes, bytes);
}

void CarriedChannel::tell_landing(uint32_t window, std::span<const std::byte> how) {
    if (!may_enqueue())
        return;
    kept_.append(how);
    outbox_.append({{.kind = ItemKind::kLanding, .number = static_cast<uint16_t>(window)}, nullptr, how.size(), 0});
}

void CarriedChannel::give_pages(std::vector<std::unique_ptr<OwnPages>>& to) {
    for (Half* const each : {&out_, &in_})
        for (auto& pages : each->buffers)
            if (pages)
                to.push_back(std::move(pages));
}

std::optional<size_t> CarriedChannel::read_item(std::span<const std::byte> from) {
    Item item;
    if (from.size() < sizeof item)
        return std::nullopt;
    std::memcpy(&item, from.data(), sizeof item);
    const std::span<const std::byte> rest = from.subspan(sizeof item);
    if (item.bytes > rest.size() || !arrive(item, rest.first(item.bytes)))
        return std::nullopt;
    return sizeof item + item.bytes;
}

bool CarriedChannel::arrive(const Item& item, std::span<const std::byte> bytes) {
    if (item.direction > 1 || item.edge > 1 || item.notify > 1)
        return false;
    met_.store(true, std::memory_order_release);
    if (steps_told_.load(std::memory_order_relaxed) != steps_carried_ && may_enqueue()) // while it had not been met
        carry_soon();
    switch (item.kind) {
    case ItemKind::kRecord: return arrive_record(item, bytes);
    case ItemKind::kTaken: return arrive_taken(item.value);
    case ItemKind::kNotify: notify_self(static_cast<Notify>(item.notify)); return true;
    case ItemKind::kTotal:
        if (item.number >= kTotals)
            return false;
        half(opposite(static_cast<Direction>(item.direction)))
            .totals[item.number]
            .store(item.value, std::memory_order_release);
        return true;
    case ItemKind::kEdge: return arrive_edge(item);
    case ItemKind::kFilled: return arrive_filled(item, bytes);
    case ItemKind::kSteps:
        steps_.store(static_cast<uint32_t>(item.value), std::memory_order_release);
        notify_self(Notify::kIfSleeping);
        enqueue({.kind = ItemKind::kStepsSeen, .value = item.value});
        carry_soon();
        return true;
    case ItemKind::kStepsSeen:
        steps_seen_.store(static_cast<uint32_t>(item.value), std::memory_order_release);
        notify_self(Notify::kIfSleeping);
        return true;
    case ItemKind::kCaptured: has_captured_.store(true, std::memory_order_relaxed); return true;
    case ItemKind::kGoodbye: heard_goodbye_ = true; return true;
    case ItemKind::kBeat: return true;
    case ItemKind::kLanding: return item.number <= kEagerWindow && on_landing_told(item.number, bytes);
    }
    return false;
}

bool CarriedChannel::arrive_record(const Item& item, std::span<const std::byte> bytes) {
    const Inbox::Added added = inbox_.add(bytes, item.value);
    if (added == Inbox::Added::kWhole)
        notify_self(static_cast<Notify>(item.notify));
    return added != Inbox::Added::kDamaged;
}

bool CarriedChannel::arrive_edge(const Item& item) {
    if (item.number >= platform::kFenceSlots)
        return false;
    FenceSlot& slot = half(opposite(static_cast<Direction>(item.direction))).slots->as<FenceSlot>()[item.number];
    platform::store_and_wake_here(static_cast<Edge>(item.edge) == Edge::kForward ? slot.forward : slot.backward,
                                  item.value);
    return true;
}

bool CarriedChannel::arrive_filled(const Item& item, std::span<const std::byte> bytes) {
    if (item.number > kEagerWindow || item.index >= buffers_of(item.number) || item.value > buffer_bytes(item.number) ||
        bytes.size() > buffer_bytes(item.number) - item.value)
        return false;
    auto pages = pages_of(Direction::kIn, item.number);
    if (!pages)
        return false;
    std::memcpy((*pages)->data() + offset_of(item.number, item.index, kFrameRoom) + item.value, bytes.data(),
                bytes.size());
    return true;
}

bool CarriedChannel::arrive_taken(uint64_t emptied) {
    if (!room_.give_back(emptied))
        return false;
    if (waits_for_room_)
        notify_self(Notify::kAlways);
    return true;
}

void CarriedChannel::lose() {
    if (std::exchange(lost_, true))
        return;
    outbox_.clear();
    lent_bytes_ = 0;
    kept_.clear();
    filled_.clear();
    watched_.clear();
    liveness_.store(Liveness::kDying, std::memory_order_release);
    for (size_t i = 0; i < platform::kFenceSlots; ++i) {
        std::atomic<uint64_t>& from_peer = in_.slots->as<FenceSlot>()[i].forward;
        std::atomic<uint64_t>& to_peer = out_.slots->as<FenceSlot>()[i].backward;
        platform::store_and_wake_here(from_peer, from_peer.load() | platform::kPoison);
        platform::store_and_wake_here(to_peer, to_peer.load() | platform::kPoison);
    }
    liveness_.store(Liveness::kDead, std::memory_order_release);
    notify_self(Notify::kAlways);
}

} // namespace gpurun::transfer
