// The table of protocols: how the bytes of a message move, and the states that a send and a receive can be in.
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

#include "transfer/protocol/eager.hpp"
#include "transfer/protocol/graph.hpp"
#include "transfer/protocol/inline.hpp"
#include "transfer/protocol/mailbox.hpp"
#include "transfer/protocol/relay.hpp"
#include "transfer/protocol/rendezvous.hpp"
#include "transfer/protocol/single_copy.hpp"

#include <variant>

namespace gpurun::transfer {

// std::monostate: not begun.
using SendStates = std::variant<std::monostate, GraphSend, InlineSend, MailSend, EagerSend, RendezvousSend,
                                SingleCopySend, PullSend, RelaySend>;
using ReceiveStates = std::variant<std::monostate, GraphReceive, InlineReceive, MailReceive, EagerReceive,
                                   SingleCopyReceive, PullReceive, RelayReceive>;

// What the target asks each protocol that moves the bytes of a rendezvous, in the order of the table.
struct Rendezvous {
    const ReadyToSend& ready;
    uint64_t message_bytes;
    bool single_copy_refused = false; // this and the next: set by those that have said no
    NotPulled not_pulled = NotPulled::kNone;
};

struct ProtocolInfo {
    const char* name;
    std::span<const RouteText> routes;
    bool begins; // messages, if its state's post() takes them
    // Moves the bytes of a rendezvous; null: it never does.
    std::optional<Route> (*find)(Receive& receive, Rendezvous& rendezvous);
    Peer::PartMaker make_part; // null: it keeps nothing
};

std::span<const ProtocolInfo> protocols();      // by ProtocolId
std::span<const Peer::PartMaker> part_makers(); // the same
const RouteText& text_of(Route route);
// REQUIRES: the record is a ready-to-send.
Route choose_route(Receive& receive, const Record& record);
// Says in the header of a trace which routes there are.
void name_routes(platform::TraceHeader& header);

} // namespace gpurun::transfer
