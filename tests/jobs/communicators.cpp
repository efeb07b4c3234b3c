// Making communicators: who is in them, at which rank, and what the calls refuse.
#include "communicators.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace gpurun::test::communicators {

namespace {

// Of all ranks of `comm`, in their order.
template <typename T>
std::vector<T> gather(const T& own, const Comm& comm) {
    std::vector<T> all(static_cast<size_t>(comm.size()), own);
    for (int root = 0; root < comm.size(); root++)
        REQUIRE_OK(gpurun_bcast(&all[static_cast<size_t>(root)], sizeof(T), GPURUN_BYTE, root, comm, GPURUN_HOST));
    return all;
}

gpurun_comparison compare(gpurun_comm one, gpurun_comm other) {
    gpurun_comparison result{};
    REQUIRE_OK(gpurun_comm_compare(one, other, &result));
    return result;
}

gpurun_status free_copy(gpurun_comm comm) { return gpurun_comm_free(&comm); }

gpurun_group group_of(const std::vector<int>& ranks) {
    gpurun_group world{}, chosen{};
    REQUIRE_OK(gpurun_comm_group(kWorld, &world));
    REQUIRE_OK(gpurun_group_incl(world, ranks.size(), ranks.data(), &chosen));
    REQUIRE_OK(gpurun_group_free(&world));
    return chosen;
}

bool contains(const std::vector<int>& ranks, int which) {
    return std::find(ranks.begin(), ranks.end(), which) != ranks.end();
}

} // namespace

TEST_SUITE_BEGIN("communicators");

TEST_CASE("a duplicate has the same ranks in the same order, and is another communicator") {
    const Comm copy = Comm::dup();
    CHECK(copy.rank() == rank());
    CHECK(copy.size() == size());
    CHECK(compare(copy, kWorld) == GPURUN_CONGRUENT);
    CHECK(compare(copy, copy) == GPURUN_IDENT);
    const Comm of_copy = Comm::dup(copy);
    CHECK(compare(of_copy, copy) == GPURUN_CONGRUENT);
}

TEST_CASE("each rank has a communicator of itself alone from the start") {
    int number = -1;
    REQUIRE_OK(gpurun_comm_size(GPURUN_COMM_SELF, &number));
    CHECK(number == 1);
    REQUIRE_OK(gpurun_comm_rank(GPURUN_COMM_SELF, &number));
    CHECK(number == 0);
    CHECK(compare(GPURUN_COMM_SELF, GPURUN_COMM_SELF) == GPURUN_IDENT);
    CHECK(compare(GPURUN_COMM_SELF, kWorld) == (size() == 1 ? GPURUN_CONGRUENT : GPURUN_UNEQUAL));
    const Comm copy = Comm::dup(GPURUN_COMM_SELF);
    CHECK(compare(copy, GPURUN_COMM_SELF) == GPURUN_CONGRUENT);
    char name[GPURUN_MAX_OBJECT_NAME];
    REQUIRE_OK(gpurun_comm_get_name(GPURUN_COMM_SELF, name, nullptr));
    CHECK(std::string(name) == "GPURUN_COMM_SELF");
}

TEST_CASE("a split puts those with the same colour together, in the order of their keys") {
    const Comm half = Comm::split(rank() % 2, -rank());
    const std::vector<int> members = gather(rank(), half);
    CHECK(members.size() == static_cast<size_t>((size() + 1 - rank() % 2) / 2));
    CHECK(std::is_sorted(members.rbegin(), members.rend()));
    for (const int each : members)
        CHECK(each % 2 == rank() % 2);
    CHECK(members[static_cast<size_t>(half.rank())] == rank());
}

TEST_CASE("ranks with the same colour and key keep their order") {
    const Comm all = Comm::split(7, 3);
    CHECK(compare(all, kWorld) == GPURUN_CONGRUENT);
    const Comm reversed = Comm::split(0, size() - rank());
    CHECK(reversed.rank() == size() - 1 - rank());
    CHECK(compare(reversed, kWorld) == (size() == 1 ? GPURUN_CONGRUENT : GPURUN_SIMILAR));
}

