// Gather, scatter, all-gather and all-to-all: every part goes directly from the rank that has it to the rank that gets
// it, all of them side by side. What is empty is not sent.
#pragma once

#include "comm/collective/parts.hpp"

namespace gpurun::comm {

namespace gather {

inline void send(Schedule& schedule, Rank to, const Schedule::Buffer& part, Schedule::After after = {}, int round = 0) {
    if (part.bytes != 0)
        schedule.send(to, round, part, after);
}
inline void receive(Schedule& schedule, Rank from, const Schedule::Buffer& part, Schedule::After after = {},
                    int round = 0) {
    if (part.bytes != 0)
        schedule.receive_all(from, round, part, after);
}
// What a rank gives itself. In place it is there already.
inline void keep(Schedule& schedule, const Schedule::Buffer& to, const std::optional<Schedule::Buffer>& from) {
    if (from && to.bytes != 0)
        schedule.copy(to, *from);
}

} // namespace gather

// `own` is what this rank gives; none if it is in its place already.
inline void build_gather(Schedule& schedule, const std::optional<Schedule::Buffer>& own, const Parts& all, Rank root) {
    const Others others(schedule.comm());
    if (schedule.comm().rank() != root) {
        gather::send(schedule, root, *own);
        return;
    }
    for (int i = 0; i < others.count(); ++i)
        gather::receive(schedule, others.before(i), all[others.before(i).value]);
    gather::keep(schedule, all[root.value], own);
}

// `own` is what this rank gets; none if that stays where it is.
inline void build_scatter(Schedule& schedule, const Parts& all, const std::optional<Schedule::Buffer>& own, Rank root) {
    const Others others(schedule.comm());
    if (schedule.comm().rank() != root) {
        gather::receive(schedule, root, *own);
        return;
    }
    for (int i = 0; i < others.count(); ++i)
        gather::send(schedule, others.after(i), all[others.after(i).value]);
    if (own)
        gather::keep(schedule, *own, all[root.value]);
}

// Of several nodes: a rank gives its part to one rank of each other node, which passes it on there. So it crosses once.
inline void build_allgather_by_nodes(Schedule& schedule, const std::optional<Schedule::Buffer>& own, const Parts& all,
                                     const NodeLayout& nodes) {
    const Rank self = schedule.comm().rank();
    const int node = nodes.node_of(self);
    const Others mates(Among(nodes.first(node), nodes.ranks(node), self.value - nodes.first(node)));
    const Schedule::Buffer place = all[self.value];
    const auto taker = [&](Rank of, int there) { // who takes its part on that node
        return Rank{nodes.first(there) + (of.value - nodes.first(nodes.node_of(of))) % nodes.ranks(there)};
    };
    for (int i = 1; i < nodes.count(); ++i)
        gather::send(schedule, taker(self, (node + i) % nodes.count()), own ? *own : place);
    for (int i = 0; i < mates.count(); ++i)
        gather::send(schedule, mates.after(i), own ? *own : place);
    for (int i = 0; i < mates.count(); ++i)
        gather::receive(schedule, mates.before(i), all[mates.before(i).value]);
    for (Rank each{0}; each.value < schedule.comm().size(); ++each.value) {
        const Schedule::Buffer part = all[each.value];
        if (nodes.node_of(each) == node || part.bytes == 0)
            continue;
        const int round = 1 + each.value; // what is passed on comes in any order
        if (const Rank from = taker(each, node); from != self) {
            schedule.receive_all(from, round, part);
            continue;
        }
        const Schedule::StepId got = schedule.receive_all(each, 0, part);
        for (int i = 0; i < mates.count(); ++i)
            schedule.send(mates.after(i), round, part, {got});
    }
    gather::keep(schedule, place, own);
}

inline void build_allgather(Schedule& schedule, const std::optional<Schedule::Buffer>& own, const Parts& all) {
    constexpr size_t kLeastByNodes = 4096; // below, the second hop takes longer than what it saves
    const Communicator& comm = schedule.comm();
    if (comm.has_nodes_of_ranks() && all.longest(comm.size()) >= kLeastByNodes) {
        build_allgather_by_nodes(schedule, own, all, *comm.nodes());
        return;
    }
    const Others others(schedule.comm());
    const Schedule::Buffer place = all[schedule.comm().rank().value];
    for (int i = 0; i < others.count(); ++i)
        gather::send(schedule, others.after(i), own ? *own : place);
    for (int i = 0; i < others.count(); ++i)
        gather::receive(schedule, others.before(i), all[others.before(i).value]);
    gather::keep(schedule, place, own);
}

inline void build_alltoall(Schedule& schedule, const Parts& given, const Parts& got) {
    const Others others(schedule.comm());
    const int self = schedule.comm().rank().value;
    for (int i = 0; i < others.count(); ++i)
        gather::send(schedule, others.after(i), given[others.after(i).value]);
    for (int i = 0; i < others.count(); ++i)
        gather::receive(schedule, others.before(i), got[others.before(i).value]);
    gather::keep(schedule, got[self], given[self]);
}

// In place: each part is sent from a copy, and then replaced.
inline void build_alltoall_in_place(Schedule& schedule, const Parts& both) {
    const Others others(schedule.comm());
    std::vector<Schedule::StepId> copied;
    for (int i = 0; i < others.count(); ++i) {
        const Schedule::Buffer part = both[others.after(i).value];
        if (part.bytes == 0)
            continue;
        const Schedule::Buffer aside = schedule.scratch(part.bytes);
        copied.push_back(schedule.copy(aside, part));
        gather::send(schedule, others.after(i), aside, {copied.back()});
    }
    for (int i = 0; i < others.count(); ++i)
        gather::receive(schedule, others.before(i), both[others.before(i).value], copied);
}

} // namespace gpurun::comm
