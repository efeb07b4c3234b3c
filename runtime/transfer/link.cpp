#include "transfer/link.hpp"

#include "base/log.hpp"
#include "transfer/probe.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

// ---------------------------------------------------------------------------------------------------- Half

Half::~Half() {
    fence_.reset();
    for (Part* part : {&fences_, &eager_, &relay_})
        if (part->pinned)
            (void)context_.device.unregister_host(part->mapping.data()); // a failed device keeps it
}

Result<void> Half::pin(Part& part) {
    if (part.pinned)
        return {};
    GPURUN_TRY(context_.device.register_host(part.mapping.data(), part.mapping.size()));
    part.pinned = true;
    return {};
}

Result<Fence*> Half::fence() {
    if (same_ != nullptr)
        return same_->fence();
    if (!fence_) {
        GPURUN_ASSIGN(fences_.mapping, context_.job.map_fences(source_, target_));
        if (context_.uses_event_fence()) {
            GPURUN_ASSIGN(events_, context_.job.map_events(source_, target_));
            fence_ = make_event_fence(context_.device, fences_.mapping, events_, role_, peer_);
        } else {
            fence_ = make_counter_fence(context_.device, fences_.mapping);
        }
    }
    GPURUN_TRY(pin(fences_));
    return fence_.get();
}

Result<std::byte*> Half::eager_buffer(uint32_t index, bool for_streams) {
    if (same_ != nullptr)
        return same_->eager_buffer(index, for_streams);
    if (eager_.mapping.data() == nullptr) {
        GPURUN_ASSIGN(eager_.mapping, context_.job.map_eager(source_, target_));
    }
    if (for_streams)
        GPURUN_TRY(pin(eager_));
    return eager_.mapping.data() + index * platform::kEagerBufferBytes;
}

Result<std::byte*> Half::relay_buffer(uint32_t index, bool for_streams) {
    if (same_ != nullptr)
        return same_->relay_buffer(index, for_streams);
    if (relay_.mapping.data() == nullptr) {
        GPURUN_ASSIGN(relay_.mapping, context_.job.map_relay(source_, target_));
    }
    if (for_streams)
        GPURUN_TRY(pin(relay_));
    return relay_.mapping.data() + index * platform::kRelayBufferBytes;
}

// ---------------------------------------------------------------------------------------------------- Link

Result<std::unique_ptr<Link>> Link::open(Context& context, uint32_t peer) {
    GPURUN_ASSIGN(platform::Mapping out_ring, context.job.map_ring(context.rank, peer));
    GPURUN_ASSIGN(platform::Mapping in_ring, context.job.map_ring(peer, context.rank));
    return std::unique_ptr<Link>(new Link(context, peer, std::move(out_ring), std::move(in_ring)));
}

Link::Link(Context& context, uint32_t peer_, platform::Mapping out_ring, platform::Mapping in_ring)
    : peer(peer_), to_self(peer_ == context.rank),
      out(context, context.rank, peer_, to_self ? Role::kBoth : Role::kSource, static_cast<int>(peer_)),
      in(to_self ? Half(&out) : Half(context, peer_, context.rank, Role::kTarget, static_cast<int>(peer_))),
      consumer(in.control(), in_ring.data()), peer_record(context.job.rank(peer_)), outbox(context, peer_),
      channels(context, *this), context_(context), out_ring_(std::move(out_ring)), in_ring_(std::move(in_ring)),
      producer_(out.control(), out_ring_.data()) {}

Link::~Link() {
    if (auto closed = close(); !closed)
        base::log(base::LogLevel::kWarn, "closing the link to rank {}: {}", peer, closed.error().detail);
}

// What fills a ring may have been passive news, which a peer that computes leaves where it is.
bool Link::publish(const Record& record, std::span<const std::byte> payload) {
    const bool was_full = std::exchange(full_, !producer_.push(record, payload));
    if (full_ && !was_full)
        context_.job.ring_doorbell(peer, platform::News::kUrgent);
    return !full_;
}

bool Link::push(const Record& record, std::span<const std::byte> payload, platform::News news) {
    if (!publish(record, payload))
        return false;
    context_.job.ring_doorbell(peer, news);
    return true;
}

void Link::tell(const Record& record) {
    // A pulled message needs nothing more of its source; but others may wait there for its slot.
    // A source that is not in a call need not come to share a copy.
    const bool done =
        (record.kind == RecordKind::kPulled && record.slot.slot < kLateSlot) || record.kind == RecordKind::kShare;
    if (!backlog_.empty() || !push(record, {}, done ? platform::News::kPassive : platform::News::kUrgent))
        backlog_.push_back(record);
}

void Link::settle(const SlotValue& slot, Edge last) {
    if (slot.slot < kLateSlot)
        direct_slots.settle(slot, last);
    else
        late_slots.settle(slot, last);
}

bool Link::flush() {
    const bool had = !backlog_.empty();
    while (!backlog_.empty() && publish(backlog_.front(), {}))
        backlog_.pop_front();
    if (had)
        context_.job.ring_doorbell(peer, platform::News::kUrgent);
    return backlog_.empty();
}