TEST_CASE("a rank of no colour gets no communicator") {
    const Comm others = Comm::split(rank() == 0 ? GPURUN_UNDEFINED : 5, 0);
    CHECK(others.is_null() == (rank() == 0));
    if (!others.is_null()) {
        CHECK(others.size() == size() - 1);
        CHECK(compare(others, kWorld) == GPURUN_UNEQUAL);
    }
    CHECK(Comm::split(GPURUN_UNDEFINED, 0).is_null());
}

TEST_CASE("the ranks that share a device, a machine and a NUMA node come together in one call each") {
    gpurun_device_info info{};
    info.size = sizeof info;
    REQUIRE_OK(gpurun_device(&info));
    const std::string own = info.uuid;
    gpurun_comm made = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_split_type(kWorld, GPURUN_SPLIT_GPU, 0, &made));
    const Comm gpu(made);
    for (const gpurun_device_info& each : gather(info, gpu))
        CHECK(own == each.uuid);
    // As gpurun gives ranks to emulated nodes: as many to each, in their order.
    const char* const emulated = std::getenv("GPURUN_EMULATED_NODES");
    const int nodes = emulated == nullptr ? 1 : std::atoi(emulated);
    const auto node_of = [&](int each) { return each * nodes / size(); };
    const Comm all = Comm::dup();
    const auto devices = gather(info, all);
    int sharing = 0;
    int on_this_node = 0;
    for (int each = 0; each < size(); ++each)
        if (node_of(each) == node_of(rank())) {
            ++on_this_node;
            sharing += own == devices[static_cast<size_t>(each)].uuid ? 1 : 0;
        }
    CHECK(gpu.size() == sharing);

    REQUIRE_OK(gpurun_comm_split_type(kWorld, GPURUN_SPLIT_NODE, 0, &made));
    const Comm node(made);
    CHECK(node.size() == on_this_node);
    for (const int each : gather(rank(), node))
        CHECK(node_of(each) == node_of(rank()));
    REQUIRE_OK(gpurun_comm_split_type(kWorld, GPURUN_SPLIT_NUMA_NODE, 0, &made));
    const Comm numa(made);
    if (!numa.is_null())
        CHECK(numa.size() <= on_this_node);
    REQUIRE_OK(gpurun_comm_split_type(kWorld, rank() == 0 ? GPURUN_SPLIT_NODE : GPURUN_SPLIT_NONE, 0, &made));
    const Comm first(made);
    CHECK(first.is_null() == (rank() != 0));
}

TEST_CASE("a communicator of a group has the group's ranks, and the others get none") {
    std::vector<int> ranks;
    for (int each = size() - 1; each >= 0; each -= 2)
        ranks.push_back(each);
    gpurun_group group = group_of(ranks);
    gpurun_comm made = GPURUN_COMM_WORLD;
    REQUIRE_OK(gpurun_comm_create(kWorld, group, &made));
    const Comm comm(made);
    CHECK(comm.is_null() != contains(ranks, rank()));
    if (!comm.is_null())
        CHECK(gather(rank(), comm) == ranks);
    REQUIRE_OK(gpurun_group_free(&group));
    REQUIRE_OK(gpurun_comm_create(kWorld, GPURUN_GROUP_EMPTY, &made));
    CHECK(made.id == GPURUN_COMM_NULL.id);
}

TEST_CASE("groups without a common rank make a communicator each, in one call") {
    std::vector<int> low, high;
    for (int each = 0; each < size(); each++)
        (each < size() / 2 ? low : high).push_back(each);
    const std::vector<int>& own = contains(low, rank()) ? low : high;
    gpurun_group group = group_of(own);
    gpurun_comm made = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_create(kWorld, group, &made));
    REQUIRE_OK(gpurun_group_free(&group));
    const Comm comm(made);
    CHECK(gather(rank(), comm) == own);
}

