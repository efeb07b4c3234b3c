// Connects the supervisors of a job that another launcher has started on several nodes: what each tells of its ranks,
// the others are told. It is in the supervisor of rank 0's node, which calls it like the others (other_nodes.hpp).
//
// Runs on the event loop's thread. Nobody who calls is trusted before it has shown the meeting's key.
#pragma once

#include "node_link.hpp"
#include "node_wire.hpp"
#include "platform/tcp.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace gpurun::launcher {

class NodeSwitch {
  public:
    NodeSwitch(platform::EventLoop& loop, platform::UniqueFd listener, const platform::NodeKey& key);
    NodeSwitch(const NodeSwitch&) = delete;

    bool has_nodes() const;

  private:
    struct Node : NodeLink::Observer {
        NodeSwitch* all = nullptr;
        std::unique_ptr<NodeLink> link;
        bool known = false; // it has shown the key
        std::vector<uint32_t> ranks;
        std::vector<uint32_t> ended; // of these
        std::string records;         // of them, once they are ready
        bool heard(uint32_t kind, std::string_view message) override { return all->hear(*this, kind, message); }
        void link_ended(const std::string&) override { all->lose(*this); }
    };

    void on_call();
    bool hear(Node& node, uint32_t kind, std::string_view message);
    bool hear_stranger(Node& node, uint32_t kind, std::string_view message);
    bool take_ranks(Node& node, std::string_view message);
    void introduce();
    bool take_records(Node& node, std::string_view message);
    bool take_steps(Node& node, std::string_view message);
    bool is_of(const Node& node, uint32_t rank) const;
    bool take_end(Node& node, node_wire::Kind kind, std::string_view message);
    void lose(Node& node);
    void tell(const Node& node, node_wire::Kind kind, std::string_view message) const;
    void tell_others(const Node* node, node_wire::Kind kind, std::string_view message) const;
    void refuse_all(base::Status status, const std::string& why);

    platform::EventLoop& loop_;
    platform::TcpListener listener_;
    platform::NodeKey key_;
    std::list<Node> nodes_;            // their links refer to them
    std::vector<const Node*> of_rank_; // empty until a node has said how many ranks there are
    bool introduced_ = false;
    std::string refusal_; // as it was told: the job cannot start
    platform::Watch watch_;
};

} // namespace gpurun::launcher
