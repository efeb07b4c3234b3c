// Grids and graphs: who is in them and where, who is next to whom, and what the calls refuse.
#include "topologies.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace gpurun::test::topologies {

namespace {

using Ints = std::vector<int>;

Ints coords_of(gpurun_comm grid, int rank, int ndims) {
    Ints coords(static_cast<size_t>(ndims), -1);
    REQUIRE_OK(gpurun_cart_coords(grid, rank, ndims, coords.data()));
    return coords;
}

gpurun_topology topology_of(gpurun_comm comm) {
    gpurun_topology topology{};
    REQUIRE_OK(gpurun_topo_test(comm, &topology));
    return topology;
}

// Of a grid with two dimensions.
void check_grid(gpurun_comm grid, const Ints& dims, const Ints& periods) {
    Ints got_dims(2), got_periods(2), coords(2);
    REQUIRE_OK(gpurun_cart_get(grid, 2, got_dims.data(), got_periods.data(), coords.data()));
    CHECK(got_dims == dims);
    CHECK(got_periods == periods);
    int own = -1, ndims = -1, found = -1;
    REQUIRE_OK(gpurun_comm_rank(grid, &own));
    REQUIRE_OK(gpurun_cartdim_get(grid, &ndims));
    CHECK(ndims == 2);
    CHECK(coords == Ints{own / dims[1], own % dims[1]});
    REQUIRE_OK(gpurun_cart_rank(grid, coords.data(), &found));
    CHECK(found == own);
}

} // namespace

TEST_SUITE_BEGIN("topologies");

TEST_CASE("every rank of a grid knows where all are, and a duplicate of it is the same grid") {
    const Ints dims = dims_of(size(), 2);
    const Comm grid = cart(dims, {1, 0});
    CHECK(grid.rank() == rank());
    CHECK(topology_of(grid) == GPURUN_TOPOLOGY_CART);
    check_grid(grid, dims, {1, 0});
    const Comm copy = Comm::dup(grid), copy_of_copy = Comm::dup(copy);
    check_grid(copy_of_copy, dims, {1, 0});
    for (int each = 0; each < size(); each++)
        CHECK(coords_of(copy, each, 2) == Ints{each / dims[1], each % dims[1]});
    CHECK(topology_of(Comm::split(0, 0, grid)) == GPURUN_TOPOLOGY_NONE);
    CHECK(topology_of(kWorld) == GPURUN_TOPOLOGY_NONE);
}

TEST_CASE("ranks that have no place in a grid get no communicator") {
    const int length = std::max(1, size() - 1);
    const Comm line = cart({length}, {0});
    CHECK(line.is_null() == (rank() >= length));
    if (!line.is_null()) {
        CHECK(line.size() == length);
        CHECK(line.rank() == rank());
    }
    const Comm point = cart({}, {});
    CHECK(point.is_null() == (rank() != 0));
    if (!point.is_null()) {
        int ndims = -1;
        REQUIRE_OK(gpurun_cartdim_get(point, &ndims));
        CHECK(ndims == 0);
    }
}

TEST_CASE("what a shift names as the destination names this rank as the source") {
    for (const int periodic : {0, 1})
        for (const int steps : {1, -1, 2, 0, 1000}) {
            const Comm line = cart({size()}, {periodic});
            int source = -1, dest = -1;
            REQUIRE_OK(gpurun_cart_shift(line, 0, steps, &source, &dest));
            const auto at = [&](int place) {
                if (periodic != 0)
                    return (place % size() + size()) % size();
                return place >= 0 && place < size() ? place : GPURUN_PROC_NULL;
            };
            CHECK(source == at(rank() - steps));
            CHECK(dest == at(rank() + steps));
            int sent = rank(), got = -1;
            REQUIRE_OK(gpurun_sendrecv(&sent, 1, GPURUN_INT, dest, 0, &got, 1, GPURUN_INT, source, 0, line, GPURUN_HOST,
                                       nullptr));
            CHECK(got == (source == GPURUN_PROC_NULL ? -1 : source));
        }
}

