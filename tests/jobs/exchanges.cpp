// Gathers, scatters and all-to-alls: every collective at any length, in any order domain and memory.
#include "collectives.hpp"
#include "graphs.hpp"

#include <numeric>

namespace gpurun::test::exchanges {

namespace {

enum class Which { kGather, kGatherv, kScatter, kScatterv, kAllgather, kAllgatherv, kAlltoall, kAlltoallv };
constexpr Which kAll[] = {Which::kGather,    Which::kGatherv,    Which::kScatter,  Which::kScatterv,
                          Which::kAllgather, Which::kAllgatherv, Which::kAlltoall, Which::kAlltoallv};
constexpr const char* kNames[] = {"gather",    "gatherv",    "scatter",  "scatterv",
                                  "allgather", "allgatherv", "alltoall", "alltoallv"};

bool has_counts(Which which) { return static_cast<int>(which) % 2 == 1; }
bool is_alltoall(Which which) { return which >= Which::kAlltoall; }

struct Round {
    Which which;
    size_t count;
    Manner manner;
    uint64_t seed;
};

// A block of each rank: with counts of their own, some of them 0, the last one first, and gaps between them.
struct Layout {
    std::vector<size_t> counts, displacements;
    size_t all = 0;

    Layout(const Round& round, const std::function<size_t(int)>& count_of) : counts(static_cast<size_t>(size())) {
        displacements.resize(counts.size());
        for (size_t i = counts.size(); i-- > 0;) {
            counts[i] = count_of(static_cast<int>(i));
            displacements[has_counts(round.which) ? i : counts.size() - 1 - i] = all;
            all += counts[i] + (has_counts(round.which) ? 3 : 0);
        }
    }
};

class Part {
  public:
    explicit Part(const Round& round)
        : round_(round), in_place_(round.manner.in_place && (is_for_all() || rank() == round.manner.root)),
          given_(round, [&](int to) { return count(rank(), to); }),
          got_(round, [&](int from) { return count(from, rank()); }) {}

    void run() {
        const Bytes sent = content_of(given_, true), before = Bytes(got_.all * kElement, 0x77);
        const bool gathers = round_.which <= Which::kGatherv || (is_for_all() && !is_alltoall(round_.which));
        const bool scatters = round_.which == Which::kScatter || round_.which == Which::kScatterv;
        const Bytes own = block(rank(), rank());
        Bytes recv_before = scatters ? Bytes(block(round_.manner.root, rank()).size(), 0x77) : before;
        if (in_place_ && is_alltoall(round_.which))
            recv_before = content_of(got_, true);
        else if (in_place_ && gathers)
            put(recv_before, got_, rank(), own);
        Guarded recv(round_.manner.kind, recv_before);
        Guarded send(round_.manner.kind, gathers ? own : sent);
        const void* const from = in_place_ && !scatters ? GPURUN_IN_PLACE : send.get();
        void* const into = in_place_ && scatters ? GPURUN_IN_PLACE : recv.get();
        call(round_.manner,
             {[&] { return blocking(from, into); }, [&](gpurun_request* request) { return start(from, into, request); },
              [&](gpurun_request* request) { return prepare(from, into, request); }},
             {&send, &recv});
        CHECK(first_difference(send.read(), gathers ? own : sent) == -1);
        check(recv.read(), recv_before, scatters);
    }

  private:
    static constexpr size_t kElement = sizeof(int32_t);

