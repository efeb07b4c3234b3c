// Exchanges with the neighbours of the communicator's topology: a part to each destination and one from each source,
// all of them side by side. The number of a neighbour is its message's round, so each part comes to the right place
// also from a rank that is a neighbour several times. Where there is no neighbour, nothing is read or written.
#pragma once

#include "comm/collective/gather.hpp"

namespace gpurun::comm {

// Calls with the places, among the destinations and among the sources, of what this rank gives itself.
template <typename Visit>
void for_each_own(const Communicator& comm, const Visit& visit) {
    const int self = comm.rank().value;
    const auto& sources = comm.topology()->sources();
    const auto& destinations = comm.topology()->destinations();
    for (size_t to = 0; to < destinations.size(); ++to)
        for (size_t from = 0; destinations[to].peer == self && from < sources.size(); ++from)
            if (sources[from].peer == self && sources[from].number == destinations[to].number)
                visit(static_cast<int>(to), static_cast<int>(from));
}

// Of all destinations, and of all sources, in their order. For an all-gather all of the first are the same.
inline void build_neighbour_exchange(Schedule& schedule, const Parts& given, const Parts& got) {
    const Communicator& comm = schedule.comm();
    const auto is_other = [&](const Neighbour& each) {
        return each.peer != kProcNull && each.peer != comm.rank().value;
    };
    int place = 0;
    for (const Neighbour& each : comm.topology()->destinations())
        if (const int part = place++; is_other(each))
            gather::send(schedule, Rank{each.peer}, given[part], {}, each.number);
    place = 0;
    for (const Neighbour& each : comm.topology()->sources())
        if (const int part = place++; is_other(each))
            gather::receive(schedule, Rank{each.peer}, got[part], {}, each.number);
    for_each_own(comm, [&](int to, int from) { gather::keep(schedule, got[from], given[to]); });
}

} // namespace gpurun::comm
