// Ranks of a communicator, and which process of the job each is.
//
// A Rank is a number in its group, a WorldRank one in the job. Arguments of a call are translated once, to world ranks,
// and the source in a status once, back; matching and transfer know world ranks only.
#pragma once

#include "base/check.hpp"
#include "base/world_rank.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace gpurun::comm {

using base::WorldRank;

struct Rank {
    int value = 0;
    auto operator<=>(const Rank&) const = default;
};
constexpr int kProcNull = -2; // in place of a rank: nobody

class Group {
  public:
    // All ranks of a job, in their order.
    static Group of_all(uint32_t ranks) {
        std::vector<WorldRank> members;
        for (uint32_t each = 0; each < ranks; ++each)
            members.push_back(WorldRank{each});
        return Group(std::move(members));
    }
    // Each process at most once; rank i is members[i].
    explicit Group(std::vector<WorldRank> members) : members_(std::move(members)) {
        for (size_t i = 0; i < members_.size(); ++i)
            in_order_ = in_order_ && members_[i].value == i;
    }

    int size() const { return static_cast<int>(members_.size()); }
    bool has(int rank) const { return rank >= 0 && rank < size(); }
    // REQUIRES has(rank.value).
    WorldRank world(Rank rank) const { return members_[static_cast<size_t>(rank.value)]; }
    // None if the process is no member.
    std::optional<Rank> rank_of(WorldRank process) const {
        if (in_order_)
            return process.value < members_.size() ? std::optional(Rank{static_cast<int>(process.value)})
                                                   : std::nullopt;
        const auto found = std::find(members_.begin(), members_.end(), process);
        if (found == members_.end())
            return std::nullopt;
        return Rank{static_cast<int>(found - members_.begin())};
    }
    const std::vector<WorldRank>& members() const { return members_; }
    bool operator==(const Group& other) const { return members_ == other.members_; }

  private:
    std::vector<WorldRank> members_;
    bool in_order_ = true; // rank and process have the same number
};

} // namespace gpurun::comm
