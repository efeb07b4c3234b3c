// Exchanges with neighbours, on grids and graphs: of any length, in any order domain and memory.
#include "collectives.hpp"
#include "graphs.hpp"
#include "topologies.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::test::neighbours {

namespace {

using Ints = std::vector<int>;

// Where a block comes from: the rank, and the place of it among that rank's destinations.
struct Origin {
    int rank; // GPURUN_PROC_NULL: there is none
    int place;
};
// As this rank knows it, without asking the library.
struct Neighbours {
    Comm comm;
    std::vector<Origin> sources;
    Ints destinations;
};

Neighbours on_grid(const Ints& dims, const Ints& periods) {
    Neighbours made{cart(dims, periods), {}, {}};
    int stride = size();
    for (size_t i = 0; i < dims.size(); i++) {
        stride /= dims[i];
        const int own = rank() / stride % dims[i];
        const auto at = [&](int coordinate) {
            const bool inside = coordinate >= 0 && coordinate < dims[i];
            const int around = (coordinate + dims[i]) % dims[i];
            return inside || periods[i] != 0 ? rank() + (around - own) * stride : GPURUN_PROC_NULL;
        };
        const int before = at(own - 1), behind = at(own + 1), place = static_cast<int>(2 * i);
        made.sources.insert(made.sources.end(), {{before, place + 1}, {behind, place}});
        made.destinations.insert(made.destinations.end(), {before, behind});
    }
    return made;
}

// In which each rank has up to two messages for each, itself included, in an order that the seed chooses.
Neighbours in_graph(Choices& choices) {
    std::vector<Ints> destinations(static_cast<size_t>(size()));
    for (Ints& each : destinations) {
        for (int to = 0; to < size(); to++)
            each.insert(each.end(), choices.number() % 3, to);
        for (size_t i = each.size(); i > 1; i--)
            std::swap(each[i - 1], each[choices.number() % i]);
    }
    std::vector<Origin> origins;
    for (int from = 0; from < size(); from++) {
        const Ints& all = destinations[static_cast<size_t>(from)];
        for (size_t place = 0; place < all.size(); place++)
            if (all[place] == rank())
                origins.push_back({from, static_cast<int>(place)});
    }
    Ints sources;
    for (const Origin& each : origins)
        sources.push_back(each.rank);
    const Ints& own = destinations[static_cast<size_t>(rank())];
    return {graph(sources, own), origins, own};
}

struct Round {
    bool gathers;
    bool has_counts;
    size_t count;
    Manner manner;
    uint64_t seed;

    static constexpr int kOpen = 9; // the length of a block that nobody sends is this rank's choice

    size_t length(const Origin& from) const {
        if (!has_counts)
            return count;
        const int which = from.rank == GPURUN_PROC_NULL ? kOpen : from.rank * 5 + (gathers ? 0 : from.place * 3);
        return count * static_cast<size_t>(which % 3) + static_cast<size_t>(which % 2);
    }
    Bytes block(const Origin& from) const {
        const int which = from.rank * 1000 + (gathers ? 0 : from.place);
        return pattern(length(from) * sizeof(int32_t), seed * 1'000'000 + static_cast<uint64_t>(which));
    }
};

// A buffer of blocks: with counts, the last one first, and gaps between them.
struct Layout {
    std::vector<size_t> counts, displacements;
    size_t all = 0;

