// Grids and graphs of ranks: making them, and who is where in them.
#include "api/new_communicator.hpp"
#include "base/format.hpp"

#include <algorithm>

namespace gpurun::api {

using base::Result;
using base::Status;
using comm::Cartesian;
using comm::Rank;
using comm::Topology;

namespace {

base::Error no_array(const char* what) {
    return base::error(Status::kArgument, "{} is NULL: pass a number for each dimension", what);
}
Result<void> check_array(const int* array, int length, const char* what) {
    if (array == nullptr && length != 0)
        return no_array(what);
    return {};
}

Result<void> check_ndims(int ndims) {
    if (ndims >= 0 && ndims <= Cartesian::kMostDimensions)
        return {};
    return base::error(Status::kArgument, "{} dimensions cannot be used: a grid has 0 to {}", ndims,
                       Cartesian::kMostDimensions);
}

// ---- making

Result<void> create_dims(int ranks, int ndims, int* dims) {
    GPURUN_TRY(check_ndims(ndims));
    GPURUN_TRY(check_array(dims, ndims, "dims"));
    if (ranks <= 0)
        return base::error(Status::kArgument, "{} ranks make no grid: pass 1 or more", ranks);
    const auto size = static_cast<size_t>(ndims);
    std::vector<int> chosen(dims, dims + size);
    for (const int each : chosen)
        if (each < 0)
            return base::error(Status::kArgument, "a dimension of {} cannot be used: pass 0 where it is to be chosen",
                               each);
    if (!comm::choose_dimensions(ranks, chosen))
        return base::error(Status::kArgument,
                           "{} ranks make no grid with the dimensions that are given: their product "
                           "must divide the number of ranks, and be it if none is 0",
                           ranks);
    std::copy(chosen.begin(), chosen.end(), dims);
    return {};
}

Result<Cartesian> grid_of(const Call& call, int ndims, const int* dims, const int* periods) {
    GPURUN_TRY(check_ndims(ndims));
    GPURUN_TRY(check_array(dims, ndims, "dims"));
    GPURUN_TRY(check_array(periods, ndims, "periods"));
    std::vector<Cartesian::Dimension> dimensions;
    for (int i = 0; i < ndims; ++i) {
        if (dims[i] <= 0)
            return base::error(Status::kArgument, "a dimension of {} cannot be used: each has 1 rank or more", dims[i]);
        dimensions.push_back({dims[i], periods[i] != 0});
    }
    Cartesian grid(std::move(dimensions));
    if (grid.ranks(call.comm->size()) > call.comm->size())
        return base::error(Status::kArgument, "the grid is too large: the communicator{} has {} ranks", in_quotes(call),
                           call.comm->size());
    return grid;
}

Result<void> create_cart(gpurun_comm comm, int ndims, const int* dims, const int* periods, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    GPURUN_ASSIGN(const Cartesian grid, grid_of(call, ndims, dims, periods));
    return give(call.engine->communicators().create_cart(*call.comm, grid), ret_comm);
}

// The grid of a communicator that has one.
Result<const Cartesian*> grid_of(const Call& call) {
    if (const Topology* const topology = call.comm->topology().get();
        topology != nullptr && topology->grid() != nullptr)
        return topology->grid();
    return base::error(Status::kComm,
                       "the communicator{} is no Cartesian grid: use one of gpurun_cart_create() or gpurun_cart_sub()",
                       in_quotes(call));
}

Result<void> sub_cart(gpurun_comm comm, const int* remain_dims, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    GPURUN_ASSIGN(const Cartesian* const grid, grid_of(call));
    const size_t ndims = grid->dimensions().size();
    GPURUN_TRY(check_array(remain_dims, static_cast<int>(ndims), "remain_dims"));
    std::array<bool, Cartesian::kMostDimensions> kept{};
    for (size_t i = 0; i < ndims; ++i)
        kept[i] = remain_dims[i] != 0;
    return give(call.engine->communicators().split_cart(*call.comm, std::span(kept).first(ndims)), ret_comm);
}

Result<void> check_neighbours(const Call& call, int degree, const int* ranks, const char* what) {
    if (degree < 0)
        return base::error(Status::kArgument, "{} {}s cannot be: pass 0 or more", degree, what);
    if (ranks == nullptr && degree != 0)
        return base::error(Status::kArgument, "the {}s are NULL: pass {} ranks", what, degree);
    std::vector<int> times(static_cast<size_t>(call.comm->size()));
    for (int i = 0; i < degree; ++i) {
        if (!call.comm->group().has(ranks[i]))
            return no_such_rank(call, ranks[i], what, false);
        if (++times[static_cast<size_t>(ranks[i])] > Topology::kMostNumbers)
            return base::error(Status::kArgument, "rank {} is a {} more than {} times: it can be one so often",
                               ranks[i], what, Topology::kMostNumbers);
    }
    return {};
}

struct Ranks {
    int count;
    const int* ranks;

