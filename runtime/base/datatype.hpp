// The basic types, by the numbers of gpurun_datatype: how large their elements are, and what kind of values these have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpurun::base {

enum class Type : uint8_t {
    kByte = 1,
    kChar,
    kInt8,
    kUint8,
    kInt16,
    kUint16,
    kInt32,
    kUint32,
    kInt64,
    kUint64,
    kFloat16,
    kBfloat16,
    kFloat,
    kDouble,
    kComplexFloat,
    kComplexDouble,
    kBool,
    kShortInt, // pairs of a value and an int, as C lays them out
    kIntInt,
    kLongInt,
    kFloatInt,
    kDoubleInt,
};
constexpr size_t kTypes = 23; // numbers: 0 is none

enum class Values : uint8_t { kNone, kText, kBits, kIntegers, kReals, kComplex, kTruths, kPairs };

struct TypeInfo {
    const char* name = ""; // after GPURUN_
    uint8_t bytes = 0;
    Values values = Values::kNone;
};
constexpr std::array<TypeInfo, kTypes> kTypeTable = {{
    {},
    {"BYTE", 1, Values::kBits},
    {"CHAR", 1, Values::kText},
    {"INT8", 1, Values::kIntegers},
    {"UINT8", 1, Values::kIntegers},
    {"INT16", 2, Values::kIntegers},
    {"UINT16", 2, Values::kIntegers},
    {"INT32", 4, Values::kIntegers},
    {"UINT32", 4, Values::kIntegers},
    {"INT64", 8, Values::kIntegers},
    {"UINT64", 8, Values::kIntegers},
    {"FLOAT16", 2, Values::kReals},
    {"BFLOAT16", 2, Values::kReals},
    {"FLOAT", 4, Values::kReals},
    {"DOUBLE", 8, Values::kReals},
    {"COMPLEX_FLOAT", 8, Values::kComplex},
    {"COMPLEX_DOUBLE", 16, Values::kComplex},
    {"BOOL", 1, Values::kTruths},
    {"SHORT_INT", 8, Values::kPairs},
    {"2INT", 8, Values::kPairs},
    {"LONG_INT", 16, Values::kPairs},
    {"FLOAT_INT", 8, Values::kPairs},
    {"DOUBLE_INT", 16, Values::kPairs},
}};

// No values, and no bytes, if `type` is none.
constexpr const TypeInfo& info_of_type(int type) {
    return kTypeTable[static_cast<unsigned>(type) < kTypes ? static_cast<unsigned>(type) : 0];
}
constexpr size_t size_of_type(int type) { return info_of_type(type).bytes; }

} // namespace gpurun::base
