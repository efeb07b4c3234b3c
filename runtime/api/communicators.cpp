// Communicators: what they are, making them, freeing them.
#include "api/connecting.hpp"
#include "api/new_communicator.hpp"
#include "base/format.hpp"
#include "comm/group_operations.hpp"

#include <cstring>

namespace gpurun::api {

using base::Result;
using base::Status;
using comm::Comparison;
using comm::SplitType;

static_assert(static_cast<int>(SplitType::kNone) == GPURUN_SPLIT_NONE &&
              static_cast<int>(SplitType::kNode) == GPURUN_SPLIT_NODE &&
              static_cast<int>(SplitType::kGpu) == GPURUN_SPLIT_GPU &&
              static_cast<int>(SplitType::kNumaNode) == GPURUN_SPLIT_NUMA_NODE);
static_assert(comm::kUndefined == GPURUN_UNDEFINED && comm::kProcNull == GPURUN_PROC_NULL);

namespace {

Result<void> describe_comm(gpurun_comm comm, int* ret_number, const char* what,
                           int (*number)(const comm::Communicator&)) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_number, what));
    *ret_number = number(*call.comm);
    return {};
}

int rank_in(const comm::Communicator& comm) { return comm.rank().value; }
int size_of(const comm::Communicator& comm) { return comm.size(); }

Result<void> compare_comms(gpurun_comm one, gpurun_comm other, gpurun_comparison* ret_comparison) {
    Call call;
    GPURUN_TRY(enter(call, one));
    const comm::Communicator* const first = call.comm;
    const comm::Engine* const first_engine = call.engine;
    GPURUN_TRY(enter(call, other));
    GPURUN_TRY(check_output(ret_comparison, "ret_comparison"));
    if (first_engine != call.engine) { // ranks of two jobs
        *ret_comparison = GPURUN_UNEQUAL;
        return {};
    }
    Comparison result = comm::compare(first->group(), call.comm->group());
    if (result == Comparison::kIdent && first != call.comm)
        result = Comparison::kCongruent;
    *ret_comparison = static_cast<gpurun_comparison>(result);
    return {};
}

Result<void> duplicate(gpurun_comm comm, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    return give(call.engine->communicators().duplicate(*call.comm), ret_comm);
}

Result<void> split(gpurun_comm comm, int colour, int key, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    if (colour < 0 && colour != GPURUN_UNDEFINED)
        return base::error(Status::kArgument, "colour {} cannot be used: colours are not negative, or GPURUN_UNDEFINED",
                           colour);
    return give(call.engine->communicators().split(*call.comm, colour, key), ret_comm);
}

Result<void> split_type(gpurun_comm comm, gpurun_split_type type, int key, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    if (type != GPURUN_SPLIT_NONE && type != GPURUN_SPLIT_NODE && type != GPURUN_SPLIT_GPU &&
        type != GPURUN_SPLIT_NUMA_NODE)
        return base::error(Status::kArgument,
                           "{} is no type: pass GPURUN_SPLIT_NODE, GPURUN_SPLIT_GPU or GPURUN_SPLIT_NUMA_NODE",
                           static_cast<int>(type));
    return give(call.engine->communicators().split(*call.comm, static_cast<SplitType>(type), key), ret_comm);
}

// The group's members are in the communicator.
Result<RankGroups::Members> members_of(const Call& call, gpurun_group group) {
    GPURUN_ASSIGN(RankGroups::Members members, call.runtime->rank_groups().find(group));
    if (members.job != 0 && members.job != call.engine->communicators().world_handle())
        return base::error(Status::kArgument,
                           "the group has ranks of another job than the communicator: make it of that");
    for (const base::WorldRank each : members->members())
        if (!call.comm->group().rank_of(each))
            return base::error(Status::kArgument,
                               "rank {} of the job is in the group and not in the communicator: a new one has ranks of "
                               "the old one",
                               each.value);
    return members;
}

Result<void> create(gpurun_comm comm, gpurun_group group, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    GPURUN_ASSIGN(const RankGroups::Members members, members_of(call, group));
    return give(call.engine->communicators().create(*call.comm, *members), ret_comm);
}

Result<void> create_group(gpurun_comm comm, gpurun_group group, int tag, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    GPURUN_ASSIGN(const RankGroups::Members members, members_of(call, group));
    if (tag < 0 || tag > comm::Communicators::kMostGroupTag)
        return base::error(Status::kTag, "tag {} cannot be used: tags of gpurun_comm_create_group() are 0 to {}", tag,
                           comm::Communicators::kMostGroupTag);
    if (!members->rank_of(call.engine->self()))
        return give(uint64_t{0}, ret_comm);
    return give(call.engine->communicators().create_group(*call.comm, *members, tag), ret_comm);
}