    std::span<const int> all() const { return {ranks, static_cast<size_t>(count)}; }
};

Result<void> create_graph(gpurun_comm comm, const Ranks& sources, const Ranks& destinations, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    GPURUN_TRY(check_neighbours(call, sources.count, sources.ranks, "source"));
    GPURUN_TRY(check_neighbours(call, destinations.count, destinations.ranks, "destination"));
    comm::Communicators& all = call.engine->communicators();
    return give(all.create_graph(*call.comm, sources.all(), destinations.all()), ret_comm);
}

// ---- asking

Result<void> test_topology(gpurun_comm comm, gpurun_topology* ret_topology) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_topology, "ret_topology"));
    const Topology* const topology = call.comm->topology().get();
    *ret_topology = topology == nullptr           ? GPURUN_TOPOLOGY_NONE
                    : topology->grid() != nullptr ? GPURUN_TOPOLOGY_CART
                                                  : GPURUN_TOPOLOGY_DIST_GRAPH;
    return {};
}

Result<void> get_cartdim(gpurun_comm comm, int* ret_ndims) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_ndims, "ret_ndims"));
    GPURUN_ASSIGN(const Cartesian* const grid, grid_of(call));
    *ret_ndims = static_cast<int>(grid->dimensions().size());
    return {};
}

// Where there is room for all.
Result<const Cartesian*> grid_within(const Call& call, int maxdims) {
    GPURUN_ASSIGN(const Cartesian* const grid, grid_of(call));
    const auto ndims = static_cast<int>(grid->dimensions().size());
    if (maxdims < ndims)
        return base::error(Status::kArgument, "the grid has {} dimensions, and maxdims is {}: pass arrays for all",
                           ndims, maxdims);
    return grid;
}

Result<void> get_cart(gpurun_comm comm, int maxdims, int* ret_dims, int* ret_periods, int* ret_coords) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_ASSIGN(const Cartesian* const grid, grid_within(call, maxdims));
    const std::vector<int> coordinates = grid->coordinates(call.comm->rank());
    for (size_t i = 0; i < coordinates.size(); ++i) {
        const auto& [size, periodic] = grid->dimensions()[i];
        if (ret_dims != nullptr)
            ret_dims[i] = size;
        if (ret_periods != nullptr)
            ret_periods[i] = periodic ? 1 : 0;
        if (ret_coords != nullptr)
            ret_coords[i] = coordinates[i];
    }
    return {};
}

Result<void> find_cart_rank(gpurun_comm comm, const int* coords, int* ret_rank) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_rank, "ret_rank"));
    GPURUN_ASSIGN(const Cartesian* const grid, grid_of(call));
    const size_t ndims = grid->dimensions().size();
    GPURUN_TRY(check_array(coords, static_cast<int>(ndims), "coords"));
    const std::optional<Rank> rank = grid->at({coords, ndims});
    if (!rank)
        return base::error(Status::kArgument, "the coordinates are outside of the grid, in a dimension that is not "
                                              "periodic");
    *ret_rank = rank->value;
    return {};
}

Result<void> find_cart_coords(gpurun_comm comm, int rank, int maxdims, int* ret_coords) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_ASSIGN(const Cartesian* const grid, grid_within(call, maxdims));
    if (!call.comm->group().has(rank))
        return no_such_rank(call, rank, "rank", false);
    GPURUN_TRY(check_array(ret_coords, static_cast<int>(grid->dimensions().size()), "ret_coords"));
    const std::vector<int> coordinates = grid->coordinates(Rank{rank});
    std::copy(coordinates.begin(), coordinates.end(), ret_coords);
    return {};
}

Result<void> shift_cart(gpurun_comm comm, int direction, int displacement, int* ret_source, int* ret_dest) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_source, "ret_source"));
    GPURUN_TRY(check_output(ret_dest, "ret_dest"));
    GPURUN_ASSIGN(const Cartesian* const grid, grid_of(call));
    const auto ndims = static_cast<int>(grid->dimensions().size());
    if (direction < 0 || direction >= ndims)
        return base::error(Status::kArgument, "direction {} is no dimension of the grid: it has {}", direction, ndims);
    const auto dimension = static_cast<size_t>(direction);
    *ret_source = grid->shifted(call.comm->rank(), dimension, -int64_t{displacement});
    *ret_dest = grid->shifted(call.comm->rank(), dimension, displacement);
    return {};
}

