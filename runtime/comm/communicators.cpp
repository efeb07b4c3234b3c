#include "comm/communicators.hpp"

#include "base/format.hpp"
#include "platform/numa_node.hpp"
#include "transfer/channel/gpu_sharing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace gpurun::comm {

using base::Result;
using base::Status;

namespace {

// In the order of NewCommCall, from 1 on.
constexpr std::array<const char*, 10> kCallNames = {"",
                                                    "gpurun_comm_dup",
                                                    "gpurun_comm_split",
                                                    "gpurun_comm_split_type",
                                                    "gpurun_comm_create",
                                                    "gpurun_comm_create_group",
                                                    "gpurun_cart_create",
                                                    "gpurun_cart_sub",
                                                    "gpurun_dist_graph_create_adjacent",
                                                    "gpurun_comm_set_algorithm"};

// What tells groups, grids and pairs of ranks apart, also in another process.
class Hash {
  public:
    Hash& add(uint32_t number) {
        value_ = (value_ ^ number) * 16777619;
        return *this;
    }
    // Mixed, so that sums of hashes differ, too (MurmurHash3's last step).
    uint32_t value() const {
        uint32_t mixed = (value_ ^ value_ >> 16) * 0x85ebca6b;
        mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35;
        return mixed ^ mixed >> 16;
    }

  private:
    uint32_t value_ = 2166136261;
};

// Not 0.
uint32_t hash_of(const Group& group) {
    Hash hash;
    for (const WorldRank each : group.members())
        hash.add(each.value);
    return hash.value() | 1;
}

} // namespace

// One of this rank.
struct Communicators::Agreement {
    Wish own;
    std::vector<Rank> ranks; // that take part, by their ranks in the communicator
    size_t self;             // the place of this rank among them
    std::vector<Wish> wishes;
    int first_round = 0;
    std::optional<uint64_t> place; // reserved for the new communicator
    std::shared_ptr<const Topology> topology;

    Agreement(const Communicator& comm, const Group& group, const Wish& wish)
        : own(wish), self(static_cast<size_t>(group.rank_of(comm.group().world(comm.rank()))->value)) {
        for (const WorldRank each : group.members())
            ranks.push_back(*comm.group().rank_of(each));
        wishes.resize(ranks.size());
    }
    // Once all wishes are there: by the place of their ranks.
    void sort() {
        std::rotate(wishes.begin(), wishes.end() - static_cast<std::ptrdiff_t>(self), wishes.end());
        own = wishes[self];
    }
    // Places of those with this rank's colour, by their keys.
    std::vector<size_t> chosen() const {
        std::vector<size_t> places(wishes.size());
        std::iota(places.begin(), places.end(), size_t{0});
        std::erase_if(places, [&](size_t each) { return wishes[each].colour != own.colour; });
        std::stable_sort(places.begin(), places.end(),
                         [&](size_t a, size_t b) { return wishes[a].key < wishes[b].key; });
        return places;
    }
    WorldRank process(const Communicator& comm, size_t at) const { return comm.group().world(ranks[at]); }

    Result<void> check_calls(const Communicator& comm) const;
    Result<void> check_topology() const;
    Result<void> check_alike(std::span<const size_t> chosen, const Group& group) const;
    Result<void> check_room(const Communicator& comm, std::span<const size_t> chosen) const;
};

Result<void> Communicators::Agreement::check_calls(const Communicator& comm) const {
    for (size_t i = 0; i < wishes.size(); ++i)
        if (wishes[i].call != own.call)
            return base::error(Status::kArgument,
                               "rank {} of the job called {}(), and this one {}(): all ranks call the same collectives "
                               "of a communicator, in the same order",
                               process(comm, i).value, kCallNames[static_cast<size_t>(wishes[i].call)],
                               kCallNames[static_cast<size_t>(own.call)]);
    GPURUN_TRY(check_topology());
    if (own.call == NewCommCall::kSetAlgorithm)
        for (size_t i = 0; i < wishes.size(); ++i)
            if (wishes[i].alike != own.alike)
                return base::error(Status::kArgument,
                                   "rank {} of the job gave another collective or other algorithms than this one: all "
                                   "ranks of the communicator give the same",
                                   process(comm, i).value);
    if (own.call != NewCommCall::kSplitType)
        return {};
    const Wish* first = nullptr; // that is in a new communicator
    for (const Wish& each : wishes) {
        if (each.colour == kUndefined)
            continue;
        if (first != nullptr && first->alike != each.alike)
            return base::error(Status::kArgument, "ranks gave different types: all give the same one, or none");
        first = &each;
    }
    return {};
}

