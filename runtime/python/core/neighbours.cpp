/*
 * Exchanges with neighbours in a grid or a graph. They have no prepared form.
 */
#include "collective.hpp"

namespace gpurun::python {
namespace {

struct Degrees {
    int sources = 0;
    int destinations = 0;
};

/* Of this rank. Raises ArgumentError if the communicator has no topology. */
Degrees degrees(const Comm& comm) {
    Degrees found;
    gpurun_topology topology = GPURUN_TOPOLOGY_NONE;
    check(gpurun_topo_test(comm.handle(), &topology), "neighbors");
    if (topology == GPURUN_TOPOLOGY_CART) {
        int dimensions = 0;
        check(gpurun_cartdim_get(comm.handle(), &dimensions), "neighbors");
        found = {2 * dimensions, 2 * dimensions};
    } else { // without a graph, this says so
        check(gpurun_dist_graph_neighbors_count(comm.handle(), &found.sources, &found.destinations), "neighbors");
    }
    return found;
}

std::size_t block(const char* name, const Side& side, int blocks) { return blocks == 0 ? 0 : part(name, side, blocks); }

gpurun_status unprepared(gpurun_request*) { return GPURUN_ERR_UNSUPPORTED; }

nb::object neighbour_allgather(Form form, const Comm& comm, nb::handle send, nb::handle recv, nb::handle stream) {
    Sides sides(send, recv, stream);
    const std::size_t room = block("neighbor_allgather", sides.recv, degrees(comm).sources);
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, "neighbor_allgather", order, std::move(sides.kept),
        [&] { return gpurun_neighbor_allgather(s.data, s.count, s.type, r.data, room, r.type, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ineighbor_allgather(s.data, s.count, s.type, r.data, room, r.type, comm.handle(), order, ret);
        },
        unprepared);
}

nb::object neighbour_alltoall(Form form, const Comm& comm, nb::handle send, nb::handle recv, nb::handle stream) {
    Sides sides(send, recv, stream);
    const Degrees around = degrees(comm);
    const std::size_t each = block("neighbor_alltoall", sides.send, around.destinations);
    const std::size_t room = block("neighbor_alltoall", sides.recv, around.sources);
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, "neighbor_alltoall", order, std::move(sides.kept),
        [&] { return gpurun_neighbor_alltoall(s.data, each, s.type, r.data, room, r.type, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ineighbor_alltoall(s.data, each, s.type, r.data, room, r.type, comm.handle(), order, ret);
        },
        unprepared);
}

nb::object neighbour_allgatherv(Form form, const Comm& comm, nb::handle send, nb::handle recv, nb::handle counts,
                                nb::handle displacements, nb::handle stream) {
    constexpr const char* kName = "neighbor_allgatherv";
    Sides sides(send, recv, stream);
    const int sources = degrees(comm).sources;
    const std::size_t* const c = sizes(sides.kept->sizes[0], counts, kName, sources);
    const std::size_t* const d = sizes(sides.kept->sizes[1], displacements, kName, sources);
    fits(kName, sides.recv, c, d, sources);
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, kName, order, std::move(sides.kept),
        [&] { return gpurun_neighbor_allgatherv(s.data, s.count, s.type, r.data, c, d, r.type, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ineighbor_allgatherv(s.data, s.count, s.type, r.data, c, d, r.type, comm.handle(), order,
                                               ret);
        },
        unprepared);
}

nb::object neighbour_alltoallv(Form form, const Comm& comm, nb::handle send, nb::handle recv, nb::handle send_counts,
                               nb::handle recv_counts, nb::handle send_displacements, nb::handle recv_displacements,
                               nb::handle stream) {
    constexpr const char* kName = "neighbor_alltoallv";
    Sides sides(send, recv, stream);
    const Degrees around = degrees(comm);
    auto& kept = sides.kept->sizes;
    const std::size_t* const sc = sizes(kept[0], send_counts, kName, around.destinations);
    const std::size_t* const rc = sizes(kept[1], recv_counts, kName, around.sources);
    const std::size_t* const sd = sizes(kept[2], send_displacements, kName, around.destinations);
    const std::size_t* const rd = sizes(kept[3], recv_displacements, kName, around.sources);
    fits(kName, sides.send, sc, sd, around.destinations);
    fits(kName, sides.recv, rc, rd, around.sources);
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, kName, order, std::move(sides.kept),
        [&] { return gpurun_neighbor_alltoallv(s.data, sc, sd, s.type, r.data, rc, rd, r.type, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ineighbor_alltoallv(s.data, sc, sd, s.type, r.data, rc, rd, r.type, comm.handle(), order,
                                              ret);
        },
        unprepared);
}

} // namespace

void bind_neighbours(CommClass& comm) {
    using C = const Comm&;
    using H = nb::handle;
    const auto stream = "stream"_a = nb::none();
    const auto no_places = nb::none();
    bind_forms(
        comm, {"neighbor_allgather", "ineighbor_allgather", nullptr},
        [](auto form) {
            return [](C c, H s, H r, H o) { return neighbour_allgather(decltype(form)::value, c, s, r, o); };
        },
        "Send `sendbuf` to each destination of this rank, and receive one part of `recvbuf` from each of its sources.",
        "sendbuf"_a, "recvbuf"_a, nb::kw_only(), stream);
    bind_forms(
        comm, {"neighbor_alltoall", "ineighbor_alltoall", nullptr},
        [](auto form) {
            return [](C c, H s, H r, H o) { return neighbour_alltoall(decltype(form)::value, c, s, r, o); };
        },
        "Send a part of `sendbuf` to each destination of this rank, and receive one from each of its sources.",
        "sendbuf"_a, "recvbuf"_a, nb::kw_only(), stream);
    bind_forms(
        comm, {"neighbor_allgatherv", "ineighbor_allgatherv", nullptr},
        [](auto form) {
            return [](C c, H s, H r, H n, H d, H o) {
                return neighbour_allgatherv(decltype(form)::value, c, s, r, n, d, o);
            };
        },
        "neighbor_allgather() with parts of different lengths.", "sendbuf"_a, "recvbuf"_a, "recvcounts"_a,
        "displacements"_a.none() = no_places, nb::kw_only(), stream);
    bind_forms(
        comm, {"neighbor_alltoallv", "ineighbor_alltoallv", nullptr},
        [](auto form) {
            return [](C c, H s, H r, H sc, H rc, H sd, H rd, H o) {
                return neighbour_alltoallv(decltype(form)::value, c, s, r, sc, rc, sd, rd, o);
            };
        },
        "neighbor_alltoall() with parts of different lengths.", "sendbuf"_a, "recvbuf"_a, "sendcounts"_a,
        "recvcounts"_a, "senddisplacements"_a.none() = no_places, "recvdisplacements"_a.none() = no_places,
        nb::kw_only(), stream);
}

} // namespace gpurun::python
