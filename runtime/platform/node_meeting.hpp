// Where the nodes of a job meet that another launcher has started on several of them. Rank 0 listens there, and its
// node's supervisor gets the listener; the others learn of it by what the launcher offers (pmix.hpp, pmi1.hpp).
#pragma once

#include "platform/tcp.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::platform {

// By which a node shows that it has been told whom to call.
using NodeKey = std::array<std::byte, 32>;
NodeKey make_node_key(); // of random bits

struct NodeMeeting {
    std::vector<std::string> addresses; // as numbers; any of them may be one that only its own host can reach
    uint16_t port = 0;
    NodeKey key{};
};

// As one word, which a launcher takes as a value: letters, digits and ".:,;", kLongestMeeting of them at most.
constexpr size_t kLongestMeeting = 900;
std::string as_word(const NodeMeeting& meeting);
std::optional<NodeMeeting> parse_meeting(std::string_view word); // nothing if it is none

struct OpenMeeting {
    NodeMeeting meeting;
    UniqueFd listener;
};
base::Result<OpenMeeting> open_meeting();

// What joins, beside its rank: nothing in a job on one node.
struct MeetingOfRank {
    std::string word;
    UniqueFd listener; // in rank 0
};

} // namespace gpurun::platform
