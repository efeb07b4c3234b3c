// The reductions of the CPU, in pieces that stay in its first cache: they are copied there, so that no buffer need be
// aligned, and the loops over them are of a length that the compiler knows, so that it makes vectors of them.
#include "base/reduction.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::base {

namespace {

constexpr size_t kPieceBytes = 4096; // of values
constexpr size_t kUnrolled = 16;
constexpr size_t kFew = 4; // values that are reduced sooner than copied

using Run = void (*)(size_t count, std::byte* result, std::span<const void* const> operands, uint32_t divisor);

template <typename Element, typename Value>
void load(Value* values, const void* operand, size_t first, size_t count) {
    const std::byte* const from = static_cast<const std::byte*>(operand) + first * sizeof(Element);
    if constexpr (std::is_same_v<Element, Value>) {
        std::memcpy(values, from, count * sizeof(Element));
    } else {
        Element elements[kPieceBytes / sizeof(Value)];
        std::memcpy(elements, from, count * sizeof(Element));
        for (size_t i = 0; i < count; ++i)
            values[i] = value_of(elements[i]);
    }
}

template <typename Element, typename Value>
void store(std::byte* result, const Value* values, size_t first, size_t count) {
    std::byte* const to = result + first * sizeof(Element);
    if constexpr (std::is_same_v<Element, Value>) {
        std::memcpy(to, values, count * sizeof(Element));
    } else {
        Element elements[kPieceBytes / sizeof(Value)];
        for (size_t i = 0; i < count; ++i)
            elements[i] = element_of<Element>(values[i]);
        std::memcpy(to, elements, count * sizeof(Element));
    }
}

template <typename Element, typename Value>
Value load_one(const void* operand, size_t index) {
    Value value[1];
    load<Element>(value, operand, index, 1);
    return value[0];
}

template <Op kOp, Type kType>
void run_few(size_t count, std::byte* result, std::span<const void* const> operands, uint32_t divisor) {
    using Element = typename TypeOf<kType>::Element;
    using Value = typename TypeOf<kType>::Value;
    for (size_t i = 0; i < count; ++i) {
        Value sum[1] = {load_one<Element, Value>(operands.front(), i)};
        for (const void* const each : operands.subspan(1))
            sum[0] = combined<kOp>(sum[0], load_one<Element, Value>(each, i));
        if constexpr (kOp == Op::kSum)
            if (divisor != 0)
                sum[0] = divided(sum[0], divisor);
        store<Element>(result, sum, i, 1);
    }
}

template <Op kOp, Type kType>
void run(size_t count, std::byte* result, std::span<const void* const> operands, uint32_t divisor) {
    using Element = typename TypeOf<kType>::Element;
    using Value = typename TypeOf<kType>::Value;
    if (count <= kFew) {
        run_few<kOp, kType>(count, result, operands, divisor);
        return;
    }
    constexpr size_t kPiece = kPieceBytes / sizeof(Value);
    static_assert(kPiece % kUnrolled == 0);
    alignas(64) Value sums[kPiece];
    alignas(64) Value values[kPiece];
    for (size_t first = 0; first < count; first += kPiece) {
        const size_t piece = std::min(kPiece, count - first);
        const size_t whole = (piece + kUnrolled - 1) / kUnrolled * kUnrolled;
        std::fill(sums + piece, sums + whole, Value{});
        std::fill(values + piece, values + whole, Value{});
        load<Element>(sums, operands.front(), first, piece);
        for (const void* const each : operands.subspan(1)) {
            load<Element>(values, each, first, piece);
            for (size_t i = 0; i < piece; i += kUnrolled)
                for (size_t j = i; j < i + kUnrolled; ++j)
                    sums[j] = combined<kOp>(sums[j], values[j]);
        }
        if constexpr (kOp == Op::kSum)
            for (size_t i = 0; divisor != 0 && i < piece; ++i)
                sums[i] = divided(sums[i], divisor);
        store<Element>(result, sums, first, piece);
    }
}

using RunsOfOp = std::array<Run, kTypes>;

template <Op kOp, size_t... kNumbers>
constexpr RunsOfOp runs_of(std::index_sequence<kNumbers...>) {
    const auto of = []<size_t kNumber>(std::integral_constant<size_t, kNumber>) -> Run {
        if constexpr (kOp != Op::kAverage && has_meaning(kOp, static_cast<Type>(kNumber)))
            return &run<kOp, static_cast<Type>(kNumber)>;
        else
            return nullptr;
    };
    return {of(std::integral_constant<size_t, kNumbers>())...};
}
template <size_t... kNumbers>
constexpr std::array<RunsOfOp, kOps> all_runs(std::index_sequence<kNumbers...>) {
    return {runs_of<static_cast<Op>(kNumbers)>(std::make_index_sequence<kTypes>())...};
}
constexpr std::array<RunsOfOp, kOps> kRuns = all_runs(std::make_index_sequence<kOps>());

// In pieces, since the function writes where the next operand is, which is to stay as it is.
void run_of_program(const Reduction& reduction, size_t count, std::byte* result,
                    std::span<const void* const> operands) {
    const size_t element = size_of_type(static_cast<int>(reduction.type));
    alignas(64) std::byte buffers[2][kPieceBytes];
    const size_t whole = kPieceBytes / element;
    for (size_t first = 0; first < count; first += whole) {
        const size_t piece = std::min(whole, count - first);
        const auto from = [&](const void* operand) { return static_cast<const std::byte*>(operand) + first * element; };
        std::byte* in = buffers[0];
        std::byte* inout = buffers[1];
        std::memcpy(in, from(operands.front()), piece * element);
        for (const void* const each : operands.subspan(1)) {
            std::memcpy(inout, from(each), piece * element);
            reduction.of_program.call(reduction.of_program.function, in, inout, piece, reduction.type);
            std::swap(in, inout);
        }
        std::memcpy(result + first * element, in, piece * element);
    }
}

} // namespace

void reduce(const Reduction& reduction, size_t count, void* result, std::span<const void* const> operands) {
    GPURUN_ASSERT(!operands.empty() && operands.size() <= kMostOperands);
    if (reduction.op == Op::kOfProgram) {
        run_of_program(reduction, count, static_cast<std::byte*>(result), operands);
        return;
    }
    const Run found = kRuns[static_cast<size_t>(reduction.op)][static_cast<size_t>(reduction.type)];
    GPURUN_ASSERT(found != nullptr);
    found(count, static_cast<std::byte*>(result), operands, reduction.divisor);
}

} // namespace gpurun::base
