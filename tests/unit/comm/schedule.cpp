// The schedules of collectives, as all ranks build them, carried out by a model: what is sent is received, and who
// depends on whom.
#include "comm/collective/barrier.hpp"
#include "comm/collective/bcast.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

using namespace gpurun;
using base::Collective;
using base::WorldRank;
using comm::Communicator;
using comm::Group;
using comm::Rank;
using comm::Schedule;
using Kind = Schedule::Step::Kind;

namespace {

// What a rank knows: from which ranks something has reached it, directly or by others.
using Knowledge = std::set<int>;

// All ranks' schedules, stepped in rounds in which everybody does what it can. A message takes a round.
class ScheduleModel {
  public:
    // The processes are not in the order of the ranks.
    explicit ScheduleModel(int size) : size_(size) {
        std::vector<WorldRank> members;
        for (int rank = 0; rank < size; ++rank)
            members.push_back(WorldRank{static_cast<uint32_t>((rank * 7 + 3) % 64)});
        for (int rank = 0; rank < size; ++rank) {
            comms_.emplace_back(2, Group(members), members[static_cast<size_t>(rank)]);
            ranks_.emplace_back();
            ranks_.back().known.insert(rank);
            ranks_.back().schedule.reset(base::Collective::kBarrier, comms_.back());
        }
    }
    Schedule& schedule(int rank) { return ranks_[static_cast<size_t>(rank)].schedule; }
    const Knowledge& known(int rank) const { return ranks_[static_cast<size_t>(rank)].known; }
    int messages() const { return messages_; }

    // How many rounds it takes. Fails if somebody waits for ever, or a message is left over.
    int run() {
        int rounds = 0;
        bool moved = true;
        for (; moved; ++rounds) {
            moved = false;
            Mail arriving;
            arriving.swap(mail_);
            for (int rank = 0; rank < size_; ++rank)
                moved |= step(rank, arriving);
            for (auto& [name, knowledge] : arriving) // that nobody has taken yet
                CHECK(mail_.emplace(name, std::move(knowledge)).second);
        }
        for (const auto& each : ranks_)
            CHECK(each.complete.size() == each.schedule.steps().size());
        CHECK(mail_.empty());
        return rounds - 1; // in the last one nothing moved
    }

  private:
    using Name = std::tuple<int, int, int>; // from, to, round
    using Mail = std::map<Name, Knowledge>;
    struct Member {
        Schedule schedule;
        std::set<Schedule::StepId> complete;
        Knowledge known;
    };

    bool step(int rank, Mail& arriving) {
        Member& member = ranks_[static_cast<size_t>(rank)];
        const std::set<Schedule::StepId> before = member.complete;
        for (Schedule::StepId id = 0; id < member.schedule.steps().size(); ++id) {
            const Schedule::Step& each = member.schedule.steps()[id];
            const auto needed = member.schedule.before(each);
            const bool may =
                std::all_of(needed.begin(), needed.end(), [&](auto need) { return before.contains(need); });
            if (before.contains(id) || !may)
                continue;
            if (each.kind == Kind::kSend) {
                CHECK(mail_.emplace(Name{rank, each.peer.value, each.round}, member.known).second);
                ++messages_;
                member.complete.insert(id);
            } else if (const auto found = arriving.find({each.peer.value, rank, each.round}); found != arriving.end()) {
                member.known.insert(found->second.begin(), found->second.end());
                arriving.erase(found);
                member.complete.insert(id);
            }
        }
        return member.complete.size() != before.size();
    }

    const int size_;
    std::deque<Communicator> comms_;
    std::deque<Member> ranks_;
    Mail mail_;
    int messages_ = 0;
};

int log2_up(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

} // namespace

TEST_SUITE_BEGIN("schedule");

TEST_CASE("after a barrier every rank knows of all others; few ranks take one round, many as few messages as can be") {
    for (int size = 1; size <= 40; ++size) {
        CAPTURE(size);
        ScheduleModel model(size);
        for (int rank = 0; rank < size; ++rank)
            comm::build_barrier(model.schedule(rank), size % 2 == 0);
        const int rounds = model.run();
        for (int rank = 0; rank < size; ++rank)
            CHECK(model.known(rank).size() == static_cast<size_t>(size));
        const bool at_once = size <= 8;
        CHECK(model.messages() == size * (at_once ? size - 1 : log2_up(size)));
        CHECK(rounds <= 2 * (at_once ? 1 : log2_up(size))); // of the model: a step in one, its message in the next
    }
}

TEST_CASE("a broadcast reaches every rank from any root, once, and passes on what was received") {
    const Schedule::Buffer buffer{nullptr, 1000, {}};
    for (const comm::Algorithm algorithm : {comm::Algorithm::kTree, comm::Algorithm::kDirect})
        for (int size = 1; size <= 20; ++size)
            for (int root = 0; root < size; ++root) {
                CAPTURE(name_of(algorithm));
                CAPTURE(size);
                CAPTURE(root);
                ScheduleModel model(size);
                for (int rank = 0; rank < size; ++rank) {
                    comm::build_bcast(model.schedule(rank), {buffer, Rank{root}, {algorithm}});
                    const auto received = model.schedule(rank).received();
                    CHECK(received.has_value() == (rank != root));
                    for (const Schedule::Step& each : model.schedule(rank).steps())
                        CHECK((each.kind == Kind::kReceive || each.bytes_of == received));
                }
                model.run();
                for (int rank = 0; rank < size; ++rank)
                    CHECK(model.known(rank).contains(root));
                CHECK(model.messages() == size - 1);
            }
}

TEST_CASE("the messages of collectives have tags by which they are known") {
    std::set<int> tags;
    for (const base::Collective kind : {base::Collective::kBarrier, base::Collective::kBcast,
                                        base::Collective::kNewComm, base::Collective::kNewGroupComm})
        for (const int round : {0, 1, 7, (1 << base::kRoundBits) - 1})
            for (const uint16_t sequence : {uint16_t{0}, uint16_t{1}, uint16_t{UINT16_MAX}}) {
                const int tag = base::collective_tag(kind, sequence, round);
                CHECK(std::string_view(base::collective_name(tag)) == base::name_of(kind));
                CHECK(tags.insert(tag).second);
            }
}

TEST_CASE("a schedule is empty again after reset, and remembers what comes before each step") {
    const Communicator comm(2, Group::of_all(3), WorldRank{0});
    Schedule schedule;
    schedule.reset(base::Collective::kBcast, comm);
    const auto first = schedule.receive(Rank{1}, 0, {});
    const auto second = schedule.local([](const transfer::Operand&) { return base::Result<void>(); }, {first});
    const auto third = schedule.send(Rank{2}, 1, {}, {first, second});
    const auto before = schedule.before(schedule.steps()[third]);
    REQUIRE(before.size() == 2);
    CHECK(before[0] == first);
    CHECK(before[1] == second);
    CHECK(schedule.before(schedule.steps()[first]).empty());
    schedule.reset(base::Collective::kBarrier, comm);
    CHECK(schedule.steps().empty());
    CHECK(schedule.kind() == base::Collective::kBarrier);
}

TEST_SUITE_END();
