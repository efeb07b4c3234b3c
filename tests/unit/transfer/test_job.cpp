#include "test_job.hpp"

#include "device/capability/counters.hpp"
#include "device/capability/ordered_memory.hpp"
#include "device/open.hpp"
#include "platform/wake.hpp"
#include "transfer/channel/gpu_sharing.hpp"
#include "transfer/channel/shm_channel.hpp"

#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace gpurun::test {

using device::Placement;
using transfer::Domain;
using transfer::Operand;

namespace {

constexpr size_t kMemoryBytes = size_t{4} << 30; // sparse; a 64th of it is enough for mailboxes

std::unique_ptr<ScriptedDevice> open(const platform::JobSegment& job, uint32_t self, const Setting& setting) {
    device::Options options;
    options.selector =
        setting.one_device ? "emulated:0/1" : "emulated:" + std::to_string(self) + "/" + std::to_string(job.size());
    options.emulated_memory_bytes = kMemoryBytes;
    options.emulated_peer_access = setting.peer_access;
    options.emulated_seed = setting.settings.emulated_seed;
    options.emulated_delay_us = setting.settings.emulated_delay_us;
    return std::make_unique<ScriptedDevice>(must(device::open_device(options)));
}

} // namespace

// ---------------------------------------------------------------------------------------------------------- a rank

TestRank::TestRank(const platform::JobSegment& job_, uint32_t self_, const Setting& setting_)
    : job(job_), self(self_), setting(setting_), device(open(job, self, setting)),
      copies_(must(device->real().create_stream())) {
    platform::RankRecord& record = job.rank(self);
    record.state.store(static_cast<uint32_t>(platform::RankState::kAlive));
    record.pid = ::getpid();
    record.token = platform::own_token();
    transfer::RankFacts facts;
    probe_.emplace(must(transfer::Probe::publish(*device, self, facts)));
    workspace_.emplace(
        must(transfer::Workspace::publish(*device, setting.settings, transfer::WorkspaceRanks::of(job), facts)));
    transfer::ShmChannel::publish(record, facts);
}

void TestRank::connect(const std::vector<TestRank*>& all) {
    const transfer::Resources::Place place{.self = {self},
                                           .ranks = job.size(),
                                           .ranks_on_device = transfer::ranks_on_device(job, self),
                                           .takes_turns = transfer::takes_turns(job, setting.mps, self),
                                           .core_for_each_rank = setting.core_for_each_rank,
                                           .captures = &job.rank(self).captures,
                                           .process = &process_};
    process_.engines = 1;
    resources_ = std::make_unique<transfer::Resources>(*device, setting.settings, place, *workspace_,
                                                       transfer::protocols(), setting.trace, runs_);
    for (const TestRank* each : all) {
        if (each != this)
            REQUIRE_OK(device->add_peer(static_cast<int>(each->self), each->device->info().identity,
                                        ::dup(each->device->shareable_fd())));
        auto shared = must(transfer::ShmChannel::open(*device, job, {self}, {each->self},
                                                      {.events = resources_->counters == nullptr, .mps = setting.mps}));
        peers_.push_back(std::make_unique<transfer::Peer>(
            *resources_, std::make_unique<InterceptedChannel>(std::move(shared)), transfer::part_makers()));
    }
}

TestRank::~TestRank() {
    device->works_for = SIZE_MAX;
    (void)device->real().synchronize_all(); // what streams still write belongs to the rank
}

Operand TestRank::pageable(size_t bytes) {
    Operand made;
    made.address = pageable_.emplace_back(bytes + 1).data();
    made.bytes = bytes;
    made.where = must(device->real().describe(made.address, bytes));
    return made;
}

Operand TestRank::pinned(size_t bytes) {
    Operand made;
    made.address = static_cast<std::byte*>(must(device->real().allocate_pinned(bytes)));
    made.bytes = bytes;
    made.where = must(device->real().describe(made.address, bytes));
    return made;
}

Operand TestRank::on_device(size_t bytes) {
    Operand made;
    made.address = static_cast<std::byte*>(must(device->real().allocate(bytes)));
    made.bytes = bytes;
    made.where = must(device->real().describe(made.address, bytes));
    return made;
}

Operand TestRank::ordered(size_t bytes) {
    const device::Stream stream = must(device->real().create_stream());
    Operand made;
    made.address = static_cast<std::byte*>(must(device->real().ordered_memory()->allocate_ordered(bytes, stream)));
    REQUIRE_OK(device->real().synchronize(stream));
    made.bytes = bytes;
    made.where = must(device->real().describe(made.address, bytes));
    return made;
}

Operand TestRank::on_stream(Operand operand) { return on_stream(operand, must(device->real().create_stream())); }

Operand TestRank::on_stream(Operand operand, device::Stream stream) {
    operand.domain = Domain::kStream;
    operand.stream = stream;
    return operand;
}