// All ranks find the same, also those that get no communicator.
Result<void> Communicators::Agreement::check_topology() const {
    const bool makes_grid = own.call == NewCommCall::kCart;
    for (const Wish& each : wishes)
        if ((makes_grid || own.call == NewCommCall::kCartSub) && each.alike != own.alike)
            return base::error(Status::kArgument, "ranks gave different {}: all give the same",
                               makes_grid ? "dimensions or periods" : "dimensions to remain");
    uint32_t sum = 0; // of what goes out and does not come in
    for (const Wish& each : wishes)
        sum += each.alike;
    if (own.call == NewCommCall::kGraph && sum != 0)
        return base::error(Status::kArgument,
                           "the ranks' neighbours do not agree: whom a rank has as a destination has it "
                           "as a source, as many times");
    return {};
}

Result<void> Communicators::Agreement::check_alike(std::span<const size_t> chosen, const Group& group) const {
    const bool from_group = own.call == NewCommCall::kCreate || own.call == NewCommCall::kCreateGroup;
    for (const size_t each : chosen)
        if (from_group && (wishes[each].alike != own.alike || own.alike != hash_of(group)))
            return base::error(Status::kArgument, "the ranks of the new communicator gave different groups: all "
                                                  "members of a group give the same one");
    return {};
}

Result<void> Communicators::Agreement::check_room(const Communicator& comm, std::span<const size_t> chosen) const {
    for (const size_t each : chosen)
        if (wishes[each].has_room == 0)
            return base::error(Status::kMemory,
                               "rank {} of the job has {} communicators, and no room for another: free some",
                               process(comm, each).value, CommunicatorTable::kMost - 1);
    if (wishes[chosen.front()].id == kNoId)
        return base::error(
            Status::kMemory,
            "rank {} of the job is rank 0 of {} communicators, and there is no id for another: free some",
            process(comm, chosen.front()).value, ContextIds::kMost);
    return {};
}

namespace {

void tell_trace(platform::TraceHeader& header, const Communicator& comm, const std::string& name) {
    for (platform::TraceCommunicator& each : header.communicators) {
        const uint32_t id = each.id.load(std::memory_order_relaxed); // only this rank stores it, under the lock
        if (id != 0 && id != comm.id())
            continue;
        each.name = {};
        std::copy_n(name.begin(), std::min(name.size(), each.name.size() - 1), each.name.begin());
        each.id.store(comm.id(), std::memory_order_release);
        return;
    }
}

Wish wish_of(NewCommCall call, int colour, int key, uint32_t alike = 0) {
    return {.call = call, .colour = colour, .key = key, .alike = alike};
}

// A member's rank in the group, as its key.
Wish wish_of(NewCommCall call, const Group& group, WorldRank self) {
    const auto rank = group.rank_of(self);
    if (!rank)
        return wish_of(call, kUndefined, 0);
    return wish_of(call, static_cast<int>(group.world(Rank{0}).value), rank->value, hash_of(group));
}

// The same number for the same grid, or the same choice of dimensions.
uint32_t hash_of(const Cartesian& grid, std::span<const bool> kept = {}) {
    Hash hash;
    for (const auto& [size, periodic] : grid.dimensions())
        hash.add(static_cast<uint32_t>(size)).add(periodic ? 1 : 0);
    for (const bool each : kept)
        hash.add(each ? 1 : 0);
    return hash.value();
}

uint32_t hash_of(const base::AlgorithmsAskedFor& algorithms) {
    Hash hash;
    std::array<uint32_t, sizeof algorithms / sizeof(uint32_t)> words;
    std::memcpy(words.data(), &algorithms, sizeof algorithms);
    for (const uint32_t each : words)
        hash.add(each);
    return hash.value();
}

// A sum over the destinations, less one over the sources: 0 over all ranks if every destination has a source.
uint32_t unmatched(Rank self, std::span<const int> sources, std::span<const int> destinations) {
    const auto pair = [](int from, int to) {
        return Hash().add(static_cast<uint32_t>(from)).add(static_cast<uint32_t>(to)).value();
    };
    uint32_t sum = 0;
    for (const int each : destinations)
        sum += pair(self.value, each);
    for (const int each : sources)
        sum -= pair(each, self.value);
    return sum;
}

} // namespace