Result<void> free_comm(gpurun_comm* comm) {
    GPURUN_TRY(refuse_in_group("gpurun_comm_free"));
    GPURUN_TRY(runtime());
    GPURUN_TRY(check_output(comm, "comm"));
    Call call;
    GPURUN_TRY(enter(call, *comm));
    if (call.engine != &call.runtime->engine() && comm->id == call.engine->communicators().world_handle())
        return leave_joint_job(call, comm);
    if (comm::CommunicatorTable::is_lasting(comm->id))
        return base::error(Status::kComm, "{} cannot be freed: it is there until gpurun_finalize()",
                           call.engine->communicators().name(*call.comm));
    if (!call.engine->communicators().free(comm->id)) // another thread was faster
        return find_comm(call, *comm);
    *comm = GPURUN_COMM_NULL;
    return {};
}

Result<void> set_name(gpurun_comm comm, const char* name) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(name, "name"));
    const size_t length = strnlen(name, GPURUN_MAX_OBJECT_NAME);
    if (length == GPURUN_MAX_OBJECT_NAME)
        return base::error(Status::kArgument, "the name is too long: it may have {} bytes, and a NUL behind them",
                           GPURUN_MAX_OBJECT_NAME - 1);
    call.engine->communicators().set_name(*call.comm, std::string(name, length));
    return {};
}

Result<void> set_algorithm(gpurun_comm comm, const char* collective, const char* algorithms) {
    GPURUN_TRY(refuse_in_group("gpurun_comm_set_algorithm"));
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(collective, "collective"));
    GPURUN_TRY(check_output(algorithms, "algorithms"));
    base::AlgorithmsAskedFor asked_for = call.comm->algorithms();
    std::string known;
    for (const base::AlgorithmChoices& each : base::kAlgorithmChoices) {
        if (std::strcmp(collective, each.collective) != 0) {
            known += (known.empty() ? "" : ", ") + std::string(each.collective);
            continue;
        }
        auto rules = base::AlgorithmRules::read(algorithms, each.allowed);
        if (!rules)
            return base::error(Status::kArgument, "the algorithms \"{}\" of {} {}", algorithms, collective,
                               rules.error().detail);
        asked_for.*each.rules = *rules;
        return call.engine->communicators().set_algorithms(*call.comm, asked_for);
    }
    return base::error(Status::kArgument, "there are no algorithms to choose for \"{}\": pass one of {}", collective,
                       known);
}

Result<void> get_name(gpurun_comm comm, char* ret_name, int* ret_length) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_name, "ret_name"));
    const std::string name = call.engine->communicators().name(*call.comm);
    std::memcpy(ret_name, name.c_str(), name.size() + 1);
    if (ret_length != nullptr)
        *ret_length = static_cast<int>(name.size());
    return {};
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_comm_rank(gpurun_comm comm, int* ret_rank) {
    return api::report(api::describe_comm(comm, ret_rank, "ret_rank", api::rank_in), __func__);
}

gpurun_status gpurun_comm_size(gpurun_comm comm, int* ret_size) {
    return api::report(api::describe_comm(comm, ret_size, "ret_size", api::size_of), __func__);
}

gpurun_status gpurun_comm_compare(gpurun_comm one, gpurun_comm other, gpurun_comparison* ret_comparison) {
    return api::report(api::compare_comms(one, other, ret_comparison), __func__);
}

gpurun_status gpurun_comm_dup(gpurun_comm comm, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::duplicate(comm, ret_comm));
}

gpurun_status gpurun_comm_split(gpurun_comm comm, int colour, int key, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::split(comm, colour, key, ret_comm));
}

gpurun_status gpurun_comm_split_type(gpurun_comm comm, gpurun_split_type type, int key, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::split_type(comm, type, key, ret_comm));
}

gpurun_status gpurun_comm_create(gpurun_comm comm, gpurun_group group, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::create(comm, group, ret_comm));
}

gpurun_status gpurun_comm_create_group(gpurun_comm comm, gpurun_group group, int tag, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::create_group(comm, group, tag, ret_comm));
}

gpurun_status gpurun_comm_free(gpurun_comm* comm) {
    const api::CallScope call(__func__);
    return api::report(api::free_comm(comm));
}

gpurun_status gpurun_comm_set_name(gpurun_comm comm, const char* name) {
    return api::report(api::set_name(comm, name), __func__);
}

gpurun_status gpurun_comm_set_algorithm(gpurun_comm comm, const char* collective, const char* algorithms) {
    const api::CallScope call(__func__);
    return api::report(api::set_algorithm(comm, collective, algorithms));
}

gpurun_status gpurun_comm_get_name(gpurun_comm comm, char* ret_name, int* ret_length) {
    return api::report(api::get_name(comm, ret_name, ret_length), __func__);
}

} // extern "C"