TEST_CASE("only the members of a group make its communicator, one after another and with others at the same time") {
    if (size() == 1)
        return;
    // Ranks 0 and 1, then 1 and 2, and so on around: each rank is in two, the last one of which begins with itself.
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    const auto make = [](int first, int second, int tag) {
        gpurun_group group = group_of({first, second});
        gpurun_comm made = GPURUN_COMM_NULL;
        REQUIRE_OK(gpurun_comm_create_group(kWorld, group, tag, &made));
        REQUIRE_OK(gpurun_group_free(&group));
        return Comm(made);
    };
    for (int round = 0; round < 3; round++) {
        std::thread beside([&] {
            const Comm after = make(rank(), next, rank());
            CHECK(after.rank() == 0);
            CHECK(gather(rank(), after) == std::vector<int>{rank(), next});
        });
        const Comm before = make(previous, rank(), previous);
        CHECK(before.rank() == 1);
        CHECK(gather(rank(), before) == std::vector<int>{previous, rank()});
        beside.join();
    }
    gpurun_comm none = GPURUN_COMM_WORLD;
    gpurun_group next_only = group_of({next});
    REQUIRE_OK(gpurun_comm_create_group(kWorld, next_only, 0, &none));
    CHECK(none.id == GPURUN_COMM_NULL.id);
    REQUIRE_OK(gpurun_group_free(&next_only));
}

TEST_CASE("threads make communicators of overlapping ones in any order, and all ranks get the same ones") {
    const Comm one = Comm::dup(), other = Comm::split(0, -rank());
    constexpr int kRounds = 20;
    const auto make = [](const Comm& from, std::vector<Comm>& made) {
        for (int round = 0; round < kRounds; round++)
            made.push_back(Comm::dup(from));
    };
    std::vector<Comm> of_one, of_other;
    const bool first = rank() % 2 == 0;
    std::thread beside([&] { first ? make(one, of_one) : make(other, of_other); });
    first ? make(other, of_other) : make(one, of_one);
    beside.join();
    for (int round = 0; round < kRounds; round++) {
        int number = rank() * 100 + round;
        REQUIRE_OK(gpurun_bcast(&number, 1, GPURUN_INT32, 0, of_one[static_cast<size_t>(round)], GPURUN_HOST));
        CHECK(number == round);
        number = rank() * 100 + round;
        REQUIRE_OK(gpurun_bcast(&number, 1, GPURUN_INT32, 0, of_other[static_cast<size_t>(round)], GPURUN_HOST));
        CHECK(number == (size() - 1) * 100 + round);
    }
}

TEST_CASE("a group's call with any tag does not meet collectives that are made at the same time") {
    const Comm parent = Comm::dup();
    gpurun_group all = GPURUN_GROUP_NULL;
    REQUIRE_OK(gpurun_comm_group(parent, &all));
    constexpr int kRounds = 50;
    std::thread beside([&] { // tag by tag, as the collectives are counted
        for (int tag = 0; tag < kRounds; tag++) {
            gpurun_comm made = GPURUN_COMM_NULL;
            REQUIRE_OK(gpurun_comm_create_group(parent, all, tag, &made));
            CHECK(compare(made, parent) == GPURUN_CONGRUENT);
            REQUIRE_OK(gpurun_comm_free(&made));
        }
    });
    for (int round = 0; round < kRounds; round++)
        CHECK(Comm::split(0, -rank(), parent).rank() == size() - 1 - rank());
    beside.join();
    REQUIRE_OK(gpurun_group_free(&all));
}

TEST_CASE("a name is the rank's own, and is there until the communicator is freed") {
    Comm comm = Comm::dup();
    char name[GPURUN_MAX_OBJECT_NAME] = "before";
    int length = -1;
    REQUIRE_OK(gpurun_comm_get_name(comm, name, &length));
    CHECK(std::string(name).empty());
    CHECK(length == 0);
    REQUIRE_OK(gpurun_comm_set_name(comm, "rows"));
    REQUIRE_OK(gpurun_comm_get_name(comm, name, nullptr));
    CHECK(std::string(name) == "rows");
    REQUIRE_OK(gpurun_comm_get_name(kWorld, name, &length));
    CHECK(std::string(name) == "GPURUN_COMM_WORLD");
    CHECK(length == 17);
    const std::string too_long(GPURUN_MAX_OBJECT_NAME, 'x');
    CHECK(gpurun_comm_set_name(comm, too_long.c_str()) == GPURUN_ERR_ARGUMENT);
    const std::string longest(GPURUN_MAX_OBJECT_NAME - 1, 'x');
    REQUIRE_OK(gpurun_comm_set_name(comm, longest.c_str()));
    REQUIRE_OK(gpurun_comm_get_name(comm, name, &length));
    CHECK(name == longest);
    comm.free();
    CHECK(Comm::dup().rank() == rank()); // in its place
}