Communicators::Communicators(Core& core, Progress& progress, Schedules& schedules)
    : core_(core), progress_(progress), schedules_(schedules) {
    const Communicator& self = core_.communicators().self();
    if (core_.resources().trace != nullptr)
        tell_trace(core_.resources().trace->header(), self, self.name());
}

// ----------------------------------------------------------------------------------------------------------- calls

Result<uint64_t> Communicators::duplicate(const Communicator& comm) {
    return agree(comm, wish_of(NewCommCall::kDup, 0, 0), comm.topology());
}

Result<uint64_t> Communicators::split(const Communicator& comm, int colour, int key) {
    return agree(comm, wish_of(NewCommCall::kSplit, colour, key));
}

Result<uint64_t> Communicators::split(const Communicator& comm, SplitType type, int key) {
    GPURUN_ASSIGN(const int colour, colour_of(type));
    return agree(comm, wish_of(NewCommCall::kSplitType, colour, key, static_cast<uint32_t>(type)));
}

Result<uint64_t> Communicators::create(const Communicator& comm, const Group& group) {
    return agree(comm, wish_of(NewCommCall::kCreate, group, core_.self()));
}

Result<uint64_t> Communicators::create_cart(const Communicator& comm, const Cartesian& grid) {
    const bool has_place = comm.rank().value < grid.ranks(comm.size());
    return agree(comm, wish_of(NewCommCall::kCart, has_place ? 0 : kUndefined, 0, hash_of(grid)),
                 has_place ? std::make_shared<const Topology>(grid, comm.rank()) : nullptr);
}

Result<uint64_t> Communicators::split_cart(const Communicator& comm, std::span<const bool> kept) {
    const Cartesian& grid = *comm.topology()->grid();
    const std::vector<int> coordinates = grid.coordinates(comm.rank());
    int colour = 0, key = 0; // the rank in a grid of the dimensions that go, and in that of those that stay
    for (size_t i = 0; i < coordinates.size(); ++i) {
        int& number = kept[i] ? key : colour;
        number = number * grid.dimensions()[i].size + coordinates[i];
    }
    return agree(comm, wish_of(NewCommCall::kCartSub, colour, key, hash_of(grid, kept)),
                 std::make_shared<const Topology>(grid.with(kept), Rank{key}));
}

Result<uint64_t> Communicators::create_graph(const Communicator& comm, std::span<const int> sources,
                                             std::span<const int> destinations) {
    return agree(comm, wish_of(NewCommCall::kGraph, 0, 0, unmatched(comm.rank(), sources, destinations)),
                 std::make_shared<const Topology>(sources, destinations));
}

Result<void> Communicators::set_algorithms(const Communicator& comm, const base::AlgorithmsAskedFor& algorithms) {
    GPURUN_TRY(agree(comm, wish_of(NewCommCall::kSetAlgorithm, kUndefined, 0, hash_of(algorithms))));
    comm.set_algorithms(algorithms);
    return {};
}

Result<uint64_t> Communicators::create_group(const Communicator& comm, const Group& group, int tag) {
    Agreement agreement(comm, group, wish_of(NewCommCall::kCreateGroup, group, core_.self()));
    const auto number = static_cast<uint16_t>(tag);
    // What another group has left of an attempt in which a member died is not taken for this one's, as far as the
    // hashes of the groups differ.
    constexpr int kHashes = (1 << base::kRoundBits) / kMostAgreementRounds;
    agreement.first_round = static_cast<int>(hash_of(group) / 2 % kHashes) * kMostAgreementRounds;
    const auto build = [&](Schedule& schedule) { add_steps(agreement, schedule); };
    return finish(agreement, comm, schedules_.run_among(group, base::Collective::kNewGroupComm, comm, number, build));
}

// The same number on the ranks that share it: the first of them, and for NUMA nodes the one of the machine's too.
Result<int> Communicators::colour_of(SplitType type) {
    if (type == SplitType::kNone)
        return kUndefined;
    const platform::JobSegment& job = core_.job();
    const platform::RankRecord& own = core_.own_record();
    uint32_t first = 0;
    while (type == SplitType::kGpu ? !transfer::share_device(job.rank(first), own) : job.rank(first).node != own.node)
        ++first;
    if (type != SplitType::kNumaNode)
        return static_cast<int>(first);
    GPURUN_ASSIGN(const std::optional<int> numa, platform::own_numa_node());
    return numa ? *numa * static_cast<int>(platform::kMaxJobRanks) + static_cast<int>(first) : kUndefined;
}

