// What a reduction must give, computed one element after the other, from the numbers of the public header. It shares no
// code with the runtime.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace gpurun::test::reference {

// The numbers of gpurun_datatype and of the operations.
enum Type { kByte = 1, kChar, kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64, kFloat16, kBfloat16 };
enum MoreTypes { kFloat = 13, kDouble, kComplexFloat, kComplexDouble, kBool, kShortInt, kIntInt, kLongInt };
enum LastTypes { kFloatInt = 21, kDoubleInt };
enum Op { kSum = 1, kProd, kMin, kMax, kLand, kLor, kLxor, kBand, kBor, kBxor, kMinloc, kMaxloc, kAvg };
constexpr int kTypes = 22, kOps = 13;

template <typename Value>
struct Pair {
    Value value;
    int index;
};
template <typename Part>
struct Complex {
    Part re, im;
};

// Halves, by their definition: 1 sign, `kExponent` bits with a bias, the rest of the significand.
template <int kExponent>
struct Half {
    static constexpr int kBias = (1 << (kExponent - 1)) - 1, kDigits = 15 - kExponent;
    uint16_t bits;

    double value() const {
        const int exponent = bits >> kDigits & ((1 << kExponent) - 1);
        const int digits = bits & ((1 << kDigits) - 1);
        const double sign = bits & 0x8000 ? -1 : 1;
        if (exponent == (1 << kExponent) - 1)
            return digits != 0 ? std::nan("") : sign * HUGE_VAL;
        return exponent == 0 ? sign * std::ldexp(digits, 1 - kBias - kDigits)
                             : sign * std::ldexp(digits + (1 << kDigits), exponent - kBias - kDigits);
    }
    static Half of(double value) {
        const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
        if (std::isnan(value))
            return {static_cast<uint16_t>(0x7fff)};
        int exponent = value == 0 ? 1 - kBias : std::max(std::ilogb(value), 1 - kBias);
        const double magnitude = std::fabs(value);
        const double whole = std::isinf(value) ? 0 : std::nearbyint(std::ldexp(magnitude, kDigits - exponent));
        const auto bits = static_cast<uint64_t>(whole) + (static_cast<uint64_t>(exponent + kBias - 1) << kDigits);
        const uint64_t infinity = static_cast<uint64_t>((1 << kExponent) - 1) << kDigits;
        return {static_cast<uint16_t>(sign | (std::isinf(value) || bits >= infinity ? infinity : bits))};
    }
};

// An arithmetic value, as it is computed with: integers without overflow.
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideBits;
template <typename T>
auto widen(T element) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<Wide>(element);
    else if constexpr (std::is_floating_point_v<T>)
        return element;
    else
        return static_cast<float>(element.value());
}
template <typename T, typename From>
T narrow(From value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(value);
    else
        return T::of(value);
}

template <typename T>
T arithmetic(int op, T a, T b) {
    switch (op) {
    case kSum:
    case kAvg: return a + b;
    case kProd:
        if constexpr (std::is_same_v<T, Wide>) // the low bits, which are all that the types have
            return static_cast<Wide>(static_cast<WideBits>(a) * static_cast<WideBits>(b));
        else
            return a * b;
    case kMin: return std::is_floating_point_v<T> && (a != a || b != b) ? (a != a ? a : b) : (b < a ? b : a);
    default: return std::is_floating_point_v<T> && (a != a || b != b) ? (a != a ? a : b) : (b > a ? b : a);
    }
}

template <typename T>
T integers(int op, T a, T b) {
    switch (op) {
    case kLand: return static_cast<T>(a && b);
    case kLor: return static_cast<T>(a || b);
    case kLxor: return static_cast<T>(!a != !b);
    case kBand: return static_cast<T>(a & b);
    case kBor: return static_cast<T>(a | b);
    default: return static_cast<T>(a ^ b);
    }
}

// What `operands`, one element each, make; the average is over `ranks`.
template <typename T>
T one(int op, const std::vector<T>& operands, unsigned ranks) {
    if constexpr (std::is_integral_v<T>)
        if (op >= kLand) {
            if (op <= kBxor) {
                T all = operands[0];
                for (size_t i = 1; i < operands.size(); ++i)
                    all = integers(op, all, operands[i]);
                return all;
            }
        }
    auto all = widen(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) {
        all = arithmetic(op, all, widen(operands[i]));
        if constexpr (std::is_integral_v<T>)
            all = widen(static_cast<T>(all)); // wraps around
    }
    return narrow<T>(op == kAvg ? all / static_cast<decltype(all)>(ranks) : all);
}
template <typename Part>
Complex<Part> one(int op, const std::vector<Complex<Part>>& operands, unsigned ranks) {
    Complex<Part> all = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
        const Complex<Part> b = operands[i];
        if (op != kProd) {
            all = {all.re + b.re, all.im + b.im};
            continue;
        }
        volatile Part products[] = {all.re * b.re, all.im * b.im, all.re * b.im, all.im * b.re}; // not fused
        all = {products[0] - products[1], products[2] + products[3]};
    }
    const Part parts = op == kAvg ? static_cast<Part>(ranks) : Part{1};
    return {all.re / parts, all.im / parts};
}
template <typename Value>
Pair<Value> one(int op, const std::vector<Pair<Value>>& operands, unsigned) {
    Pair<Value> best = operands[0];
    for (const Pair<Value>& each : operands)
        if ((op == kMinloc ? each.value < best.value : each.value > best.value) ||
            (each.value == best.value && each.index < best.index))
            best = each;
    return best;
}