std::vector<std::byte> TestRank::pattern(size_t bytes, int pattern) {
    std::vector<std::byte> made(bytes);
    for (size_t i = 0; i < bytes; ++i)
        made[i] = static_cast<std::byte>(1 + (i * 131 + static_cast<size_t>(pattern) * 17) % 251);
    return made;
}

void TestRank::copy_at_once(void* destination, const void* source, size_t bytes) {
    REQUIRE_OK(device->real().copy(destination, source, bytes, copies_));
    REQUIRE_OK(device->real().synchronize(copies_));
}

void TestRank::fill(const Operand& operand, int number) {
    const std::vector<std::byte> content = pattern(operand.bytes, number);
    if (operand.bytes == 0)
        return;
    if (operand.in_host_memory()) {
        std::memcpy(operand.address, content.data(), operand.bytes);
        return;
    }
    void* const pinned = must(device->real().allocate_pinned(operand.bytes));
    std::memcpy(pinned, content.data(), operand.bytes);
    copy_at_once(operand.address, pinned, operand.bytes);
    REQUIRE_OK(device->real().free_pinned(pinned));
}

std::vector<std::byte> TestRank::contents(const Operand& operand) {
    std::vector<std::byte> content(operand.bytes);
    if (operand.bytes == 0)
        return content;
    if (operand.in_host_memory()) {
        std::memcpy(content.data(), operand.address, operand.bytes);
        return content;
    }
    void* const pinned = must(device->real().allocate_pinned(operand.bytes));
    copy_at_once(pinned, operand.address, operand.bytes);
    std::memcpy(content.data(), pinned, operand.bytes);
    REQUIRE_OK(device->real().free_pinned(pinned));
    return content;
}

void TestRank::fill_in_order(const Operand& operand, int number) {
    if (!operand.on_stream() || operand.bytes == 0) {
        fill(operand, number);
        return;
    }
    Operand from = pinned(operand.bytes);
    fill(from, number);
    if (operand.in_host_memory())
        REQUIRE_OK(pools().host_copies.enqueue(operand.stream, {operand.address, from.address, operand.bytes}));
    else
        REQUIRE_OK(device->real().copy(operand.address, from.address, operand.bytes, operand.stream));
}

std::vector<std::byte> TestRank::contents_in_order(const Operand& operand) {
    if (operand.on_stream())
        REQUIRE(comes_true([&] { return idle(operand.stream); }));
    return contents(operand);
}

bool TestRank::poll(transfer::Peer& peer) {
    auto& channel = static_cast<InterceptedChannel&>(peer.channel());
    const bool any = channel.has_records();
    while (channel.has_records()) {
        const InterceptedChannel::Posted message = std::move(channel.arrived.front());
        channel.pop();
        const transfer::Record& record = message.record;
        if (record.kind == transfer::RecordKind::kMessage) {
            if (!match || !match(peer, message))
                kept.push_back(message);
        } else if (record.kind == transfer::RecordKind::kToSend) {
            if (transfer::Send* const send = peer.sends.find(record.serial))
                send->answer(record);
        } else if (record.kind == transfer::RecordKind::kToReceive) {
            if (transfer::Receive* const receive = peer.receives.find(record.serial))
                receive->answer(record);
        } else {
            peer.on_notice(record);
        }
    }
    return any;
}

bool TestRank::advance_moving() {
    bool changed = false;
    resources_->moving.for_each([&](transfer::Operation& each) {
        const bool was_enqueued = each.enqueued();
        each.advance();
        changed |= each.done() || each.enqueued() != was_enqueued || each.is_busy();
    });
    return changed;
}

// Whenever a relay has moved a chunk.
size_t TestRank::told() const {
    size_t told = 0;
    for (const auto& each : peers_)
        told += static_cast<InterceptedChannel&>(each->channel()).notified.size();
    return told;
}

bool TestRank::progress() {
    const size_t told_before = told();
    bool moved = false;
    for (const auto& each : peers_) {
        moved |= poll(*each);
        if (!each->quiet()) {
            moved |= each->progress();
            moved |= transfer::post_waiting(*each);
        }
    }
    pools().markers.look_again();
    if (!resources_->fused.empty()) {
        (void)resources_->fused.launch(); // who waits for one that could not be launched is told by its edge
        moved = true;
    }
    if (!resources_->exchanges.empty()) {
        resources_->exchanges.launch();
        moved = true;
    }
    moved |= advance_moving();
    return moved || told() != told_before;
}

