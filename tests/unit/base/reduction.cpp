// Reductions of the CPU: every type with every operation, at any length and alignment, and numbers at the edges.
#include "base/reduction.hpp"
#include "base/arithmetic.hpp"
#include "support/reduction_reference.hpp"
#include "support/unit.hpp"

#include <limits>

using namespace gpurun;
namespace reference = gpurun::test::reference;
using reference::Content;

namespace {

// The operation with the reference's number; an average is a sum with a divisor.
base::Reduction reduction_of(int type, int op, uint32_t ranks) {
    const bool average = op == reference::kAvg;
    return {static_cast<base::Type>(type), average ? base::Op::kSum : static_cast<base::Op>(op), average ? ranks : 0};
}

// Each operand starts `skew` bytes behind an aligned address.
Content reduce_skewed(const base::Reduction& reduction, size_t count, const std::vector<Content>& operands,
                      size_t skew) {
    std::vector<Content> skewed;
    std::vector<const void*> starts;
    for (const Content& each : operands) {
        skewed.emplace_back(each.size() + skew);
        std::copy(each.begin(), each.end(), skewed.back().begin() + static_cast<ptrdiff_t>(skew));
        starts.push_back(skewed.back().data() + skew);
    }
    Content result(operands[0].size() + skew + 1, 0xee);
    base::reduce(reduction, count, result.data() + skew, starts);
    CHECK(result.back() == 0xee);
    return Content(result.begin() + static_cast<ptrdiff_t>(skew), result.end() - 1);
}

float as_float(uint16_t half) { return base::widened(base::Float16Bits{half}); }

} // namespace

TEST_SUITE_BEGIN("reduction");

TEST_CASE("every operation of every type gives what the reference gives") {
    for (int type = 1; type <= reference::kTypes; ++type)
        for (int op = 1; op <= reference::kOps; ++op) {
            CAPTURE(base::info_of_type(type).name);
            CAPTURE(base::kOpNames[static_cast<size_t>(op)]);
            const bool meant = reference::has_meaning(op, type);
            CHECK(base::has_meaning(static_cast<base::Op>(op), static_cast<base::Type>(type)) == meant);
            for (const size_t count : {0u, 1u, 4u, 5u, 15u, 17u, 513u, 5000u})
                for (const size_t number : {1u, 2u, 3u, 16u}) {
                    if (!meant)
                        continue;
                    std::vector<Content> operands;
                    for (size_t i = 0; i < number; ++i)
                        operands.push_back(reference::values(type, count, 10 * number + i));
                    const auto ranks = static_cast<uint32_t>(number);
                    const Content expected = reference::reduced(type, op, operands, ranks);
                    const base::Reduction reduction = reduction_of(type, op, ranks);
                    for (const size_t skew : {size_t{0}, size_t{1}, number})
                        CHECK(reference::same(type, reduce_skewed(reduction, count, operands, skew), expected));
                }
        }
}

TEST_CASE("a type has the size of its elements") {
    for (int type = 1; type <= reference::kTypes; ++type)
        CHECK(base::size_of_type(type) == reference::bytes_of(type));
    CHECK(base::size_of_type(0) == 0);
    CHECK(base::size_of_type(reference::kTypes + 1) == 0);
}

TEST_CASE("the result may be any of the operands") {
    for (size_t which = 0; which < 3; ++which) {
        int32_t operands[3][1000];
        const void* starts[] = {operands[0], operands[1], operands[2]};
        for (size_t i = 0; i < 1000; ++i)
            for (int32_t k = 0; k < 3; ++k)
                operands[k][i] = static_cast<int32_t>(i) * (k + 1);
        base::reduce({base::Type::kInt32, base::Op::kSum, 0}, 1000, operands[which], starts);
        int wrong = 0;
        for (size_t i = 0; i < 1000; ++i)
            wrong += operands[which][i] != 6 * static_cast<int32_t>(i) ? 1 : 0;
        CHECK(wrong == 0);
    }
}

TEST_CASE("every half is a float, and every float has the nearest half") {
    for (uint32_t bits = 0; bits <= UINT16_MAX; ++bits) {
        const reference::Half<5> half{static_cast<uint16_t>(bits)};
        const reference::Half<8> brain{static_cast<uint16_t>(bits)};
        const float value = as_float(half.bits);
        const float brain_value = base::widened(base::Bfloat16Bits{brain.bits});
        const bool is_right = std::isnan(half.value()) ? std::isnan(value) : value == static_cast<float>(half.value());
        const bool returns = std::isnan(value) || base::narrowed_16(value).bits == bits;
        const bool brain_is_right =
            std::isnan(brain.value())
                ? std::isnan(brain_value) && std::isnan(base::widened(base::narrowed_b16(brain_value)))
                : brain_value == static_cast<float>(brain.value()) && base::narrowed_b16(brain_value).bits == bits;
        if (!is_right || !returns || !brain_is_right)
            FAIL(bits);
    }
    for (uint32_t bits = 0; bits < 0xff800000; bits += 9973) {
        const float value = base::bits_as<float>(bits);
        if (std::isnan(value))
            continue;
        if (base::narrowed_16(value).bits != reference::Half<5>::of(value).bits ||
            base::narrowed_b16(value).bits != reference::Half<8>::of(value).bits)
            FAIL(value);
    }
}

TEST_CASE("halves are combined in float, and rounded once") {
    const auto half = [](double value) { return reference::Half<5>::of(value).bits; };
    const uint16_t operands[][1] = {{half(2048)}, {half(1)}, {half(1)}, {half(-2048)}}; // 2048 + 1 is no half
    const void* const starts[] = {operands[0], operands[1], operands[2], operands[3]};
    uint16_t result = 0;
    base::reduce({base::Type::kFloat16, base::Op::kSum, 0}, 1, &result, starts);
    CHECK(as_float(result) == 2);
}

TEST_CASE("a NaN is the minimum and the maximum, wherever it is") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const base::Op op : {base::Op::kMin, base::Op::kMax})
        for (size_t where = 0; where < 3; ++where) {
            double operands[] = {1, 2, 3};
            operands[where] = nan;
            const void* const starts[] = {&operands[0], &operands[1], &operands[2]};
            double result = 0;
            base::reduce({base::Type::kDouble, op, 0}, 1, &result, starts);
            CHECK(std::isnan(result));
        }
}

TEST_CASE("a pair with a NaN comes before all others, however they are grouped") {
    using Pair = base::PairValue<double>;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Pair pairs[] = {{1, 0}, {nan, 2}, {100, 3}, {nan, 1}, {-5, 4}};
    const auto of_two = [](base::Op op, Pair a, Pair b) {
        const void* const starts[] = {&a, &b};
        Pair result{};
        base::reduce({base::Type::kDoubleInt, op, 0}, 1, &result, starts);
        return result;
    };
    for (const base::Op op : {base::Op::kMinloc, base::Op::kMaxloc}) {
        Pair from_left = pairs[0], from_right = pairs[4];
        for (int i = 1; i < 5; ++i) {
            from_left = of_two(op, from_left, pairs[i]);
            from_right = of_two(op, pairs[4 - i], from_right);
        }
        for (const Pair& each : {from_left, from_right, of_two(op, of_two(op, pairs[0], pairs[1]), pairs[2])})
            CHECK(std::isnan(each.value));
        CHECK(from_left.index == 1); // of several, the first
        CHECK(from_right.index == 1);
    }
}

TEST_SUITE_END();
