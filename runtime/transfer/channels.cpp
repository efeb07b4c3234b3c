#include "transfer/channels.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "transfer/link.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using base::Status;
using device::channel_lanes;
using device::Placement;

namespace {

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// At the target: a run count for each lane, the place of the run in the log, a ticket, the places.
constexpr size_t target_log_offset(size_t bytes) { return channel_lanes(bytes) * sizeof(uint64_t); }
constexpr size_t ticket_offset(size_t bytes) { return target_log_offset(bytes) + sizeof(uint64_t); }
constexpr size_t places_offset(size_t bytes) { return round_up(ticket_offset(bytes) + sizeof(uint32_t), 16); }
constexpr size_t target_bytes(size_t bytes) {
    return places_offset(bytes) + device::kChannelPlaces * device::channel_place_bytes(bytes);
}
// At the source: a run count for each lane, the place in the log, and how many runs were taken, which the target
// writes.
constexpr size_t source_log_offset(size_t bytes) { return channel_lanes(bytes) * sizeof(uint64_t); }
constexpr size_t taken_offset(size_t bytes) { return round_up(source_log_offset(bytes) + sizeof(uint64_t), 64); }
constexpr size_t source_bytes(size_t bytes) { return taken_offset(bytes) + channel_lanes(bytes) * sizeof(uint64_t); }

uint64_t* counters_at(std::byte* address) { return reinterpret_cast<uint64_t*>(address); }

// Of a kCaptured record's slot; 0: the message is in the channel.
constexpr uint32_t kValidInPlace = 1;
constexpr uint32_t kValidSlab = 2;

base::Error not_in_graphs(const std::string& why) {
    return base::error(Status::kUnsupported, "{}; make the call outside of the capture", why);
}

} // namespace

// ---------------------------------------------------------------------------------------------------- memory

std::optional<size_t> Allotment::take(size_t bytes) {
    const size_t needed = round_up(bytes, kUnit);
    const auto fits = std::find_if(free_.begin(), free_.end(), [&](const auto& part) { return part.second >= needed; });
    if (fits == free_.end())
        return std::nullopt;
    const auto [offset, size] = *fits;
    free_.erase(fits);
    if (size > needed)
        free_.emplace(offset + needed, size - needed);
    return offset;
}

void Allotment::give_back(size_t offset, size_t bytes) {
    auto part = free_.emplace(offset, round_up(bytes, kUnit)).first;
    if (const auto next = std::next(part); next != free_.end() && part->first + part->second == next->first) {
        part->second += next->second;
        free_.erase(next);
    }
    if (part == free_.begin())
        return;
    if (const auto before = std::prev(part); before->first + before->second == part->first) {
        before->second += part->second;
        free_.erase(part);
    }
}

Choice Channels::choice_of(const Record& record) {
    const uint32_t valid = record.slot.valid;
    return {valid == 0 ? Path::kMailbox : valid == kValidSlab ? Path::kBounce : Path::kDirect, Reason::kCaptured};
}

Channels::Channels(Context& context, Link& link)
    : context_(context), link_(link), at_target_(kChannelsBytes), at_source_(kChannelCountsBytes) {}

Channels::~Channels() = default;

Result<void> Channels::check(const Operand& operand) {
    if (context_.uses_event_fence())
        return not_in_graphs("messages of graphs need counters, and this rank's streams wait for events "
                             "(GPURUN_FENCE=event, or a device that lacks them)");
    if (!context_.kernels_wait)
        return not_in_graphs("messages of graphs wait in kernels, which would keep the ranks that share this GPU from "
                             "running: there is no MPS (start with gpurun --mps=on)");
    if (!link_.open_channels())
        return not_in_graphs(
            base::format("messages of graphs need mailboxes, and rank {} has none that could be used from here: "
                         "there is no peer access, too little memory, or GPURUN_MAIL_BYTES=0",
                         link_.peer));
    if (operand.elsewhere())
        return not_in_graphs("memory of another device than the rank's cannot be used by a graph's message: copy it to "
                             "the rank's device in the graph, or give that device access to it");
    if (operand.bytes != 0 && operand.where.placement == Placement::kPageable)
        return not_in_graphs("pageable host memory cannot be used by a graph's message: use gpurun_malloc_host() or "
                             "cudaMallocHost()");
    return {};
}

