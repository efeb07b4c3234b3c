#include "support/two_ranks.hpp"

#include "comm/collective/barrier.hpp"
#include "device/capability/ordered_memory.hpp"
#include "transfer/channel/fabric_channel.hpp"
#include "transfer/channel/shm_channel.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace gpurun::test {

using base::Result;
using base::WorldRank;
using comm::Task;
using transfer::Operand;

Bytes pattern(size_t bytes, uint64_t seed) {
    Bytes made(bytes);
    uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
    for (uint8_t& each : made) {
        state = state * 6364136223846793005 + 1442695040888963407;
        each = static_cast<uint8_t>(state >> 56);
    }
    return made;
}

ptrdiff_t first_difference(const uint8_t* got, const Bytes& expected) {
    const auto found = std::mismatch(expected.begin(), expected.end(), got);
    return found.first == expected.end() ? -1 : found.first - expected.begin();
}

// ------------------------------------------------------------------------------------------------------- one rank

Rank::Rank(platform::JobSegment job, uint32_t self, const base::Settings& settings, Wrap wrap)
    : base_(std::move(job), self, settings, wrap) {
    world_.emplace(comm::kWorldId, comm::Group::of_all(base_.job.size()), base_.self);
}

void Rank::connect(Rank& other, std::unique_ptr<transfer::PeerChannel> to_other) {
    std::vector<std::unique_ptr<transfer::PeerChannel>> channels(2);
    channels[base_.self.value] = must(transfer::ShmChannel::open(device(), base_.job, base_.self, base_.self, {}));
    channels[other.base_.self.value] = std::move(to_other);
    engine_ = must(comm::Engine::start(base_.parts(), std::move(channels)));
}

uint8_t* Rank::memory(Kind kind, size_t bytes) {
    const size_t least = std::max<size_t>(bytes, 1);
    switch (kind) {
    case Kind::kPinned: return static_cast<uint8_t*>(must(device().allocate_pinned(least)));
    case Kind::kDevice: return static_cast<uint8_t*>(must(device().allocate(least)));
    case Kind::kOrdered: {
        const device::Stream in = stream();
        uint8_t* const made = static_cast<uint8_t*>(must(device().ordered_memory()->allocate_ordered(least, in)));
        must(device().synchronize(in));
        return made;
    }
    case Kind::kPageable: break;
    }
    return pageable_.emplace_back(new uint8_t[least]).get();
}

// The CPU reaches the memory of an emulated device.
uint8_t* Rank::memory(Kind kind, const Bytes& content) {
    uint8_t* const made = memory(kind, content.size());
    std::copy(content.begin(), content.end(), made);
    return made;
}

device::Stream Rank::stream() { return must(device().create_stream()); }

Operand Rank::operand(const void* address, size_t bytes, Stream in) {
    Operand made;
    made.address = static_cast<std::byte*>(const_cast<void*>(address));
    made.bytes = bytes;
    if (bytes != 0)
        made.where = must(device().describe(address, bytes));
    made.domain = in ? transfer::Domain::kStream : transfer::Domain::kHost;
    made.stream = in.value_or(device::Stream{});
    return made;
}

Result<void> Rank::send(const Operand& from, int tag, bool synchronous) {
    return comm::send(engine(), world(), from, other(), tag, {.synchronous = synchronous});
}

Result<comm::Arrived> Rank::recv(const Operand& into, int source, int tag) {
    comm::Arrived arrived;
    GPURUN_TRY(comm::recv(engine(), world(), into, source, tag, nullptr, arrived));
    return arrived;
}

Task Rank::task(Task::Kind kind, const Operand& of, int peer, int tag) const {
    return {.kind = kind, .peer = peer, .tag = tag, .comm = &world(), .operand = of};
}

uint64_t Rank::isend(const Operand& from, int tag, bool synchronous) {
    Task of = task(Task::Kind::kSend, from, other(), tag);
    of.synchronous = synchronous;
    return engine().requests().start(of);
}

