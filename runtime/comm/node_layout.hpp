// The nodes on which the ranks of a communicator run, where these are several.
#pragma once

#include "comm/group.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gpurun::comm {

class NodeLayout {
  public:
    // `nodes`: that of each process of the job. Null where there is one.
    static std::shared_ptr<const NodeLayout> of(const Group& group, std::span<const uint32_t> nodes) {
        std::vector<int> firsts;
        std::vector<uint32_t> met;
        for (int rank = 0; rank < group.size(); ++rank) {
            const uint32_t node = nodes[group.world(Rank{rank}).value];
            if (!met.empty() && met.back() == node)
                continue;
            if (std::find(met.begin(), met.end(), node) != met.end())
                return std::make_shared<const NodeLayout>(); // of at least two
            met.push_back(node);
            firsts.push_back(rank);
        }
        firsts.push_back(group.size());
        return met.size() < 2 ? nullptr : std::make_shared<const NodeLayout>(std::move(firsts));
    }
    NodeLayout() = default; // of nodes whose ranks are not in a row
    // The first rank of each node, and the number of all.
    explicit NodeLayout(std::vector<int> firsts) : firsts_(std::move(firsts)) {
        fewest_ = most_ = ranks(0);
        for (int node = 1; node < count(); ++node) {
            fewest_ = std::min(fewest_, ranks(node));
            most_ = std::max(most_, ranks(node));
        }
    }

    // Whether each node has its ranks in a row. REQUIRED by all that follows.
    bool in_rows() const { return !firsts_.empty(); }
    int count() const { return static_cast<int>(firsts_.size()) - 1; }
    int first(int node) const { return firsts_[static_cast<size_t>(node)]; }
    int ranks(int node) const { return first(node + 1) - first(node); }
    int node_of(Rank rank) const {
        return static_cast<int>(std::upper_bound(firsts_.begin(), firsts_.end(), rank.value) - firsts_.begin()) - 1;
    }
    int fewest() const { return fewest_; } // ranks of a node
    int most() const { return most_; }

  private:
    std::vector<int> firsts_;
    int fewest_ = 0;
    int most_ = 0;
};

} // namespace gpurun::comm
