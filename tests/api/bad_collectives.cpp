// Misuse of reductions, gathers and all-to-alls: each is refused before anything is sent, so that the next one works.
#include "api/misuse.hpp"

#include <string>

using namespace gpurun::test;

namespace {

void check_good_reduction() {
    const int one = 1;
    int all = 0;
    REQUIRE_OK(gpurun_allreduce(&one, &all, 1, GPURUN_INT, GPURUN_SUM, kWorld, GPURUN_HOST));
    CHECK(all == size());
}

bool detail_has(const char* text) { return std::string(gpurun_error_detail()).find(text) != std::string::npos; }

} // namespace

TEST_SUITE_BEGIN("bad collectives");

TEST_CASE("gpurun_reduce and gpurun_gather refuse what they cannot use") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"wildcard root", GPURUN_ERR_RANK, [](Arguments& a) { a.other = GPURUN_ANY_SOURCE; }});
    misuses.push_back({"no root", GPURUN_ERR_RANK, [](Arguments& a) { a.other = GPURUN_PROC_NULL; }});
    std::vector<int> room(4 * static_cast<size_t>(size()));
    check_all(misuses, [&](const Arguments& a) {
        return gpurun_reduce(a.buffer, room.data(), a.count, a.type, GPURUN_SUM, a.other, a.comm, a.stream);
    });
    check_all(misuses, [&](const Arguments& a) {
        return gpurun_gather(a.buffer, a.count, a.type, room.data(), a.count, a.type, a.other, a.comm, a.stream);
    });
    check_good_reduction();
}

TEST_CASE("an operation that is none, or has no meaning for its type, is refused, and the message names both") {
    int numbers[] = {1, 2}, sums[] = {3, 4};
    const auto reduce = [&](gpurun_datatype type, gpurun_op op) {
        return gpurun_allreduce(numbers, sums, 1, type, op, kWorld, GPURUN_HOST);
    };
    check_refused(reduce(GPURUN_INT, gpurun_make_op(0)), GPURUN_ERR_OP);
    check_refused(reduce(GPURUN_INT, gpurun_make_op(14)), GPURUN_ERR_OP);
    check_refused(reduce(GPURUN_FLOAT, GPURUN_BAND), GPURUN_ERR_OP);
    CHECK(detail_has("GPURUN_BAND has no meaning for GPURUN_FLOAT"));
    check_refused(reduce(GPURUN_CHAR, GPURUN_MAX), GPURUN_ERR_OP);
    check_refused(reduce(GPURUN_INT, GPURUN_MINLOC), GPURUN_ERR_OP);
    check_refused(reduce(GPURUN_2INT, GPURUN_SUM), GPURUN_ERR_OP);
    CHECK(detail_has("GPURUN_SUM has no meaning for GPURUN_2INT"));
    CHECK(sums[0] == 3);
    check_good_reduction();
}

TEST_CASE("buffers that overlap are refused, and the message says what to pass") {
    std::vector<int> numbers(8 * static_cast<size_t>(size()));
    int* const first = numbers.data();
    check_refused(gpurun_allreduce(first, first + 3, 4, GPURUN_INT, GPURUN_SUM, kWorld, GPURUN_HOST),
                  GPURUN_ERR_BUFFER);
    CHECK(detail_has("GPURUN_IN_PLACE"));
    check_refused(gpurun_allreduce(first, GPURUN_IN_PLACE, 1, GPURUN_INT, GPURUN_SUM, kWorld, GPURUN_HOST),
                  GPURUN_ERR_BUFFER);
    check_refused(gpurun_allgather(first, 1, GPURUN_INT, first, 1, GPURUN_INT, kWorld, GPURUN_HOST), GPURUN_ERR_BUFFER);
    check_refused(gpurun_alltoall(first, 1, GPURUN_INT, first, 1, GPURUN_INT, kWorld, GPURUN_HOST), GPURUN_ERR_BUFFER);
    check_good_reduction();
}

TEST_CASE("only the root of a reduce, a gather and a scatter has one buffer") {
    if (size() < 2)
        return;
    std::vector<int> numbers(static_cast<size_t>(size()));
    int own = 0;
    const int root = (rank() + 1) % size();
    check_refused(gpurun_reduce(GPURUN_IN_PLACE, &own, 1, GPURUN_INT, GPURUN_SUM, root, kWorld, GPURUN_HOST),
                  GPURUN_ERR_BUFFER);
    check_refused(
        gpurun_gather(GPURUN_IN_PLACE, 1, GPURUN_INT, numbers.data(), 1, GPURUN_INT, root, kWorld, GPURUN_HOST),
        GPURUN_ERR_BUFFER);
    check_refused(
        gpurun_scatter(numbers.data(), 1, GPURUN_INT, GPURUN_IN_PLACE, 1, GPURUN_INT, root, kWorld, GPURUN_HOST),
        GPURUN_ERR_BUFFER);
    check_good_reduction();
}

TEST_CASE("counts that are missing, too large, or do not agree with the rank's own are refused") {
    std::vector<int> numbers(static_cast<size_t>(size())), got(numbers.size());
    std::vector<size_t> counts(numbers.size(), 1), huge(numbers.size(), SIZE_MAX / 2);
    check_refused(
        gpurun_allgatherv(numbers.data(), 1, GPURUN_INT, got.data(), nullptr, nullptr, GPURUN_INT, kWorld, GPURUN_HOST),
        GPURUN_ERR_ARGUMENT);
    check_refused(
        gpurun_reduce_scatter(numbers.data(), got.data(), nullptr, GPURUN_INT, GPURUN_SUM, kWorld, GPURUN_HOST),
        GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_allgatherv(numbers.data(), 1, GPURUN_INT, got.data(), huge.data(), nullptr, GPURUN_INT, kWorld,
                                    GPURUN_HOST),
                  GPURUN_ERR_COUNT);
    check_refused(
        gpurun_reduce_scatter(numbers.data(), got.data(), huge.data(), GPURUN_INT, GPURUN_SUM, kWorld, GPURUN_HOST),
        GPURUN_ERR_COUNT);
    check_refused(gpurun_allgather(numbers.data(), 2, GPURUN_CHAR, got.data(), 1, GPURUN_INT, kWorld, GPURUN_HOST),
                  GPURUN_ERR_COUNT);
    check_refused(gpurun_allgather(numbers.data(), 1, GPURUN_INT, got.data(), 2, GPURUN_CHAR, kWorld, GPURUN_HOST),
                  GPURUN_ERR_TRUNCATED);
    check_refused(
        gpurun_iallgather(numbers.data(), 1, GPURUN_INT, got.data(), 1, GPURUN_INT, kWorld, GPURUN_HOST, nullptr),
        GPURUN_ERR_ARGUMENT);
    check_good_reduction();
}

TEST_SUITE_END();
