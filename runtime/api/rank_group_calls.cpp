// Groups of ranks: made from communicators and from each other, compared, translated.
#include "api/call.hpp"
#include "comm/group_operations.hpp"

#include <vector>

namespace gpurun::api {

using base::Result;
using base::Status;
using comm::Group;
using Members = RankGroups::Members;

static_assert(static_cast<int>(comm::Comparison::kIdent) == GPURUN_IDENT &&
              static_cast<int>(comm::Comparison::kCongruent) == GPURUN_CONGRUENT &&
              static_cast<int>(comm::Comparison::kSimilar) == GPURUN_SIMILAR &&
              static_cast<int>(comm::Comparison::kUnequal) == GPURUN_UNEQUAL);

namespace {

Result<void> group_of(gpurun_comm comm, gpurun_group* ret_group) {
    Call call;
    GPURUN_TRY(enter(call, comm));
    GPURUN_TRY(check_output(ret_group, "ret_group"));
    *ret_group = call.runtime->rank_groups().add(
        {call.comm->shared_group(), call.engine->communicators().world_handle(), call.engine->self()});
    return {};
}

Result<void> describe_group(gpurun_group group, int* ret_number, const char* what, int (*number)(const Members&)) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_number, what));
    GPURUN_ASSIGN(const Members members, found->rank_groups().find(group));
    *ret_number = number(members);
    return {};
}

int group_size(const Members& group) { return group->size(); }

int group_rank(const Members& group) { return group->rank_of(group.self).value_or(comm::Rank{GPURUN_UNDEFINED}).value; }

Result<void> translate(gpurun_group from, size_t count, const int* ranks, gpurun_group to, int* ret_ranks) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const Members source, found->rank_groups().find(from));
    GPURUN_ASSIGN(const Members target, found->rank_groups().find_with(source, to));
    if (count == 0)
        return {};
    GPURUN_TRY(check_output(ranks, "ranks"));
    GPURUN_TRY(check_output(ret_ranks, "ret_ranks"));
    for (size_t i = 0; i < count; ++i)
        if (ranks[i] != GPURUN_PROC_NULL && !source->has(ranks[i]))
            return base::error(Status::kRank, "{} is not a rank of the group, which has {} ranks", ranks[i],
                               source->size());
    for (size_t i = 0; i < count; ++i) {
        if (ranks[i] == GPURUN_PROC_NULL) {
            ret_ranks[i] = GPURUN_PROC_NULL;
            continue;
        }
        const auto there = target->rank_of(source->world(comm::Rank{ranks[i]}));
        ret_ranks[i] = there ? there->value : GPURUN_UNDEFINED;
    }
    return {};
}

Result<void> compare_groups(gpurun_group one, gpurun_group other, gpurun_comparison* ret_comparison) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_comparison, "ret_comparison"));
    GPURUN_ASSIGN(const Members first, found->rank_groups().find(one));
    GPURUN_ASSIGN(const Members second, found->rank_groups().find_with(first, other));
    *ret_comparison = static_cast<gpurun_comparison>(comm::compare(*first, *second));
    return {};
}

using Combine = Group (*)(const Group&, const Group&);
Result<void> combine(gpurun_group one, gpurun_group other, gpurun_group* ret_group, Combine how) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_group, "ret_group"));
    GPURUN_ASSIGN(const Members first, found->rank_groups().find(one));
    GPURUN_ASSIGN(const Members second, found->rank_groups().find_with(first, other));
    *ret_group = found->rank_groups().add(second.with(how(*first, *second)));
    return {};
}

using Choose = Result<Group> (*)(const Group&, std::span<const int>);
Result<void> choose(gpurun_group group, size_t count, const int* ranks, gpurun_group* ret_group, Choose how) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_group, "ret_group"));
    if (count != 0)
        GPURUN_TRY(check_output(ranks, "ranks"));
    GPURUN_ASSIGN(const Members members, found->rank_groups().find(group));
    GPURUN_ASSIGN(Group chosen, how(*members, {ranks, count}));
    *ret_group = found->rank_groups().add(members.with(std::move(chosen)));
    return {};
}

Result<void> choose_ranges(gpurun_group group, size_t count, const int (*ranges)[3], gpurun_group* ret_group,
                           Choose how) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (count != 0)
        GPURUN_TRY(check_output(ranges, "ranges"));
    GPURUN_ASSIGN(const Members members, found->rank_groups().find(group));
    std::vector<comm::RankRange> given;
    for (size_t i = 0; i < count; ++i)
        given.push_back({ranges[i][0], ranges[i][1], ranges[i][2]});
    GPURUN_ASSIGN(const std::vector<int> ranks, comm::expand(*members, given));
    return choose(group, ranks.size(), ranks.data(), ret_group, how);
}

Result<void> free_group(gpurun_group* group) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(group, "group"));
    GPURUN_TRY(found->rank_groups().erase(*group));
    *group = GPURUN_GROUP_NULL;
    return {};
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;
namespace comm = gpurun::comm;

extern "C" {

gpurun_status gpurun_comm_group(gpurun_comm comm, gpurun_group* ret_group) {
    return api::report(api::group_of(comm, ret_group), __func__);
}

gpurun_status gpurun_group_size(gpurun_group group, int* ret_size) {
    return api::report(api::describe_group(group, ret_size, "ret_size", api::group_size), __func__);
}

gpurun_status gpurun_group_rank(gpurun_group group, int* ret_rank) {
    return api::report(api::describe_group(group, ret_rank, "ret_rank", api::group_rank), __func__);
}

gpurun_status gpurun_group_translate_ranks(gpurun_group group, size_t count, const int* ranks, gpurun_group other,
                                           int* ret_ranks) {
    return api::report(api::translate(group, count, ranks, other, ret_ranks), __func__);
}

gpurun_status gpurun_group_compare(gpurun_group one, gpurun_group other, gpurun_comparison* ret_comparison) {
    return api::report(api::compare_groups(one, other, ret_comparison), __func__);
}

gpurun_status gpurun_group_union(gpurun_group one, gpurun_group other, gpurun_group* ret_group) {
    return api::report(api::combine(one, other, ret_group, comm::unite), __func__);
}

gpurun_status gpurun_group_intersection(gpurun_group one, gpurun_group other, gpurun_group* ret_group) {
    return api::report(api::combine(one, other, ret_group, comm::intersect), __func__);
}

gpurun_status gpurun_group_difference(gpurun_group one, gpurun_group other, gpurun_group* ret_group) {
    return api::report(api::combine(one, other, ret_group, comm::subtract), __func__);
}

gpurun_status gpurun_group_incl(gpurun_group group, size_t count, const int* ranks, gpurun_group* ret_group) {
    return api::report(api::choose(group, count, ranks, ret_group, comm::include), __func__);
}

gpurun_status gpurun_group_excl(gpurun_group group, size_t count, const int* ranks, gpurun_group* ret_group) {
    return api::report(api::choose(group, count, ranks, ret_group, comm::exclude), __func__);
}

gpurun_status gpurun_group_range_incl(gpurun_group group, size_t count, const int ranges[][3],
                                      gpurun_group* ret_group) {
    return api::report(api::choose_ranges(group, count, ranges, ret_group, comm::include), __func__);
}

gpurun_status gpurun_group_range_excl(gpurun_group group, size_t count, const int ranges[][3],
                                      gpurun_group* ret_group) {
    return api::report(api::choose_ranges(group, count, ranges, ret_group, comm::exclude), __func__);
}

gpurun_status gpurun_group_free(gpurun_group* group) { return api::report(api::free_group(group), __func__); }

} // extern "C"
