// The schedules of a collective, of all ranks, carried out by a model in an order that a seed chooses: what may happen
// at the same time happens in any order, and a message is read at some moment before its send is complete. So a step
// that lacks a dependency shows. Some schedules are staged before (comm/schedule_staging.cpp), which changes nothing
// but what their messages use.
#pragma once

#include "comm/schedule.hpp"
#include "support/reduction_reference.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <random>

namespace gpurun::test {

using reference::Content;

constexpr uint8_t kUntouched = 0xee;

class CollectiveModel {
  public:
    using Topologies = std::function<std::shared_ptr<const comm::Topology>(int rank)>;

    CollectiveModel(
        base::Collective kind, int size, uint64_t seed, const Topologies& topology_of = [](int) { return nullptr; })
        : CollectiveModel(kind, size, seed, nullptr, topology_of) {}
    CollectiveModel(
        base::Collective kind, int size, uint64_t seed, const std::shared_ptr<const comm::NodeLayout>& nodes,
        const Topologies& topology_of = [](int) { return nullptr; })
        : random_(seed) {
        std::vector<base::WorldRank> members;
        for (int rank = 0; rank < size; ++rank)
            members.push_back(base::WorldRank{static_cast<uint32_t>((rank * 7 + 3) % 64)});
        for (int rank = 0; rank < size; ++rank) {
            comms_.emplace_back(2, std::make_shared<const comm::Group>(members), members[static_cast<size_t>(rank)],
                                topology_of(rank), base::AlgorithmsAskedFor(), nodes);
            ranks_.emplace_back().schedule.reset(kind, comms_.back());
        }
    }

    comm::Schedule& schedule(int rank) { return of(rank).schedule; }
    // A buffer of the program's.
    comm::Schedule::Buffer buffer(int rank, const Content& content) {
        Content& made = of(rank).buffers.emplace_back(content);
        comm::Schedule::Buffer buffer;
        buffer.address = reinterpret_cast<std::byte*>(made.data());
        buffer.bytes = made.size();
        buffer.where.base = made.data();
        buffer.where.placement = random_() % 2 == 0 ? device::Placement::kPinned : device::Placement::kDevice;
        return buffer;
    }

    // Fails if somebody waits for ever.
    void run() {
        for (Member& each : ranks_) {
            if (random_() % 2 == 0)
                stage(each.schedule);
            each.scratch.assign(each.schedule.scratch_bytes(), kUntouched);
            each.complete.assign(each.schedule.steps().size(), false);
        }
        for (std::vector<std::function<void()>> possible = find_possible(); !possible.empty();
             possible = find_possible())
            possible[random_() % possible.size()]();
        for (const Member& each : ranks_)
            REQUIRE(std::find(each.complete.begin(), each.complete.end(), false) == each.complete.end());
    }
    // The most messages that one rank sends, and the most bytes.
    std::pair<int, size_t> most_sent() {
        int messages = 0;
        size_t bytes = 0;
        for (const Member& each : ranks_) {
            int sends = 0;
            size_t sent = 0;
            for (const comm::Schedule::Step& step : each.schedule.steps()) {
                sends += step.kind == Kind::kSend ? 1 : 0;
                sent += step.kind == Kind::kSend ? step.buffer.bytes : 0;
            }
            messages = std::max(messages, sends);
            bytes = std::max(bytes, sent);
        }
        return {messages, bytes};
    }

    // The bytes that ranks of one node send to those of others; the most of any.
    size_t most_leaving(const comm::NodeLayout& nodes) {
        std::vector<size_t> bytes(static_cast<size_t>(nodes.count()));
        for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
            for (const comm::Schedule::Step& step : of(rank).schedule.steps())
                if (step.kind == Kind::kSend && nodes.node_of(step.peer) != nodes.node_of(comm::Rank{rank}))
                    bytes[static_cast<size_t>(nodes.node_of(comm::Rank{rank}))] += step.buffer.bytes;
        return *std::max_element(bytes.begin(), bytes.end());
    }

  private:
    using Kind = comm::Schedule::Step::Kind;