TEST_CASE("all ranks give the same algorithms, and each bad argument says what is allowed") {
    const Comm comm = Comm::dup();
    CHECK(gpurun_comm_set_algorithm(comm, "gather", "direct") == GPURUN_ERR_ARGUMENT);
    CHECK(std::strstr(gpurun_error_detail(), "allreduce, reduce, bcast") != nullptr);
    CHECK(gpurun_comm_set_algorithm(comm, "reduce", "doubling") == GPURUN_ERR_ARGUMENT);
    CHECK(std::strstr(gpurun_error_detail(), "auto, direct, pieces") != nullptr);
    CHECK(gpurun_comm_set_algorithm(comm, nullptr, "auto") == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_comm_set_algorithm(comm, "reduce", nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_comm_set_algorithm(GPURUN_COMM_NULL, "reduce", "direct") == GPURUN_ERR_COMM);
    REQUIRE_OK(gpurun_comm_set_algorithm(comm, "bcast", "direct:1K,tree"));
    if (size() == 1)
        return;
    const gpurun_status differs = gpurun_comm_set_algorithm(comm, "bcast", rank() == 0 ? "tree" : "direct");
    CHECK(differs == GPURUN_ERR_ARGUMENT);
    CHECK(std::strstr(gpurun_error_detail(), "all ranks of the communicator give the same") != nullptr);
    for (const int count : {1, 4096}) { // as before, on all
        std::vector<int> values(static_cast<size_t>(count), rank() == 0 ? 7 : 0);
        REQUIRE_OK(gpurun_bcast(values.data(), values.size(), GPURUN_INT32, 0, comm, GPURUN_HOST));
        CHECK(values == std::vector<int>(values.size(), 7));
    }
}

TEST_CASE("a handle that was freed is an error that says so, also when its place is used again") {
    Comm comm = Comm::dup();
    const gpurun_comm old = comm;
    comm.free();
    const Comm next = Comm::dup();
    int number = 0;
    CHECK(gpurun_comm_rank(old, &number) == GPURUN_ERR_COMM);
    CHECK(std::strstr(gpurun_error_detail(), "has been freed") != nullptr);
    CHECK(gpurun_send(&number, 1, GPURUN_INT32, 0, 0, old, GPURUN_HOST) == GPURUN_ERR_COMM);
    CHECK(gpurun_barrier(old, GPURUN_HOST) == GPURUN_ERR_COMM);
    CHECK(free_copy(old) == GPURUN_ERR_COMM);
    CHECK(gpurun_comm_rank(GPURUN_COMM_NULL, &number) == GPURUN_ERR_COMM);
    CHECK(free_copy(GPURUN_COMM_NULL) == GPURUN_ERR_COMM);
    CHECK(free_copy(kWorld) == GPURUN_ERR_COMM);
    CHECK(free_copy(GPURUN_COMM_SELF) == GPURUN_ERR_COMM);
    CHECK(std::strstr(gpurun_error_detail(), "GPURUN_COMM_SELF cannot be freed") != nullptr);
    CHECK(gpurun_comm_free(nullptr) == GPURUN_ERR_ARGUMENT);
}

TEST_CASE("ranks that call different functions all learn which") {
    if (size() == 1)
        return;
    gpurun_comm made = GPURUN_COMM_NULL;
    const gpurun_status status =
        rank() == size() - 1 ? gpurun_comm_dup(kWorld, &made) : gpurun_comm_split(kWorld, 0, 0, &made);
    CHECK(status == GPURUN_ERR_ARGUMENT);
    CHECK(std::strstr(gpurun_error_detail(), "gpurun_comm_dup()") != nullptr);
    CHECK(std::strstr(gpurun_error_detail(), "gpurun_comm_split()") != nullptr);
    CHECK(made.id == GPURUN_COMM_NULL.id);
    CHECK(Comm::dup().size() == size()); // nothing was left behind
}

TEST_CASE("members that give different groups are all refused, and so are ranks that give different types") {
    if (size() == 1)
        return;
    std::vector<int> ranks(static_cast<size_t>(size()));
    for (int each = 0; each < size(); each++)
        ranks[static_cast<size_t>(each)] = each;
    if (rank() == 1)
        std::reverse(ranks.begin() + 1, ranks.end());
    if (rank() == 1 && size() == 2)
        ranks.pop_back(), ranks[0] = 1;
    gpurun_group group = group_of(ranks);
    gpurun_comm made = GPURUN_COMM_NULL;
    const bool alone = size() == 2 && rank() == 1; // gives a group of itself, which is right for who sees that alone
    const gpurun_status status = gpurun_comm_create(kWorld, group, &made);
    CHECK(status == (alone ? GPURUN_OK : GPURUN_ERR_ARGUMENT));
    if (status == GPURUN_OK)
        CHECK(free_copy(made) == GPURUN_OK);
    REQUIRE_OK(gpurun_group_free(&group));
    CHECK(gpurun_comm_split_type(kWorld, rank() == 0 ? GPURUN_SPLIT_NODE : GPURUN_SPLIT_GPU, 0, &made) ==
          GPURUN_ERR_ARGUMENT);
}

TEST_CASE("arguments that cannot be used are refused before anything is sent") {
    gpurun_comm made = GPURUN_COMM_NULL;
    CHECK(gpurun_comm_split(kWorld, -1, 0, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_comm_split(kWorld, 0, 0, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_comm_split_type(kWorld, static_cast<gpurun_split_type>(9), 0, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_comm_create(kWorld, GPURUN_GROUP_NULL, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_comm_create_group(kWorld, GPURUN_GROUP_EMPTY, 65536, &made) == GPURUN_ERR_TAG);
    CHECK(gpurun_comm_create_group(kWorld, GPURUN_GROUP_EMPTY, -1, &made) == GPURUN_ERR_TAG);
    const Comm self = Comm::split(rank(), 0);
    gpurun_group all{};
    REQUIRE_OK(gpurun_comm_group(kWorld, &all));
    if (size() > 1)
        CHECK(gpurun_comm_create(self, all, &made) == GPURUN_ERR_ARGUMENT);
    REQUIRE_OK(gpurun_group_free(&all));
    REQUIRE_OK(gpurun_group_begin());
    CHECK(gpurun_comm_dup(kWorld, &made) == GPURUN_ERR_UNSUPPORTED);
    gpurun_comm copy = self;
    CHECK(gpurun_comm_free(&copy) == GPURUN_ERR_UNSUPPORTED);
    REQUIRE_OK(gpurun_group_end());
    CHECK(made.id == GPURUN_COMM_NULL.id);
}

TEST_CASE("communicators are exhausted with an error on all their ranks, and there are more once some are freed") {
    constexpr int kMost = 4093;
    std::vector<Comm> comms;
    gpurun_comm made = GPURUN_COMM_NULL;
    gpurun_status status = GPURUN_OK;
    while ((status = gpurun_comm_dup(kWorld, &made)) == GPURUN_OK)
        comms.emplace_back(made);
    CHECK(status == GPURUN_ERR_MEMORY);
    CHECK(std::strstr(gpurun_error_detail(), "free some") != nullptr);
    CHECK(comms.size() <= kMost);
    CHECK(comms.size() > kMost - 100); // but for those of other tests that are about to go
    for (int freed = 0; freed < 2000; freed++)
        comms.pop_back();
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST)); // so that all have freed theirs
    CHECK(Comm::dup().size() == size());
    int number = rank();
    REQUIRE_OK(gpurun_bcast(&number, 1, GPURUN_INT32, size() - 1, comms.back(), GPURUN_HOST));
    CHECK(number == size() - 1);
}

TEST_SUITE_END();

} // namespace gpurun::test::communicators