void TestRank::lose(uint32_t rank) {
    transfer::Peer& lost = peer(rank);
    lost.set_lost();
    note_lost_streams(lost, lost.awaiting_backward, transfer::Edge::kBackward, transfer::Direction::kOut);
    note_lost_streams(lost, lost.awaiting_forward, transfer::Edge::kForward, transfer::Direction::kIn);
    device->release_peer(static_cast<int>(rank));
    const base::Error error{base::Status::kPeerLost, "the rank has died"};
    lost.unposted.for_each([&](transfer::Send& each) { each.fail(error); });
    lost.sends.for_each([&](transfer::Send& each) { each.fail_unless_complete(error); });
    lost.receives.for_each([&](transfer::Receive& each) { each.fail_unless_complete(error); });
    lost.for_each_part([&](transfer::ProtocolPart& each) { each.lose(error); });
    resources_->moving.for_each([&](transfer::Operation& each) {
        if (each.peer() == &lost)
            each.fail_unless_complete(error);
    });
}

void TestRank::note_lost_streams(transfer::Peer& peer, const transfer::DependentStreams& streams, transfer::Edge edge,
                                 transfer::Direction direction) {
    transfer::Fence& fence = *must(peer.channel().fence(direction));
    streams.for_each([&](const transfer::DependentStreams::Entry& each) {
        if (each.stream && must(fence.cut_short(edge, each.slot)))
            lost_streams.push_back(*each.stream);
    });
}

namespace {

template <typename Visit>
void for_each_fence(const std::vector<std::unique_ptr<transfer::Peer>>& peers, const Visit& visit) {
    for (const auto& each : peers)
        for (const auto direction : {transfer::Direction::kOut, transfer::Direction::kIn})
            if (transfer::Fence* const fence = each->channel().open_fence(direction))
                visit(*fence);
}

} // namespace

void TestRank::isolate() {
    for_each_fence(peers_, [](transfer::Fence& fence) {
        constexpr size_t kBytes = platform::kFenceSlots * sizeof(platform::FenceSlot);
        void* const counters = &fence.counter(transfer::Edge::kForward, uint32_t{0});
        const std::vector<std::byte> now(static_cast<std::byte*>(counters), static_cast<std::byte*>(counters) + kBytes);
        constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        REQUIRE(::mmap(counters, kBytes, PROT_READ | PROT_WRITE, kOwn, -1, 0) == counters);
        std::memcpy(counters, now.data(), kBytes);
    });
}

void TestRank::release() {
    for_each_fence(peers_, [](transfer::Fence& fence) {
        for (uint32_t slot = 0; slot < platform::kFenceSlots; ++slot)
            for (const auto edge : {transfer::Edge::kForward, transfer::Edge::kBackward}) {
                fence.counter(edge, slot).fetch_or(platform::kPoison);
                platform::wake_all(fence.counter(edge, slot));
            }
    });
}

std::string TestRank::left() {
    std::string left;
    const auto note = [&](const char* what, bool is_left) { left += is_left ? std::string(" ") + what : ""; };
    note("internal streams", pools().streams.lent() != 0);
    note("events", pools().events.lent() != 0);
    note("staging buffers", pools().staging.lent() != 0);
    note("bounced messages", pools().bounces.lent() != 0);
    note("fused messages", !resources_->fused.empty());
    note("mails of exchanges", !resources_->exchanges.empty());
    note("moving operations", !resources_->moving.empty());
    for (const auto& each : peers_) {
        note("unposted sends", !each->unposted.empty());
        note("sends", !each->sends.empty());
        note("receives", !each->receives.empty());
        note("what needs a hand", each->needs_hand());
    }
    return left;
}

device::Stream TestRank::next_internal() {
    const device::Stream stream = must(pools().streams.take());
    pools().streams.give_back(stream, transfer::InternalStreams::State::kRunning);
    return stream;
}

// ----------------------------------------------------------------------------------------------------------- a job

TestJob::TestJob(uint32_t ranks, const Setting& setting)
    : segment(must(platform::JobSegment::create(ranks, setting.core_for_each_rank ? ranks : 1))) {
    std::vector<TestRank*> all;
    for (uint32_t each = 0; each < ranks; ++each)
        all.push_back(ranks_.emplace_back(std::make_unique<TestRank>(segment, each, setting)).get());
    for (TestRank* each : all)
        each->connect(all);
}

bool TestJob::deliver(uint32_t from, uint32_t to) {
    auto& posted = rank(from).channel(to).posted;
    if (posted.empty())
        return false;
    rank(to).channel(from).arrived.push_back(std::move(posted.front()));
    posted.pop_front();
    return true;
}

// ---------------------------------------------------------------------------------------------------------- a gate

HeldStream::HeldStream(device::Device& device, device::Stream stream)
    : device_(device), stream_(stream),
      opened_(new (must(device.allocate_pinned(sizeof(device::Counter)))) device::Counter(0)) {
    REQUIRE_OK(device.counters()->await_counter(stream, opened_, 1));
}

HeldStream::~HeldStream() {
    open();
    (void)device_.synchronize(stream_); // nobody looks at it any more
    (void)device_.free_pinned(opened_);
}

void HeldStream::open() { platform::store_and_wake(*opened_, 1); }

} // namespace gpurun::test