    struct Member {
        comm::Schedule schedule;
        std::deque<Content> buffers;
        Content scratch;
        std::vector<bool> complete;
    };
    Member& of(int rank) { return ranks_[static_cast<size_t>(rank)]; }

    void stage(comm::Schedule& schedule) {
        const bool all = random_() % 2 == 0;
        const auto is_staged = [&](const comm::Schedule::Buffer& each) {
            return all || each.where.placement == device::Placement::kPinned;
        };
        if (!schedule.stage(is_staged, [](size_t) { return true; }))
            return;
        for (const comm::Schedule::Step& each : schedule.steps()) {
            const bool is_used_by_peers =
                each.kind == Kind::kSend ||
                (each.kind == Kind::kReceive && each.buffer.where.placement == device::Placement::kPinned);
            if (is_used_by_peers && !each.buffer.scratch && each.buffer.bytes != 0 && is_staged(each.buffer))
                FAIL("a message uses the program's memory, though that is staged");
        }
    }
    static std::byte* address(Member& member, const comm::Schedule::Buffer& buffer) {
        return buffer.scratch ? reinterpret_cast<std::byte*>(member.scratch.data()) + *buffer.scratch : buffer.address;
    }
    static bool may(const Member& member, comm::Schedule::StepId id) {
        if (member.complete[id])
            return false;
        for (const comm::Schedule::StepId each : member.schedule.before(member.schedule.steps()[id]))
            if (!member.complete[each])
                return false;
        return true;
    }

    std::vector<std::function<void()>> find_possible() {
        std::vector<std::function<void()>> possible;
        for (size_t rank = 0; rank < ranks_.size(); ++rank)
            for (comm::Schedule::StepId id = 0; id < ranks_[rank].schedule.steps().size(); ++id) {
                if (!may(ranks_[rank], id))
                    continue;
                Member& member = ranks_[rank];
                const comm::Schedule::Step& step = member.schedule.steps()[id];
                if (step.kind == Kind::kReceive)
                    find_message(static_cast<int>(rank), id, possible);
                else if (step.kind != Kind::kSend)
                    possible.emplace_back([&member, &step, id] {
                        work(member, step);
                        member.complete[id] = true;
                    });
            }
        return possible;
    }
    // The sender's step that matches, if it has started.
    void find_message(int rank, comm::Schedule::StepId id, std::vector<std::function<void()>>& possible) {
        Member& target = of(rank);
        const comm::Schedule::Step& receive = target.schedule.steps()[id];
        Member& source = of(receive.peer.value);
        for (comm::Schedule::StepId other = 0; other < source.schedule.steps().size(); ++other) {
            const comm::Schedule::Step& send = source.schedule.steps()[other];
            if (send.kind != Kind::kSend || send.peer.value != rank || send.round != receive.round ||
                !may(source, other))
                continue;
            if (send.buffer.bytes != receive.buffer.bytes)
                FAIL("a message of another length than its receive");
            possible.emplace_back([&source, &target, &send, &receive, id, other] {
                std::copy_n(address(source, send.buffer), send.buffer.bytes, address(target, receive.buffer));
                target.complete[id] = source.complete[other] = true;
            });
            return;
        }
    }
    static void work(Member& member, const comm::Schedule::Step& step) {
        std::vector<const void*> operands;
        for (const comm::Schedule::Buffer& each : member.schedule.operands(step)) {
            if (each.bytes != step.buffer.bytes)
                FAIL("an operand of another length than the result");
            operands.push_back(address(member, each));
        }
        if (step.kind == Kind::kCopy)
            std::copy_n(static_cast<const std::byte*>(operands.front()), step.buffer.bytes,
                        address(member, step.buffer));
        else
            base::reduce(step.reduction, step.buffer.bytes / base::size_of_type(static_cast<int>(step.reduction.type)),
                         address(member, step.buffer), operands);
    }

    std::mt19937_64 random_;
    std::deque<comm::Communicator> comms_;
    std::deque<Member> ranks_;
};

inline Content content_of(const comm::Schedule::Buffer& buffer) {
    const auto* const first = reinterpret_cast<const uint8_t*>(buffer.address);
    return Content(first, first + buffer.bytes);
}

} // namespace gpurun::test
