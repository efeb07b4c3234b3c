// Reductions: check, translate, build the steps.
#include "api/collective_call.hpp"
#include "comm/collective/allreduce.hpp"
#include "comm/collective/reduce_scatter.hpp"
#include "comm/collective/scan.hpp"

namespace gpurun::api {

namespace {

using base::Collective;
using base::Reduction;
using base::Result;
using base::Status;
using comm::Parts;
using comm::Rank;
using comm::Schedule;
using transfer::Operand;

// What all of them are given.
struct Arguments {
    const void* send;
    void* recv;
    size_t count;
    gpurun_datatype type;
    gpurun_op op;
    gpurun_comm comm;
    gpurun_stream stream;
};

Result<Reduction> reduction_of(const Call& call, gpurun_datatype type, gpurun_op op) {
    GPURUN_TRY(comm::type_size(static_cast<int>(type)));
    if (is_of_program(op)) {
        GPURUN_ASSIGN(const base::ProgramOperation found, call.runtime->operations().find(op));
        return Reduction{static_cast<base::Type>(type), base::Op::kOfProgram, 0, found};
    }
    if (op.id == 0 || op.id >= base::kOps)
        return base::error(Status::kOp,
                           "{} is not an operation; use one of the GPURUN_ operations, for example "
                           "GPURUN_SUM, or one of gpurun_op_create()",
                           op.id);
    const auto number = static_cast<base::Op>(op.id);
    if (!base::has_meaning(number, static_cast<base::Type>(type)))
        return base::error(Status::kOp,
                           "GPURUN_{} has no meaning for GPURUN_{}: gpurun_allreduce(3) says which operations each "
                           "type has",
                           base::kOpNames[op.id], base::info_of_type(static_cast<int>(type)).name);
    const bool average = number == base::Op::kAverage;
    return Reduction{static_cast<base::Type>(type), average ? base::Op::kSum : number,
                     average ? static_cast<uint32_t>(call.comm->size()) : 0};
}

// A function of the program's runs on the CPU, in the call.
Result<void> check_reach(gpurun_op op, const Operand& operand) {
    if (!is_of_program(op) || operand.by_cpu())
        return {};
    if (operand.on_stream())
        return base::error(Status::kUnsupported,
                           "an operation of gpurun_op_create() is a function of the host, and cannot run in a stream: "
                           "wait for the stream and pass GPURUN_HOST, or use one of the GPURUN_ operations");
    return base::error(Status::kUnsupported,
                       "an operation of gpurun_op_create() is a function of the host, and cannot read device memory: "
                       "copy it to host memory first, or use one of the GPURUN_ operations");
}

// Elements of the program's: `send` may be in place, then it is `recv`.
struct Operands {
    Operand input;
    Operand result;
};
Result<void> fill(Operands& both, const Call& call, const Arguments& given, size_t count, size_t result_count) {
    const bool in_place = is_in_place(given.send);
    const size_t room = in_place ? std::max(count, result_count) : result_count;
    GPURUN_TRY(fill_operand(both.result, *call.runtime, Access::kWrite, given.recv, room, given.type, given.stream));
    both.input = both.result;
    if (!in_place) {
        both.input = Operand{};
        GPURUN_TRY(fill_operand(both.input, *call.runtime, Access::kRead, given.send, count, given.type, given.stream));
        GPURUN_TRY(check_apart(both.input, both.result));
    }
    GPURUN_TRY(check_reach(given.op, both.input));
    GPURUN_TRY(check_reach(given.op, both.result));
    const size_t element = comm::size_of_type(static_cast<int>(given.type));
    both.input.bytes = count * element;
    both.result.bytes = result_count * element;
    return {};
}

comm::Signature signature_of(Collective kind, const Arguments& given, size_t count) {
    // Each rank has its own handles of the program's operations.
    const auto op = is_of_program(given.op) ? static_cast<uint32_t>(base::Op::kOfProgram) : given.op.id;
    return comm::Signature(kind).with_elements(count, static_cast<int>(given.type), static_cast<uint32_t>(op));
}

comm::WholeReduction whole_of(const Operands& both, const Reduction& reduction, const comm::AlgorithmWish& wish = {}) {
    return {reduction, buffer_of(both.input), buffer_of(both.result), both.input.captured(), wish};
}

Result<void> allreduce(const Arguments& given, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, given.comm, way));
    GPURUN_ASSIGN(const Reduction reduction, reduction_of(call, given.type, given.op));
    Operands both;
    GPURUN_TRY(fill(both, call, given, given.count, given.count));
    const comm::AlgorithmWish wish = wish_of(call, &base::AlgorithmsAskedFor::allreduce, both.input.bytes);
    const auto build = [work = whole_of(both, reduction, wish)](Schedule& schedule) {
        build_allreduce(schedule, work);
    };
    return perform(call, signature_of(Collective::kAllreduce, given, given.count),
                   standing_for(both.result, both.input), build, way);
}

