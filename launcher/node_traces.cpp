#include "node_traces.hpp"

namespace gpurun::launcher {

using node_wire::Kind;

NodeTraces::NodeTraces(Tracing& tracing, uint32_t first, Send send)
    : tracing_(tracing), first_(first), send_(std::move(send)) {
    std::string text;
    for (uint32_t rank = 0; rank < tracing_.ranks(); ++rank)
        text += node_wire::text_of(node_wire::Time{tracing_.ended_ns(rank)});
    send_(Kind::kRecorded, text);
}

bool NodeTraces::take_request(std::string_view message) {
    const auto wanted = node_wire::message_of<node_wire::PartOf>(message);
    if (!wanted || wanted->rank < first_ || wanted->rank - first_ >= tracing_.ranks())
        return false;
    const auto part = tracing_.buffer(wanted->rank - first_).part_from(wanted->offset, node_wire::kLargestPart);
    send_(Kind::kPart, node_wire::text_of(node_wire::PartOf{wanted->rank, 0, part.offset}, part.bytes));
    return true;
}

} // namespace gpurun::launcher