    bool is_for_all() const { return round_.which >= Which::kAllgather; }
    // Elements from one rank to another.
    size_t count(int from, int to) const {
        if (!has_counts(round_.which))
            return round_.count;
        const bool same_both_ways = round_.manner.in_place && is_alltoall(round_.which);
        const int first = same_both_ways ? std::min(from, to) : from, second = same_both_ways ? std::max(from, to) : to;
        const int which = is_alltoall(round_.which)          ? first * 3 + second * 5
                          : round_.which == Which::kScatterv ? to
                                                             : from;
        return round_.count * static_cast<size_t>(which % 3) + static_cast<size_t>(which % 2);
    }
    Bytes block(int from, int to) const {
        const int whose = is_alltoall(round_.which)                                               ? from * 100 + to
                          : (round_.which == Which::kScatter || round_.which == Which::kScatterv) ? to
                                                                                                  : from;
        return pattern(count(from, to) * kElement, round_.seed * 10'000 + static_cast<uint64_t>(whose));
    }
    static void put(Bytes& into, const Layout& layout, int rank, const Bytes& block) {
        std::copy(block.begin(), block.end(),
                  into.begin() + static_cast<ptrdiff_t>(layout.displacements[static_cast<size_t>(rank)] * kElement));
    }
    // What this rank gives, or what it gets.
    Bytes content_of(const Layout& layout, bool gives) const {
        Bytes content(layout.all * kElement, 0x77);
        for (int other = 0; other < size(); other++)
            put(content, layout, other, gives ? block(rank(), other) : block(other, rank()));
        return content;
    }
    void check(const Bytes& got, const Bytes& before, bool scatters) const {
        const bool is_root = rank() == round_.manner.root;
        if (scatters)
            CHECK(first_difference(got, in_place_ ? before : block(round_.manner.root, rank())) == -1);
        else if (is_for_all() || is_root)
            CHECK(first_difference(got, content_of(got_, false)) == -1);
        else
            CHECK(first_difference(got, before) == -1);
    }

    gpurun_status blocking(const void* from, void* into) const {
        const auto type = GPURUN_INT32;
        const gpurun_stream in = round_.manner.domain;
        const int root = round_.manner.root;
        const size_t n = round_.count, own = count(rank(), rank());
        const size_t *gives = given_.counts.data(), *at = given_.displacements.data();
        const size_t *gets = got_.counts.data(), *to = got_.displacements.data();
        switch (round_.which) {
        case Which::kGather: return gpurun_gather(from, n, type, into, n, type, root, kWorld, in);
        case Which::kGatherv: return gpurun_gatherv(from, own, type, into, gets, to, type, root, kWorld, in);
        case Which::kScatter: return gpurun_scatter(from, n, type, into, n, type, root, kWorld, in);
        case Which::kScatterv: return gpurun_scatterv(from, gives, at, type, into, own, type, root, kWorld, in);
        case Which::kAllgather: return gpurun_allgather(from, n, type, into, n, type, kWorld, in);
        case Which::kAllgatherv: return gpurun_allgatherv(from, own, type, into, gets, to, type, kWorld, in);
        case Which::kAlltoall: return gpurun_alltoall(from, n, type, into, n, type, kWorld, in);
        default: return gpurun_alltoallv(from, gives, at, type, into, gets, to, type, kWorld, in);
        }
    }
    gpurun_status start(const void* from, void* into, gpurun_request* ret) const {
        const auto type = GPURUN_INT32;
        const gpurun_stream in = round_.manner.domain;
        const int root = round_.manner.root;
        const size_t n = round_.count, own = count(rank(), rank());
        const size_t *gives = given_.counts.data(), *at = given_.displacements.data();
        const size_t *gets = got_.counts.data(), *to = got_.displacements.data();
        switch (round_.which) {
        case Which::kGather: return gpurun_igather(from, n, type, into, n, type, root, kWorld, in, ret);
        case Which::kGatherv: return gpurun_igatherv(from, own, type, into, gets, to, type, root, kWorld, in, ret);
        case Which::kScatter: return gpurun_iscatter(from, n, type, into, n, type, root, kWorld, in, ret);
        case Which::kScatterv: return gpurun_iscatterv(from, gives, at, type, into, own, type, root, kWorld, in, ret);
        case Which::kAllgather: return gpurun_iallgather(from, n, type, into, n, type, kWorld, in, ret);
        case Which::kAllgatherv: return gpurun_iallgatherv(from, own, type, into, gets, to, type, kWorld, in, ret);
        case Which::kAlltoall: return gpurun_ialltoall(from, n, type, into, n, type, kWorld, in, ret);
        default: return gpurun_ialltoallv(from, gives, at, type, into, gets, to, type, kWorld, in, ret);
        }
    }
    gpurun_status prepare(const void* from, void* into, gpurun_request* ret) const {
        const auto type = GPURUN_INT32;
        const gpurun_stream in = round_.manner.domain;
        const int root = round_.manner.root;
        const size_t n = round_.count, own = count(rank(), rank());
        const size_t *gives = given_.counts.data(), *at = given_.displacements.data();
        const size_t *gets = got_.counts.data(), *to = got_.displacements.data();
        switch (round_.which) {
        case Which::kGather: return gpurun_gather_init(from, n, type, into, n, type, root, kWorld, in, ret);
        case Which::kGatherv: return gpurun_gatherv_init(from, own, type, into, gets, to, type, root, kWorld, in, ret);
        case Which::kScatter: return gpurun_scatter_init(from, n, type, into, n, type, root, kWorld, in, ret);
        case Which::kScatterv:
            return gpurun_scatterv_init(from, gives, at, type, into, own, type, root, kWorld, in, ret);
        case Which::kAllgather: return gpurun_allgather_init(from, n, type, into, n, type, kWorld, in, ret);
        case Which::kAllgatherv: return gpurun_allgatherv_init(from, own, type, into, gets, to, type, kWorld, in, ret);
        case Which::kAlltoall: return gpurun_alltoall_init(from, n, type, into, n, type, kWorld, in, ret);
        default: return gpurun_alltoallv_init(from, gives, at, type, into, gets, to, type, kWorld, in, ret);
        }
    }

    const Round round_;
    const bool in_place_;
    const Layout given_, got_;
};

} // namespace

TEST_SUITE_BEGIN("exchanges");

TEST_CASE("every block comes to its place, of every length, in every order domain and memory, also in place") {
    Choices choices;
    CAPTURE(choices.seed());
    const Stream stream;
    for (const size_t count : {0u, 1u, 60u, 5003u, 70'001u})
        for (const Which which : kAll)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                for (const Form form : kForms) {
                    Manner manner = choices.manner(stream);
                    manner.domain = domain;
                    manner.form = form;
                    CAPTURE(std::string(kNames[static_cast<int>(which)]));
                    CAPTURE(count);
                    CAPTURE(describe(manner));
                    Part({which, count, manner, choices.number() % 1000}).run();
                }
}

TEST_CASE("each rank chooses its memory and its order domain for an all-to-all") {
    const Stream stream;
    constexpr size_t kBlock = 3000;
    const size_t all = kBlock * static_cast<size_t>(size());
    for (int round = 0; round < 8; round++) {
        const Kind from = kKinds[(rank() + round) % 4], into = kKinds[(rank() + round / 2) % 4];
        const gpurun_stream domain = (rank() + round) % 3 == 0 ? GPURUN_HOST : static_cast<gpurun_stream>(stream);
        Memory send(from, all), recv(into, all);
        const auto block = [&](int source, int dest) {
            return pattern(kBlock, static_cast<uint64_t>(round * 1000 + source * 32 + dest));
        };
        for (int other = 0; other < size(); other++)
            send.write(block(rank(), other), static_cast<size_t>(other) * kBlock);
        REQUIRE_OK(gpurun_alltoall(send.get(), kBlock, GPURUN_BYTE, recv.get(), kBlock, GPURUN_BYTE, kWorld, domain));
        synchronize(domain);
        const Bytes got = recv.read();
        for (int other = 0; other < size(); other++)
            CHECK(first_difference(got.data() + static_cast<size_t>(other) * kBlock, block(other, rank()).data(),
                                   kBlock) == -1);
    }
}

TEST_CASE("collectives of a group are complete when it has ended") {
    constexpr size_t kCount = 1000;
    const Stream stream;
    std::vector<int32_t> own(kCount, rank()), sums(kCount), all(kCount * static_cast<size_t>(size()));
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_allreduce(own.data(), sums.data(), kCount, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_allgather(own.data(), kCount, GPURUN_INT32, all.data(), kCount, GPURUN_INT32, kWorld, stream));
    REQUIRE_OK(gpurun_group_end());
    CHECK(sums == std::vector<int32_t>(kCount, size() * (size() - 1) / 2));
    stream.synchronize();
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); i++)
        wrong += all[i] != static_cast<int32_t>(i / kCount) ? 1 : 0;
    CHECK(wrong == 0);
}

TEST_CASE("a graph exchanges what its buffers have when it runs") {
    if (!has_graphs())
        return;
    const Stream stream;
    for (int turn = 0; turn < 6; turn++) {
        const size_t block = turn < 2 ? 12 : turn < 4 ? 5000 : 200'000;
        const Kind kind = turn % 2 == 0 ? Kind::kDevice : Kind::kPinned;
        const size_t all = block * static_cast<size_t>(size());
        CAPTURE(block);
        CAPTURE(name(kind));
        Memory send(kind, all), gathered(kind, all), turned(kind, all);
        gpurun_status status = GPURUN_OK;
        const Graph graph(stream, [&] {
            status =
                gpurun_allgather(send.get(), block, GPURUN_BYTE, gathered.get(), block, GPURUN_BYTE, kWorld, stream);
            if (status == GPURUN_OK)
                status =
                    gpurun_alltoall(send.get(), block, GPURUN_BYTE, turned.get(), block, GPURUN_BYTE, kWorld, stream);
            if (status == GPURUN_OK)
                status =
                    gpurun_alltoall(GPURUN_IN_PLACE, 0, GPURUN_BYTE, turned.get(), block, GPURUN_BYTE, kWorld, stream);
        });
        if (status == GPURUN_ERR_UNSUPPORTED) // on all ranks
            return;
        REQUIRE(status == GPURUN_OK);
        for (int run = 0; run < 4; run++) {
            const auto content = [&](int source) {
                return pattern(all, static_cast<uint64_t>(run * 100 + source) + block);
            };
            send.write(content(rank()));
            graph.launch(stream);
            stream.synchronize();
            CHECK(first_difference(turned.read(), content(rank())) == -1); // there, and back
            const Bytes got = gathered.read();
            for (int source = 0; source < size(); source++)
                CHECK(first_difference(got.data() + static_cast<size_t>(source) * block, content(source).data(),
                                       block) == -1);
        }
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::exchanges
