#include "transfer/protocol/graph_part.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/mailbox.hpp"
#include "transfer/protocol/pull.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

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

base::Error not_in_graphs(const std::string& why) {
    return base::error(Status::kUnsupported, "{}; make the call outside of the capture", why);
}

} // namespace

Route GraphPart::route_of(Way way) { return {kProtocol, static_cast<uint8_t>(way)}; }

GraphPart::GraphPart(Resources& resources, Peer& peer)
    : resources_(resources), peer_(peer), channels_(resources.device.channels()),
      at_target_(channels_bytes(resources.workspace.ranks_here())),
      at_source_(channel_counts_bytes(resources.workspace.ranks_here())) {}

GraphPart::~GraphPart() = default;

bool GraphPart::is_open() {
    return peer_.to_self() ? resources_.workspace.has_mailboxes() : peer_.part<MailboxPart>().open();
}

WorkspaceView GraphPart::peers_workspace() const {
    return peer_.to_self() ? own_workspace() : peer_.part<MailboxPart>().workspace();
}

Result<void> GraphPart::check(const Operand& operand) {
    if (channels_ == nullptr)
        return not_in_graphs(
            base::format("messages of graphs need channels, which {} does not have", resources_.device.info().name));
    if (resources_.counters == nullptr)
        return not_in_graphs("messages of graphs need counters, and this rank's streams wait for events "
                             "(GPURUN_FENCE=event)");
    if (!peer_.channel().shares_memory())
        return not_in_graphs(
            base::format("messages of graphs stay on a node, and rank {} is on another", peer_.rank().value));
    if (!resources_.kernels_spin)
        return not_in_graphs("messages of graphs wait in kernels, which would keep the ranks that share this GPU from "
                             "running: there is no MPS (start with gpurun --mps=on, or give each rank a device of its "
                             "own)");
    if (!is_open() && peer_.to_self())
        return not_in_graphs("there is too little device memory for messages of graphs, or GPURUN_MAIL_BYTES=0");
    if (!is_open())
        return not_in_graphs(
            base::format("messages of graphs need mailboxes, and rank {} has none that could be used from here: "
                         "there is no peer access, too little memory, GPURUN_MAIL_BYTES=0, or it shares its device "
                         "with other ranks, and there is no MPS",
                         peer_.rank().value));
    if (operand.on_other_device())
        return not_in_graphs("memory of another device than the rank's cannot be used by a graph's message: copy it to "
                             "the rank's device in the graph, or give that device access to it");
    if (operand.bytes != 0 && operand.where.placement == Placement::kPageable)
        return not_in_graphs("pageable host memory cannot be used by a graph's message: use gpurun_malloc_host() or "
                             "cudaMallocHost()");
    return {};
}

// ---------------------------------------------------------------------------------------------------- source

namespace {

// What is captured cannot move in another way later. Descriptors may not be given, as between network namespaces.
bool is_sure_to_map(const Operand& operand) { return operand.is_mappable() && !operand.where.in_pieces; }

} // namespace

// Where this rank wants what the target reduces of its contribution, if the target can write it there, as it then must.
std::optional<RemoteBuffer> GraphPart::describe_answer(const Send& send) const {
    const auto& place = send.place_of_answer();
    if (!place || !is_sure_to_map(*place) || !(send.envelope().bytes == 0 || is_better_read(send)))
        return std::nullopt;
    const RemoteBuffer answer = peer_.memory().describe(*place);
    return answer.exportable() ? std::optional(answer) : std::nullopt;
}

bool GraphPart::is_better_read(const Send& send) const {
    const Operand& operand = send.operand();
    return send.reduced() == Reduced::kPassedOn && send.envelope().bytes > kLongestPassedOn &&
           is_sure_to_map(operand) && !peer_.to_self() && resources_.captured_exchange.can_reduce();
}

GraphPart::Way GraphPart::way_of(const Send& send) const {
    const Operand& operand = send.operand();
    if (send.envelope().bytes <= largest_in_channel(resources_.workspace.ranks_here()) && !is_better_read(send))
        return Way::kInChannel;
    return way_beside_channel(operand);
}

GraphPart::Way GraphPart::way_beside_channel(const Operand& operand) const {
    const bool is_read = peer_.to_self() ? !operand.in_host_memory() : is_sure_to_map(operand);
    return is_read ? Way::kInPlace : Way::kSlab;
}