TEST_CASE("the parts of a grid are grids of the dimensions that remain") {
    const Ints dims = dims_of(size(), 3);
    const Comm grid = cart(dims, {1, 0, 1});
    const Ints coords = coords_of(grid, grid.rank(), 3);
    for (int choice = 0; choice < 8; choice++) {
        const Ints remain{choice & 1, choice >> 1 & 1, choice >> 2 & 1};
        gpurun_comm made = GPURUN_COMM_NULL;
        REQUIRE_OK(gpurun_cart_sub(grid, remain.data(), &made));
        const Comm part(made);
        Ints expected_dims, expected_periods, expected_coords;
        for (size_t i = 0; i < 3; i++)
            if (remain[i] != 0) {
                expected_dims.push_back(dims[i]);
                expected_periods.push_back(i != 1);
                expected_coords.push_back(coords[i]);
            }
        Ints got_dims(expected_dims.size()), got_periods(got_dims.size()), got_coords(got_dims.size());
        REQUIRE_OK(gpurun_cart_get(part, 3, got_dims.data(), got_periods.data(), got_coords.data()));
        CHECK(got_dims == expected_dims);
        CHECK(got_periods == expected_periods);
        CHECK(got_coords == expected_coords);
        CHECK(part.size() == std::accumulate(got_dims.begin(), got_dims.end(), 1, std::multiplies<>()));
        Ints others(static_cast<size_t>(part.size()));
        REQUIRE_OK(gpurun_allgather(&coords[1], 1, GPURUN_INT, others.data(), 1, GPURUN_INT, part, GPURUN_HOST));
        if (remain[1] == 0)
            CHECK(others == Ints(others.size(), coords[1]));
    }
}

TEST_CASE("a graph and its duplicate give each rank the neighbours that it has named, in its order") {
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    const Comm made = graph({rank(), previous, previous}, {next, rank(), next}), copy = Comm::dup(made);
    CHECK(topology_of(copy) == GPURUN_TOPOLOGY_DIST_GRAPH);
    CHECK(copy.rank() == rank());
    int indegree = -1, outdegree = -1;
    REQUIRE_OK(gpurun_dist_graph_neighbors_count(copy, &indegree, &outdegree));
    CHECK(indegree == 3);
    CHECK(outdegree == 3);
    Ints sources(3), destinations(3, -1);
    REQUIRE_OK(gpurun_dist_graph_neighbors(copy, 3, sources.data(), 1, destinations.data()));
    CHECK(sources == Ints{rank(), previous, previous});
    CHECK(destinations == Ints{next, -1, -1});
    const Comm none = graph({}, {});
    REQUIRE_OK(gpurun_dist_graph_neighbors_count(none, &indegree, &outdegree));
    CHECK(indegree == 0);
    REQUIRE_OK(gpurun_dist_graph_neighbors(none, 0, nullptr, 0, nullptr));
}

