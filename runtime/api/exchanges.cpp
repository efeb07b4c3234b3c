// Gather, scatter, all-gather and all-to-all: check, translate, build the steps.
#include "api/blocks.hpp"
#include "comm/collective/gather.hpp"

namespace gpurun::api {

namespace {

using base::Collective;
using base::Result;
using base::Status;
using comm::Parts;
using comm::Rank;
using comm::Schedule;
using comm::Signature;
using transfer::Operand;

Result<void> fill(AllBlocks& all, const Call& call, Access access, const Blocks& given, gpurun_stream stream) {
    return fill(all, call, access, given, call.comm->size(), stream);
}

Result<void> not_in_place(const Call& call, const char* what) {
    return base::error(Status::kBuffer, "only the root of a {} can pass GPURUN_IN_PLACE: rank {} is not the root", what,
                       call.comm->rank().value);
}

// What this rank gives to a gather or gets by a scatter, and what the root has of all ranks. `own` is none at a root
// that passes GPURUN_IN_PLACE.
struct Rooted {
    AllBlocks all; // at the root
    Operand operand;
    std::optional<Schedule::Buffer> own;
    bool is_root = false;

    const Operand& order() const { return is_root ? all.operand : operand; }
    // Where all blocks are as long.
    size_t block_bytes(int root) const { return is_root ? all.parts[root].bytes : own->bytes; }
};

Result<void> fill(Rooted& rooted, const Call& call, const Blocks& blocks, const Buffer& buffer, int root,
                  gpurun_stream stream, bool gathers) {
    rooted.is_root = root == call.comm->rank().value;
    if (rooted.is_root)
        GPURUN_TRY(fill(rooted.all, call, gathers ? Access::kWrite : Access::kRead, blocks, stream));
    if (is_in_place(buffer.address))
        return rooted.is_root ? Result<void>() : not_in_place(call, gathers ? "gather" : "scatter");
    GPURUN_TRY(fill(rooted.operand, call, gathers ? Access::kRead : Access::kWrite, buffer, stream));
    rooted.own = buffer_of(rooted.operand);
    if (!rooted.is_root)
        return {};
    const size_t own = rooted.own->bytes, block = rooted.all.parts[root].bytes;
    GPURUN_TRY(gathers ? check_own(own, block) : check_own(block, own));
    return check_apart(rooted.operand, rooted.all.operand);
}

Result<void> gather(const Buffer& send, const Blocks& recv, int root, const Order& order, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, order.comm, way));
    GPURUN_TRY(check_root(call, root));
    Rooted rooted;
    GPURUN_TRY(fill(rooted, call, recv, send, root, order.stream, true));
    const auto build = [own = rooted.own, parts = rooted.all.parts, root](Schedule& schedule) {
        build_gather(schedule, own, parts, Rank{root});
    };
    const Signature what =
        recv.listed ? Collective::kGatherv : Signature(Collective::kGather).with_bytes(rooted.block_bytes(root));
    return perform(call, what.with_root(root), rooted.order(), build, way);
}

Result<void> scatter(const Blocks& send, const Buffer& recv, int root, const Order& order, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, order.comm, way));
    GPURUN_TRY(check_root(call, root));
    Rooted rooted;
    GPURUN_TRY(fill(rooted, call, send, recv, root, order.stream, false));
    const auto build = [own = rooted.own, parts = rooted.all.parts, root](Schedule& schedule) {
        build_scatter(schedule, parts, own, Rank{root});
    };
    const Signature what =
        send.listed ? Collective::kScatterv : Signature(Collective::kScatter).with_bytes(rooted.block_bytes(root));
    return perform(call, what.with_root(root), rooted.order(), build, way);
}

Result<void> allgather(const Buffer& send, const Blocks& recv, const Order& order, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, order.comm, way));
    AllBlocks all;
    GPURUN_TRY(fill(all, call, Access::kWrite, recv, order.stream));
    std::optional<Schedule::Buffer> own;
    Operand given;
    if (!is_in_place(send.address)) {
        GPURUN_TRY(fill(given, call, Access::kRead, send, order.stream));
        GPURUN_TRY(check_own(given.bytes, all.parts[call.comm->rank().value].bytes));
        GPURUN_TRY(check_apart(given, all.operand));
        own = buffer_of(given);
    }
    const auto build = [own, parts = all.parts](Schedule& schedule) { build_allgather(schedule, own, parts); };
    const Signature what =
        recv.listed ? Collective::kAllgatherv : Signature(Collective::kAllgather).with_bytes(all.parts[0].bytes);
    return perform(call, what, standing_for(all.operand, given), build, way);
}

