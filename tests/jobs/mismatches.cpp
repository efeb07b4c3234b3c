// Ranks that call a collective differently: each is told, by a message that names both sides, and nobody waits for
// ever. Afterwards the communicator is as good as before.
#include "collectives.hpp"
#include "graphs.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace gpurun::test::mismatches {

namespace {

// A collective of a rank, with buffers that are large enough for all: blocking, or, with a request, started.
struct Site {
    uint8_t* send;
    uint8_t* recv;
    gpurun_comm comm;
    gpurun_stream stream;
};
using Collective = gpurun_status (*)(const Site& at, gpurun_request* request);

int last() { return size() - 1; }

template <size_t count, gpurun_datatype type, typename Op>
gpurun_status allreduce(const Site& at, gpurun_request* request) {
    return request == nullptr ? gpurun_allreduce(at.send, at.recv, count, type, Op::op(), at.comm, at.stream)
                              : gpurun_iallreduce(at.send, at.recv, count, type, Op::op(), at.comm, at.stream, request);
}
struct Sum {
    static gpurun_op op() { return GPURUN_SUM; }
};
struct Max {
    static gpurun_op op() { return GPURUN_MAX; }
};
template <bool root_is_last>
gpurun_status reduce(const Site& at, gpurun_request* request) {
    const int root = root_is_last ? last() : 0;
    return request == nullptr
               ? gpurun_reduce(at.send, at.recv, 8, GPURUN_FLOAT, GPURUN_SUM, root, at.comm, at.stream)
               : gpurun_ireduce(at.send, at.recv, 8, GPURUN_FLOAT, GPURUN_SUM, root, at.comm, at.stream, request);
}
template <size_t count, bool root_is_last>
gpurun_status bcast(const Site& at, gpurun_request* request) {
    const int root = root_is_last ? last() : 0;
    return request == nullptr ? gpurun_bcast(at.recv, count, GPURUN_BYTE, root, at.comm, at.stream)
                              : gpurun_ibcast(at.recv, count, GPURUN_BYTE, root, at.comm, at.stream, request);
}
gpurun_status barrier(const Site& at, gpurun_request* request) {
    return request == nullptr ? gpurun_barrier(at.comm, at.stream) : gpurun_ibarrier(at.comm, at.stream, request);
}
gpurun_status scan(const Site& at, gpurun_request* request) {
    return request == nullptr
               ? gpurun_scan(at.send, at.recv, 8, GPURUN_FLOAT, GPURUN_SUM, at.comm, at.stream)
               : gpurun_iscan(at.send, at.recv, 8, GPURUN_FLOAT, GPURUN_SUM, at.comm, at.stream, request);
}
template <size_t count>
gpurun_status allgather(const Site& at, gpurun_request* request) {
    return request == nullptr
               ? gpurun_allgather(at.send, count, GPURUN_BYTE, at.recv, count, GPURUN_BYTE, at.comm, at.stream)
               : gpurun_iallgather(at.send, count, GPURUN_BYTE, at.recv, count, GPURUN_BYTE, at.comm, at.stream,
                                   request);
}
// Each other rank sends `sent` bytes to rank 0, which expects `expected` of the last one, and `sent` of the others.
template <size_t sent, size_t expected>
gpurun_status gatherv(const Site& at, gpurun_request* request) {
    std::vector<size_t> counts(static_cast<size_t>(size()), sent);
    counts.back() = expected;
    return request == nullptr ? gpurun_gatherv(at.send, sent, GPURUN_BYTE, at.recv, counts.data(), nullptr, GPURUN_BYTE,
                                               0, at.comm, at.stream)
                              : gpurun_igatherv(at.send, sent, GPURUN_BYTE, at.recv, counts.data(), nullptr,
                                                GPURUN_BYTE, 0, at.comm, at.stream, request);
}

// What the last rank calls, and the others.
struct Mistake {
    const char* name;
    Collective of_last;
    Collective of_others;
    const char* text_of_last; // in each rank's message, as the next
    const char* text_of_others;
    bool needs_check = false; // some rank waits for a message that nobody sends
};
constexpr size_t kLarge = 40'000; // elements: more than goes eagerly
const Mistake kMistakes[] = {
    {"counts", allreduce<5, GPURUN_INT32, Sum>, allreduce<6, GPURUN_INT32, Sum>, "of 5 INT32", "of 6 INT32"},
    {"large counts", allreduce<kLarge, GPURUN_INT32, Sum>, allreduce<kLarge + 1, GPURUN_INT32, Sum>, "of 40000 INT32",
     "of 40001 INT32"},
    {"a large count and none", allreduce<kLarge, GPURUN_INT32, Sum>, allreduce<8, GPURUN_INT32, Sum>, "of 40000 INT32",
     "of 8 INT32"},
    {"types", allreduce<8, GPURUN_INT32, Sum>, allreduce<8, GPURUN_FLOAT, Sum>, "of 8 INT32", "of 8 FLOAT"},
    {"operations", allreduce<8, GPURUN_INT32, Sum>, allreduce<8, GPURUN_INT32, Max>, "by SUM", "by MAX"},
    {"roots", bcast<64, true>, bcast<64, false>, "gpurun_bcast() of 64 bytes with root", "with root 0"},
    {"roots of a reduction", reduce<false>, reduce<true>, "gpurun_reduce() of 8 FLOAT by SUM with root 0",
     "gpurun_reduce() of 8 FLOAT by SUM with root"},
    {"lengths of a broadcast", bcast<64, false>, bcast<65, false>, "of 64 bytes", "of 65 bytes"},
    {"calls", barrier, allreduce<8, GPURUN_INT32, Sum>, "gpurun_barrier()", "gpurun_allreduce()"},
    {"a scan and a reduction", scan, allreduce<8, GPURUN_FLOAT, Sum>, "gpurun_scan()", "gpurun_allreduce()"},
    {"a broadcast and a barrier", bcast<8, true>, barrier, "gpurun_bcast() of 8 bytes", "gpurun_barrier()"},
    {"lengths of blocks", allgather<16>, allgather<24>, "of 16 bytes", "of 24 bytes"},
    {"lengths of one block", gatherv<16, 24>, gatherv<16, 24>, "sends 16 bytes to rank 0 by gpurun_gatherv()",
     "expects 24"},
    {"a block that nobody expects", gatherv<16, 0>, gatherv<16, 0>, "sends 16 bytes to rank 0", "expects 0"},
    {"a block that nobody sends", gatherv<0, 16>, gatherv<0, 16>, "sends 0 bytes to rank 0", "expects 16", true},
    {"roots, all of which wait", reduce<true>, reduce<false>, "gpurun_reduce()", "with root 0", true},
};

bool checks_all() {
    const char* const check = std::getenv("GPURUN_CHECK");
    return check != nullptr && std::strcmp(check, "1") == 0;
}

bool is_told(gpurun_status status, const Mistake& mistake) {
    if (status != GPURUN_ERR_COLLECTIVE)
        return false;
    const std::string detail = gpurun_error_detail();
    CAPTURE(detail);
    CHECK(detail.find(mistake.text_of_last) != std::string::npos);
    CHECK(detail.find(mistake.text_of_others) != std::string::npos);
    return true;
}

// A rank whose part was over is told by a later collective; here by a barrier, as often as some rank is to be told.
void tell_all(gpurun_comm comm, const Mistake& mistake, bool told) {
    constexpr int kMostBarriers = 1000; // each makes progress
    for (int i = 0;; ++i) {
        const uint8_t own = told;
        uint8_t all = 0;
        REQUIRE_OK(gpurun_allreduce(&own, &all, 1, GPURUN_UINT8, GPURUN_MIN, kWorld, GPURUN_HOST));
        if (all != 0)
            return;
        REQUIRE(i < kMostBarriers);
        const gpurun_status status = gpurun_barrier(comm, GPURUN_HOST);
        const bool told_now = is_told(status, mistake);
        CHECK((told_now ? !told : status == GPURUN_OK)); // once
        told = told || told_now;
    }
}

void make(const Mistake& mistake, gpurun_stream stream, bool started) {
    CAPTURE(std::string(mistake.name));
    CAPTURE(started);
    CAPTURE((stream == GPURUN_HOST));
    const size_t bytes = (kLarge + 1) * sizeof(int32_t) * static_cast<size_t>(size());
    const Kind kind = stream == GPURUN_HOST ? Kind::kPageable : Kind::kDevice;
    Memory send(kind, bytes), recv(kind, bytes);
    gpurun_comm comm = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_dup(kWorld, &comm));
    const Collective call = rank() == last() ? mistake.of_last : mistake.of_others;
    const Site site{send.get(), recv.get(), comm, stream};
    gpurun_status status = GPURUN_OK;
    if (started) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        REQUIRE_OK(call(site, &request));
        status = gpurun_wait(&request, stream, nullptr);
    } else {
        status = call(site, nullptr);
    }
    CHECK((status == GPURUN_OK || status == GPURUN_ERR_COLLECTIVE));
    if (checks_all() && size() == 2)
        CHECK(status == GPURUN_ERR_COLLECTIVE);
    tell_all(comm, mistake, is_told(status, mistake));
    synchronize(stream);
    const int32_t one = 1;
    int32_t all = 0;
    REQUIRE_OK(gpurun_allreduce(&one, &all, 1, GPURUN_INT32, GPURUN_SUM, comm, GPURUN_HOST));
    CHECK(all == size());
    REQUIRE_OK(gpurun_comm_free(&comm));
}

} // namespace

