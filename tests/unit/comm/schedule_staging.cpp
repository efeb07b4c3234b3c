// Which copies a schedule gets whose buffers are staged. What all collectives come to is in collectives.cpp, whose
// model stages some of them.
#include "comm/schedule.hpp"
#include "support/unit.hpp"

#include <array>

using namespace gpurun;
using base::WorldRank;
using comm::Communicator;
using comm::Group;
using comm::Rank;
using comm::Schedule;
using Kind = Schedule::Step::Kind;

namespace {

class Staging {
  public:
    Staging() { schedule.reset(base::Collective::kAllreduce, comm_); }

    Schedule::Buffer buffer(size_t first, size_t bytes, device::Placement placement) {
        Schedule::Buffer of{memory_.data() + first, bytes, {}, {}};
        of.where.placement = placement;
        return of;
    }
    Schedule::Buffer pinned(size_t first, size_t bytes) { return buffer(first, bytes, device::Placement::kPinned); }
    Schedule::Buffer device(size_t first, size_t bytes) { return buffer(first, bytes, device::Placement::kDevice); }
    bool stage(size_t most = SIZE_MAX) {
        return schedule.stage([](const Schedule::Buffer&) { return true; },
                              [&](size_t bytes) { return bytes <= most; });
    }
    size_t place_of(const Schedule::Buffer& buffer) const {
        return static_cast<size_t>(buffer.address - memory_.data());
    }
    // The copies from the program's memory, or to it: where each begins there, and its length.
    std::vector<std::pair<size_t, size_t>> copies(bool in) {
        std::vector<std::pair<size_t, size_t>> found;
        for (const Schedule::Step& each : schedule.steps()) {
            if (each.kind != Kind::kCopy)
                continue;
            const Schedule::Buffer& from = schedule.operands(each).front();
            if (in && !from.scratch && each.buffer.scratch)
                found.emplace_back(place_of(from), from.bytes);
            if (!in && from.scratch && !each.buffer.scratch)
                found.emplace_back(place_of(each.buffer), each.buffer.bytes);
        }
        return found;
    }
    using Copies = std::vector<std::pair<size_t, size_t>>;

    Schedule schedule;

  private:
    const Communicator comm_{2, Group::of_all(3), WorldRank{0}};
    std::array<std::byte, 1000> memory_{};
};

} // namespace

TEST_SUITE_BEGIN("schedule staging");

TEST_CASE("what is read is copied in, what is written is copied out, and gaps are touched by neither") {
    Staging staging;
    staging.schedule.send(Rank{1}, 0, staging.pinned(0, 100));
    staging.schedule.receive_all(Rank{1}, 0, staging.pinned(200, 50));
    staging.schedule.receive_all(Rank{2}, 0, staging.pinned(250, 50));
    staging.schedule.receive_all(Rank{2}, 1, staging.pinned(400, 10));
    REQUIRE(staging.stage());
    CHECK(staging.copies(true) == Staging::Copies{{0, 100}});
    CHECK(staging.copies(false) == Staging::Copies{{200, 100}, {400, 10}});
}

TEST_CASE("what a step has written before it is read is not copied in") {
    Staging staging;
    const auto received = staging.schedule.receive_all(Rank{1}, 0, staging.pinned(0, 100));
    staging.schedule.send(Rank{2}, 0, staging.pinned(20, 30), {received});
    staging.schedule.send(Rank{2}, 1, staging.pinned(90, 20), {received}); // 10 of which nobody has written
    REQUIRE(staging.stage());
    CHECK(staging.copies(true) == Staging::Copies{{90, 20}});
    CHECK(staging.copies(false) == Staging::Copies{{0, 100}});
}

TEST_CASE("a receive that may be shorter leaves what is behind its message") {
    Staging staging;
    const auto received = staging.schedule.receive(Rank{1}, 0, staging.pinned(0, 100));
    staging.schedule.set_received(received);
    REQUIRE(staging.stage());
    CHECK(staging.copies(true) == Staging::Copies{{0, 100}});
    REQUIRE(staging.schedule.received());
    CHECK(staging.schedule.steps()[*staging.schedule.received()].kind == Kind::kReceive);
}

TEST_CASE("an operand that the result is written over is still read by nothing but the reduction") {
    Staging staging;
    const Schedule::Buffer operands[] = {staging.pinned(0, 100), staging.pinned(200, 100)};
    const auto received = staging.schedule.receive_all(Rank{1}, 0, operands[0]);
    staging.schedule.reduce({base::Type::kInt32, base::Op::kSum, 0}, operands[0], operands, {received});
    REQUIRE(staging.stage());
    const auto& steps = staging.schedule.steps();
    const auto found =
        std::find_if(steps.begin(), steps.end(), [](const auto& each) { return each.kind == Kind::kReceive; });
    REQUIRE(found != steps.end());
    CHECK(staging.schedule.is_operand(*found));
    CHECK(staging.copies(true) == Staging::Copies{{200, 100}});
    CHECK(staging.copies(false) == Staging::Copies{{0, 100}});
}

TEST_CASE("device memory that is only received into stays where it is, since whoever receives pulls") {
    Staging staging;
    staging.schedule.send(Rank{1}, 0, staging.device(0, 100));
    staging.schedule.receive_all(Rank{1}, 0, staging.device(300, 100));
    REQUIRE(staging.stage());
    CHECK(staging.copies(true) == Staging::Copies{{0, 100}});
    CHECK(staging.copies(false).empty());
}

TEST_CASE("answers go on belonging to what they answer") {
    Staging staging;
    const auto contributed =
        staging.schedule.contribute(Rank{1}, 0, staging.pinned(0, 100), transfer::Reduced::kPassedOn);
    const auto received = staging.schedule.receive_all(Rank{2}, 0, staging.schedule.scratch(100));
    staging.schedule.receive_answer(Rank{1}, 1, staging.pinned(0, 100), contributed, {contributed});
    staging.schedule.send_answer(Rank{2}, 1, staging.pinned(200, 100), received, {received});
    REQUIRE(staging.stage());
    const auto& steps = staging.schedule.steps();
    for (const Schedule::Step& each : steps) {
        if (each.answered_by)
            CHECK(steps[*each.answered_by].kind == Kind::kReceive);
        if (each.answers)
            CHECK(steps[*each.answers].kind == (each.kind == Kind::kSend ? Kind::kReceive : Kind::kSend));
    }
}

TEST_CASE("a schedule that has too much of it, or none, stays as it is") {
    Staging staging;
    staging.schedule.send(Rank{1}, 0, staging.pinned(0, 100));
    CHECK_FALSE(staging.stage(99));
    CHECK_FALSE(staging.schedule.stage([](const Schedule::Buffer&) { return false; }, [](size_t) { return true; }));
    CHECK(staging.schedule.steps().size() == 1);
    CHECK(staging.schedule.scratch_bytes() == 0);
    CHECK(staging.stage(100));
    CHECK(staging.schedule.steps().size() == 2);
}

TEST_SUITE_END();
