// How many bytes a collective has.
#include "collective.hpp"

#include <doctest/doctest.h>

using namespace gpurun::bench;

TEST_SUITE_BEGIN("collective");

TEST_CASE("a whole buffer has whole elements, at least as many bytes as were asked for") {
    CHECK(whole_bytes(Collective::kAllreduce, 1, 4) == 4);
    CHECK(whole_bytes(Collective::kBcast, 8, 3) == 8);
    CHECK(whole_bytes(Collective::kReduce, 5001, 3) == 5004);
}

TEST_CASE("blocks are alike, and begin at boundaries unless they are smaller") {
    CHECK(whole_bytes(Collective::kAllgather, 8, 2) == 8);
    CHECK(whole_bytes(Collective::kAllgather, 8, 4) == 16); // an element each
    CHECK(whole_bytes(Collective::kScatter, 24, 2) == 24);  // three each
    CHECK(whole_bytes(Collective::kAlltoall, 5000, 2) == 2 * 2496);
    CHECK(whole_bytes(Collective::kReduceScatter, size_t{1} << 20, 8) == size_t{1} << 20);
    CHECK(whole_bytes(Collective::kGather, 64 << 10, 3) == 3 * 21840);
}

TEST_CASE("a barrier has no bytes") { CHECK(whole_bytes(Collective::kBarrier, 4096, 2) == 0); }

TEST_CASE("what crosses a rank's link is what it does not have already, of a sum there and back") {
    CHECK(bus_share(Collective::kAllreduce, 2) == 1);
    CHECK(bus_share(Collective::kAllreduce, 4) == 1.5);
    CHECK(bus_share(Collective::kAllgather, 4) == 0.75);
    CHECK(bus_share(Collective::kAlltoall, 2) == 0.5);
    CHECK(bus_share(Collective::kBcast, 8) == 1);
    CHECK(bus_share(Collective::kReduce, 8) == 1);
}