TEST_SUITE_BEGIN("mismatches");

TEST_CASE("ranks that call a collective differently are all told, with both sides, and nobody waits for ever") {
    if (size() < 2)
        return;
    const Stream stream;
    for (const Mistake& mistake : kMistakes)
        for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
            for (const bool started : {false, true})
                if (checks_all() || !mistake.needs_check)
                    make(mistake, domain, started);
}

// It has sent what it had to, to the root that it was told.
TEST_CASE("a rank that goes on tells those who wait for it in vain") {
    if (size() < 3)
        return;
    const Mistake mistake{"roots", reduce<true>, reduce<false>, "gpurun_reduce() of 8 FLOAT by SUM with root",
                          "root 0"};
    std::array<float, 8> own{}, sum{};
    gpurun_comm comm = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_dup(kWorld, &comm));
    const Site site{reinterpret_cast<uint8_t*>(own.data()), reinterpret_cast<uint8_t*>(sum.data()), comm, GPURUN_HOST};
    const gpurun_status reduced = (rank() == last() ? mistake.of_last : mistake.of_others)(site, nullptr);
    const bool waits = rank() == 0 || rank() == last();
    CHECK((reduced == GPURUN_ERR_COLLECTIVE || (!waits && reduced == GPURUN_OK)));
    const bool told = is_told(reduced, mistake);
    const gpurun_status next = gpurun_barrier(comm, GPURUN_HOST); // by which the others see that it is ahead
    const bool told_now = is_told(next, mistake);
    CHECK((told_now ? !told : next == GPURUN_OK));
    tell_all(comm, mistake, told || told_now);
    REQUIRE_OK(gpurun_comm_free(&comm));
}