Result<const Topology*> graph_of(const Call& call) {
    if (const Topology* const topology = call.comm->topology().get();
        topology != nullptr && topology->grid() == nullptr)
        return topology;
    return base::error(Status::kComm, "the communicator{} has no graph: use one of gpurun_dist_graph_create_adjacent()",
                       in_quotes(call));
}

Result<void> count_neighbours(gpurun_comm comm, int* ret_indegree, int* ret_outdegree) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_indegree, "ret_indegree"));
    GPURUN_TRY(check_output(ret_outdegree, "ret_outdegree"));
    GPURUN_ASSIGN(const Topology* const graph, graph_of(call));
    *ret_indegree = static_cast<int>(graph->sources().size());
    *ret_outdegree = static_cast<int>(graph->destinations().size());
    return {};
}

Result<void> get_neighbours(gpurun_comm comm, int max_indegree, int* ret_sources, int max_outdegree,
                            int* ret_destinations) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_ASSIGN(const Topology* const graph, graph_of(call));
    const auto write = [](const std::vector<comm::Neighbour>& neighbours, int most, int* ret_ranks) {
        for (size_t i = 0; i < neighbours.size() && static_cast<int>(i) < most; ++i)
            ret_ranks[i] = neighbours[i].peer;
    };
    GPURUN_TRY(check_output(max_indegree > 0 ? ret_sources : &max_indegree, "ret_sources"));
    GPURUN_TRY(check_output(max_outdegree > 0 ? ret_destinations : &max_outdegree, "ret_destinations"));
    write(graph->sources(), max_indegree, ret_sources);
    write(graph->destinations(), max_outdegree, ret_destinations);
    return {};
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_dims_create(int ranks, int ndims, int* dims) {
    return api::report(api::create_dims(ranks, ndims, dims), __func__);
}

gpurun_status gpurun_cart_create(gpurun_comm comm, int ndims, const int* dims, const int* periods, int /*reorder*/,
                                 gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::create_cart(comm, ndims, dims, periods, ret_comm));
}

gpurun_status gpurun_cart_sub(gpurun_comm comm, const int* remain_dims, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::sub_cart(comm, remain_dims, ret_comm));
}

gpurun_status gpurun_dist_graph_create_adjacent(gpurun_comm comm, int indegree, const int* sources, int outdegree,
                                                const int* destinations, int /*reorder*/, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::create_graph(comm, {indegree, sources}, {outdegree, destinations}, ret_comm));
}

gpurun_status gpurun_topo_test(gpurun_comm comm, gpurun_topology* ret_topology) {
    return api::report(api::test_topology(comm, ret_topology), __func__);
}

gpurun_status gpurun_cartdim_get(gpurun_comm comm, int* ret_ndims) {
    return api::report(api::get_cartdim(comm, ret_ndims), __func__);
}

gpurun_status gpurun_cart_get(gpurun_comm comm, int maxdims, int* ret_dims, int* ret_periods, int* ret_coords) {
    return api::report(api::get_cart(comm, maxdims, ret_dims, ret_periods, ret_coords), __func__);
}

gpurun_status gpurun_cart_rank(gpurun_comm comm, const int* coords, int* ret_rank) {
    return api::report(api::find_cart_rank(comm, coords, ret_rank), __func__);
}

gpurun_status gpurun_cart_coords(gpurun_comm comm, int rank, int maxdims, int* ret_coords) {
    return api::report(api::find_cart_coords(comm, rank, maxdims, ret_coords), __func__);
}

gpurun_status gpurun_cart_shift(gpurun_comm comm, int direction, int displacement, int* ret_source, int* ret_dest) {
    return api::report(api::shift_cart(comm, direction, displacement, ret_source, ret_dest), __func__);
}

gpurun_status gpurun_dist_graph_neighbors_count(gpurun_comm comm, int* ret_indegree, int* ret_outdegree) {
    return api::report(api::count_neighbours(comm, ret_indegree, ret_outdegree), __func__);
}

gpurun_status gpurun_dist_graph_neighbors(gpurun_comm comm, int max_indegree, int* ret_sources, int max_outdegree,
                                          int* ret_destinations) {
    return api::report(api::get_neighbours(comm, max_indegree, ret_sources, max_outdegree, ret_destinations), __func__);
}

} // extern "C"
