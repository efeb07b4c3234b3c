// What the operations of reductions make of two values. Read by the compilers of the CPU and of the GPU, so that both
// give the same bits: no operation here may be fused with another (-fmad=false).
#pragma once

#include "base/operation.hpp"

#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#define GPURUN_ON_BOTH __host__ __device__
#else
#define GPURUN_ON_BOTH
#endif

namespace gpurun::base {

template <typename Part>
struct ComplexValue {
    Part real;
    Part imaginary;
};
template <typename Value>
struct PairValue {
    Value value;
    int32_t index;
};
struct Float16Bits {
    uint16_t bits;
};
struct Bfloat16Bits {
    uint16_t bits;
};

template <typename To, typename From>
GPURUN_ON_BOTH inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// ---- values of half precision

// The exponent's bias grows from 15 to 127 by a product, which is exact, and makes subnormal numbers normal.
GPURUN_ON_BOTH inline float widened(Float16Bits half) {
    const float magnitude = bits_as<float>(static_cast<uint32_t>(half.bits & 0x7fff) << 13) * 0x1p112f;
    const uint32_t is_special = magnitude >= 65536.0f ? 0x7f800000U : 0U; // infinity or NaN
    return bits_as<float>(bits_as<uint32_t>(magnitude) | is_special | static_cast<uint32_t>(half.bits & 0x8000) << 16);
}
GPURUN_ON_BOTH inline float widened(Bfloat16Bits half) {
    return bits_as<float>(static_cast<uint32_t>(half.bits) << 16);
}

// To the nearest, ties to even.
GPURUN_ON_BOTH inline Float16Bits narrowed_16(float value) {
    constexpr uint32_t kInfinity = 0x7f800000;
    constexpr uint32_t kTooLarge = (127U + 16) << 23;       // 65536
    constexpr uint32_t kLeastNormal = (127U - 14) << 23;    // 2^-14
    constexpr uint32_t kLastBit = ((127U - 15) + 14) << 23; // its last bit has the value of a subnormal half's
    const uint32_t all = bits_as<uint32_t>(value);
    const uint32_t magnitude = all & 0x7fffffff;
    const uint32_t normal = (magnitude - ((127U - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const uint32_t subnormal = bits_as<uint32_t>(bits_as<float>(magnitude) + bits_as<float>(kLastBit)) - kLastBit;
    const uint32_t special = magnitude > kInfinity ? 0x7e00U : 0x7c00U;
    const uint32_t finite = magnitude < kLeastNormal ? subnormal : normal;
    return {static_cast<uint16_t>((magnitude >= kTooLarge ? special : finite) | (all >> 16 & 0x8000))};
}
GPURUN_ON_BOTH inline Bfloat16Bits narrowed_b16(float value) {
    const uint32_t all = bits_as<uint32_t>(value);
    const bool is_nan = (all & 0x7fffffff) > 0x7f800000;
    const uint32_t rounded = (all + 0x7fff + (all >> 16 & 1)) >> 16;
    return {static_cast<uint16_t>(is_nan ? (all >> 16 | 0x40) : rounded)};
}

// ---- the operations

template <typename T>
GPURUN_ON_BOTH inline T sum_of(T a, T b) {
    if constexpr (std::is_integral_v<T>) { // which wraps around
        using Bits = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
    } else {
        return a + b;
    }
}
template <typename Part>
GPURUN_ON_BOTH inline ComplexValue<Part> sum_of(ComplexValue<Part> a, ComplexValue<Part> b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
}

template <typename T>
GPURUN_ON_BOTH inline T product_of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using Bits =
            std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>; // no promotion to int, which could overflow
        return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
    } else {
        return a * b;
    }
}
template <typename Part>
GPURUN_ON_BOTH inline ComplexValue<Part> product_of(ComplexValue<Part> a, ComplexValue<Part> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

// A NaN is the result, whichever of the two it is.
template <typename T>
GPURUN_ON_BOTH inline bool is_nan(T value) {
    if constexpr (std::is_floating_point_v<T>)
        return value != value;
    else
        return false;
}

// The one that is found first in order: a NaN, else a smaller value, or a larger one; then a smaller index.
template <typename Value>
GPURUN_ON_BOTH inline PairValue<Value> first_of(PairValue<Value> a, PairValue<Value> b, bool b_is_better) {
    const bool alike = is_nan(a.value) ? is_nan(b.value) : a.value == b.value;
    const bool takes_b = alike ? b.index < a.index : !is_nan(a.value) && (b_is_better || is_nan(b.value));
    return takes_b ? b : a;
}

template <Op kOp, typename T>
GPURUN_ON_BOTH inline T combined(T a, T b) {
    if constexpr (kOp == Op::kSum)
        return sum_of(a, b);
    else if constexpr (kOp == Op::kProd)
        return product_of(a, b);
    else if constexpr (kOp == Op::kMin)
        return b < a || is_nan(b) ? b : a;
    else if constexpr (kOp == Op::kMax)
        return b > a || is_nan(b) ? b : a;
    else if constexpr (kOp == Op::kLogicalAnd)
        return static_cast<T>(a != 0 && b != 0);
    else if constexpr (kOp == Op::kLogicalOr)
        return static_cast<T>(a != 0 || b != 0);
    else if constexpr (kOp == Op::kLogicalXor)
        return static_cast<T>((a != 0) != (b != 0));
    else if constexpr (kOp == Op::kBitwiseAnd)
        return static_cast<T>(a & b);
    else if constexpr (kOp == Op::kBitwiseOr)
        return static_cast<T>(a | b);
    else if constexpr (kOp == Op::kBitwiseXor)
        return static_cast<T>(a ^ b);
    else if constexpr (kOp == Op::kMinloc)
        return first_of(a, b, b.value < a.value);
    else
        return first_of(a, b, b.value > a.value);
}

// Of integers, towards 0.
template <typename T>
GPURUN_ON_BOTH inline T divided(T sum, uint32_t divisor) {
    if constexpr (std::is_integral_v<T>) {
        using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
        return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(divisor));
    } else {
        return sum / static_cast<T>(divisor);
    }
}
template <typename Part>
GPURUN_ON_BOTH inline ComplexValue<Part> divided(ComplexValue<Part> sum, uint32_t divisor) {
    return {sum.real / static_cast<Part>(divisor), sum.imaginary / static_cast<Part>(divisor)};
}

// ---- the types

// How elements of a type are kept, and what they are combined as.
template <typename Kept, typename Combined = Kept>
struct TypePair {
    using Element = Kept;
    using Value = Combined;
};
template <Type kType>
struct TypeOf;
// clang-format off
template <> struct TypeOf<Type::kByte> : TypePair<uint8_t> {};
template <> struct TypeOf<Type::kInt8> : TypePair<int8_t> {};
template <> struct TypeOf<Type::kUint8> : TypePair<uint8_t> {};
template <> struct TypeOf<Type::kInt16> : TypePair<int16_t> {};
template <> struct TypeOf<Type::kUint16> : TypePair<uint16_t> {};
template <> struct TypeOf<Type::kInt32> : TypePair<int32_t> {};
template <> struct TypeOf<Type::kUint32> : TypePair<uint32_t> {};
template <> struct TypeOf<Type::kInt64> : TypePair<int64_t> {};
template <> struct TypeOf<Type::kUint64> : TypePair<uint64_t> {};
template <> struct TypeOf<Type::kFloat16> : TypePair<Float16Bits, float> {};
template <> struct TypeOf<Type::kBfloat16> : TypePair<Bfloat16Bits, float> {};
template <> struct TypeOf<Type::kFloat> : TypePair<float> {};
template <> struct TypeOf<Type::kDouble> : TypePair<double> {};
template <> struct TypeOf<Type::kComplexFloat> : TypePair<ComplexValue<float>> {};
template <> struct TypeOf<Type::kComplexDouble> : TypePair<ComplexValue<double>> {};
template <> struct TypeOf<Type::kBool> : TypePair<uint8_t> {};
template <> struct TypeOf<Type::kShortInt> : TypePair<PairValue<int16_t>> {};
template <> struct TypeOf<Type::kIntInt> : TypePair<PairValue<int32_t>> {};
template <> struct TypeOf<Type::kLongInt> : TypePair<PairValue<int64_t>> {};
template <> struct TypeOf<Type::kFloatInt> : TypePair<PairValue<float>> {};
template <> struct TypeOf<Type::kDoubleInt> : TypePair<PairValue<double>> {};
// clang-format on

template <typename T>
GPURUN_ON_BOTH inline T value_of(T element) {
    return element;
}
GPURUN_ON_BOTH inline float value_of(Float16Bits element) { return widened(element); }
GPURUN_ON_BOTH inline float value_of(Bfloat16Bits element) { return widened(element); }
template <typename Element, typename Value>
GPURUN_ON_BOTH inline Element element_of(Value value) {
    if constexpr (std::is_same_v<Element, Float16Bits>)
        return narrowed_16(value);
    else if constexpr (std::is_same_v<Element, Bfloat16Bits>)
        return narrowed_b16(value);
    else
        return value;
}

} // namespace gpurun::base
