// What ranks of a collective have to agree on, as 64 bits and as text.
#include "comm/signature.hpp"

#include <doctest/doctest.h>

using namespace gpurun;
using base::Collective;
using comm::Signature;

namespace {

constexpr int kType = static_cast<int>(base::Type::kFloat);
constexpr auto kSum = static_cast<uint32_t>(base::Op::kSum);

} // namespace

TEST_SUITE_BEGIN("signature");

TEST_CASE("a signature says what was called") {
    CHECK(Signature(Collective::kBarrier).text() == "gpurun_barrier()");
    CHECK(Signature(Collective::kBcast).with_root(0).with_bytes(0).text() == "gpurun_bcast() of 0 bytes with root 0");
    CHECK(Signature(Collective::kReduce).with_elements(8, kType, kSum).with_root(255).text() ==
          "gpurun_reduce() of 8 FLOAT by SUM with root 255");
    CHECK(Signature(Collective::kNewComm).text() == "a function that makes or changes a communicator");
}

TEST_CASE("signatures differ if any argument does, and none is 0") {
    const Signature one = Signature(Collective::kReduce).with_elements(8, kType, kSum).with_root(1);
    CHECK(one == Signature(one.bits()));
    CHECK(one != Signature(Collective::kReduce).with_elements(9, kType, kSum).with_root(1));
    CHECK(one != Signature(Collective::kReduce).with_elements(8, kType + 1, kSum).with_root(1));
    CHECK(one != Signature(Collective::kReduce).with_elements(8, kType, kSum + 1).with_root(1));
    CHECK(one != Signature(Collective::kReduce).with_elements(8, kType, kSum).with_root(2));
    CHECK(one != Signature(Collective::kAllreduce).with_elements(8, kType, kSum).with_root(1));
    CHECK(Signature(static_cast<Collective>(0)).bits() != 0);
}

TEST_CASE("a count that has no room stands for all that large") {
    const Signature large = Signature(Collective::kBcast).with_bytes(size_t{1} << 40);
    CHECK(large == Signature(Collective::kBcast).with_bytes(SIZE_MAX / 2));
    CHECK(large.kind() == Collective::kBcast);
    CHECK(large != Signature(Collective::kBcast).with_bytes((size_t{1} << 36) - 3));
}

TEST_SUITE_END();