std::optional<GraphPart::Source> GraphPart::allot(size_t bytes) {
    const size_t needed = target_bytes(bytes);
    const bool as_signal = needed <= Allotment::kUnit;
    if (!as_signal && at_target_.left() < needed + channels_left_to_signals(resources_.workspace.ranks_here()))
        return std::nullopt;
    const auto at_target = at_target_.take(needed);
    if (!at_target)
        return std::nullopt;
    const auto at_source = at_source_.take(source_bytes(bytes));
    if (!at_source) {
        at_target_.give_back(*at_target, needed);
        return std::nullopt;
    }
    return Source{nullptr, false, *at_target, *at_source, bytes, std::nullopt};
}

// None if there will be room once graphs that have ended are cleared away.
Result<std::optional<GraphPart::Source>> GraphPart::allot_for(const Send& send, Way& way) {
    const Operand& operand = send.operand();
    const uint64_t bytes = send.envelope().bytes;
    way = way_of(send);
    auto source = allot(way == Way::kInChannel ? bytes : 0);
    if (!source && way == Way::kInChannel && clearing_.empty()) {
        way = way_beside_channel(operand); // there is room for signals alone
        source = allot(0);
    }
    if (!source && !some_end())
        return base::error(Status::kMemory,
                           "there is no room for one more captured message to rank {}: {} are in graphs that still "
                           "exist; destroy those that are no longer needed, or capture fewer messages",
                           peer_.rank().value, sources_.size());
    return source;
}

// Whether room will come by itself: some graph is gone, or is being destroyed, and its channel is not free yet.
bool GraphPart::some_end() const {
    return !clearing_.empty() ||
           platform::now_ns() < resources_.place.process->graphs_end_by_ns.load(std::memory_order_relaxed) ||
           std::any_of(sources_.begin(), sources_.end(),
                       [](const auto& each) { return each.second.graph->come.load(std::memory_order_acquire); });
}

void GraphPart::free(const Source& source) {
    at_target_.give_back(source.at_target, target_bytes(source.bytes));
    at_source_.give_back(source.at_source, source_bytes(source.bytes));
    if (source.slab)
        idle_slabs_.push_back(*source.slab);
    if (source.wait != nullptr)
        resources_.pools.graph_notes.give_back(source.wait);
}

void GraphPart::log_runs(device::Channel& channel, uint32_t runs, std::byte* place) const {
    if (runs == 0 || resources_.runs.taken == nullptr)
        return;
    channel.log = &resources_.runs;
    channel.log_place = counters_at(place);
    channel.log_name = runs;
}

Result<device::Channel> GraphPart::source_end(const Source& source, uint32_t runs) {
    std::byte* const here = own_workspace().channel_counts(peer_.rank().value) + source.at_source;
    GPURUN_ASSIGN(Fence * fence, peer_.fence_out());
    device::Channel channel;
    channel.places =
        peers_workspace().channels(resources_.place.self.value) + source.at_target + places_offset(source.bytes);
    channel.turns = counters_at(here);
    channel.taken = counters_at(here + taken_offset(source.bytes));
    channel.bytes = source.bytes;
    channel.alive = &fence->counter(Edge::kBackward, uint32_t{0}); // only the target writes it
    GPURUN_ASSIGN(channel.cut, resources_.pools.graph_notes.cut_mark(peer_.rank().value));
    channel.wait = source.wait;
    log_runs(channel, runs, here + source_log_offset(source.bytes));
    return channel;
}