// ------------------------------------------------------------------------------------------------------- agreeing

Result<uint64_t> Communicators::agree(const Communicator& comm, const Wish& own,
                                      std::shared_ptr<const Topology> topology) {
    Agreement agreement(comm, comm.group(), own);
    agreement.topology = std::move(topology);
    const auto build = [&](Schedule& schedule) { add_steps(agreement, schedule); };
    return finish(agreement, comm, schedules_.run(base::Collective::kNewComm, comm, transfer::Operand{}, build));
}

void Communicators::add_steps(Agreement& agreement, Schedule& schedule) {
    const auto work = [&](const transfer::Operand&) {
        assume_engine_lock();
        propose(agreement);
        return Result<void>();
    };
    build_agreement(schedule, agreement.ranks, agreement.self, agreement.wishes, work, agreement.first_round);
}

Result<uint64_t> Communicators::finish(Agreement& agreement, const Communicator& comm, Result<size_t> ran) {
    const EngineLock lock(core_.mutex());
    if (!ran) {
        withdraw(agreement, true);
        return std::move(ran).error();
    }
    agreement.sort();
    auto concluded = conclude(agreement, comm);
    if (!concluded || *concluded == 0)
        withdraw(agreement, false);
    return concluded;
}

void Communicators::propose(Agreement& agreement) {
    Wish& own = agreement.own;
    if (own.colour != kUndefined) {
        agreement.place = core_.communicators().reserve();
        own.has_room = agreement.place ? 1 : 0;
        own.id = core_.communicators().ids().propose();
    }
    agreement.wishes[0] = own;
}

// Others that know the id may have made the communicator before it failed here: then it is not given again.
void Communicators::withdraw(Agreement& agreement, bool known_to_others) {
    if (agreement.place)
        core_.communicators().give_back(*agreement.place);
    if (agreement.own.id != kNoId && !known_to_others)
        core_.communicators().ids().take_back(agreement.own.id);
}

// Every rank knows the same and finds the same, so what one refuses, all others do that are in the same new
// communicator.
Result<uint64_t> Communicators::conclude(Agreement& agreement, const Communicator& comm) {
    const Wish& own = agreement.own;
    GPURUN_TRY(agreement.check_calls(comm));
    if (own.colour == kUndefined)
        return 0;
    const std::vector<size_t> chosen = agreement.chosen();
    std::vector<WorldRank> members;
    for (const size_t each : chosen)
        members.push_back(agreement.process(comm, each));
    const Group group(std::move(members));
    GPURUN_TRY(agreement.check_alike(chosen, group));
    GPURUN_TRY(agreement.check_room(comm, chosen));
    const uint32_t id = agreement.wishes[chosen.front()].id;
    ContextIds& ids = core_.communicators().ids();
    if (id == own.id)
        ids.give(id, living(group));
    else if (own.id != kNoId)
        ids.take_back(own.id);
    auto shared = group == comm.group() ? comm.shared_group() : std::make_shared<const Group>(group);
    return core_.communicators().add(*agreement.place, id, std::move(shared), agreement.topology, comm.algorithms());
}

std::vector<WorldRank> Communicators::living(const Group& group) {
    std::vector<WorldRank> members;
    for (const WorldRank each : group.members())
        if (!core_.peer(each).lost())
            members.push_back(each);
    return members;
}

// --------------------------------------------------------------------------------------------- what there is of it

bool Communicators::free(uint64_t handle) {
    const EngineLock lock(core_.mutex());
    if (find(handle) == nullptr)
        return false;
    core_.communicators().close(handle);
    (void)progress_.run(); // usually nothing uses it any more
    return true;
}

size_t Communicators::open() {
    const EngineLock lock(core_.mutex());
    return core_.communicators().open();
}

std::string Communicators::name(const Communicator& comm) {
    const EngineLock lock(core_.mutex());
    return comm.name();
}

void Communicators::set_name(const Communicator& comm, std::string name) {
    const EngineLock lock(core_.mutex());
    if (core_.resources().trace != nullptr)
        tell_trace(core_.resources().trace->header(), comm, name);
    comm.set_name(std::move(name));
}

} // namespace gpurun::comm