uint64_t Rank::irecv(const Operand& into, int source, int tag) {
    return engine().requests().start(task(Task::Kind::kReceive, into, source, tag));
}

uint64_t Rank::make(Task::Kind kind, const Operand& of, int peer, int tag) {
    Task made = task(kind, of, peer, tag);
    made.persistent = true;
    return engine().requests().make(made);
}

namespace {

comm::Order order_of(const Rank::Stream& stream) {
    return stream ? comm::Order{transfer::Domain::kStream, *stream} : comm::Order{};
}

Rank::Outcome outcome_of(const comm::Request& done) {
    Rank::Outcome outcome;
    outcome.arrived = done.arrived();
    outcome.cancelled = done.cancelled;
    outcome.truncated = done.is_truncated();
    if (const base::Error* const error = done.error())
        outcome.status = error->status;
    return outcome;
}

} // namespace

std::optional<Rank::Outcome> Rank::complete(uint64_t& name, Stream in, bool may_wait) {
    Outcome outcome;
    const auto settle = [&](size_t, const comm::Request& done) { outcome = outcome_of(done); };
    const bool done = must(
        engine().requests().complete({{&name, 1}, order_of(in), comm::Requests::Need::kAll, may_wait, true}, settle));
    return done ? std::optional(outcome) : std::nullopt;
}

std::optional<Rank::Outcome> Rank::test(uint64_t& name, Stream in) { return complete(name, in, false); }

Rank::Outcome Rank::wait(uint64_t& name, Stream in) { return *complete(name, in, true); }

void Rank::wait_all(std::span<uint64_t> names, Stream in) {
    bool well = true;
    const auto settle = [&](size_t, const comm::Request& done) { well = well && done.ended_well(); };
    REQUIRE(must(engine().requests().complete({names, order_of(in), comm::Requests::Need::kAll, true, true}, settle)));
    REQUIRE(well);
}

size_t Rank::wait_any(std::span<uint64_t> names, Outcome& outcome) {
    size_t which = SIZE_MAX;
    const auto settle = [&](size_t index, const comm::Request& done) {
        which = index;
        outcome = outcome_of(done);
    };
    REQUIRE(must(engine().requests().complete({names, comm::Order{}, comm::Requests::Need::kOne, true, true}, settle)));
    return which;
}

comm::Pattern Rank::pattern_of(int source, int tag) const {
    return comm::Pattern::of(world().group(), world().user_context(), source, tag);
}

Result<std::optional<comm::Messages::Found>> Rank::probe(int source, int tag, bool may_wait, uint64_t* ret_taken) {
    return engine().messages().probe(pattern_of(source, tag), may_wait, ret_taken);
}

Result<void> Rank::barrier(Stream in) {
    GPURUN_TRY(engine().schedules().run(base::Collective::kBarrier, world(), operand(nullptr, 0, in),
                                        [](comm::Schedule& schedule) { comm::build_barrier(schedule, false); }));
    return {};
}

Result<void> Rank::leave() { return engine().leave(); }

// ------------------------------------------------------------------------------------------------------- both

TwoRanks::TwoRanks(Over over, const base::Settings& settings, Wrap wrap) : over_(over) {
    platform::JobSegment job = must(platform::JobSegment::create(2, 2));
    for (uint32_t self = 0; self < 2; ++self) {
        // Without memory in common each has a segment of its own. Over sockets the other is dead there: whoever asks
        // about a peer finds that.
        auto own = over == Over::kShm ? must(platform::JobSegment::attach(platform::UniqueFd(::dup(job.fd()))))
                                      : must(platform::JobSegment::create(2, 2));
        if (over == Over::kSocket)
            must(own.mark_dead(1 - self));
        ranks_[self] = std::make_unique<Rank>(std::move(own), self, settings, wrap);
    }
    switch (over) {
    case Over::kShm: connect_by_shm(); return;
    case Over::kSocket: connect_by_sockets(); return;
    case Over::kFabric: connect_by_fabric(); return;
    }
}

