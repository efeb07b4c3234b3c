#include "comm/core.hpp"

#include "transfer/protocols.hpp"

namespace gpurun::comm {

namespace {

// Empty where all are the same.
std::vector<uint32_t> nodes_in(const platform::JobSegment& job) {
    std::vector<uint32_t> nodes;
    bool differ = false;
    for (uint32_t rank = 0; rank < job.size(); ++rank) {
        nodes.push_back(job.rank(rank).node);
        differ = differ || nodes.back() != nodes.front();
    }
    return differ ? nodes : std::vector<uint32_t>();
}

} // namespace

Core::Core(RankParts parts)
    : job_(parts.job), names_(parts.names), process_(parts.process),
      tell_other_nodes_(std::move(parts.tell_other_nodes)), workspace_(std::move(parts.workspace)),
      probe_(std::move(parts.probe)), resources_(parts.device, parts.settings,
                                                 {.self = parts.self,
                                                  .ranks = parts.job.size(),
                                                  .ranks_on_device = parts.ranks_on_device,
                                                  .takes_turns = parts.takes_turns,
                                                  .core_for_each_rank = parts.job.here() <= parts.job.header().cores,
                                                  .captures = &parts.job.rank(parts.self.value).captures,
                                                  .process = &parts.process.share()},
                                                 *workspace_, transfer::protocols(), parts.trace, parts.runs),
      matcher_(parts.job.size(), parts.names),
      communicators_(parts.self, parts.job.size(), parts.names, parts.settings.algorithms, nodes_in(parts.job)),
      requests_(parts.names) {}

void Core::add_peer(std::unique_ptr<transfer::PeerChannel> channel) {
    peers_.push_back(std::make_unique<transfer::Peer>(resources_, std::move(channel), transfer::part_makers()));
}

void Core::drop_parts() {
    probe_.reset();
    workspace_.reset();
}

} // namespace gpurun::comm
