#include "comm.hpp"
#include "rank_group.hpp"

#include <vector>

namespace gpurun::python {
namespace {

using Ranks = std::vector<int>;

Ranks ranks(nb::handle given) {
    Ranks list;
    for (const nb::handle each : nb::iter(given))
        list.push_back(nb::cast<int>(each));
    return list;
}

template <typename Make>
RankGroup made_group(const char* name, Make make) {
    gpurun_group handle = GPURUN_GROUP_NULL;
    check(make(&handle), name);
    return RankGroup(handle);
}

int size(const RankGroup& group) {
    int count = 0;
    check(gpurun_group_size(group.handle(), &count), "RankGroup.size");
    return count;
}

nb::object rank(const RankGroup& group) {
    int number = 0;
    check(gpurun_group_rank(group.handle(), &number), "RankGroup.rank");
    return number == GPURUN_UNDEFINED ? nb::none() : nb::object(nb::int_(number));
}

nb::list translated(const RankGroup& group, nb::handle given, const RankGroup& other) {
    const Ranks from = ranks(given);
    Ranks to(from.size());
    check(gpurun_group_translate_ranks(group.handle(), from.size(), from.data(), other.handle(), to.data()),
          "RankGroup.translate");
    nb::list list;
    for (const int each : to)
        list.append(each == GPURUN_UNDEFINED ? nb::none() : nb::object(nb::int_(each)));
    return list;
}

using Combine = gpurun_status (*)(gpurun_group, gpurun_group, gpurun_group*);

template <Combine kCombine>
RankGroup combined(const RankGroup& one, const RankGroup& other) {
    return made_group("RankGroup", [&](gpurun_group* ret) { return kCombine(one.handle(), other.handle(), ret); });
}

} // namespace

void bind_groups(nb::module_& module) {
    nb::class_<RankGroup>(module, "RankGroup", "Processes of the job in an order: Comm.get_group(), then | & -.")
        .def_prop_ro("size", &size)
        .def_prop_ro("rank", &rank, "This process's rank in it, or None.")
        .def(
            "include",
            [](const RankGroup& g, nb::handle r) {
                const Ranks list = ranks(r);
                return made_group("RankGroup.include", [&](gpurun_group* ret) {
                    return gpurun_group_incl(g.handle(), list.size(), list.data(), ret);
                });
            },
            "ranks"_a, "The processes at these ranks, in this order.")
        .def(
            "exclude",
            [](const RankGroup& g, nb::handle r) {
                const Ranks list = ranks(r);
                return made_group("RankGroup.exclude", [&](gpurun_group* ret) {
                    return gpurun_group_excl(g.handle(), list.size(), list.data(), ret);
                });
            },
            "ranks"_a, "All processes but those at these ranks.")
        .def("translate", &translated, "ranks"_a, "other"_a, "Which ranks of `other` they are; None for none.")
        .def("__or__", &combined<gpurun_group_union>)
        .def("__and__", &combined<gpurun_group_intersection>)
        .def("__sub__", &combined<gpurun_group_difference>)
        .def("__len__", &size)
        .def("__repr__", [](const RankGroup& g) { return nb::str("<gpurun.RankGroup of {}>").format(size(g)); });
}

void bind_get_group(CommClass& comm) {
    comm.def(
        "get_group",
        [](const Comm& c) {
            return made_group("get_group", [&](gpurun_group* ret) { return gpurun_comm_group(c.handle(), ret); });
        },
        "The group of its ranks, in their order.");
}

} // namespace gpurun::python
