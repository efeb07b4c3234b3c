// Reductions: an operation on elements of a type, and what it makes of several buffers of them.
//
// The operands are combined from the first to the last, so the result does not depend on who computes it. Values of
// half precision are combined in float, and rounded once. CPUs (reduce()) and GPUs (device/cuda/reduce_kernels.cuh)
// give the same bits, since both use what arithmetic.hpp says; only of NaNs the payload may differ.
#pragma once

#include "base/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpurun::base {

// A function of the program's, as a type that calls it knows it: elements of `in` and `inout` are combined there, those
// of lower ranks in `in`. The CPU alone can.
using AnyFunction = void (*)();
struct ProgramOperation {
    void (*call)(AnyFunction function, const void* in, void* inout, size_t count, Type type) = nullptr;
    AnyFunction function = nullptr;
};

struct Reduction {
    Type type = Type::kByte;
    Op op = Op::kSum;                 // not kAverage: that is a sum with a divisor
    uint32_t divisor = 0;             // of the sum; 0: none
    ProgramOperation of_program = {}; // with kOfProgram
};

// How many operands are combined at once, with one rounding.
constexpr size_t kMostOperands = 16;

// The result may be one of the operands; otherwise they do not overlap. No buffer need be aligned.
// REQUIRES: has_meaning(), 1 to kMostOperands operands.
void reduce(const Reduction& reduction, size_t count, void* result, std::span<const void* const> operands);

} // namespace gpurun::base