Result<void> alltoall(const Blocks& send, const Blocks& recv, const Order& order, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, order.comm, way));
    AllBlocks got;
    GPURUN_TRY(fill(got, call, Access::kWrite, recv, order.stream));
    const Signature what =
        recv.listed ? Collective::kAlltoallv : Signature(Collective::kAlltoall).with_bytes(got.parts[0].bytes);
    if (is_in_place(send.address)) {
        const auto build = [parts = got.parts](Schedule& schedule) { build_alltoall_in_place(schedule, parts); };
        return perform(call, what, got.operand, build, way);
    }
    AllBlocks given;
    GPURUN_TRY(fill(given, call, Access::kRead, send, order.stream));
    const int self = call.comm->rank().value;
    GPURUN_TRY(check_own(given.parts[self].bytes, got.parts[self].bytes));
    GPURUN_TRY(check_apart(given.operand, got.operand));
    const auto build = [from = given.parts, into = got.parts](Schedule& schedule) {
        build_alltoall(schedule, from, into);
    };
    return perform(call, what, standing_for(got.operand, given.operand), build, way);
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;
using api::Way;

extern "C" {

gpurun_status gpurun_gather(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                            size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                            gpurun_stream stream) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::gather({send, send_count, send_type},
                                   {recv, recv_count, nullptr, nullptr, recv_type, false}, root, {comm, stream},
                                   Way::blocking()));
}

gpurun_status gpurun_igather(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                             size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                             gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::gather({send, send_count, send_type},
                                   {recv, recv_count, nullptr, nullptr, recv_type, false}, root, {comm, stream},
                                   Way::started(ret_request)));
}

gpurun_status gpurun_gatherv(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                             const size_t* recv_counts, const size_t* displacements, gpurun_datatype recv_type,
                             int root, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::gather({send, send_count, send_type},
                                   {recv, 0, recv_counts, displacements, recv_type, true}, root, {comm, stream},
                                   Way::blocking()));
}

gpurun_status gpurun_igatherv(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                              const size_t* recv_counts, const size_t* displacements, gpurun_datatype recv_type,
                              int root, gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::gather({send, send_count, send_type},
                                   {recv, 0, recv_counts, displacements, recv_type, true}, root, {comm, stream},
                                   Way::started(ret_request)));
}

gpurun_status gpurun_scatter(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                             size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                             gpurun_stream stream) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::scatter({send, send_count, nullptr, nullptr, send_type, false},
                                    {recv, recv_count, recv_type}, root, {comm, stream}, Way::blocking()));
}

gpurun_status gpurun_iscatter(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                              size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                              gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::scatter({send, send_count, nullptr, nullptr, send_type, false},
                                    {recv, recv_count, recv_type}, root, {comm, stream}, Way::started(ret_request)));
}

gpurun_status gpurun_scatterv(const void* send, const size_t* send_counts, const size_t* displacements,
                              gpurun_datatype send_type, void* recv, size_t recv_count, gpurun_datatype recv_type,
                              int root, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::scatter({send, 0, send_counts, displacements, send_type, true},
                                    {recv, recv_count, recv_type}, root, {comm, stream}, Way::blocking()));
}

gpurun_status gpurun_iscatterv(const void* send, const size_t* send_counts, const size_t* displacements,
                               gpurun_datatype send_type, void* recv, size_t recv_count, gpurun_datatype recv_type,
                               int root, gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::scatter({send, 0, send_counts, displacements, send_type, true},
                                    {recv, recv_count, recv_type}, root, {comm, stream}, Way::started(ret_request)));
}

gpurun_status gpurun_allgather(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                               size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::allgather({send, send_count, send_type},
                                      {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                      Way::blocking()));
}

gpurun_status gpurun_iallgather(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::allgather({send, send_count, send_type},
                                      {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                      Way::started(ret_request)));
}

