/*
 * Grids and graphs of ranks.
 */
#include "comm.hpp"

#include <vector>

namespace gpurun::python {
namespace {

using Numbers = std::vector<int>;

Numbers numbers(nb::handle given) {
    Numbers list;
    for (const nb::handle each : nb::iter(given))
        list.push_back(nb::cast<int>(each));
    return list;
}

nb::tuple tuple(const Numbers& list) {
    nb::list made;
    for (const int each : list)
        made.append(each);
    return nb::tuple(made);
}

nb::object cart_create(const Comm& comm, nb::handle given_dims, nb::handle given_periods) {
    const Numbers dims = numbers(given_dims);
    const Numbers periods = given_periods.is_none() ? Numbers(dims.size(), 0) : numbers(given_periods);
    if (periods.size() != dims.size())
        raise(GPURUN_ERR_ARGUMENT, "cart_create", "dims and periods have different lengths");
    return new_comm("cart_create", [&](gpurun_comm* ret) {
        return gpurun_cart_create(comm.handle(), static_cast<int>(dims.size()), dims.data(), periods.data(), 0, ret);
    });
}

std::size_t dimensions(const Comm& comm) {
    int count = 0;
    check(gpurun_cartdim_get(comm.handle(), &count), "cart");
    return static_cast<std::size_t>(count);
}

nb::tuple cart_get(const Comm& comm) {
    const std::size_t count = dimensions(comm);
    Numbers dims(count);
    Numbers periods(count);
    Numbers coords(count);
    check(gpurun_cart_get(comm.handle(), static_cast<int>(count), dims.data(), periods.data(), coords.data()),
          "cart_get");
    return nb::make_tuple(tuple(dims), tuple(periods), tuple(coords));
}

nb::tuple cart_coords(const Comm& comm, int rank) {
    Numbers coords(dimensions(comm));
    check(gpurun_cart_coords(comm.handle(), rank, static_cast<int>(coords.size()), coords.data()), "cart_coords");
    return tuple(coords);
}

int cart_rank(const Comm& comm, nb::handle given) {
    const Numbers coords = numbers(given);
    if (coords.size() != dimensions(comm))
        raise(GPURUN_ERR_ARGUMENT, "cart_rank", "give as many coordinates as the grid has dimensions");
    int rank = 0;
    check(gpurun_cart_rank(comm.handle(), coords.data(), &rank), "cart_rank");
    return rank;
}

nb::tuple cart_shift(const Comm& comm, int direction, int displacement) {
    int source = 0;
    int dest = 0;
    check(gpurun_cart_shift(comm.handle(), direction, displacement, &source, &dest), "cart_shift");
    return nb::make_tuple(source, dest);
}

nb::object cart_sub(const Comm& comm, nb::handle remain) {
    const Numbers dims = numbers(remain);
    if (dims.size() != dimensions(comm))
        raise(GPURUN_ERR_ARGUMENT, "cart_sub", "say of each dimension of the grid whether it remains");
    return new_comm("cart_sub", [&](gpurun_comm* ret) { return gpurun_cart_sub(comm.handle(), dims.data(), ret); });
}

nb::tuple dims_create(int ranks, nb::handle given) {
    Numbers dims = numbers(given);
    check(gpurun_dims_create(ranks, static_cast<int>(dims.size()), dims.data()), "dims_create");
    return tuple(dims);
}

nb::object dist_graph(const Comm& comm, nb::handle given_sources, nb::handle given_destinations) {
    const Numbers sources = numbers(given_sources);
    const Numbers destinations = numbers(given_destinations);
    return new_comm("dist_graph_create_adjacent", [&](gpurun_comm* ret) {
        return gpurun_dist_graph_create_adjacent(comm.handle(), static_cast<int>(sources.size()), sources.data(),
                                                 static_cast<int>(destinations.size()), destinations.data(), 0, ret);
    });
}

} // namespace

void bind_topologies(nb::module_& module, CommClass& comm) {
    module.def("dims_create", &dims_create, "ranks"_a, "dims"_a,
               "The dimensions of a grid of `ranks` ranks, as equal as can be; those of `dims` that are not 0 stay.");
    comm.def("cart_create", &cart_create, "dims"_a, "periods"_a.none() = nb::none(),
             "Make a communicator whose ranks are the places of a grid. None for ranks that have no place.")
        .def("cart_get", &cart_get, "Of a grid: (dims, periods, coords), coords being this rank's.")
        .def("cart_coords", &cart_coords, "rank"_a, "The coordinates of a rank of a grid.")
        .def("cart_rank", &cart_rank, "coords"_a, "The rank at these coordinates of a grid.")
        .def("cart_shift", &cart_shift, "direction"_a, "displacement"_a = 1,
             "(source, dest) of a shift along a dimension, as sendrecv() takes them.")
        .def("cart_sub", &cart_sub, "remain_dims"_a, "Make a grid of each part that shares the other coordinates.")
        .def("dist_graph_create_adjacent", &dist_graph, "sources"_a, "destinations"_a,
             "Make a communicator in which this rank has these neighbours.");
}

} // namespace gpurun::python