// Calls `visit` with a value of the type, whatever it is; false if the type has no values to compute with.
template <typename Visit>
bool with_type(int type, const Visit& visit) {
    switch (type) {
    case kByte: visit(uint8_t{}); return true;
    case kInt8: visit(int8_t{}); return true;
    case kUint8: visit(uint8_t{}); return true;
    case kInt16: visit(int16_t{}); return true;
    case kUint16: visit(uint16_t{}); return true;
    case kInt32: visit(int32_t{}); return true;
    case kUint32: visit(uint32_t{}); return true;
    case kInt64: visit(int64_t{}); return true;
    case kUint64: visit(uint64_t{}); return true;
    case kFloat16: visit(Half<5>{}); return true;
    case kBfloat16: visit(Half<8>{}); return true;
    case kFloat: visit(float{}); return true;
    case kDouble: visit(double{}); return true;
    case kComplexFloat: visit(Complex<float>{}); return true;
    case kComplexDouble: visit(Complex<double>{}); return true;
    case kBool: visit(uint8_t{}); return true;
    case kShortInt: visit(Pair<int16_t>{}); return true;
    case kIntInt: visit(Pair<int32_t>{}); return true;
    case kLongInt: visit(Pair<int64_t>{}); return true;
    case kFloatInt: visit(Pair<float>{}); return true;
    case kDoubleInt: visit(Pair<double>{}); return true;
    default: return false;
    }
}

// The manual's table: gpurun_allreduce(3).
inline bool has_meaning(int op, int type) {
    const bool integer = type >= kInt8 && type <= kUint64;
    const bool real = type >= kFloat16 && type <= kDouble;
    const bool complex = type == kComplexFloat || type == kComplexDouble;
    switch (op) {
    case kSum:
    case kProd:
    case kAvg: return integer || real || complex;
    case kMin:
    case kMax: return integer || real;
    case kLand:
    case kLor:
    case kLxor: return integer || type == kBool;
    case kBand:
    case kBor:
    case kBxor: return integer || type == kByte;
    default: return type >= kShortInt && type <= kDoubleInt;
    }
}

inline size_t bytes_of(int type) {
    size_t bytes = 1;
    with_type(type, [&](auto value) { bytes = sizeof value; });
    return bytes;
}

// ---- whole buffers

using Content = std::vector<uint8_t>;

// Elements with which every operation is exact or rounds in the same way, differing in each position and for each seed;
// some are negative, where the type has such.
inline Content values(int type, size_t count, uint64_t seed) {
    Content content(count * bytes_of(type)); // padding is 0
    with_type(type, [&](auto kind) {
        using T = decltype(kind);
        uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
        const auto next = [&state](int range) {
            state = state * 6364136223846793005 + 1442695040888963407;
            return static_cast<int>((state >> 40) % static_cast<unsigned>(range)) - range / 4;
        };
        for (size_t i = 0; i < count; ++i) {
            T element{};
            if constexpr (std::is_integral_v<T>)
                element = static_cast<T>(type == kBool ? next(100) > 0 : next(100));
            else if constexpr (std::is_floating_point_v<T>)
                element = static_cast<T>(next(1000)) / 7;
            else if constexpr (std::is_same_v<T, Half<5>> || std::is_same_v<T, Half<8>>)
                element = T::of(next(60) / 7.0);
            else if constexpr (std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>)
                element = {static_cast<decltype(element.re)>(next(50)) / 3,
                           static_cast<decltype(element.re)>(next(50))};
            else
                element = {static_cast<decltype(element.value)>(next(10)), next(1000)}; // with ties
            std::memcpy(&content[i * sizeof element], &element, sizeof element);
        }
    });
    return content;
}

// The operands, in order, combined. What the padding of pairs has does not count: it is 0.
inline Content reduced(int type, int op, const std::vector<Content>& operands, unsigned ranks) {
    Content result(operands[0].size());
    with_type(type, [&](auto kind) {
        using T = decltype(kind);
        std::vector<T> column(operands.size());
        for (size_t at = 0; at < result.size(); at += sizeof(T)) {
            for (size_t i = 0; i < operands.size(); ++i)
                std::memcpy(&column[i], &operands[i][at], sizeof(T));
            const T made = one(op, column, ranks);
            if constexpr (requires { made.index; }) { // part by part
                std::memcpy(&result[at], &made.value, sizeof made.value);
                std::memcpy(&result[at + offsetof(T, index)], &made.index, sizeof made.index);
            } else {
                std::memcpy(&result[at], &made, sizeof made);
            }
        }
    });
    return result;
}

// The same bits; what the padding of pairs has does not count.
inline bool same(int type, const Content& a, const Content& b) {
    bool equal = a.size() == b.size();
    with_type(type, [&](auto kind) {
        using T = decltype(kind);
        for (size_t at = 0; equal && at < a.size(); at += sizeof(T)) {
            if constexpr (requires { kind.index; })
                equal = std::memcmp(&a[at], &b[at], sizeof kind.value) == 0 &&
                        std::memcmp(&a[at + offsetof(T, index)], &b[at + offsetof(T, index)], sizeof kind.index) == 0;
            else
                equal = std::memcmp(&a[at], &b[at], sizeof(T)) == 0;
        }
    });
    return equal;
}

} // namespace gpurun::test::reference