Result<std::optional<GraphPart::Sent>> GraphPart::send(Send& send) {
    const Operand& operand = send.operand();
    GPURUN_TRY(check(operand));
    GPURUN_TRY(sweep());
    const std::optional<RemoteBuffer> answer = describe_answer(send);
    Way way{};
    GPURUN_ASSIGN(std::optional<Source> source, allot_for(send, way));
    if (!source)
        return std::optional<Sent>();
    auto watched = watch(operand.stream);
    if (!watched) {
        free(*source);
        return std::move(watched).error();
    }
    source->graph = std::move(*watched);
    const uint64_t id = next_id_++;
    Source& kept = sources_.emplace(id, std::move(*source)).first->second;
    kept.ended_at_target = true; // until it knows
    const bool awaits_taken = way == Way::kInPlace || answer || send.synchronous();
    GPURUN_ASSIGN(kept.wait, resources_.pools.graph_notes.take_wait());
    GPURUN_ASSIGN(device::Channel channel, source_end(kept, send.trace().name_of_runs(resources_.trace)));
    GPURUN_TRY(enqueue(channel, send, way, kept, awaits_taken));
    channel.first_of_run = false;
    CapturedMessage message{way, awaits_taken ? 1U : 0U, kept.at_target, kept.at_source, {}};
    GPURUN_ASSIGN(message.source, describe(operand, way, kept));
    kept.ended_at_target = false;
    Record record(RecordKind::kMessage, kProtocol, id);
    record.envelope = send.envelope();
    if (answer)
        send.note_answer_written();
    send.publish_captured(record.with(message), route_of(way),
                          answer ? std::as_bytes(std::span(&*answer, 1)) : std::span<const std::byte>());
    kept.about = Captured{send.envelope(), route_of(way), kept.wait, true};
    return std::optional(Sent{channel, awaits_taken});
}

Result<RemoteBuffer> GraphPart::describe(const Operand& operand, Way way, const Source& source) {
    if (way == Way::kInChannel)
        return RemoteBuffer{};
    Operand where = operand;
    if (way == Way::kSlab) {
        GPURUN_ASSIGN(where.where, resources_.device.describe(source.slab->memory, source.slab->bytes));
        where.address = source.slab->memory;
    }
    const RemoteBuffer described = peer_.memory().describe(where);
    if (way == Way::kInPlace && !peer_.to_self() && !described.exportable())
        return not_in_graphs("the device refuses to export the message's memory, which a graph's peer has to map: "
                             "use memory of cudaMalloc() or gpurun_malloc() that is this process's own");
    return described;
}

Result<void> GraphPart::enqueue(device::Channel channel, Send& send, Way way, Source& source, bool awaits_taken) {
    const Operand& operand = send.operand();
    CapturedExchange& exchange = resources_.captured_exchange;
    channel.last_of_run = false;
    if (way == Way::kSlab) {
        GPURUN_TRY(exchange.launch());
        GPURUN_ASSIGN(source.slab, take_slab(operand.bytes));
        GPURUN_TRY(channels_->channel_await_taken(channel, operand.stream)); // the run before
        GPURUN_TRY(resources_.device.copy(source.slab->memory, operand.address, operand.bytes, operand.stream));
        channel.first_of_run = false;
    }
    channel.last_of_run = !awaits_taken;
    return exchange.put(channel, way == Way::kInChannel ? operand.address : nullptr, operand.stream);
}

Result<GraphPart::Slab> GraphPart::take_slab(size_t bytes) {
    const auto fits = std::find_if(idle_slabs_.begin(), idle_slabs_.end(),
                                   [&](const Slab& slab) { return slab.bytes >= bytes && slab.bytes / 2 <= bytes; });
    if (fits != idle_slabs_.end()) {
        const Slab slab = *fits;
        idle_slabs_.erase(fits);
        return slab;
    }
    GPURUN_ASSIGN(void* const memory, resources_.device.allocate(bytes));
    return Slab{static_cast<std::byte*>(memory), bytes};
}

// ---------------------------------------------------------------------------------------------------- target

Result<device::Channel> GraphPart::target_end(const CapturedMessage& message, size_t bytes, uint32_t runs) {
    std::byte* const here = own_workspace().channels(peer_.rank().value) + message.at_target;
    GPURUN_ASSIGN(Fence * fence, peer_.fence_in());
    device::Channel channel;
    channel.places = here + places_offset(bytes);
    channel.turns = counters_at(here);
    channel.taken = counters_at(peers_workspace().channel_counts(resources_.place.self.value) + message.at_source +
                                taken_offset(bytes));
    channel.bytes = bytes;
    channel.alive = &fence->counter(Edge::kForward, uint32_t{0}); // only the source writes it
    GPURUN_ASSIGN(channel.cut, resources_.pools.graph_notes.cut_mark(peer_.rank().value));
    log_runs(channel, runs, here + target_log_offset(bytes));
    return channel;
}

Result<bool> GraphPart::map_source(const Arrived& arrived, uint64_t bytes, bool must) {
    if (arrived.message.way != Way::kInChannel && bytes != 0 && !peer_.to_self()) {
        GPURUN_ASSIGN(const bool mapped, map(arrived.message.source, must));
        if (!mapped)
            return false;
    }
    return arrived.answer ? map(*arrived.answer, must) : Result<bool>(true);
}