gpurun_status gpurun_allgatherv(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                const size_t* recv_counts, const size_t* displacements, gpurun_datatype recv_type,
                                gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::allgather({send, send_count, send_type},
                                      {recv, 0, recv_counts, displacements, recv_type, true}, {comm, stream},
                                      Way::blocking()));
}

gpurun_status gpurun_iallgatherv(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                 const size_t* recv_counts, const size_t* displacements, gpurun_datatype recv_type,
                                 gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::allgather({send, send_count, send_type},
                                      {recv, 0, recv_counts, displacements, recv_type, true}, {comm, stream},
                                      Way::started(ret_request)));
}

gpurun_status gpurun_alltoall(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                              size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::alltoall({send, send_count, nullptr, nullptr, send_type, false},
                                     {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                     Way::blocking()));
}

gpurun_status gpurun_ialltoall(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                               size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                               gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::alltoall({send, send_count, nullptr, nullptr, send_type, false},
                                     {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream},
                                     Way::started(ret_request)));
}

gpurun_status gpurun_alltoallv(const void* send, const size_t* send_counts, const size_t* send_displacements,
                               gpurun_datatype send_type, void* recv, const size_t* recv_counts,
                               const size_t* recv_displacements, gpurun_datatype recv_type, gpurun_comm comm,
                               gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::alltoall({send, 0, send_counts, send_displacements, send_type, true},
                                     {recv, 0, recv_counts, recv_displacements, recv_type, true}, {comm, stream},
                                     Way::blocking()));
}

gpurun_status gpurun_ialltoallv(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                gpurun_datatype send_type, void* recv, const size_t* recv_counts,
                                const size_t* recv_displacements, gpurun_datatype recv_type, gpurun_comm comm,
                                gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::alltoall({send, 0, send_counts, send_displacements, send_type, true},
                                     {recv, 0, recv_counts, recv_displacements, recv_type, true}, {comm, stream},
                                     Way::started(ret_request)));
}

gpurun_status gpurun_gather_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                 size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                 gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::gather({send, send_count, send_type}, {recv, recv_count, nullptr, nullptr, recv_type, false},
                               root, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_gatherv_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                  const size_t* recv_counts, const size_t* displacements, gpurun_datatype recv_type,
                                  int root, gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::gather({send, send_count, send_type}, {recv, 0, recv_counts, displacements, recv_type, true},
                               root, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_scatter_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                  size_t recv_count, gpurun_datatype recv_type, int root, gpurun_comm comm,
                                  gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::scatter({send, send_count, nullptr, nullptr, send_type, false}, {recv, recv_count, recv_type},
                                root, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_scatterv_init(const void* send, const size_t* send_counts, const size_t* displacements,
                                   gpurun_datatype send_type, void* recv, size_t recv_count, gpurun_datatype recv_type,
                                   int root, gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::scatter({send, 0, send_counts, displacements, send_type, true}, {recv, recv_count, recv_type},
                                root, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_allgather_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                    size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm,
                                    gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::allgather({send, send_count, send_type}, {recv, recv_count, nullptr, nullptr, recv_type, false},
                                  {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_allgatherv_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                     const size_t* recv_counts, const size_t* displacements, gpurun_datatype recv_type,
                                     gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(send_type), .count = send_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::allgather({send, send_count, send_type}, {recv, 0, recv_counts, displacements, recv_type, true},
                                  {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_alltoall_init(const void* send, size_t send_count, gpurun_datatype send_type, void* recv,
                                   size_t recv_count, gpurun_datatype recv_type, gpurun_comm comm, gpurun_stream stream,
                                   gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(recv_type), .count = recv_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::alltoall({send, send_count, nullptr, nullptr, send_type, false},
                                 {recv, recv_count, nullptr, nullptr, recv_type, false}, {comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_alltoallv_init(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                    gpurun_datatype send_type, void* recv, const size_t* recv_counts,
                                    const size_t* recv_displacements, gpurun_datatype recv_type, gpurun_comm comm,
                                    gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::alltoall({send, 0, send_counts, send_displacements, send_type, true},
                                 {recv, 0, recv_counts, recv_displacements, recv_type, true}, {comm, stream}, way);
        },
        ret_request));
}

} // extern "C"