Result<void> reduce(const Arguments& given, int root, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, given.comm, way));
    GPURUN_TRY(check_root(call, root));
    GPURUN_ASSIGN(const Reduction reduction, reduction_of(call, given.type, given.op));
    Operands both;
    if (root == call.comm->rank().value) {
        GPURUN_TRY(fill(both, call, given, given.count, given.count));
    } else if (is_in_place(given.send)) {
        return base::error(Status::kBuffer,
                           "only the root of a reduce can pass GPURUN_IN_PLACE: on rank {} there is no "
                           "result",
                           call.comm->rank().value);
    } else {
        GPURUN_TRY(
            fill_operand(both.input, *call.runtime, Access::kRead, given.send, given.count, given.type, given.stream));
        GPURUN_TRY(check_reach(given.op, both.input));
    }
    const comm::AlgorithmWish wish = wish_of(call, &base::AlgorithmsAskedFor::reduce, both.input.bytes);
    const auto build = [work = whole_of(both, reduction, wish), root](Schedule& schedule) {
        build_reduce(schedule, work, Rank{root});
    };
    return perform(call, signature_of(Collective::kReduce, given, given.count).with_root(root),
                   standing_for(both.input, both.result), build, way);
}

Result<void> reduce_scatter_block(const Arguments& given, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, given.comm, way));
    GPURUN_ASSIGN(const Reduction reduction, reduction_of(call, given.type, given.op));
    size_t all = 0;
    if (__builtin_mul_overflow(given.count, static_cast<size_t>(call.comm->size()), &all))
        return comm::no_such_message(SIZE_MAX, static_cast<int>(given.type));
    Operands both;
    GPURUN_TRY(fill(both, call, given, all, given.count));
    const auto build = [reduction, input = Parts::equal(buffer_of(both.input), both.result.bytes),
                        result = buffer_of(both.result), in_place = is_in_place(given.send)](Schedule& schedule) {
        build_reduce_scatter(schedule, reduction, input, result, result.bytes, in_place);
    };
    return perform(call, signature_of(Collective::kReduceScatterBlock, given, given.count),
                   standing_for(both.result, both.input), build, way);
}

Result<void> reduce_scatter(const Arguments& given, const size_t* counts, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, given.comm, way));
    GPURUN_ASSIGN(const Reduction reduction, reduction_of(call, given.type, given.op));
    if (counts == nullptr)
        return base::error(Status::kArgument, "recv_counts is NULL: pass a count for each rank");
    const size_t element = comm::size_of_type(static_cast<int>(given.type));
    std::vector<Parts::Part> parts;
    size_t all = 0, longest = 0; // elements
    for (int rank = 0; rank < call.comm->size(); ++rank) {
        parts.push_back({all * element, counts[rank] * element});
        longest = std::max(longest, counts[rank]);
        if (__builtin_add_overflow(all, counts[rank], &all) || all > comm::kMostBytes / element)
            return comm::no_such_message(SIZE_MAX, static_cast<int>(given.type));
    }
    Operands both;
    GPURUN_TRY(fill(both, call, given, all, counts[call.comm->rank().value]));
    const auto build = [reduction, input = Parts::listed(buffer_of(both.input), std::move(parts)),
                        result = buffer_of(both.result), longest = longest * element,
                        in_place = is_in_place(given.send)](Schedule& schedule) {
        build_reduce_scatter(schedule, reduction, input, result, longest, in_place);
    };
    return perform(call, signature_of(Collective::kReduceScatter, given, all), standing_for(both.result, both.input),
                   build, way);
}

