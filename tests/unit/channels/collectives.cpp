// Collectives of two ranks.
#include "comm/collective/allreduce.hpp"
#include "support/two_ranks.hpp"

#include <chrono>
#include <latch>
#include <thread>

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

// Started: the sum of one number of each rank, in place.
uint64_t start_sum(Rank& self, int32_t& number) {
    const auto operand = self.operand(&number, sizeof number);
    return self.engine().schedules().start(
        gpurun::base::Collective::kAllreduce, self.world(), operand, [&](Schedule& schedule) {
            const gpurun::base::Reduction sum{gpurun::base::Type::kInt32, gpurun::base::Op::kSum, 0};
            gpurun::comm::build_allreduce(schedule, {sum, buffer_of(operand), buffer_of(operand)});
        });
}

} // namespace

TEST_SUITE_BEGIN("collectives");

TEST_CASE_TEMPLATE("both ranks get the sums, blocking and by a request, in every memory and order", O, OverSocket,
                   OverShm, OverFabric) {
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

TEST_CASE("any record wakes a rank while a collective of it is under way, and not for long after") {
    TwoRanks both(Over::kShm);
    const auto is_urgent = [&] {
        const auto& record = both.rank(0).base().job.rank(0);
        return (record.presence.load() & gpurun::platform::presence::kUrgent) != 0;
    };
    constexpr int kTag = 5;
    std::latch waits(1);
    both.run(
        [&](Rank& self) {
            int32_t number = 1;
            uint64_t name = start_sum(self, number);
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            const auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
            while (!is_urgent() && in_time())
                std::this_thread::yield();
            REQUIRE(is_urgent());
            waits.count_down();
            REQUIRE(self.wait(name).status == gpurun::base::Status::kOk);
            REQUIRE(number == 3);
            bool again = true; // each message may be the one that shows the sleeping thread that all is over
            while (again) {
                again = is_urgent() && in_time();
                must(self.send(self.operand(&again, sizeof again), kTag));
                must(self.recv(self.operand(&again, sizeof again), 1, kTag));
            }
            REQUIRE_FALSE(is_urgent());
        },
        [&](Rank& self) {
            int32_t number = 2;
            waits.wait();
            uint64_t name = start_sum(self, number);
            REQUIRE(self.wait(name).status == gpurun::base::Status::kOk);
            for (bool again = true; again;) {
                must(self.recv(self.operand(&again, sizeof again), 0, kTag));
                must(self.send(self.operand(&again, sizeof again), kTag));
            }
        });
}

TEST_SUITE_END();
