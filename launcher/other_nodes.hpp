// What a supervisor (supervisor.hpp) says to those of the same job on other nodes, and hears of them, by the switch of
// rank 0's node (node_switch.hpp), which it calls at all its addresses at once.
//
// Runs on the event loop's thread.
#pragma once

#include "node_link.hpp"
#include "node_wire.hpp"
#include "platform/node_meeting.hpp"

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

class OtherNodes {
  public:
    class Observer {
      public:
        virtual ~Observer() = default;
        // Every rank of the job has come: the node of each, and the address by which others reach this node.
        virtual void nodes_known(const std::vector<uint32_t>& nodes, const std::string& address) = 0;
        virtual void all_nodes_ready(const std::vector<std::string_view>& records) = 0; // by rank
        virtual void far_rank_leaves(uint32_t rank, uint32_t steps) = 0;
        virtual void far_rank_ended(uint32_t rank, bool finalized) = 0;
        virtual void refused_by_nodes(base::Status status, const std::string& why) = 0;
        virtual void aborted_by_nodes() = 0;
        // From now on nothing is heard of them.
        virtual void nodes_lost(const std::string& why) = 0;
    };

    // All `ranks` of this node, of `size` in the job, have come.
    OtherNodes(platform::EventLoop& loop, platform::NodeMeeting meeting, uint32_t size,
               const std::vector<uint32_t>& ranks, Observer& observer);
    OtherNodes(const OtherNodes&) = delete;

    void call();
    void tell_ready(std::string_view records); // in the order of the ranks
    void tell_steps(uint32_t rank, uint32_t steps);
    void tell_end(uint32_t rank, bool finalized);
    void tell_refusal(base::Status status, const std::string& why);
    void tell_abort() { tell(node_wire::Kind::kAborted, {}); }

  private:
    // To one address.
    struct Call : NodeLink::Observer {
        OtherNodes* all = nullptr;
        platform::UniqueFd calling; // until it is answered
        platform::Watch answered;
        std::optional<NodeLink> link;
        bool over = false;
        bool heard(uint32_t kind, std::string_view message) override { return all->hear(*this, kind, message); }
        void link_ended(const std::string& why) override { all->end(*this, why); }
    };

    void call_at(const std::string& address);
    void on_answer(Call& call);
    void fail_if_none_is_left();
    void end(Call& call, const std::string& why);
    bool hear(Call& call, uint32_t kind, std::string_view message);
    bool take_nodes(std::string_view message);
    bool take_records(std::string_view message);
    bool take_steps(std::string_view message);
    void tell(node_wire::Kind kind, std::string_view message);

    platform::EventLoop& loop_;
    platform::NodeMeeting meeting_;
    uint32_t size_;
    Observer& observer_;
    std::list<Call> calls_;
    Call* chosen_ = nullptr; // the first at which the switch has answered
    bool awaits_records_ = false;
    std::vector<std::pair<node_wire::Kind, std::string>> untold_; // until then
};

} // namespace gpurun::launcher
