// Agreements on a new communicator, as all ranks build them, carried out by a model that moves the bytes.
#include "comm/agreement.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>

using namespace gpurun;
using comm::Communicator;
using comm::Group;
using comm::Rank;
using comm::Schedule;
using comm::Wish;
using comm::WorldRank;
using Kind = Schedule::Step::Kind;

namespace {

// All of `ranks`, which are a part of a larger communicator, in another order.
class AgreementModel {
  public:
    explicit AgreementModel(size_t size) {
        std::vector<WorldRank> all;
        for (uint32_t each = 0; each < 2 * size; ++each)
            all.push_back(WorldRank{each});
        for (size_t i = 0; i < size; ++i)
            ranks_.push_back(Rank{static_cast<int>(2 * (size - 1 - i))});
        for (size_t i = 0; i < size; ++i) {
            Member& member = members_.emplace_back(Group(all), all[static_cast<size_t>(ranks_[i].value)], size);
            member.schedule.reset(base::Collective::kNewComm, member.comm);
            comm::build_agreement(member.schedule, ranks_, i, member.wishes, [&member, i](const transfer::Operand&) {
                member.wishes[0] = Wish{.call = comm::NewCommCall::kDup, .id = static_cast<uint32_t>(1000 + i)};
                return base::Result<void>();
            });
        }
    }
    void run() {
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t i = 0; i < members_.size(); ++i)
                moved = advance(i) || moved;
        }
        for (const Member& each : members_)
            CHECK(each.complete == each.schedule.steps().size());
        CHECK(mail_.empty());
    }
    const std::vector<Wish>& wishes(size_t member) const { return members_[member].wishes; }
    size_t messages() const { return messages_; }

  private:
    struct Member {
        Member(Group group, WorldRank self, size_t size) : comm(2, std::move(group), self), wishes(size) {}
        Communicator comm;
        Schedule schedule;
        std::vector<Wish> wishes;
        size_t complete = 0; // the steps are in an order in which each can go once those before it are complete
    };

    bool advance(size_t index) {
        Member& member = members_[index];
        if (member.complete == member.schedule.steps().size())
            return false;
        const Schedule::Step& step = member.schedule.steps()[member.complete];
        const int own = ranks_[index].value;
        if (step.kind == Kind::kLocal) {
            CHECK(static_cast<bool>(step.work({})));
        } else if (step.kind == Kind::kSend) {
            ++messages_;
            const std::vector<std::byte> bytes(step.buffer.address, step.buffer.address + step.buffer.bytes);
            CHECK(mail_.emplace(std::tuple(own, step.peer.value, step.round), bytes).second);
        } else {
            const auto mail = mail_.find({step.peer.value, own, step.round});
            if (mail == mail_.end())
                return false;
            REQUIRE(mail->second.size() == step.buffer.bytes);
            std::memcpy(step.buffer.address, mail->second.data(), step.buffer.bytes);
            mail_.erase(mail);
        }
        ++member.complete;
        return true;
    }

    std::vector<Rank> ranks_;
    std::deque<Member> members_;
    std::map<std::tuple<int, int, int>, std::vector<std::byte>> mail_; // by source, target and round
    size_t messages_ = 0;
};

} // namespace

TEST_SUITE_BEGIN("agreement");

TEST_CASE("every rank learns what all others want, from its own place on and around, in as few rounds as can be") {
    for (size_t size = 1; size <= 33; ++size) {
        CAPTURE(size);
        AgreementModel model(size);
        model.run();
        for (size_t i = 0; i < size; ++i)
            for (size_t k = 0; k < size; ++k)
                REQUIRE(model.wishes(i)[k].id == 1000 + (i + k) % size);
        CHECK(model.messages() == size * static_cast<size_t>(std::bit_width(size - 1)));
    }
}

TEST_SUITE_END();
