// Exchanges with the neighbours of a grid or a graph: check, translate, build the steps.
#include "comm/collective/neighbours.hpp"
#include "api/blocks.hpp"

namespace gpurun::api {

namespace {

using base::Collective;
using base::Result;
using comm::Parts;
using comm::Schedule;
using transfer::Operand;

Result<void> enter_with_neighbours(Call& call, const Order& order, const Way& way) {
    GPURUN_TRY(enter(call, order.comm, way));
    if (call.comm->topology() != nullptr)
        return {};
    return base::error(base::Status::kComm,
                       "the communicator{} has no topology: use one of gpurun_cart_create() or "
                       "gpurun_dist_graph_create_adjacent()",
                       in_quotes(call));
}

Result<void> fill_from_sources(AllBlocks& got, const Call& call, const Blocks& recv, const Order& order) {
    return fill(got, call, Access::kWrite, recv, static_cast<int>(call.comm->topology()->sources().size()),
                order.stream);
}

// All that was filled: `given` is what goes to each destination.
Result<void> exchange(const Call& call, Collective kind, const Operand& sent, const Parts& given, const AllBlocks& got,
                      const Way& way) {
    GPURUN_TRY(check_apart(sent, got.operand));
    size_t sends = 0, expects = 0; // of the first that differ, if any do
    comm::for_each_own(*call.comm, [&](int to, int from) {
        if (sends == expects) {
            sends = given[to].bytes;
            expects = got.parts[from].bytes;
        }
    });
    GPURUN_TRY(check_own(sends, expects));
    const auto build = [given, parts = got.parts](Schedule& schedule) {
        build_neighbour_exchange(schedule, given, parts);
    };
    return perform(call, kind, standing_for(got.operand, sent), build, way);
}

Result<void> neighbor_allgather(const Buffer& send, const Blocks& recv, const Order& order, const Way& way) {
    Call call;
    GPURUN_TRY(enter_with_neighbours(call, order, way));
    AllBlocks got;
    GPURUN_TRY(fill_from_sources(got, call, recv, order));
    Operand sent;
    GPURUN_TRY(fill(sent, call, Access::kRead, send, order.stream));
    const Collective kind = recv.listed ? Collective::kNeighborAllgatherv : Collective::kNeighborAllgather;
    return exchange(call, kind, sent, Parts::same(buffer_of(sent)), got, way);
}

Result<void> neighbor_alltoall(const Blocks& send, const Blocks& recv, const Order& order, const Way& way) {
    Call call;
    GPURUN_TRY(enter_with_neighbours(call, order, way));
    AllBlocks given, got;
    GPURUN_TRY(fill_from_sources(got, call, recv, order));
    const auto outdegree = static_cast<int>(call.comm->topology()->destinations().size());
    GPURUN_TRY(fill(given, call, Access::kRead, send, outdegree, order.stream));
    const Collective kind = recv.listed ? Collective::kNeighborAlltoallv : Collective::kNeighborAlltoall;
    return exchange(call, kind, given.operand, given.parts, got, way);
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;
using api::Way;

extern "C" {

gpurun_status gpurun_neighbor_allgather(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                        size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                        gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::neighbor_allgather({send, send_count, send_type},
                                               {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                               Way::blocking()));
}

gpurun_status gpurun_ineighbor_allgather(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                         size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                         gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::neighbor_allgather({send, send_count, send_type},
                                               {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                               Way::started(ret_request)));
}

gpurun_status gpurun_neighbor_allgatherv(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                         const size_t* recv_counts, const size_t* displacements,
                                         gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::neighbor_allgather({send, send_count, send_type},
                                               {recv, 0, recv_counts, displacements, recv_type, true}, {comm, stream},
                                               Way::blocking()));
}

gpurun_status gpurun_ineighbor_allgatherv(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                          const size_t* recv_counts, const size_t* displacements,
                                          gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                          gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::neighbor_allgather({send, send_count, send_type},
                                               {recv, 0, recv_counts, displacements, recv_type, true}, {comm, stream},
                                               Way::started(ret_request)));
}

gpurun_status gpurun_neighbor_alltoall(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                       size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                       gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::neighbor_alltoall({send, send_count, nullptr, nullptr, send_type, false},
                                              {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                              Way::blocking()));
}

gpurun_status gpurun_ineighbor_alltoall(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                        size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                        gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::neighbor_alltoall({send, send_count, nullptr, nullptr, send_type, false},
                                              {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                              Way::started(ret_request)));
}

gpurun_status gpurun_neighbor_alltoallv(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                        gpurun_datatype send_type, void* recv, const size_t* recv_counts,
                                        const size_t* recv_displacements, gpurun_datatype recv_type, gpurun_comm comm,
                                        gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::neighbor_alltoall({send, 0, send_counts, send_displacements, send_type, true},
                                              {recv, 0, recv_counts, recv_displacements, recv_type, true},
                                              {comm, stream}, Way::blocking()));
}

gpurun_status gpurun_ineighbor_alltoallv(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                         gpurun_datatype send_type, void* recv, const size_t* recv_counts,
                                         const size_t* recv_displacements, gpurun_datatype recv_type, gpurun_comm comm,
                                         gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::neighbor_alltoall({send, 0, send_counts, send_displacements, send_type, true},
                                              {recv, 0, recv_counts, recv_displacements, recv_type, true},
                                              {comm, stream}, Way::started(ret_request)));
}

gpurun_status gpurun_neighbor_allgather_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                             size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                             gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::neighbor_allgather({send, send_count, send_type},
                                           {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_neighbor_allgatherv_init(const void* send, size_t send_count, gpurun_datatype send_type,
                                              void* recv, const size_t* recv_counts, const size_t* displacements,
                                              gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                              gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::neighbor_allgather({send, send_count, send_type},
                                           {recv, 0, recv_counts, displacements, recv_type, true}, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_neighbor_alltoall_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                            size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                            gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::neighbor_alltoall({send, send_count, nullptr, nullptr, send_type, false},
                                          {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_neighbor_alltoallv_init(const void* send, const size_t* send_counts,
                                             const size_t* send_displacements, gpurun_datatype send_type, void* recv,
                                             const size_t* recv_counts, const size_t* recv_displacements,
                                             gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                             gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::neighbor_alltoall({send, 0, send_counts, send_displacements, send_type, true},
                                          {recv, 0, recv_counts, recv_displacements, recv_type, true}, {comm, stream},
                                          way);
        },
        ret_request));
}

} // extern "C"