void Link::describe_source(const Operand& operand, SourceBuffer& source) {
    source.placement = static_cast<uint32_t>(operand.where.placement);
    source.address = reinterpret_cast<uint64_t>(operand.address);
    source.ready = operand.by_cpu() ? 1 : 0;
    if (operand.in_host_memory() || to_self || !operand.where.exportable)
        return;
    const auto handle = context_.exports.handle(operand.where, peer);
    if (!handle)
        return;
    source.handle = *handle;
    source.exportable = 1;
    source.allocation_id = operand.where.id;
    source.allocation_base = reinterpret_cast<uint64_t>(operand.where.base);
    source.allocation_bytes = operand.where.size;
    source.offset = source.address - source.allocation_base;
}

bool Link::open_channels() { return to_self ? context_.workspace.has_mailboxes() : open_outbox(); }

std::byte* Link::peers_channels() { return to_self ? context_.workspace.channels(peer) : outbox.channels(); }

std::byte* Link::peers_channel_counts() {
    return to_self ? context_.workspace.channel_counts(peer) : outbox.channel_counts();
}

bool Link::open_outbox() {
    if (!outbox.tried())
        outbox.open(!to_self && reach().path == Path::kDirect);
    return outbox.is_open();
}

Result<std::byte*> Link::slab() {
    if (slab_ == nullptr) {
        GPURUN_ASSIGN(void* memory, context_.device.allocate(platform::kRelayBuffers * platform::kRelayBufferBytes));
        slab_ = static_cast<std::byte*>(memory);
        GPURUN_ASSIGN(const device::Buffer buffer, context_.device.describe(slab_, 1));
        Record record{};
        record.kind = RecordKind::kSlab;
        GPURUN_ASSIGN(record.slab, context_.device.export_memory(buffer));
        tell(record);
    }
    return slab_;
}

Result<const std::byte*> Link::peer_slab() {
    if (peer_slab_ == nullptr && peer_slab_handle) {
        GPURUN_ASSIGN(peer_slab_, context_.device.import_memory(static_cast<int>(peer), *peer_slab_handle));
    }
    return static_cast<const std::byte*>(peer_slab_);
}

Result<ImportCache*> Link::open_imports() {
    if (!imports) {
        GPURUN_ASSIGN(Fence * fence, in.fence());
        imports.emplace(context_.device, *fence, static_cast<int>(peer), context_.keep_still);
    }
    return &*imports;
}

// Mapping 1 GiB and more of another GPU takes 9 to 18 ms, up to 256 MiB 0.1 ms (2 H200). A message on the bounce path
// costs about 2.5 ms more for each GiB.
bool Link::worth_mapping(const SourceBuffer& source, uint64_t bytes) {
    constexpr uint64_t kCostly = uint64_t{512} << 20;
    constexpr uint64_t kLongMessage = uint64_t{4} << 30;
    if (source.allocation_bytes < kCostly || bytes >= kLongMessage || (imports && imports->has(source.allocation_id)))
        return true;
    if (std::find(used_once_.begin(), used_once_.end(), source.allocation_id) != used_once_.end())
        return true;
    used_once_[next_used_once_] = source.allocation_id;
    next_used_once_ = (next_used_once_ + 1) % used_once_.size();
    return false;
}

bool Link::maps(const SourceBuffer& source) {
    if (std::find(unmappable_.begin(), unmappable_.end(), source.allocation_id) != unmappable_.end())
        return false;
    auto opened = open_imports();
    if (opened && !(*opened)->can_open(source))
        return false; // for now
    const Result<void> mapped = opened ? (*opened)->open(source) : Result<void>(std::move(opened).error());
    if (mapped)
        return true;
    base::log(base::LogLevel::kWarn, "memory of rank {} is not mapped, and bounces: {}", peer, mapped.error().detail);
    unmappable_[next_unmappable_] = source.allocation_id;
    next_unmappable_ = (next_unmappable_ + 1) % unmappable_.size();
    return false;
}

Choice Link::reach() {
    if (!reach_)
        reach_ = find_reach(context_, peer);
    return *reach_;
}

bool Link::can_read() {
    if (!can_read_) {
        const platform::RankRecord& record = context_.job.rank(peer);
        can_read_ = platform::can_read_peer(record.pid, record.token);
    }
    return *can_read_;
}

Result<void> Link::close() {
    if (imports)
        GPURUN_TRY(imports->close_all());
    if (peer_slab_ != nullptr)
        GPURUN_TRY(context_.device.close_memory(std::exchange(peer_slab_, nullptr)));
    GPURUN_TRY(outbox.close());
    GPURUN_TRY(channels.close());
    peer_slab_handle.reset();
    if (slab_ != nullptr)
        GPURUN_TRY(context_.device.free(std::exchange(slab_, nullptr)));
    return {};
}

} // namespace gpurun::transfer
