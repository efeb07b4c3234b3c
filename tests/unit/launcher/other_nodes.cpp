// Supervisors of several nodes, in one process, and the switch that connects them.
#include "other_nodes.hpp"
#include "node_switch.hpp"
#include "platform/job_segment.hpp"
#include "support/unit.hpp"

#include <functional>
#include <gpurun/version.h>
#include <memory>

namespace gpurun::test::other_nodes {

using namespace launcher;
using namespace platform;
using base::Status;
using Numbers = std::vector<uint32_t>;

namespace {

struct Supervisor : OtherNodes::Observer {
    Supervisor(EventLoop& loop, const NodeMeeting& meeting, uint32_t size, Numbers own) : ranks(std::move(own)) {
        OtherNodes::Observer& self = *this;
        nodes = std::make_unique<OtherNodes>(loop, meeting, size, ranks, self);
        nodes->call();
    }
    // Each rank's record has its number.
    void get_ready() const {
        std::string text;
        for (const uint32_t rank : ranks) {
            RankRecord record{};
            record.pid = static_cast<int32_t>(rank);
            text.append(reinterpret_cast<const char*>(&record), sizeof record);
        }
        nodes->tell_ready(text);
    }

    void nodes_known(const Numbers& of_ranks, const std::string& own) override {
        known = of_ranks;
        address = own;
    }
    void all_nodes_ready(const std::vector<std::string_view>& records) override {
        for (const std::string_view each : records) {
            RankRecord record{};
            std::memcpy(static_cast<void*>(&record), each.data(), each.size());
            ready.push_back(static_cast<uint32_t>(record.pid));
        }
    }
    void far_rank_leaves(uint32_t rank, uint32_t steps) override { leaving.insert(leaving.end(), {rank, steps}); }
    void far_rank_ended(uint32_t rank, bool finalized) override { (finalized ? left : dead).push_back(rank); }
    void refused_by_nodes(Status, const std::string& why) override { refusal = why; }
    void aborted_by_nodes() override { aborted = true; }
    void nodes_lost(const std::string& why) override { lost = why; }

