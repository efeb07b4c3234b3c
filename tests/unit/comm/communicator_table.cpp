// The table of communicators: handles, places that are used again, and when one ends.
#include "comm/communicator_table.hpp"
#include "support/unit.hpp"

#include <set>

using namespace gpurun;
using comm::Communicator;
using comm::CommunicatorTable;
using comm::CommunicatorUse;
using comm::Group;
using comm::WorldRank;

namespace {

constexpr WorldRank kSelf{1};

class Table : public CommunicatorTable {
  public:
    explicit Table(const comm::Names& names = {}) : CommunicatorTable(kSelf, 3, names) {}
    uint64_t make(uint32_t id) {
        return add(*reserve(), id, std::make_shared<const Group>(std::vector{kSelf, WorldRank{0}}));
    }
    std::vector<uint32_t> end() {
        std::vector<uint32_t> ended;
        end_unused([&](const Communicator& each) { ended.push_back(each.id()); });
        return ended;
    }
};
using Ids = std::vector<uint32_t>;

} // namespace

TEST_SUITE_BEGIN("communicator table");

TEST_CASE("a handle says which engine gave it, and the next one with its number gives it to nothing else") {
    Table first({.engine = 3, .first_use = 7});
    const uint64_t world = first.world_handle();
    const uint64_t handle = first.make(5);
    CHECK(comm::Names::engine_of(handle) == 3);
    CHECK(first.find(handle)->id() == 5);
    CHECK(first.open() == 1);
    CHECK(CommunicatorTable::is_lasting(world));
    first.close(handle);
    CHECK(first.open() == 0);
    CHECK(first.make(6) != handle);
    Table next({.engine = 3, .first_use = first.most_uses() + 1});
    CHECK(next.world_handle() != world);
    CHECK(next.find(world) == nullptr);
    CHECK(next.find(handle) == nullptr);
    CHECK(next.had(handle));
    CHECK(next.make(5) != handle);
    CHECK(Table().find(handle) == nullptr);
}

TEST_CASE("the communicator of all ranks is there from the start") {
    Table table;
    CHECK(table.find(CommunicatorTable::kWorldHandle) == &table.world());
    CHECK(table.world().id() == comm::kWorldId);
    CHECK(table.world().rank() == comm::Rank{1});
    CHECK(table.of_context(table.world().collective_context()) == &table.world());
    CHECK(table.find(0) == nullptr);
    CHECK(table.find(3) == nullptr);
    CHECK(table.find(UINT64_MAX) == nullptr);
    CHECK_FALSE(table.had(3));
}

TEST_CASE("so is the communicator of this process alone") {
    Table table;
    const Communicator* const self = table.find(CommunicatorTable::kSelfHandle);
    REQUIRE(self != nullptr);
    CHECK(self->id() == comm::kSelfId);
    CHECK(self->size() == 1);
    CHECK(self->rank() == comm::Rank{0});
    CHECK(self->group().world(comm::Rank{0}) == kSelf);
    CHECK(self->name() == "GPURUN_COMM_SELF");
}

TEST_CASE("a place is used again under another handle, and the old one is known as such") {
    Table table;
    const uint64_t first = table.make(100);
    REQUIRE(table.find(first) != nullptr);
    table.close(first);
    CHECK(table.find(first) == nullptr);
    CHECK(table.end() == Ids{100});
    const uint64_t second = table.make(200);
    CHECK(second != first);
    CHECK((second & UINT32_MAX) == (first & UINT32_MAX));
    CHECK(table.find(first) == nullptr);
    CHECK(table.had(first));
    CHECK(table.find(second)->id() == 200);
    CHECK(table.of_context(2 * 100) == nullptr);
    CHECK(table.has_ended(2 * 100 + 1));
    CHECK_FALSE(table.has_ended(2 * 200));
}

TEST_CASE("what is closed ends once nothing uses it any more") {
    Table table;
    const uint64_t handle = table.make(100);
    const Communicator& comm = *table.find(handle);
    comm.hold();
    {
        const CommunicatorUse use(comm);
        table.close(handle);
        CHECK(table.end().empty());
        comm.let_go();
        CHECK(table.end().empty());
        CHECK(table.of_context(comm.user_context()) == &comm);
    }
    CHECK(table.any_closed());
    CHECK(table.end() == Ids{100});
    CHECK_FALSE(table.any_closed());
}

TEST_CASE("a use that is moved is one use") {
    Table table;
    const uint64_t handle = table.make(100);
    std::vector<CommunicatorUse> uses;
    for (int i = 0; i < 10; ++i)
        uses.emplace_back(*table.find(handle));
    table.close(handle);
    uses.pop_back();
    CHECK(table.end().empty());
    uses.clear();
    CHECK(table.end() == Ids{100});
}

TEST_CASE("the table is full with an answer, and has room once some have ended") {
    Table table;
    std::set<uint64_t> handles;
    for (uint32_t id = 10; auto reserved = table.reserve(); ++id)
        REQUIRE(handles.insert(table.add(*reserved, id, table.world().shared_group())).second);
    CHECK(handles.size() == CommunicatorTable::kMost - 3);
    table.close(*handles.begin());
    CHECK_FALSE(table.reserve());
    CHECK(table.end().size() == 1);
    const auto reserved = table.reserve();
    REQUIRE(reserved);
    table.give_back(*reserved);
    CHECK(table.reserve() == reserved);
}

TEST_SUITE_END();