Result<bool> GraphPart::map(const RemoteBuffer& buffer, bool must) {
    GPURUN_ASSIGN(ImportCache * imports, peer_.memory().imports());
    if (!must && !imports->can_open(buffer))
        return false;
    auto opened = imports->open(buffer);
    if (!opened && !must && !imports->can_open(buffer))
        return false; // a graph was launched meanwhile
    GPURUN_TRY(std::move(opened));
    return true;
}

Result<GraphPart::Taken> GraphPart::open(Receive& receive, const Arrived& arrived, const Envelope& envelope,
                                         device::Stream stream) {
    const CapturedMessage& message = arrived.message;
    const uint64_t id = receive.serial_of_send();
    auto watched = watch(stream);
    if (!watched) {
        tell_ended(id); // it has never begun
        return std::move(watched).error();
    }
    const bool pulls = message.way != Way::kInChannel;
    targets_.push_back(Target{std::move(*watched), id});
    Taken taken;
    GPURUN_ASSIGN(taken.channel,
                  target_end(message, pulls ? 0 : envelope.bytes, receive.trace().name_of_runs(resources_.trace)));
    GPURUN_ASSIGN(taken.channel.wait, resources_.pools.graph_notes.take_wait());
    targets_.back().wait = taken.channel.wait;
    targets_.back().about = Captured{envelope, route_of(message.way), taken.channel.wait, false};
    auto& [of_message, of_answer] = targets_.back().allocation_ids;
    if (pulls && receive.bytes() != 0) {
        GPURUN_ASSIGN(taken.from, hold(message.source, of_message));
    }
    if (arrived.answer) {
        GPURUN_ASSIGN(const std::byte* answer, hold(*arrived.answer, of_answer));
        taken.answer = const_cast<std::byte*>(answer);
    }
    receive.count(route_of(message.way), envelope.bytes);
    return taken;
}

Result<void> GraphPart::receive(Receive& receive, const Arrived& arrived, const Envelope& envelope,
                                device::Stream stream) {
    if (arrived.answer)
        return base::Error{Status::kInternal, "an answer that its source counts on can only be written by a reduction"};
    CapturedExchange& exchange = resources_.captured_exchange;
    GPURUN_ASSIGN(const Taken taken, open(receive, arrived, envelope, stream));
    const bool waited_for = !arrived.message.waits_for_nobody(); // the source may put others only once it is taken
    if (waited_for)
        GPURUN_TRY(exchange.launch());
    if (arrived.message.way != Way::kInChannel)
        return pull(taken.channel, taken.from, receive.operand(), receive.bytes(), stream);
    GPURUN_TRY(exchange.take(taken.channel, receive.operand().address, receive.bytes(), stream));
    return waited_for ? exchange.launch() : Result<void>();
}

Result<const std::byte*> GraphPart::hold(const RemoteBuffer& buffer, uint64_t& allocation_id) {
    if (peer_.to_self())
        return reinterpret_cast<const std::byte*>(buffer.address);
    GPURUN_ASSIGN(ImportCache * imports, peer_.memory().imports());
    GPURUN_ASSIGN(const std::byte* address, imports->hold(buffer));
    allocation_id = buffer.allocation_id;
    return address;
}

Result<void> GraphPart::pull(device::Channel channel, const std::byte* from, const Operand& operand, uint64_t bytes,
                             device::Stream stream) {
    const bool by_kernel = bytes != 0 && bytes <= resources_.settings.kernel_copy_bytes && !operand.in_host_memory();
    if (!by_kernel || device::copy_blocks(bytes) > resources_.pools.kernels.blocks_in_graph())
        GPURUN_TRY(resources_.captured_exchange.await_put(channel, stream));
    if (by_kernel) {
        auto* const ticket =
            reinterpret_cast<uint32_t*>(reinterpret_cast<std::byte*>(channel.turns) + ticket_offset(0));
        return channels_->channel_pull(channel, operand.address, from, bytes, ticket, stream);
    }
    if (bytes != 0)
        GPURUN_TRY(resources_.device.copy(operand.address, from, bytes, stream));
    return channels_->channel_tell_taken(channel, stream);
}

// ---------------------------------------------------------------------------------------------------- ends