// ---------------------------------------------------------------------------------------------------- source

Channels::Way Channels::way_of(const Operand& operand, uint64_t bytes) const {
    if (bytes <= device::kLargestInChannel)
        return Way::kInChannel;
    if (link_.to_self ? !operand.in_host_memory() : operand.where.exportable)
        return Way::kInPlace;
    return Way::kSlab;
}

std::optional<Channels::Source> Channels::allot(size_t bytes) {
    const auto at_target = at_target_.take(target_bytes(bytes));
    if (!at_target)
        return std::nullopt;
    const auto at_source = at_source_.take(source_bytes(bytes));
    if (!at_source) {
        at_target_.give_back(*at_target, target_bytes(bytes));
        return std::nullopt;
    }
    return Source{nullptr, false, *at_target, *at_source, bytes, std::nullopt};
}

// Room will come without anybody's doing: a graph is gone here, or on its way, and the target, or the device, has not
// followed yet.
bool Channels::some_end() const {
    return !clearing_.empty() || platform::now_ns() < context_.graphs_end_by_ns.load(std::memory_order_relaxed) ||
           std::any_of(sources_.begin(), sources_.end(),
                       [](const auto& each) { return each.second.graph->come.load(std::memory_order_acquire); });
}

void Channels::free(const Source& source) {
    at_target_.give_back(source.at_target, target_bytes(source.bytes));
    at_source_.give_back(source.at_source, source_bytes(source.bytes));
    if (source.slab)
        idle_slabs_.push_back(*source.slab);
    if (source.wait != nullptr)
        context_.channel_waits.give_back(source.wait);
}

void Channels::log_runs(device::Channel& channel, uint32_t runs, std::byte* place) const {
    if (runs == 0 || context_.runs.taken == nullptr)
        return;
    channel.log = &context_.runs;
    channel.log_place = counters_at(place);
    channel.log_name = runs;
}

Result<device::Channel> Channels::source_end(const Source& source, uint32_t runs) {
    std::byte* const here = context_.workspace.channel_counts(link_.peer) + source.at_source;
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    device::Channel channel;
    channel.places = link_.peers_channels() + source.at_target + places_offset(source.bytes);
    channel.turns = counters_at(here);
    channel.taken = counters_at(here + taken_offset(source.bytes));
    channel.bytes = source.bytes;
    channel.alive = &fence->counter(Edge::kBackward, 0); // only the target writes it
    GPURUN_ASSIGN(channel.cut, context_.cut_marks.mark(link_.peer, context_.job.size()));
    channel.wait = source.wait;
    log_runs(channel, runs, here + source_log_offset(source.bytes));
    return channel;
}

