/*
 * Collectives that move elements: barrier, broadcast, gather, scatter, all-to-all.
 */
#include "collective.hpp"

namespace gpurun::python {
namespace {

using C = const Comm&;
using H = nb::handle;

nb::object barrier(Form form, C comm, H stream) {
    const gpurun_stream order = order_domain(stream, GPURUN_HOST);
    return perform(
        form, "barrier", order, nullptr, [&] { return gpurun_barrier(comm.handle(), order); },
        [&](gpurun_request* ret) { return gpurun_ibarrier(comm.handle(), order, ret); },
        [&](gpurun_request* ret) { return gpurun_barrier_init(comm.handle(), order, ret); });
}

nb::object bcast(Form form, C comm, H buffer, int root, H stream) {
    auto kept = std::make_unique<Kept>();
    const Access access = comm.rank() == root ? Access::kRead : Access::kWrite;
    kept->first = Buffer(buffer, access, "buffer", stream);
    const Buffer& b = kept->first;
    const gpurun_stream order = order_domain(stream, b.current());
    return perform(
        form, "bcast", order, std::move(kept),
        [&] { return gpurun_bcast(b.data(), b.count(), b.type(), root, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ibcast(b.data(), b.count(), b.type(), root, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_bcast_init(b.data(), b.count(), b.type(), root, comm.handle(), order, ret);
        });
}

/* The rooted calls take one more argument, so that each of the six has its functions and its root, or none. */
template <typename Functions, typename... Root>
nb::object blocks(Form form, const char* name, Functions functions, C comm, Sides sides, std::size_t send_count,
                  std::size_t recv_count, Root... root) {
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    const auto [now, start, prepare] = functions;
    return perform(
        form, name, order, std::move(sides.kept),
        [&, now = now] {
            return now(s.data, send_count, s.type, r.data, recv_count, r.type, root..., comm.handle(), order);
        },
        [&, start = start](gpurun_request* ret) {
            return start(s.data, send_count, s.type, r.data, recv_count, r.type, root..., comm.handle(), order, ret);
        },
        [&, prepare = prepare](gpurun_request* ret) {
            return prepare(s.data, send_count, s.type, r.data, recv_count, r.type, root..., comm.handle(), order, ret);
        });
}

template <typename Now, typename Start, typename Prepare>
struct Functions {
    Now now;
    Start start;
    Prepare prepare;
};
template <typename Now, typename Start, typename Prepare>
Functions(Now, Start, Prepare) -> Functions<Now, Start, Prepare>;

nb::object gather(Form form, C comm, H send, H recv, int root, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t each =
        sides.send.in_place || sides.send.none ? part("gather", sides.recv, comm.size()) : sides.send.count;
    const std::size_t room = sides.recv.none ? each : part("gather", sides.recv, comm.size());
    return blocks(form, "gather", Functions{gpurun_gather, gpurun_igather, gpurun_gather_init}, comm, std::move(sides),
                  each, room, root);
}

nb::object scatter(Form form, C comm, H send, H recv, int root, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t room = sides.recv.in_place ? part("scatter", sides.send, comm.size()) : sides.recv.count;
    const std::size_t each = sides.send.none ? room : part("scatter", sides.send, comm.size());
    return blocks(form, "scatter", Functions{gpurun_scatter, gpurun_iscatter, gpurun_scatter_init}, comm,
                  std::move(sides), each, room, root);
}

nb::object allgather(Form form, C comm, H send, H recv, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t room = part("allgather", sides.recv, comm.size());
    const std::size_t each = sides.send.in_place ? room : sides.send.count;
    return blocks(form, "allgather", Functions{gpurun_allgather, gpurun_iallgather, gpurun_allgather_init}, comm,
                  std::move(sides), each, room);
}

nb::object alltoall(Form form, C comm, H send, H recv, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t room = part("alltoall", sides.recv, comm.size());
    const std::size_t each = sides.send.in_place ? room : part("alltoall", sides.send, comm.size());
    return blocks(form, "alltoall", Functions{gpurun_alltoall, gpurun_ialltoall, gpurun_alltoall_init}, comm,
                  std::move(sides), each, room);
}

nb::object gatherv(Form form, C comm, H send, H recv, H counts, H displacements, int root, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t* const c = sizes(sides.kept->sizes[0], counts, "gatherv", comm.size());
    const std::size_t* const d = sizes(sides.kept->sizes[1], displacements, "gatherv", comm.size());
    fits("gatherv", sides.recv, c, d, comm.size());
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, "gatherv", order, std::move(sides.kept),
        [&] { return gpurun_gatherv(s.data, s.count, s.type, r.data, c, d, r.type, root, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_igatherv(s.data, s.count, s.type, r.data, c, d, r.type, root, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_gatherv_init(s.data, s.count, s.type, r.data, c, d, r.type, root, comm.handle(), order, ret);
        });
}

nb::object scatterv(Form form, C comm, H send, H recv, H counts, H displacements, int root, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t* const c = sizes(sides.kept->sizes[0], counts, "scatterv", comm.size());
    const std::size_t* const d = sizes(sides.kept->sizes[1], displacements, "scatterv", comm.size());
    fits("scatterv", sides.send, c, d, comm.size());
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, "scatterv", order, std::move(sides.kept),
        [&] { return gpurun_scatterv(s.data, c, d, s.type, r.data, r.count, r.type, root, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_iscatterv(s.data, c, d, s.type, r.data, r.count, r.type, root, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_scatterv_init(s.data, c, d, s.type, r.data, r.count, r.type, root, comm.handle(), order, ret);
        });
}

nb::object allgatherv(Form form, C comm, H send, H recv, H counts, H displacements, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t* const c = sizes(sides.kept->sizes[0], counts, "allgatherv", comm.size());
    const std::size_t* const d = sizes(sides.kept->sizes[1], displacements, "allgatherv", comm.size());
    fits("allgatherv", sides.recv, c, d, comm.size());
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, "allgatherv", order, std::move(sides.kept),
        [&] { return gpurun_allgatherv(s.data, s.count, s.type, r.data, c, d, r.type, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_iallgatherv(s.data, s.count, s.type, r.data, c, d, r.type, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_allgatherv_init(s.data, s.count, s.type, r.data, c, d, r.type, comm.handle(), order, ret);
        });
}

nb::object alltoallv(Form form, C comm, H send, H recv, H send_counts, H recv_counts, H send_displacements,
                     H recv_displacements, H stream) {
    Sides sides(send, recv, stream);
    auto& kept = sides.kept->sizes;
    const std::size_t* const sc = sizes(kept[0], send_counts, "alltoallv", comm.size());
    const std::size_t* const rc = sizes(kept[1], recv_counts, "alltoallv", comm.size());
    const std::size_t* const sd = sizes(kept[2], send_displacements, "alltoallv", comm.size());
    const std::size_t* const rd = sizes(kept[3], recv_displacements, "alltoallv", comm.size());
    fits("alltoallv", sides.send, sc, sd, comm.size());
    fits("alltoallv", sides.recv, rc, rd, comm.size());
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_stream order = sides.order;
    return perform(
        form, "alltoallv", order, std::move(sides.kept),
        [&] { return gpurun_alltoallv(s.data, sc, sd, s.type, r.data, rc, rd, r.type, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ialltoallv(s.data, sc, sd, s.type, r.data, rc, rd, r.type, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_alltoallv_init(s.data, sc, sd, s.type, r.data, rc, rd, r.type, comm.handle(), order, ret);
        });
}

} // namespace

// Each method is bound three times; `form` is the type that says which.
#define GPURUN_FORM decltype(form)::value

void bind_movements(CommClass& comm) {
    const auto stream = "stream"_a = nb::none();
    const auto none = nb::none();
    bind_forms(
        comm, {"barrier", "ibarrier", "barrier_init"},
        [](auto form) { return [](C c, H s) { return barrier(GPURUN_FORM, c, s); }; },
        "No rank passes before all ranks of the communicator have reached it. `stream`: None is host order.", stream);
    bind_forms(
        comm, {"bcast", "ibcast", "bcast_init"},
        [](auto form) { return [](C c, H b, int root, H s) { return bcast(GPURUN_FORM, c, b, root, s); }; },
        "Copy `buffer` of rank `root` into the buffers of all ranks, which have as many bytes.", "buffer"_a,
        "root"_a = 0, nb::kw_only(), stream);
    bind_forms(
        comm, {"gather", "igather", "gather_init"},
        [](auto form) { return [](C c, H s, H r, int root, H o) { return gather(GPURUN_FORM, c, s, r, root, o); }; },
        "Collect `sendbuf`, of n elements, of every rank in `recvbuf` of rank `root`, of size * n elements.\n\n"
        "recvbuf: None on the other ranks. sendbuf: IN_PLACE on the root if its part is in its place.",
        "sendbuf"_a, "recvbuf"_a.none() = none, "root"_a = 0, nb::kw_only(), stream);
    bind_forms(
        comm, {"scatter", "iscatter", "scatter_init"},
        [](auto form) { return [](C c, H s, H r, int root, H o) { return scatter(GPURUN_FORM, c, s, r, root, o); }; },
        "Give each rank its part of rank `root`'s `sendbuf`: of size * n elements, n into its `recvbuf`.\n\n"
        "sendbuf: None on the other ranks. recvbuf: IN_PLACE on the root if its part stays where it is.",
        "sendbuf"_a.none(), "recvbuf"_a, "root"_a = 0, nb::kw_only(), stream);
    bind_forms(
        comm, {"allgather", "iallgather", "allgather_init"},
        [](auto form) { return [](C c, H s, H r, H o) { return allgather(GPURUN_FORM, c, s, r, o); }; },
        "gather() that gives every rank all parts: `recvbuf` has size * n elements.", "sendbuf"_a, "recvbuf"_a,
        nb::kw_only(), stream);
    bind_forms(
        comm, {"alltoall", "ialltoall", "alltoall_init"},
        [](auto form) { return [](C c, H s, H r, H o) { return alltoall(GPURUN_FORM, c, s, r, o); }; },
        "Send the i-th part of `sendbuf` to rank i, and receive its part as the i-th of `recvbuf`.", "sendbuf"_a,
        "recvbuf"_a, nb::kw_only(), stream);
    bind_forms(
        comm, {"gatherv", "igatherv", "gatherv_init"},
        [](auto form) {
            return [](C c, H s, H r, H n, H d, int root, H o) { return gatherv(GPURUN_FORM, c, s, r, n, d, root, o); };
        },
        "gather() with parts of different lengths: rank i gives recvcounts[i] elements, which come to "
        "displacements[i].",
        "sendbuf"_a, "recvbuf"_a.none() = none, "recvcounts"_a.none() = none, "displacements"_a.none() = none,
        "root"_a = 0, nb::kw_only(), stream);
    bind_forms(
        comm, {"scatterv", "iscatterv", "scatterv_init"},
        [](auto form) {
            return [](C c, H s, H r, H n, H d, int root, H o) { return scatterv(GPURUN_FORM, c, s, r, n, d, root, o); };
        },
        "scatter() with parts of different lengths: rank i gets sendcounts[i] elements, from displacements[i] on.",
        "sendbuf"_a.none(), "recvbuf"_a, "sendcounts"_a.none() = none, "displacements"_a.none() = none, "root"_a = 0,
        nb::kw_only(), stream);
    bind_forms(
        comm, {"allgatherv", "iallgatherv", "allgatherv_init"},
        [](auto form) {
            return [](C c, H s, H r, H n, H d, H o) { return allgatherv(GPURUN_FORM, c, s, r, n, d, o); };
        },
        "gatherv() that gives every rank all parts.", "sendbuf"_a, "recvbuf"_a, "recvcounts"_a,
        "displacements"_a.none() = none, nb::kw_only(), stream);
    bind_forms(
        comm, {"alltoallv", "ialltoallv", "alltoallv_init"},
        [](auto form) {
            return [](C c, H s, H r, H sc, H rc, H sd, H rd, H o) {
                return alltoallv(GPURUN_FORM, c, s, r, sc, rc, sd, rd, o);
            };
        },
        "alltoall() with parts of different lengths.", "sendbuf"_a, "recvbuf"_a, "sendcounts"_a, "recvcounts"_a,
        "senddisplacements"_a.none() = none, "recvdisplacements"_a.none() = none, nb::kw_only(), stream);
}

#undef GPURUN_FORM

} // namespace gpurun::python
