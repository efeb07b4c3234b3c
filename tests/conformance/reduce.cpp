// Reductions in streams.
#include "graph.hpp"
#include "subject.hpp"

#include "device/capability/reduce.hpp"
#include "support/reduction_reference.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace gpurun::conformance::reduce {

namespace reference = test::reference;
using reference::Content;

namespace {

constexpr std::byte kUntouched{0xee};

base::Reduction reduction_of(int type, int op, uint32_t ranks) {
    const bool average = op == reference::kAvg;
    return {static_cast<base::Type>(type), average ? base::Op::kSum : static_cast<base::Op>(op), average ? ranks : 0};
}

Bytes bytes_of(const Content& content) {
    const auto all = std::as_bytes(std::span(content));
    return Bytes(all.begin(), all.end());
}

// Operands and result behind each other in one allocation, each `skew` bytes behind an aligned address, and number n
// `steps * n` more.
class Operands {
  public:
    Operands(Kind kind, int type, size_t count, size_t number, size_t skew, size_t steps = 0)
        : type_(type), count_(count), skew_(skew), bytes_(count * reference::bytes_of(type)),
          distance_(((bytes_ + skew + 512) & ~size_t{255}) + steps), memory_(kind, (number + 1) * distance_) {
        Bytes all(memory_.size(), kUntouched);
        for (size_t i = 0; i < number; ++i) {
            contents_.push_back(reference::values(type, count, 100 * number + i));
            const Bytes each = bytes_of(contents_.back());
            std::copy(each.begin(), each.end(), all.begin() + static_cast<ptrdiff_t>(i * distance_ + skew));
            starts_.push_back(memory_.get() + i * distance_ + skew);
        }
        memory_.set(all);
    }

    void enqueue(int op, device::Stream stream, bool in_place = false) {
        const auto ranks = static_cast<uint32_t>(contents_.size());
        result_ = in_place ? contents_.size() - 1 : contents_.size();
        expected_ = reference::reduced(type_, op, contents_, ranks);
        REQUIRE_OK(subject().reduce()->reduce_elements(reduction_of(type_, op, ranks), count_,
                                                       memory_.get() + result_ * distance_ + skew_, starts_, stream));
    }
    // Nothing but the result has been written.
    bool is_right() const {
        const Bytes all = memory_.content();
        const auto at = [&](size_t index) { return all.begin() + static_cast<ptrdiff_t>(index * distance_ + skew_); };
        const auto length = static_cast<ptrdiff_t>(bytes_);
        Content got(bytes_);
        if (bytes_ != 0)
            std::memcpy(got.data(), &*at(result_), bytes_);
        bool right = reference::same(type_, got, expected_) && at(result_)[length] == kUntouched &&
                     (skew_ == 0 || at(result_)[-1] == kUntouched);
        for (size_t i = 0; i < contents_.size(); ++i)
            right = right && (i == result_ || Bytes(at(i), at(i) + length) == bytes_of(contents_[i]));
        return right;
    }

  private:
    const int type_;
    const size_t count_, skew_, bytes_, distance_;
    std::vector<Content> contents_;
    const AnyMemory memory_;
    std::vector<const void*> starts_;
    size_t result_ = 0;
    Content expected_;
};

} // namespace

TEST_SUITE_BEGIN("reduce");

TEST_CASE("a stream reduces every type with every operation, at odd lengths and alignments") {
    const Stream stream;
    for (int type = 1; type <= reference::kTypes; ++type)
        for (int op = 1; op <= reference::kOps; ++op) {
            if (!reference::has_meaning(op, type))
                continue;
            CAPTURE(base::info_of_type(type).name);
            CAPTURE(base::kOpNames[static_cast<size_t>(op)]);
            for (const size_t count : {1u, 255u, 4099u})
                for (const size_t skew : {size_t{0}, size_t{1}, reference::bytes_of(type)})
                    for (const size_t steps : {size_t{0}, skew}) {
                        CAPTURE(count);
                        CAPTURE(skew);
                        CAPTURE(steps);
                        Operands operands(Kind::kDevice, type, count, 3, skew, steps);
                        operands.enqueue(op, stream);
                        stream.synchronize();
                        CHECK(operands.is_right());
                    }
        }
}

TEST_CASE("one to sixteen operands are reduced, in memory of every kind, also in place") {
    const Stream stream;
    std::vector<Kind> kinds = device_kinds();
    kinds.push_back(Kind::kPinned);
    for (const Kind kind : kinds)
        for (const size_t number : {1u, 2u, 7u, 16u})
            for (const bool in_place : {false, true}) {
                CAPTURE(name(kind));
                CAPTURE(number);
                CAPTURE(in_place);
                Operands operands(kind, reference::kFloat16, 10000, number, 0);
                operands.enqueue(reference::kAvg, stream, in_place);
                stream.synchronize();
                CHECK(operands.is_right());
            }
}

TEST_CASE("a large reduction is whole") {
    const Stream stream;
    for (const int type : {int{reference::kFloat}, int{reference::kUint8}, int{reference::kDoubleInt}}) {
        Operands operands(Kind::kDevice, type, 1'000'003, 2, 0);
        operands.enqueue(reference::has_meaning(reference::kSum, type) ? reference::kSum : reference::kMinloc, stream);
        stream.synchronize();
        CHECK(operands.is_right());
    }
}

TEST_CASE("a reduction happens in the order of its stream, and one of nothing does nothing") {
    const Stream stream;
    const size_t gate = new_counter();
    Operands operands(Kind::kDevice, reference::kInt32, 1000, 2, 0);
    Operands nothing(Kind::kDevice, reference::kInt32, 0, 2, 0);
    hold(stream, gate);
    operands.enqueue(reference::kSum, stream);
    nothing.enqueue(reference::kSum, stream);
    watch();
    CHECK_FALSE(stream.done());
    store(gate, 1);
    stream.finish();
    CHECK(operands.is_right());
    CHECK(nothing.is_right());
}

TEST_CASE("a graph reduces what its buffers have when it runs") {
    if (subject().graphs() == nullptr)
        return;
    const Stream stream;
    const Memory memory(3 * sizeof(int32_t));
    auto* const words = reinterpret_cast<int32_t*>(memory.get());
    const void* const operands[] = {words, words + 1};
    const Graph graph(stream, [&](device::Stream in) {
        REQUIRE_OK(
            subject().reduce()->reduce_elements({base::Type::kInt32, base::Op::kProd, 0}, 1, words + 2, operands, in));
    });
    for (int32_t run = 1; run < 4; ++run) {
        const int32_t before[] = {run, run + 1, 0};
        Bytes content(sizeof before);
        std::memcpy(content.data(), before, sizeof before);
        write(memory.get(), content);
        graph.launch(stream);
        stream.synchronize();
        int32_t after[3];
        std::memcpy(after, read(memory.get(), sizeof after).data(), sizeof after);
        CHECK(after[2] == run * (run + 1));
    }
}

TEST_SUITE_END();

} // namespace gpurun::conformance::reduce
