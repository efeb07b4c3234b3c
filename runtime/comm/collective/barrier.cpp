// Barrier by dissemination: in step k a rank tells the rank 2^k after it that it, and all that have told it, are
// there. On a stream the messages carry only their fences, so what follows waits for every rank's order domain.
#include "comm/collective/collective.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Envelope;
using transfer::Operand;
using transfer::Outgoing;

Result<void> barrier(Engine& engine, const Communicator& comm, const Operand& order) {
    int tag = 1; // not bcast's
    for (int distance = 1; distance < comm.size; distance <<= 1, ++tag) {
        const int to = (comm.rank + distance) % comm.size;
        const int from = (comm.rank - distance + comm.size) % comm.size;
        GPURUN_TRY(engine.check_captured(to, order));
        Outgoing outgoing(engine.context(), engine.link(to), order, Envelope{comm.collective_context(), tag, 0});
        Outgoing* const sends[] = {&outgoing};
        Receive receive(engine.context(), order, Pattern{comm.collective_context(), from, tag}, true);
        GPURUN_TRY(engine.complete(sends, &receive));
    }
    return {};
}

} // namespace gpurun::comm