Result<void> scan(const Arguments& given, bool exclusive, const Way& way) {
    Call call;
    GPURUN_TRY(enter(call, given.comm, way));
    GPURUN_ASSIGN(const Reduction reduction, reduction_of(call, given.type, given.op));
    Operands both;
    GPURUN_TRY(fill(both, call, given, given.count, given.count));
    const auto build = [work = whole_of(both, reduction), exclusive](Schedule& schedule) {
        build_scan(schedule, work.reduction, work.input, work.result, exclusive);
    };
    const Collective kind = exclusive ? Collective::kExscan : Collective::kScan;
    return perform(call, signature_of(kind, given, given.count), standing_for(both.result, both.input), build, way);
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;
using api::Way;

extern "C" {

gpurun_status gpurun_allreduce(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                               gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::allreduce({send, recv, count, type, op, comm, stream}, Way::blocking()));
}

gpurun_status gpurun_iallreduce(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                                gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::allreduce({send, recv, count, type, op, comm, stream}, Way::started(ret_request)));
}

gpurun_status gpurun_reduce(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op, int root,
                            gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(type), .count = count});
    return api::report(api::reduce({send, recv, count, type, op, comm, stream}, root, Way::blocking()));
}

gpurun_status gpurun_ireduce(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op, int root,
                             gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(type), .count = count});
    return api::report(api::reduce({send, recv, count, type, op, comm, stream}, root, Way::started(ret_request)));
}

gpurun_status gpurun_reduce_scatter_block(const void* send, void* recv, size_t recv_count, gpurun_datatype type,
                                          gpurun_op op, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = recv_count});
    return api::report(api::reduce_scatter_block({send, recv, recv_count, type, op, comm, stream}, Way::blocking()));
}

gpurun_status gpurun_ireduce_scatter_block(const void* send, void* recv, size_t recv_count, gpurun_datatype type,
                                           gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                           gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = recv_count});
    return api::report(
        api::reduce_scatter_block({send, recv, recv_count, type, op, comm, stream}, Way::started(ret_request)));
}

gpurun_status gpurun_reduce_scatter(const void* send, void* recv, const size_t* recv_counts, gpurun_datatype type,
                                    gpurun_op op, gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::reduce_scatter({send, recv, 0, type, op, comm, stream}, recv_counts, Way::blocking()));
}

gpurun_status gpurun_ireduce_scatter(const void* send, void* recv, const size_t* recv_counts, gpurun_datatype type,
                                     gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                     gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(
        api::reduce_scatter({send, recv, 0, type, op, comm, stream}, recv_counts, Way::started(ret_request)));
}

gpurun_status gpurun_scan(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                          gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::scan({send, recv, count, type, op, comm, stream}, false, Way::blocking()));
}

gpurun_status gpurun_iscan(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                           gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::scan({send, recv, count, type, op, comm, stream}, false, Way::started(ret_request)));
}

gpurun_status gpurun_exscan(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                            gpurun_comm comm, gpurun_stream stream) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::scan({send, recv, count, type, op, comm, stream}, true, Way::blocking()));
}

gpurun_status gpurun_iexscan(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                             gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::scan({send, recv, count, type, op, comm, stream}, true, Way::started(ret_request)));
}

gpurun_status gpurun_allreduce_init(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                                    gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::allreduce({send, recv, count, type, op, comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_reduce_init(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                                 int root, gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.peer = root, .type = static_cast<int>(type), .count = count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::reduce({send, recv, count, type, op, comm, stream}, root, way);
        },
        ret_request));
}

gpurun_status gpurun_reduce_scatter_block_init(const void* send, void* recv, size_t recv_count, gpurun_datatype type,
                                               gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                               gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = recv_count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::reduce_scatter_block({send, recv, recv_count, type, op, comm, stream}, way);
        },
        ret_request));
}

gpurun_status gpurun_reduce_scatter_init(const void* send, void* recv, const size_t* recv_counts, gpurun_datatype type,
                                         gpurun_op op, gpurun_comm comm, gpurun_stream stream,
                                         gpurun_request* ret_request) {
    const api::CallScope call(__func__);
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::reduce_scatter({send, recv, 0, type, op, comm, stream}, recv_counts, way);
        },
        ret_request));
}

gpurun_status gpurun_scan_init(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                               gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::scan({send, recv, count, type, op, comm, stream}, false, way);
        },
        ret_request));
}

gpurun_status gpurun_exscan_init(const void* send, void* recv, size_t count, gpurun_datatype type, gpurun_op op,
                                 gpurun_comm comm, gpurun_stream stream, gpurun_request* ret_request) {
    const api::CallScope call(__func__, {.type = static_cast<int>(type), .count = count});
    return api::report(api::prepare(
        [=](const Way& way) {
            return api::scan({send, recv, count, type, op, comm, stream}, true, way);
        },
        ret_request));
}

} // extern "C"