TEST_CASE("with GPURUN_CHECK=1 nobody sends or receives anything of a collective that is called differently") {
    if (!checks_all() || size() < 2)
        return;
    int32_t sent[2] = {1, 2}, got[2] = {-1, -1};
    const size_t count = rank() == 0 ? 1 : 2;
    CHECK(gpurun_allreduce(sent, got, count, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST) == GPURUN_ERR_COLLECTIVE);
    CHECK(got[0] == -1);
    CHECK(got[1] == -1);
}

TEST_CASE("a mismatch on one communicator is nothing to another one") {
    if (size() < 2)
        return;
    gpurun_comm apart = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_dup(kWorld, &apart));
    int32_t sent = rank(), got = -1, sum = -1;
    gpurun_request requests[2] = {GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL};
    const gpurun_op op = rank() == 0 ? GPURUN_MIN : GPURUN_MAX;
    REQUIRE_OK(gpurun_iallreduce(&sent, &got, 1, GPURUN_INT32, op, apart, GPURUN_HOST, &requests[0]));
    REQUIRE_OK(gpurun_iallreduce(&sent, &sum, 1, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST, &requests[1]));
    CHECK(gpurun_wait(&requests[0], GPURUN_HOST, nullptr) == GPURUN_ERR_COLLECTIVE);
    REQUIRE_OK(gpurun_wait(&requests[1], GPURUN_HOST, nullptr));
    CHECK(sum == size() * (size() - 1) / 2);
    REQUIRE_OK(gpurun_comm_free(&apart));
}

TEST_CASE("ranks that call a collective differently inside of a capture are told, and capture the next one") {
    if (size() < 2 || !has_graphs())
        return;
    const Stream stream;
    const Memory numbers(Kind::kDevice, 4 * sizeof(int32_t));
    gpurun_comm comm = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_dup(kWorld, &comm));
    const auto sum = [&](size_t count) {
        return gpurun_allreduce(numbers.get(), numbers.at(2 * sizeof(int32_t)), count, GPURUN_INT32, GPURUN_SUM, comm,
                                stream);
    };
    gpurun_status first = GPURUN_OK, differing = GPURUN_OK, next = GPURUN_OK;
    const auto all_can = [&](gpurun_status status) {
        int refused = status == GPURUN_OK ? 0 : 1;
        CHECK((status == GPURUN_OK || status == GPURUN_ERR_UNSUPPORTED));
        REQUIRE_OK(gpurun_allreduce(GPURUN_IN_PLACE, &refused, 1, GPURUN_INT, GPURUN_MAX, kWorld, GPURUN_HOST));
        return refused == 0;
    };
    {
        const Graph graph(stream, [&] { first = sum(1); });
        if (!all_can(first)) {
            REQUIRE_OK(gpurun_comm_free(&comm));
            return;
        }
    }
    {
        const Graph graph(stream, [&] { differing = sum(rank() == 0 ? 2 : 1); });
        CHECK(differing == GPURUN_ERR_COLLECTIVE);
        CHECK(std::string(gpurun_error_detail()).find("gpurun_allreduce()") != std::string::npos);
    }
    const Graph graph(stream, [&] { next = sum(2); });
    CHECK(next == GPURUN_OK);
    const int32_t own[2] = {1, rank()};
    int32_t all[2] = {-1, -1};
    REQUIRE_OK(gpurun_memcpy(numbers.get(), own, sizeof own, stream));
    graph.launch(stream);
    REQUIRE_OK(gpurun_memcpy(all, numbers.at(sizeof own), sizeof all, stream));
    synchronize(stream);
    CHECK(all[0] == size());
    CHECK(all[1] == size() * (size() - 1) / 2);
    REQUIRE_OK(gpurun_comm_free(&comm));
}

TEST_SUITE_END();

} // namespace gpurun::test::mismatches
