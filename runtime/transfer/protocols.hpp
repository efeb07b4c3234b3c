// The table of protocols: how the bytes of a message move (protocols.cpp).
#pragma once

#include "transfer/protocol_table.hpp"

namespace gpurun::transfer {

const ProtocolTable& protocols();
std::span<const Peer::PartMaker> part_makers(); // by ProtocolId

} // namespace gpurun::transfer