Result<std::optional<Channels::Sent>> Channels::send(const Operand& operand, const Envelope& envelope, bool synchronous,
                                                     uint32_t runs) {
    GPURUN_TRY(check(operand));
    GPURUN_TRY(sweep());
    Way way = way_of(operand, envelope.bytes);
    auto source = allot(way == Way::kInChannel ? envelope.bytes : 0);
    if (!source && way == Way::kInChannel && clearing_.empty() && operand.where.exportable && !link_.to_self) {
        way = Way::kInPlace; // there is less room than for a signal
        source = allot(0);
    }
    if (!source) {
        if (some_end())
            return std::optional<Sent>();
        return base::error(Status::kMemory,
                           "there is no room for one more captured message to rank {}: {} are in graphs that still "
                           "exist; destroy those that are no longer needed, or capture fewer messages",
                           link_.peer, sources_.size());
    }
    auto watched = watch(operand.stream);
    if (!watched) {
        free(*source);
        return std::move(watched).error();
    }
    source->graph = std::move(*watched);
    const uint64_t id = next_id_++;
    Source& kept = sources_.emplace(id, std::move(*source)).first->second;
    kept.ended_at_target = true; // until it knows
    const bool awaits_taken = way == Way::kInPlace || synchronous;
    GPURUN_ASSIGN(kept.wait, context_.channel_waits.take());
    GPURUN_ASSIGN(device::Channel channel, source_end(kept, runs));
    GPURUN_TRY(enqueue(channel, operand, way, kept, awaits_taken));
    channel.first_of_run = false;
    Record record{};
    record.kind = RecordKind::kCaptured;
    record.serial = id;
    record.envelope = envelope;
    record.slot.slot = static_cast<uint32_t>(kept.at_target);
    record.slot.valid = way == Way::kInChannel ? 0 : way == Way::kInPlace ? kValidInPlace : kValidSlab;
    record.slot.value = kept.at_source;
    if (way == Way::kSlab) {
        GPURUN_ASSIGN(const device::Buffer slab, context_.device.describe(kept.slab->memory, kept.slab->bytes));
        Operand copied = operand;
        copied.where = slab;
        copied.address = kept.slab->memory;
        link_.describe_source(copied, record.source);
    } else if (way == Way::kInPlace) {
        link_.describe_source(operand, record.source);
        if (!link_.to_self && record.source.exportable == 0)
            return not_in_graphs("the device refuses to export the message's memory, which a graph's peer has to map: "
                                 "use memory of cudaMalloc() or gpurun_malloc() that is this process's own");
    }
    kept.ended_at_target = false;
    link_.tell(record);
    const Choice choice = choice_of(record);
    kept.about = Captured{envelope, choice, kept.wait, true};
    link_.sent.count(choice, envelope.bytes);
    return std::optional(Sent{channel, awaits_taken, choice});
}

Result<void> Channels::enqueue(device::Channel channel, const Operand& operand, Way way, Source& source,
                               bool awaits_taken) {
    device::Device& device = context_.device;
    channel.last_of_run = false;
    if (way == Way::kSlab) {
        GPURUN_ASSIGN(source.slab, take_slab(operand.bytes));
        GPURUN_TRY(device.channel_await_taken(channel, operand.stream)); // the run before
        GPURUN_TRY(device.copy(source.slab->memory, operand.address, operand.bytes, operand.stream));
        channel.first_of_run = false;
    }
    channel.last_of_run = !awaits_taken;
    return device.channel_put(channel, way == Way::kInChannel ? operand.address : nullptr, operand.stream);
}

Result<Channels::Slab> Channels::take_slab(size_t bytes) {
    const auto fits = std::find_if(idle_slabs_.begin(), idle_slabs_.end(),
                                   [&](const Slab& slab) { return slab.bytes >= bytes && slab.bytes / 2 <= bytes; });
    if (fits != idle_slabs_.end()) {
        const Slab slab = *fits;
        idle_slabs_.erase(fits);
        return slab;
    }
    GPURUN_ASSIGN(void* memory, context_.device.allocate(bytes));
    return Slab{static_cast<std::byte*>(memory), bytes};
}

// ---------------------------------------------------------------------------------------------------- target

Result<device::Channel> Channels::target_end(const Record& record, size_t bytes, uint32_t runs) {
    std::byte* const here = context_.workspace.channels(link_.peer) + record.slot.slot;
    GPURUN_ASSIGN(Fence * fence, link_.in.fence());
    device::Channel channel;
    channel.places = here + places_offset(bytes);
    channel.turns = counters_at(here);
    channel.taken = counters_at(link_.peers_channel_counts() + record.slot.value + taken_offset(bytes));
    channel.bytes = bytes;
    channel.alive = &fence->counter(Edge::kForward, 0); // only the source writes it
    GPURUN_ASSIGN(channel.cut, context_.cut_marks.mark(link_.peer, context_.job.size()));
    log_runs(channel, runs, here + target_log_offset(bytes));
    return channel;
}