TEST_CASE("ranks that give different grids or different dimensions to remain are all refused") {
    if (size() == 1)
        return;
    gpurun_comm made = GPURUN_COMM_NULL;
    const int dims[] = {size()}, period = rank() == 0 ? 1 : 0;
    CHECK(gpurun_cart_create(kWorld, 1, dims, &period, 0, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(std::strstr(gpurun_error_detail(), "different dimensions or periods") != nullptr);
    const int small[] = {rank() == 0 ? 1 : 2}, open = 0;
    CHECK(gpurun_cart_create(kWorld, 1, small, &open, 0, &made) == GPURUN_ERR_ARGUMENT);
    const Comm line = cart({size()}, {0});
    const int remain = rank() == 0 ? 1 : 0;
    CHECK(gpurun_cart_sub(line, &remain, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(made.id == GPURUN_COMM_NULL.id);
    CHECK(Comm::dup(line).size() == size()); // nothing was left behind
}

TEST_CASE("neighbours of a graph that do not agree are refused on all ranks, wherever the mistake is") {
    if (size() == 1)
        return;
    gpurun_comm made = GPURUN_COMM_NULL;
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    const auto create = [&](int indegree, int outdegree) {
        const int sources[] = {previous, previous}, destinations[] = {next, next};
        return gpurun_dist_graph_create_adjacent(kWorld, indegree, sources, outdegree, destinations, 0, &made);
    };
    CHECK(create(1, rank() == 0 ? 2 : 1) == GPURUN_ERR_ARGUMENT); // one that nobody gets
    CHECK(std::strstr(gpurun_error_detail(), "neighbours do not agree") != nullptr);
    CHECK(create(rank() == 1 ? 0 : 1, 1) == GPURUN_ERR_ARGUMENT);
    CHECK(made.id == GPURUN_COMM_NULL.id);
    const Comm ring = graph({previous}, {next});
    CHECK(ring.size() == size());
}

TEST_CASE("what cannot be a grid or a graph is refused before anything is sent") {
    gpurun_comm made = GPURUN_COMM_NULL;
    const int large = size() + 1, none = 0, one = 1, beyond = size();
    const auto make = [&](int ndims, const int* dims, const int* periods) {
        return gpurun_cart_create(kWorld, ndims, dims, periods, 0, &made);
    };
    CHECK(make(1, &large, &none) == GPURUN_ERR_ARGUMENT);
    CHECK(make(1, &none, &none) == GPURUN_ERR_ARGUMENT);
    CHECK(make(-1, &one, &none) == GPURUN_ERR_ARGUMENT);
    CHECK(make(65, &one, &none) == GPURUN_ERR_ARGUMENT);
    CHECK(make(1, nullptr, &none) == GPURUN_ERR_ARGUMENT);
    CHECK(make(1, &one, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_sub(kWorld, &one, &made) == GPURUN_ERR_COMM);
    const auto join = [&](int indegree, const int* sources, int outdegree, const int* destinations) {
        return gpurun_dist_graph_create_adjacent(kWorld, indegree, sources, outdegree, destinations, 0, &made);
    };
    CHECK(join(1, &beyond, 0, nullptr) == GPURUN_ERR_RANK);
    CHECK(join(0, nullptr, 1, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(join(-1, nullptr, 0, nullptr) == GPURUN_ERR_ARGUMENT);
    const Ints often(1025, 0);
    CHECK(join(1025, often.data(), 0, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(made.id == GPURUN_COMM_NULL.id);
}

TEST_CASE("questions that a communicator cannot answer are refused") {
    const Comm grid = cart({size(), 1}, {0, 0}), ring = graph({}, {});
    int one = 41, other = 41;
    const int outside[] = {-1, 0};
    CHECK(gpurun_cartdim_get(kWorld, &one) == GPURUN_ERR_COMM);
    CHECK(gpurun_cartdim_get(ring, &one) == GPURUN_ERR_COMM);
    CHECK(gpurun_cart_rank(grid, outside, &one) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_rank(grid, nullptr, &one) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_coords(grid, 0, 1, &one) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_coords(grid, size(), 2, &one) == GPURUN_ERR_RANK);
    CHECK(gpurun_cart_get(grid, 1, &one, nullptr, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_shift(grid, 2, 1, &one, &other) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_shift(grid, -1, 1, &one, &other) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_cart_shift(grid, 0, 1, nullptr, &other) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_dist_graph_neighbors_count(grid, &one, &other) == GPURUN_ERR_COMM);
    CHECK(gpurun_dist_graph_neighbors(kWorld, 0, nullptr, 0, nullptr) == GPURUN_ERR_COMM);
    CHECK(gpurun_topo_test(grid, nullptr) == GPURUN_ERR_ARGUMENT);
    int dims[] = {0, 5};
    CHECK(gpurun_dims_create(7, 2, dims) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_dims_create(0, 2, dims) == GPURUN_ERR_ARGUMENT);
    CHECK(dims[0] == 0);
    CHECK(one == 41);
    CHECK(other == 41);
}

TEST_SUITE_END();

} // namespace gpurun::test::topologies