    Numbers ranks;
    std::unique_ptr<OtherNodes> nodes;
    Numbers known, ready, leaving, left, dead;
    std::string address, refusal, lost;
    bool aborted = false;
};

struct Job {
    Job() {
        OpenMeeting open = must(open_meeting());
        meeting = open.meeting;
        all = std::make_unique<NodeSwitch>(*loop, std::move(open.listener), meeting.key);
    }
    // Of `size` ranks, that are all.
    Job(uint32_t size, const std::vector<Numbers>& ranks_of_nodes) : Job() {
        for (const Numbers& ranks : ranks_of_nodes)
            add(size, ranks);
        run_until_each([](const Supervisor& node) { return !node.known.empty(); });
    }
    void add(uint32_t size, const Numbers& ranks) {
        nodes.push_back(std::make_unique<Supervisor>(*loop, meeting, size, ranks));
    }
    void run_until(const std::function<bool()>& done) const {
        while (!done())
            REQUIRE_OK(loop->run_once());
    }
    void run_until_each(const std::function<bool(const Supervisor&)>& done) const {
        for (const auto& node : nodes)
            run_until([&] { return done(*node); });
    }
    std::unique_ptr<EventLoop> loop = must(EventLoop::create());
    NodeMeeting meeting;
    std::unique_ptr<NodeSwitch> all;
    std::vector<std::unique_ptr<Supervisor>> nodes;
};

} // namespace

TEST_SUITE_BEGIN("other nodes");

TEST_CASE("each node learns where all ranks are, by which address it is reached, and what they say of themselves") {
    const Job job(5, {{1, 3}, {0, 4}, {2}});
    const Numbers& known = job.nodes[0]->known;
    CHECK(known[1] == known[3]);
    CHECK(known[0] == known[4]);
    CHECK(Numbers{known[0], known[1], known[2]} != Numbers(3, known[0]));
    for (const auto& node : job.nodes) {
        CHECK(node->known == known);
        CHECK_FALSE(node->address.empty());
        CHECK(node->ready.empty());
        node->get_ready();
    }
    job.run_until_each([](const Supervisor& node) { return !node.ready.empty(); });
    for (const auto& node : job.nodes)
        CHECK(node->ready == Numbers{0, 1, 2, 3, 4});
}

TEST_CASE("steps of leaving, ends, deaths, refusals and aborts are told to the others") {
    const Job job(3, {{0}, {1}, {2}});
    job.nodes[1]->nodes->tell_steps(1, 2);
    job.nodes[1]->nodes->tell_steps(1, 5);
    job.nodes[1]->nodes->tell_end(1, true);
    job.nodes[2]->nodes->tell_end(2, false);
    job.nodes[2]->nodes->tell_refusal(Status::kVersion, "no");
    job.nodes[2]->nodes->tell_abort();
    job.run_until([&] { return job.nodes[0]->aborted && job.nodes[1]->aborted; });
    CHECK(job.nodes[0]->leaving == Numbers{1, 2, 1, 5});
    CHECK(job.nodes[1]->leaving.empty());
    CHECK(job.nodes[0]->left == Numbers{1});
    CHECK(job.nodes[0]->dead == Numbers{2});
    CHECK(job.nodes[1]->dead == Numbers{2});
    CHECK(job.nodes[1]->refusal == "no");
    CHECK(job.nodes[2]->dead.empty());
    CHECK_FALSE(job.nodes[2]->aborted);
}

TEST_CASE("with a node, its ranks that have not finalized are lost, before all have come the job") {
    const Job job(5, {{0, 1}, {2, 3}, {4}});
    job.nodes[1]->nodes->tell_end(3, true);
    job.run_until([&] { return !job.nodes[0]->left.empty(); });
    job.nodes[1]->nodes.reset();
    job.run_until([&] { return !job.nodes[0]->refusal.empty() && !job.nodes[2]->refusal.empty(); });
    CHECK(job.nodes[0]->dead == Numbers{2});
    CHECK(job.nodes[2]->dead == Numbers{2});
    CHECK(job.nodes[0]->refusal == "the node of rank 2 was lost before every rank had joined");
    Job early;
    early.add(3, {0});
    early.add(3, {1});
    early.nodes[1]->nodes->tell_end(1, true); // once this has come, the switch knows of rank 1
    early.run_until([&] { return !early.nodes[0]->left.empty(); });
    early.nodes[1]->nodes.reset();
    early.run_until([&] { return !early.nodes[0]->refusal.empty(); });
    early.add(3, {2}); // too late
    early.run_until([&] { return !early.nodes[2]->refusal.empty(); });
    CHECK(early.nodes[2]->known.empty());
}

TEST_CASE("without the switch, nodes are lost; there is none where nobody has the key") {
    Job job(2, {{0}, {1}});
    CHECK(job.all->has_nodes());
    job.all.reset();
    job.run_until_each([](const Supervisor& node) { return !node.lost.empty(); });
    Job other;
    other.meeting.key[31] ^= std::byte{1};
    other.add(2, {1});
    other.run_until([&] { return !other.nodes[0]->lost.empty(); });
    CHECK(other.nodes[0]->lost.find("the node of rank 0 cannot be reached from here, at ") == 0);
    CHECK_FALSE(other.all->has_nodes());
}

TEST_CASE("nodes that disagree on the number of ranks, and ranks that are on two of them, do not become a job") {
    Job job;
    job.add(2, {0});
    job.add(3, {1});
    job.run_until_each([](const Supervisor& node) { return !node.refusal.empty(); });
    CHECK(job.nodes[0]->refusal.find("nodes disagree on how many ranks the job has") == 0);
    Job twice;
    twice.add(2, {0});
    twice.add(2, {0});
    twice.run_until([&] { return !twice.nodes[0]->lost.empty() || !twice.nodes[1]->lost.empty(); });
    CHECK(twice.nodes[0]->known.empty());
}

TEST_CASE("another build on one of the nodes is an error on all") {
    Job job;
    job.add(2, {0});
    struct Silent : NodeLink::Observer {
        std::string refusal;
        bool heard(uint32_t kind, std::string_view message) override {
            if (kind == static_cast<uint32_t>(node_wire::Kind::kRefuse))
                refusal = message.substr(sizeof(node_wire::Number));
            return true;
        }
        void link_ended(const std::string&) override {}
    } old;
    job.run_until([&] { return job.all->has_nodes(); });
    UniqueFd calling = must(call_tcp("127.0.0.1", job.meeting.port));
    Watch connected(*job.loop, calling.get(), [] {});
    connected.wait_for(Ready::kWritable);
    REQUIRE_OK(job.loop->run_once());
    connected.stop();
    NodeLink link(*job.loop, std::move(calling), old, NodeLink::kLargest);
    node_wire::Hello hello;
    hello.version = 1;
    hello.layout = kLayout;
    hello.key = job.meeting.key;
    link.send(static_cast<uint32_t>(node_wire::Kind::kHello), node_wire::text_of(hello));
    job.run_until([&] { return !old.refusal.empty() && !job.nodes[0]->refusal.empty(); });
    CHECK(old.refusal.find("watched over by gpurun 0.0.1, and those of rank 0's node by another build (" GPURUN_VERSION
                           "): install the same on all nodes") != std::string::npos);
}

} // namespace gpurun::test::other_nodes
