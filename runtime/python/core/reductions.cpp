/*
 * Collectives that combine elements.
 */
#include "collective.hpp"

namespace gpurun::python {
namespace {

using C = const Comm&;
using H = nb::handle;

/* allreduce(), scan() and exscan() take the same, and so do their forms. */
template <typename Now, typename Start, typename Prepare>
nb::object everywhere(Form form, const char* name, Now now, Start start, Prepare prepare, C comm, H send, H recv, H op,
                      H stream) {
    Sides sides(send, recv, stream);
    same_on_both(name, sides, 1);
    const Side s = sides.send;
    const Side r = sides.recv;
    const gpurun_op o = operation(op);
    const gpurun_stream order = sides.order;
    return perform(
        form, name, order, std::move(sides.kept),
        [&] { return now(s.data, r.data, r.count, r.type, o, comm.handle(), order); },
        [&](gpurun_request* ret) { return start(s.data, r.data, r.count, r.type, o, comm.handle(), order, ret); },
        [&](gpurun_request* ret) { return prepare(s.data, r.data, r.count, r.type, o, comm.handle(), order, ret); });
}

nb::object reduce(Form form, C comm, H send, H recv, H op, int root, H stream) {
    Sides sides(send, recv, stream);
    same_on_both("reduce", sides, 1);
    const Side s = sides.send;
    const Side r = sides.recv;
    const std::size_t count = s.in_place || s.none ? r.count : s.count;
    const gpurun_op o = operation(op);
    const gpurun_stream order = sides.order;
    return perform(
        form, "reduce", order, std::move(sides.kept),
        [&] { return gpurun_reduce(s.data, r.data, count, s.type, o, root, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ireduce(s.data, r.data, count, s.type, o, root, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_reduce_init(s.data, r.data, count, s.type, o, root, comm.handle(), order, ret);
        });
}

nb::object reduce_scatter_block(Form form, C comm, H send, H recv, H op, H stream) {
    Sides sides(send, recv, stream);
    same_on_both("reduce_scatter_block", sides, static_cast<std::size_t>(comm.size()));
    const Side s = sides.send;
    const Side r = sides.recv;
    const std::size_t count = s.in_place ? part("reduce_scatter_block", r, comm.size()) : r.count;
    const gpurun_op o = operation(op);
    const gpurun_stream order = sides.order;
    return perform(
        form, "reduce_scatter_block", order, std::move(sides.kept),
        [&] { return gpurun_reduce_scatter_block(s.data, r.data, count, r.type, o, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ireduce_scatter_block(s.data, r.data, count, r.type, o, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_reduce_scatter_block_init(s.data, r.data, count, r.type, o, comm.handle(), order, ret);
        });
}

nb::object reduce_scatter(Form form, C comm, H send, H recv, H counts, H op, H stream) {
    Sides sides(send, recv, stream);
    const std::size_t* const c = sizes(sides.kept->sizes[0], counts, "reduce_scatter", comm.size());
    fits("reduce_scatter", sides.send.in_place ? sides.recv : sides.send, c, nullptr, comm.size());
    const Side s = sides.send;
    const Side r = sides.recv;
    if (!s.in_place && s.type != r.type)
        raise(GPURUN_ERR_TYPE, "reduce_scatter",
              "sendbuf and recvbuf have elements of different types; they must be the same");
    if (!s.in_place && c != nullptr && r.count < c[comm.rank()])
        raise(GPURUN_ERR_BUFFER, "reduce_scatter", "recvbuf has fewer elements than recvcounts says for this rank");
    const gpurun_op o = operation(op);
    const gpurun_stream order = sides.order;
    return perform(
        form, "reduce_scatter", order, std::move(sides.kept),
        [&] { return gpurun_reduce_scatter(s.data, r.data, c, r.type, o, comm.handle(), order); },
        [&](gpurun_request* ret) {
            return gpurun_ireduce_scatter(s.data, r.data, c, r.type, o, comm.handle(), order, ret);
        },
        [&](gpurun_request* ret) {
            return gpurun_reduce_scatter_init(s.data, r.data, c, r.type, o, comm.handle(), order, ret);
        });
}

} // namespace

#define GPURUN_FORM decltype(form)::value

void bind_reductions(CommClass& comm) {
    const auto stream = "stream"_a = nb::none();
    const auto op = "op"_a = nb::int_(GPURUN_SUM.id);
    bind_forms(
        comm, {"allreduce", "iallreduce", "allreduce_init"},
        [](auto form) {
            return [](C c, H s, H r, H o, H order) {
                return everywhere(GPURUN_FORM, "allreduce", gpurun_allreduce, gpurun_iallreduce, gpurun_allreduce_init,
                                  c, s, r, o, order);
            };
        },
        "Combine the elements of all ranks, one by one, by `op`; every rank gets the result, with the same bits.\n\n"
        "sendbuf: an array, or IN_PLACE: this rank's elements are in `recvbuf`. Both have as many elements of one "
        "type.\n"
        "Raises ArgumentError if `op` has no meaning for the type; CollectiveError if ranks called it differently.",
        "sendbuf"_a, "recvbuf"_a, op, nb::kw_only(), stream);
    bind_forms(
        comm, {"scan", "iscan", "scan_init"},
        [](auto form) {
            return [](C c, H s, H r, H o, H order) {
                return everywhere(GPURUN_FORM, "scan", gpurun_scan, gpurun_iscan, gpurun_scan_init, c, s, r, o, order);
            };
        },
        "allreduce() that gives each rank the combination of what the ranks up to it contribute.", "sendbuf"_a,
        "recvbuf"_a, op, nb::kw_only(), stream);
    bind_forms(
        comm, {"exscan", "iexscan", "exscan_init"},
        [](auto form) {
            return [](C c, H s, H r, H o, H order) {
                return everywhere(GPURUN_FORM, "exscan", gpurun_exscan, gpurun_iexscan, gpurun_exscan_init, c, s, r, o,
                                  order);
            };
        },
        "scan() without what the rank itself contributes. Rank 0's `recvbuf` is not touched.", "sendbuf"_a, "recvbuf"_a,
        op, nb::kw_only(), stream);
    bind_forms(
        comm, {"reduce", "ireduce", "reduce_init"},
        [](auto form) {
            return [](C c, H s, H r, H o, int root, H order) { return reduce(GPURUN_FORM, c, s, r, o, root, order); };
        },
        "allreduce() that gives the result to rank `root` only; `recvbuf` is None on the others.", "sendbuf"_a,
        "recvbuf"_a.none() = nb::none(), op, "root"_a = 0, nb::kw_only(), stream);
    bind_forms(
        comm, {"reduce_scatter_block", "ireduce_scatter_block", "reduce_scatter_block_init"},
        [](auto form) {
            return [](C c, H s, H r, H o, H order) { return reduce_scatter_block(GPURUN_FORM, c, s, r, o, order); };
        },
        "Combine `sendbuf`, of size * n elements, and give rank i the i-th n elements of the result in `recvbuf`.",
        "sendbuf"_a, "recvbuf"_a, op, nb::kw_only(), stream);
    bind_forms(
        comm, {"reduce_scatter", "ireduce_scatter", "reduce_scatter_init"},
        [](auto form) {
            return [](C c, H s, H r, H n, H o, H order) { return reduce_scatter(GPURUN_FORM, c, s, r, n, o, order); };
        },
        "reduce_scatter_block() with blocks of different lengths: rank i gets recvcounts[i] elements.", "sendbuf"_a,
        "recvbuf"_a, "recvcounts"_a, op, nb::kw_only(), stream);
}

#undef GPURUN_FORM

} // namespace gpurun::python