void TwoRanks::connect_by_sockets() {
    auto [first, second] = SocketChannel::make_sockets();
    platform::UniqueFd* const ends[] = {&first, &second};
    for (uint32_t self = 0; self < 2; ++self) {
        Rank& of = *ranks_[self];
        auto channel = std::make_unique<SocketChannel>(of.device(), of.base().job, WorldRank{self}, WorldRank{1 - self},
                                                       std::move(*ends[self]));
        sockets_[self] = channel.get();
        of.connect(*ranks_[1 - self], std::move(channel));
    }
}

void TwoRanks::connect_by_shm() {
    for (uint32_t self = 0; self < 2; ++self)
        ranks_[self]->base().see(ranks_[1 - self]->base());
    for (uint32_t self = 0; self < 2; ++self) {
        Rank& of = *ranks_[self];
        of.connect(*ranks_[1 - self], must(transfer::ShmChannel::open(of.device(), of.base().job, WorldRank{self},
                                                                      WorldRank{1 - self}, {})));
    }
}

std::shared_ptr<transfer::FabricPort> open_port(const platform::JobSegment& job, WorldRank self) {
    const char* const provider = std::getenv("GPURUN_FABRIC");
    auto opened = transfer::FabricPort::open(
        job, self, {.provider = provider != nullptr ? provider : "auto", .may_be_loopback = true});
    if (!opened && opened.error().status == base::Status::kUnsupported) {
        std::printf("skipped: %s\n", opened.error().detail.c_str());
        std::fflush(stdout);
        std::_Exit(77);
    }
    auto port = must(std::move(opened));
    port->publish(job.rank(self.value));
    return port;
}

// As the daemons of two nodes do it: each has the records of both.
void TwoRanks::connect_by_fabric() {
    std::array<std::shared_ptr<transfer::FabricPort>, 2> ports;
    for (uint32_t self = 0; self < 2; ++self)
        ports[self] = open_port(ranks_[self]->base().job, WorldRank{self});
    for (uint32_t self = 0; self < 2; ++self) {
        const platform::RankRecord& far = ranks_[1 - self]->base().job.rank(1 - self);
        platform::RankRecord& copy = ranks_[self]->base().job.rank(1 - self);
        copy.node = 1;
        copy.device = far.device;
        copy.fabric_address_bytes = far.fabric_address_bytes;
        copy.fabric_address = far.fabric_address;
    }
    for (uint32_t self = 0; self < 2; ++self) {
        Rank& of = *ranks_[self];
        of.connect(*ranks_[1 - self], must(transfer::FabricChannel::open(ports[self], of.device(), of.base().job,
                                                                         WorldRank{self}, WorldRank{1 - self})));
        must(ports[self]->start());
    }
}

TwoRanks::~TwoRanks() {
    run_both([](Rank& each) { (void)each.leave(); });
    for (auto& each : ranks_)
        each.reset();
}

void TwoRanks::cut() {
    REQUIRE(over_ != Over::kShm);
    if (over_ == Over::kSocket) {
        sockets_[0]->cut();
        return;
    }
    for (uint32_t self = 0; self < 2; ++self)
        must(ranks_[self]->base().job.mark_dead(1 - self));
}

void TwoRanks::end_waits() {
    if (over_ != Over::kShm) {
        cut();
        return;
    }
    for (uint32_t each = 0; each < 2; ++each)
        (void)ranks_[0]->base().job.mark_dead(each);
}

void TwoRanks::run(const std::function<void(Rank&)>& first, const std::function<void(Rank&)>& second) {
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    const auto run_one = [&](Rank& of, const std::function<void(Rank&)>& side) {
        try {
            side(of);
        } catch (...) {
            if (failed.exchange(true))
                return;
            failure = std::current_exception();
            end_waits();
        }
    };
    std::thread threads[] = {std::thread([&] { run_one(rank(0), first); }),
                             std::thread([&] { run_one(rank(1), second); })};
    for (std::thread& each : threads)
        each.join();
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace gpurun::test
