#include "transfer/protocols.hpp"

#include "platform/trace_buffer.hpp"
#include "transfer/protocol/eager.hpp"
#include "transfer/protocol/graph.hpp"
#include "transfer/protocol/inline.hpp"
#include "transfer/protocol/loan.hpp"
#include "transfer/protocol/mailbox.hpp"
#include "transfer/protocol/pieces.hpp"
#include "transfer/protocol/relay.hpp"
#include "transfer/protocol/rendezvous.hpp"
#include "transfer/protocol/single_copy.hpp"
#include "transfer/receive.hpp"

#include <array>

namespace gpurun::transfer {

namespace {

template <typename Part>
std::unique_ptr<ProtocolPart> make(Resources& resources, Peer& peer) {
    if constexpr (std::is_constructible_v<Part, Resources&, Peer&>)
        return std::make_unique<Part>(resources, peer);
    else if constexpr (std::is_constructible_v<Part, Peer&>)
        return std::make_unique<Part>(peer);
    else
        return std::make_unique<Part>();
}

template <typename Each>
void send(StateHolder<SendState>& holder) {
    holder.make<Each>();
}

template <typename Each>
void receive(StateHolder<ReceiveState>& holder) {
    holder.make<Each>();
}

// Who moves the bytes of a rendezvous: the first that finds them fit. The later ones say why the earlier did not.
Route choose_route(Receive& receive, const Record& record) {
    const auto ready = record.as<ReadyToSend>();
    bool single_copy_refused = false;
    NotPulled not_pulled{}; // of no meaning but between devices
    if (const auto route = find_single_copy(receive, ready, record.envelope.bytes, single_copy_refused))
        return *route;
    if (const auto route = find_pull(receive, ready, record.envelope.bytes, not_pulled))
        return *route;
    return find_relay(receive, ready, not_pulled, single_copy_refused);
}

Route choose_for_loan(Receive& receive, const Record& record) {
    return receive.borrows() ? kBorrowed : choose_route(receive, record);
}

// A protocol is a file pair in protocol/, with a line in this comment and in the table below. A send is begun by the
// first protocol of the table that takes it. The bytes of a rendezvous are moved by the first one that the target finds
// fit.
//
//   protocol     begins a message that is                  up to                      records
//   graph        captured                                                             message; notice: it ended
//   inline       host memory in the host's order           GPURUN_EAGER_BYTES         message
//   mailbox      device or pinned memory, within reach     GPURUN_MAIL_BYTES          message
//   eager        on a stream, or device memory             GPURUN_DEVICE_EAGER_BYTES  message
//   pieces       host memory in the host's order, without  256 KiB                    message
//                memory in common
//   rendezvous   any other                                                            message; to send: want-edge
//   loan         lent                                                                 message; to send: borrowed,
//                                                                                     given back, withdrawn; to
//                                                                                     receive: edge; notice: withdraw
//
//   protocol     moves the bytes of a rendezvous                        records
//   single copy  between host memory, in the host's order               to send: share, finish
//   pull         between device memory, within reach; to itself         to send: finish; to receive: edge
//   relay        all others                                             to send: clear-to-send; notice: slab
constexpr std::array<ProtocolInfo, 10> kTable = {{
    {"graph", kGraphRoutes, true, nullptr, send<GraphSend>, receive<GraphReceive>, make<GraphPart>},
    {"inline", kInlineRoutes, true, nullptr, send<InlineSend>, receive<InlineReceive>, make<InlinePart>},
    {"mailbox", kMailboxRoutes, true, nullptr, send<MailSend>, receive<MailReceive>, make<MailboxPart>},
    {"eager", kEagerRoutes, true, nullptr, send<EagerSend>, receive<EagerReceive>, make<EagerPart>},
    {"pieces", kPiecesRoutes, true, nullptr, send<PiecesSend>, receive<PiecesReceive>, nullptr},
    {"rendezvous", {}, true, choose_route, send<RendezvousSend>, nullptr, make<RendezvousPart>},
    {"single copy", kSingleCopyRoutes, false, nullptr, send<SingleCopySend>, receive<SingleCopyReceive>,
     make<SingleCopyPart>},
    {"pull", kPullRoutes, false, nullptr, send<PullSend>, receive<PullReceive>, make<PullPart>},
    {"relay", kRelayRoutes, false, nullptr, send<RelaySend>, receive<RelayReceive>, make<RelayPart>},
    {"loan", kLoanRoutes, true, choose_for_loan, send<LoanSend>, receive<LoanReceive>, make<LoanPart>},
}};
static_assert(GraphPart::kProtocol == 0 && InlinePart::kProtocol == 1 && MailboxPart::kProtocol == 2 &&
              EagerPart::kProtocol == 3 && PiecesSend::kProtocol == 4 && RendezvousPart::kProtocol == 5 &&
              SingleCopyPart::kProtocol == 6 && PullPart::kProtocol == 7 && RelayPart::kProtocol == 8 &&
              LoanPart::kProtocol == 9);
static_assert(kTable.size() * Route::kMostOfProtocol <= platform::kTracedRoutes);

constexpr auto kPartMakers = [] {
    std::array<Peer::PartMaker, kTable.size()> makers{};
    for (size_t i = 0; i < kTable.size(); ++i)
        makers[i] = kTable[i].make_part;
    return makers;
}();

constexpr ProtocolTable kProtocols{kTable};

} // namespace

const ProtocolTable& protocols() { return kProtocols; }

std::span<const Peer::PartMaker> part_makers() { return kPartMakers; }

} // namespace gpurun::transfer