Result<std::shared_ptr<GraphPart::GraphEnd>> GraphPart::watch(device::Stream captured) {
    auto end = std::make_shared<GraphEnd>();
    end->ends = ends_;
    const auto comes = [](void* argument) {
        const std::unique_ptr<std::shared_ptr<GraphEnd>> held(static_cast<std::shared_ptr<GraphEnd>*>(argument));
        (*held)->come.store(true, std::memory_order_release);
        (*held)->ends->count.fetch_add(1, std::memory_order_release); // pairs with none_has_ended()
    };
    resources_.place.captures->store(1, std::memory_order_relaxed);
    peer_.attend(kProtocol); // until all graphs with its messages are gone: other threads tell
    GPURUN_TRY(resources_.device.graphs()->at_graph_end(captured, comes, new std::shared_ptr<GraphEnd>(end)));
    return end;
}

// A notice of this protocol has no body: its serial is the message's name.
void GraphPart::tell_ended(uint64_t id) { peer_.tell(Record(RecordKind::kNotice, kProtocol, id)); }

void GraphPart::on_notice(const Record& notice) {
    const auto found = sources_.find(notice.serial);
    if (found == sources_.end())
        return;
    found->second.ended_at_target = true;
    --ends_seen_; // there may be something to clear at the next sweep
}

bool GraphPart::progress() {
    if (auto swept = sweep(); !swept)
        base::log(base::LogLevel::kWarn, "clearing after captured messages to rank {}: {}", peer_.rank().value,
                  swept.error().detail);
    return false;
}

void GraphPart::sweep_targets() {
    for (size_t i = 0; i < targets_.size();) {
        Target& target = targets_[i];
        if (!target.graph->come.load(std::memory_order_acquire)) {
            ++i;
            continue;
        }
        for (const uint64_t each : target.allocation_ids)
            if (each != 0)
                peer_.memory().open_imports()->release(each);
        tell_ended(target.id);
        if (target.wait != nullptr)
            resources_.pools.graph_notes.give_back(target.wait);
        target = std::move(targets_.back());
        targets_.pop_back();
    }
}

// After graphs have ended: tells the peer, clears channels, frees what is clear.
Result<void> GraphPart::sweep() {
    if (none_has_ended())
        return {};
    ends_seen_ = ends_->count.load(std::memory_order_acquire);
    sweep_targets();
    GPURUN_TRY(clear_ended());
    for (size_t i = 0; i < clearing_.size();) {
        GPURUN_ASSIGN(const bool done, resources_.device.query(clearing_[i].done.get()));
        if (!done) {
            ++i;
            continue;
        }
        free(clearing_[i].source);
        clearing_[i] = std::move(clearing_.back());
        clearing_.pop_back();
    }
    return {};
}

Result<void> GraphPart::clear_ended() {
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

// Sets the channel's memory to 0, as it has to be before the first run.
Result<void> GraphPart::clear(Source source) {
    GPURUN_ASSIGN(const device::Stream stream, resources_.pools.streams.take());
    std::byte* const there = peers_workspace().channels(resources_.place.self.value) + source.at_target;
    std::byte* const here = own_workspace().channel_counts(peer_.rank().value) + source.at_source;
    auto filled = resources_.device.fill(there, 0, target_bytes(source.bytes), stream);
    if (filled)
        filled = resources_.device.fill(here, 0, source_bytes(source.bytes), stream);
    auto done = resources_.pools.events.record(stream);
    resources_.pools.streams.give_back(stream, InternalStreams::State::kRunning);
    GPURUN_TRY(std::move(filled));
    if (!done)
        return std::move(done).error();
    clearing_.push_back(Clearing{std::move(source), EventLease(resources_.pools.events, *done)});
    return {};
}

Result<void> GraphPart::let_go() {
    for (auto& [id, source] : sources_)
        if (source.slab)
            idle_slabs_.push_back(*source.slab);
    for (const Clearing& each : clearing_)
        if (each.source.slab)
            idle_slabs_.push_back(*each.source.slab);
    sources_.clear();
    clearing_.clear();
    return {};
}

Result<void> GraphPart::close() {
    Result<void> result;
    for (const Slab& slab : idle_slabs_)
        if (auto freed = resources_.device.free(slab.memory); !freed && result)
            result = std::move(freed);
    idle_slabs_.clear();
    return result;
}

} // namespace gpurun::transfer
