// The table of protocols: how the bytes of a message move.
//
// A protocol is a file pair in protocol/, with a line here and in the table of protocols.cpp. A send is begun by the
// first protocol of the table that takes it. The bytes of a rendezvous are moved by the first one that the target finds
// fit.
//
//   protocol     begins a message that is                  up to                      records
//   graph        captured                                                             message; notice: it ended
//   inline       host memory in the host's order           GPURUN_EAGER_BYTES         message
//   mailbox      device or pinned memory, within reach     GPURUN_MAIL_BYTES          message
//   eager        on a stream, or device memory             GPURUN_DEVICE_EAGER_BYTES  message
//   rendezvous   any other                                                            message; to send: want-edge
//
//   protocol     moves the bytes of a rendezvous                        records
//   single copy  between host memory, in the host's order               to send: share, finish
//   pull         between device memory, within reach; to itself         to send: finish; to receive: edge
//   relay        all others                                             to send: clear-to-send; notice: slab
#pragma once

#include "transfer/protocol_table.hpp"

namespace gpurun::transfer {

const ProtocolTable& protocols();
std::span<const Peer::PartMaker> part_makers(); // by ProtocolId

} // namespace gpurun::transfer