Result<bool> Channels::map_source(const Record& record, uint64_t bytes, bool must) {
    if (record.slot.valid == 0 || bytes == 0 || link_.to_self)
        return true;
    GPURUN_ASSIGN(ImportCache * imports, link_.open_imports());
    if (!must && !imports->can_open(record.source))
        return false;
    auto opened = imports->open(record.source);
    if (!opened && !must && !imports->can_open(record.source))
        return false; // a graph was launched meanwhile
    GPURUN_TRY(std::move(opened));
    return true;
}

Result<void> Channels::receive(const Record& record, const Operand& operand, uint64_t bytes, device::Stream stream,
                               bool one_of_many, uint32_t runs) {
    auto watched = watch(stream);
    if (!watched) {
        tell_ended(record.serial); // it has never begun
        return std::move(watched).error();
    }
    targets_.push_back(Target{std::move(*watched), record.serial, 0});
    const bool pulls = record.slot.valid != 0;
    GPURUN_ASSIGN(device::Channel channel, target_end(record, pulls ? 0 : record.envelope.bytes, runs));
    GPURUN_ASSIGN(channel.wait, context_.channel_waits.take());
    targets_.back().wait = channel.wait;
    targets_.back().about = Captured{record.envelope, choice_of(record), channel.wait, false};
    const std::byte* from = nullptr;
    if (pulls && bytes != 0) {
        GPURUN_ASSIGN(from, find_source(record, targets_.back()));
    }
    link_.received.count(choice_of(record), record.envelope.bytes);
    const bool awaits_first = one_of_many && bytes > device::kLaneBytes;
    if (pulls)
        return pull(channel, from, operand, bytes, stream, awaits_first);
    if (awaits_first)
        GPURUN_TRY(await_put(channel, stream));
    return context_.device.channel_take(channel, operand.address, bytes, stream);
}

// The first operation of its run, behind which comes the last.
Result<void> Channels::await_put(device::Channel& channel, device::Stream stream) {
    channel.last_of_run = false;
    GPURUN_TRY(context_.device.channel_await_put(channel, stream));
    channel.first_of_run = false;
    channel.last_of_run = true;
    return {};
}

Result<const std::byte*> Channels::find_source(const Record& record, Target& target) {
    if (link_.to_self)
        return reinterpret_cast<const std::byte*>(record.source.address);
    GPURUN_ASSIGN(ImportCache * imports, link_.open_imports());
    GPURUN_ASSIGN(const std::byte* from, imports->hold(record.source));
    target.allocation_id = record.source.allocation_id;
    return from;
}

Result<void> Channels::pull(device::Channel channel, const std::byte* from, const Operand& operand, uint64_t bytes,
                            device::Stream stream, bool awaits_first) {
    constexpr uintptr_t kAligned = 16;
    device::Device& device = context_.device;
    const bool aligned =
        (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(operand.address)) % kAligned == 0;
    const bool by_kernel =
        bytes != 0 && aligned && bytes <= context_.settings.kernel_copy_bytes && !operand.in_host_memory();
    if (awaits_first || !by_kernel)
        GPURUN_TRY(await_put(channel, stream));
    if (by_kernel) {
        auto* const ticket =
            reinterpret_cast<uint32_t*>(reinterpret_cast<std::byte*>(channel.turns) + ticket_offset(0));
        return device.channel_pull(channel, operand.address, from, bytes, ticket, stream);
    }
    if (bytes != 0)
        GPURUN_TRY(device.copy(operand.address, from, bytes, stream));
    return device.channel_tell_taken(channel, stream);
}

// ---------------------------------------------------------------------------------------------------- ends

