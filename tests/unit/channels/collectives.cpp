// Collectives of two ranks.
#include "comm/collective/allreduce.hpp"
#include "support/two_ranks.hpp"

using namespace gpurun::test;
using gpurun::comm::Schedule;

namespace {

Schedule::Buffer buffer_of(const gpurun::transfer::Operand& operand) {
    Schedule::Buffer buffer;
    buffer.address = operand.address;
    buffer.bytes = operand.bytes;
    buffer.where = operand.where;
    return buffer;
}

constexpr size_t kCounts[] = {1, 1000, 100'000};

} // namespace

TEST_SUITE_BEGIN("collectives");

TEST_CASE_TEMPLATE("both ranks get the sums, blocking and by a request, in every memory and order", O, OverSocket,
                   OverShm) {
    TwoRanks both(O::kOver);
    both.run_both([&](Rank& self) {
        for (const Kind kind : kKinds)
            for (const size_t count : kCounts)
                for (const bool on_stream : {false, true}) {
                    const auto stream = on_stream ? Rank::Stream(self.stream()) : std::nullopt;
                    const size_t bytes = count * sizeof(int32_t);
                    auto* const numbers = reinterpret_cast<int32_t*>(self.memory(kind, bytes));
                    const auto operand = self.operand(numbers, bytes, stream);
                    const gpurun::base::Reduction sum{gpurun::base::Type::kInt32, gpurun::base::Op::kSum, 0};
                    const auto build = [&](Schedule& schedule) {
                        gpurun::comm::build_allreduce(schedule, {sum, buffer_of(operand), buffer_of(operand)});
                    };
                    const auto run = [&](bool started) {
                        for (size_t i = 0; i < count; ++i)
                            numbers[i] = static_cast<int32_t>(i) * (self.number() + 1);
                        constexpr auto kKind = gpurun::base::Collective::kAllreduce;
                        if (started) {
                            uint64_t name = self.engine().schedules().start(kKind, self.world(), operand, build);
                            REQUIRE(self.wait(name, stream).status == gpurun::base::Status::kOk);
                        } else {
                            must(self.engine().schedules().run(kKind, self.world(), operand, build));
                        }
                        if (on_stream)
                            must(self.synchronize(*stream));
                        size_t wrong = 0;
                        for (size_t i = 0; i < count; ++i)
                            wrong += numbers[i] != static_cast<int32_t>(i) * 3 ? 1 : 0;
                        REQUIRE(wrong == 0);
                    };
                    run(false);
                    run(true);
                }
    });
}

TEST_SUITE_END();
