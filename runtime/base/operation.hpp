// The operations of reductions, and for which types they have a meaning. Read by nvcc, too.
#pragma once

#include "base/datatype.hpp"

namespace gpurun::base {

// By the numbers of the operations in the public header.
enum class Op : uint8_t {
    kSum = 1,
    kProd,
    kMin,
    kMax,
    kLogicalAnd,
    kLogicalOr,
    kLogicalXor,
    kBitwiseAnd,
    kBitwiseOr,
    kBitwiseXor,
    kMinloc,
    kMaxloc,
    kAverage,
    kOfProgram, // a function of the program's, with any number in the header
};
constexpr size_t kOps = 14; // numbers of the library's own: 0 is none
constexpr std::array<const char*, kOps> kOpNames = {"",     "SUM",  "PROD", "MIN",  "MAX",    "LAND",   "LOR",
                                                    "LXOR", "BAND", "BOR",  "BXOR", "MINLOC", "MAXLOC", "AVG"};

constexpr bool has_meaning(Op op, Type type) {
    const Values values = info_of_type(static_cast<int>(type)).values;
    switch (op) {
    case Op::kSum:
    case Op::kProd:
    case Op::kAverage: return values == Values::kIntegers || values == Values::kReals || values == Values::kComplex;
    case Op::kMin:
    case Op::kMax: return values == Values::kIntegers || values == Values::kReals;
    case Op::kLogicalAnd:
    case Op::kLogicalOr:
    case Op::kLogicalXor: return values == Values::kIntegers || values == Values::kTruths;
    case Op::kBitwiseAnd:
    case Op::kBitwiseOr:
    case Op::kBitwiseXor: return values == Values::kIntegers || values == Values::kBits;
    case Op::kMinloc:
    case Op::kMaxloc: return values == Values::kPairs;
    case Op::kOfProgram: return true;
    }
    return false;
}

} // namespace gpurun::base