    Layout(const Round& round, const std::vector<Origin>& origins)
        : counts(origins.size()), displacements(origins.size()) {
        for (size_t i = counts.size(); i-- > 0;) {
            const size_t place = round.has_counts ? i : counts.size() - 1 - i;
            counts[place] = round.length(origins[place]);
            displacements[place] = all;
            all += counts[place] + (round.has_counts ? 3 : 0);
        }
    }
    Bytes content(const Round& round, const std::vector<Origin>& origins, const Bytes& before) const {
        Bytes made = before;
        for (size_t i = 0; i < origins.size(); i++) {
            if (origins[i].rank == GPURUN_PROC_NULL)
                continue;
            const Bytes block = round.block(origins[i]);
            std::copy(block.begin(), block.end(),
                      made.begin() + static_cast<ptrdiff_t>(displacements[i] * sizeof(int32_t)));
        }
        return made;
    }
};

void run(const Round& round, const Neighbours& neighbours) {
    std::vector<Origin> own;
    for (size_t i = 0; i < neighbours.destinations.size(); i++)
        own.push_back({rank(), static_cast<int>(i)});
    if (round.gathers)
        own.assign(1, {rank(), 0});
    const Layout given(round, own), got(round, neighbours.sources);
    const Bytes sent = given.content(round, own, Bytes(given.all * sizeof(int32_t), 0x55));
    const Bytes before(got.all * sizeof(int32_t), 0x77);
    Guarded send(round.manner.kind, sent), recv(round.manner.kind, before);
    const auto type = GPURUN_INT32;
    const gpurun_stream in = round.manner.domain;
    const gpurun_comm comm = neighbours.comm;
    const size_t n = round.count, length = round.length({rank(), 0});
    const size_t *gives = given.counts.data(), *at = given.displacements.data();
    const size_t *gets = got.counts.data(), *to = got.displacements.data();
    const void* const from = send.get();
    void* const into = recv.get();
    const auto blocking = [&] {
        if (round.gathers)
            return round.has_counts ? gpurun_neighbor_allgatherv(from, length, type, into, gets, to, type, comm, in)
                                    : gpurun_neighbor_allgather(from, n, type, into, n, type, comm, in);
        return round.has_counts ? gpurun_neighbor_alltoallv(from, gives, at, type, into, gets, to, type, comm, in)
                                : gpurun_neighbor_alltoall(from, n, type, into, n, type, comm, in);
    };
    const auto start = [&](gpurun_request* ret) {
        if (round.gathers)
            return round.has_counts
                       ? gpurun_ineighbor_allgatherv(from, length, type, into, gets, to, type, comm, in, ret)
                       : gpurun_ineighbor_allgather(from, n, type, into, n, type, comm, in, ret);
        return round.has_counts ? gpurun_ineighbor_alltoallv(from, gives, at, type, into, gets, to, type, comm, in, ret)
                                : gpurun_ineighbor_alltoall(from, n, type, into, n, type, comm, in, ret);
    };
    const auto prepare = [&](gpurun_request* ret) {
        if (round.gathers)
            return round.has_counts
                       ? gpurun_neighbor_allgatherv_init(from, length, type, into, gets, to, type, comm, in, ret)
                       : gpurun_neighbor_allgather_init(from, n, type, into, n, type, comm, in, ret);
        return round.has_counts
                   ? gpurun_neighbor_alltoallv_init(from, gives, at, type, into, gets, to, type, comm, in, ret)
                   : gpurun_neighbor_alltoall_init(from, n, type, into, n, type, comm, in, ret);
    };
    call(round.manner, {blocking, start, prepare}, {&send, &recv});
    CHECK(first_difference(send.read(), sent) == -1);
    CHECK(first_difference(recv.read(), got.content(round, neighbours.sources, before)) == -1);
}

void run_all(const Neighbours& neighbours, Choices& choices, gpurun_stream stream) {
    for (const size_t count : {0u, 1u, 61u, 5003u, 70'001u})
        for (const bool gathers : {false, true})
            for (const bool has_counts : {false, true}) {
                const Round round{gathers, has_counts, count, choices.manner(stream), choices.number() % 1000};
                CAPTURE(count);
                CAPTURE(gathers);
                CAPTURE(has_counts);
                CAPTURE(describe(round.manner));
                run(round, neighbours);
            }
}

} // namespace

TEST_SUITE_BEGIN("neighbours");

TEST_CASE("on a grid, what goes to the rank before comes from the one behind, and open edges are not touched") {
    Choices choices;
    CAPTURE(choices.seed());
    const Stream stream;
    for (int ndims = 1; ndims <= 3; ndims++)
        for (const int first : {0, 1}) {
            Ints periods{first};
            while (static_cast<int>(periods.size()) < ndims)
                periods.push_back(static_cast<int>(choices.number() % 2));
            CAPTURE(ndims);
            CAPTURE(periods);
            run_all(on_grid(dims_of(size(), ndims), periods), choices, stream);
        }
}

TEST_CASE("in a graph, messages to the same rank come in their order, and each rank can be its own neighbour") {
    Choices choices;
    CAPTURE(choices.seed());
    const Stream stream;
    for (int number = 0; number < 4; number++)
        run_all(in_graph(choices), choices, stream);
}

TEST_CASE("a graph of a device exchanges with neighbours what its buffers have when it runs") {
    if (!has_graphs())
        return;
    const Stream stream;
    const Neighbours ring = on_grid({size()}, {1});
    for (const size_t block : {12u, 5000u, 200'000u}) {
        CAPTURE(block);
        Memory send(Kind::kDevice, 2 * block), recv(Kind::kDevice, 2 * block);
        gpurun_status status = GPURUN_OK;
        const Graph graph(stream, [&] {
            status = gpurun_neighbor_alltoall(send.get(), block, GPURUN_BYTE, recv.get(), block, GPURUN_BYTE, ring.comm,
                                              stream);
        });
        // Where only some of the ranks reach each other, a rank may be able to capture and its neighbour may not.
        int unsupported = status == GPURUN_ERR_UNSUPPORTED ? 1 : 0;
        REQUIRE_OK(gpurun_allreduce(GPURUN_IN_PLACE, &unsupported, 1, GPURUN_INT, GPURUN_MAX, kWorld, GPURUN_HOST));
        if (unsupported != 0)
            return;
        REQUIRE(status == GPURUN_OK);
        for (uint64_t run = 0; run < 3; run++) {
            const auto part = [&](const Origin& from) {
                return pattern(block, run * 1000 + static_cast<uint64_t>(from.rank * 2 + from.place));
            };
            for (int place = 0; place < 2; place++)
                send.write(part({rank(), place}), static_cast<size_t>(place) * block);
            graph.launch(stream);
            stream.synchronize();
            const Bytes got = recv.read();
            for (size_t i = 0; i < 2; i++)
                CHECK(first_difference(got.data() + i * block, part(ring.sources[i]).data(), block) == -1);
        }
    }
}

TEST_CASE("exchanges that have no neighbours, overlapping buffers or wrong counts are refused before they send") {
    const Comm ring = cart({size()}, {1}), alone = graph({rank()}, {rank()});
    int sent[] = {1, 2}, got[] = {0, 0};
    const auto type = GPURUN_INT;
    const gpurun_stream host = GPURUN_HOST;
    CHECK(gpurun_neighbor_allgather(sent, 1, type, got, 1, type, kWorld, host) == GPURUN_ERR_COMM);
    CHECK(std::strstr(gpurun_error_detail(), "gpurun_cart_create()") != nullptr);
    CHECK(gpurun_neighbor_alltoall(sent, 1, type, sent, 1, type, ring, host) == GPURUN_ERR_BUFFER);
    CHECK(gpurun_neighbor_alltoallv(sent, nullptr, nullptr, type, got, nullptr, nullptr, type, ring, host) ==
          GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_neighbor_allgather(sent, 2, type, got, 1, type, alone, host) == GPURUN_ERR_TRUNCATED);
    CHECK(gpurun_neighbor_allgather(sent, 1, type, got, 2, type, alone, host) == GPURUN_ERR_COUNT);
    CHECK(gpurun_ineighbor_alltoall(sent, 1, type, got, 1, type, ring, host, nullptr) == GPURUN_ERR_ARGUMENT);
    REQUIRE_OK(gpurun_neighbor_allgather(sent, 1, type, got, 1, type, ring, host));
    CHECK(got[1] == 1);
}

TEST_SUITE_END();

} // namespace gpurun::test::neighbours
