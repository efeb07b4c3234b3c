// How many blocks of kernels that spin a rank may have on its device.
#include "transfer/pool/kernel_budget.hpp"

#include <doctest/doctest.h>

namespace gpurun::test {

using device::Counter;
using device::Stream;
using transfer::KernelBudget;

namespace {

Stream stream(uintptr_t number) { return Stream{reinterpret_cast<CUstream_st*>(number)}; }

} // namespace

TEST_CASE("ranks that share a device share its blocks, and each has one") {
    CHECK(KernelBudget(99, 1).blocks() == 99);
    CHECK(KernelBudget(99, 4).blocks() == 24);
    CHECK(KernelBudget(30, 48).blocks() == 1);
}

TEST_CASE("the engines of a rank share its blocks, also with one that comes later") {
    transfer::EngineCount engines{1};
    KernelBudget budget(100, 1, engines);
    CHECK(budget.blocks() == 100);
    engines = 2;
    CHECK(budget.blocks() == 50);
    CHECK_FALSE(budget.admits(stream(1), 51, {}));
    CHECK(budget.admits(stream(1), 50, {}));
    engines = 200;
    CHECK(budget.blocks() == 1);
}

TEST_CASE("messages of three graphs that run side by side fit into the budget, and each may wait with one block") {
    CHECK(3 * KernelBudget(99, 1).blocks_in_graph() <= 99);
    CHECK(KernelBudget(99, 1).blocks_in_graph() >= 32); // a reduction of 512 KiB, in blocks of four lanes
    CHECK(KernelBudget(99, 48).blocks_in_graph() == 1);
}

TEST_CASE("kernels spin side by side up to the budget, and give their blocks back when they have ended") {
    KernelBudget budget(100, 1);
    Counter first{0}, second{0};
    CHECK(budget.admits(stream(1), 64, {first, 2}));
    CHECK_FALSE(budget.admits(stream(2), 64, {second, 2}));
    CHECK(budget.admits(stream(2), 36, {second, 2}));
    CHECK_FALSE(budget.admits(stream(3), 1, {second, 4}));
    first = 2;
    CHECK(budget.admits(stream(3), 64, {first, 4}));
}

TEST_CASE("a kernel that waits for several has its blocks until the last of them has come") {
    KernelBudget budget(100, 1);
    Counter first{0}, second{0};
    KernelBudget::Ends both(first, 2);
    both.add(second, 4);
    CHECK(budget.admits(stream(1), 100, both));
    second = 4;
    CHECK_FALSE(budget.admits(stream(2), 1, {second, 6}));
    first = 2;
    CHECK(budget.admits(stream(2), 1, {second, 6}));
}

TEST_CASE("kernels of one stream run one after the other, so that only the largest counts") {
    KernelBudget budget(100, 1);
    Counter done{0};
    CHECK(budget.admits(stream(1), 60, {done, 2}));
    CHECK(budget.admits(stream(1), 80, {done, 4}));
    CHECK(budget.admits(stream(2), 20, {done, 2}));
    CHECK_FALSE(budget.admits(stream(3), 1, {done, 2}));
    CHECK_FALSE(budget.admits(stream(1), 81, {done, 6}));
}

} // namespace gpurun::test