Result<std::shared_ptr<Channels::GraphEnd>> Channels::watch(device::Stream captured) {
    auto end = std::make_shared<GraphEnd>();
    end->ends = ends_;
    const auto comes = [](void* argument) {
        const std::unique_ptr<std::shared_ptr<GraphEnd>> held(static_cast<std::shared_ptr<GraphEnd>*>(argument));
        (*held)->come.store(true, std::memory_order_release);
        (*held)->ends->count.fetch_add(1, std::memory_order_release); // pairs with quiet()
    };
    context_.job.rank(context_.rank).captures.store(1, std::memory_order_relaxed);
    GPURUN_TRY(context_.device.at_graph_end(captured, comes, new std::shared_ptr<GraphEnd>(end)));
    return end;
}

void Channels::tell_ended(uint64_t id) {
    Record record{};
    record.kind = RecordKind::kChannelEnded;
    record.serial = id;
    link_.tell(record);
}

void Channels::ended_at_target(uint64_t id) {
    const auto found = sources_.find(id);
    if (found == sources_.end())
        return;
    found->second.ended_at_target = true;
    --ends_seen_; // there may be something to clear: not quiet() until the next sweep
}

Result<void> Channels::sweep() {
    if (quiet())
        return {};
    ends_seen_ = ends_->count.load(std::memory_order_acquire);
    for (size_t i = 0; i < targets_.size();) {
        if (!targets_[i].graph->come.load(std::memory_order_acquire)) {
            ++i;
            continue;
        }
        if (targets_[i].allocation_id != 0)
            link_.imports->release(targets_[i].allocation_id);
        tell_ended(targets_[i].id);
        if (targets_[i].wait != nullptr)
            context_.channel_waits.give_back(targets_[i].wait);
        targets_[i] = std::move(targets_.back());
        targets_.pop_back();
    }
    GPURUN_TRY(clear_ended());
    for (size_t i = 0; i < clearing_.size();) {
        Clearing& each = clearing_[i];
        GPURUN_ASSIGN(const bool done, context_.device.query(each.done));
        if (!done) {
            ++i;
            continue;
        }
        context_.events.give_back(each.done);
        free(each.source);
        each = std::move(clearing_.back());
        clearing_.pop_back();
    }
    return {};
}

Result<void> Channels::clear_ended() {
    for (auto each = sources_.begin(); each != sources_.end();) {
        Source& source = each->second;
        if (!source.ended_at_target || !source.graph->come.load(std::memory_order_acquire)) {
            ++each;
            continue;
        }
        Source ended = std::move(source);
        each = sources_.erase(each);
        GPURUN_TRY(clear(std::move(ended)));
    }
    return {};
}

// A channel's memory reads 0 before its first run.
Result<void> Channels::clear(Source source) {
    GPURUN_ASSIGN(const device::Stream stream, context_.streams.take());
    std::byte* const there = link_.peers_channels() + source.at_target;
    std::byte* const here = context_.workspace.channel_counts(link_.peer) + source.at_source;
    auto filled = context_.device.fill(there, 0, target_bytes(source.bytes), stream);
    if (filled)
        filled = context_.device.fill(here, 0, source_bytes(source.bytes), stream);
    auto done = context_.events.mark(stream);
    context_.streams.take_back(stream, Streams::State::kRunning);
    GPURUN_TRY(std::move(filled));
    if (!done)
        return std::move(done).error();
    clearing_.push_back(Clearing{std::move(source), *done});
    return {};
}

void Channels::let_go() {
    for (auto& [id, source] : sources_)
        if (source.slab)
            idle_slabs_.push_back(*source.slab);
    for (const Clearing& each : clearing_)
        if (each.source.slab)
            idle_slabs_.push_back(*each.source.slab);
    sources_.clear();
    clearing_.clear();
}

Result<void> Channels::close() {
    let_go();
    Result<void> result;
    for (const Slab& slab : idle_slabs_)
        if (auto freed = context_.device.free(slab.memory); !freed && result)
            result = std::move(freed);
    idle_slabs_.clear();
    return result;
}

} // namespace gpurun::transfer
