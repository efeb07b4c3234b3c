#include "collective.hpp"

#include <algorithm>
#include <string>

namespace gpurun::python {

Side side(Buffer& buffer, nb::handle object, Access access, const char* role, nb::handle stream) {
    Side made;
    if (object.is_none())
        return made;
    made.none = false;
    if (nb::isinstance<InPlace>(object)) {
        made.in_place = true;
        made.data = GPURUN_IN_PLACE;
        return made;
    }
    buffer = Buffer(object, access, role, stream);
    made.data = buffer.data();
    made.count = buffer.count();
    made.type = buffer.type();
    made.current = buffer.current();
    return made;
}

Sides::Sides(nb::handle send_object, nb::handle recv_object, nb::handle stream) {
    send = side(kept->first, send_object, Access::kRead, "sendbuf", stream);
    recv = side(kept->second, recv_object, Access::kWrite, "recvbuf", stream);
    order = order_domain(stream, send.current != GPURUN_HOST ? send.current : recv.current);
    if (send.in_place || send.none)
        send.type = recv.type;
    if (recv.in_place || recv.none)
        recv.type = send.type;
}

std::size_t part(const char* name, const Side& side, int ranks) {
    if (side.none || side.in_place)
        return 0;
    const auto parts = static_cast<std::size_t>(ranks);
    if (side.count % parts == 0)
        return side.count / parts;
    const std::string detail = "the buffer has " + std::to_string(side.count) +
                               " elements, which are not equal parts for " + std::to_string(ranks) +
                               " ranks; use the call that takes counts";
    raise(GPURUN_ERR_COUNT, name, detail.c_str());
}

void same_on_both(const char* name, const Sides& sides, std::size_t send_parts) {
    if (sides.send.in_place || sides.recv.none)
        return;
    if (sides.send.type != sides.recv.type)
        raise(GPURUN_ERR_TYPE, name, "sendbuf and recvbuf have elements of different types; they must be the same");
    if (sides.send.count == sides.recv.count * send_parts)
        return;
    const std::string detail = "sendbuf has " + std::to_string(sides.send.count) + " elements, and recvbuf " +
                               std::to_string(sides.recv.count) + "; sendbuf must have " + std::to_string(send_parts) +
                               " times as many";
    raise(GPURUN_ERR_COUNT, name, detail.c_str());
}

const std::size_t* sizes(std::vector<std::size_t>& ret, nb::handle counts, const char* name, int ranks) {
    if (counts.is_none())
        return nullptr;
    for (const nb::handle each : nb::iter(counts))
        ret.push_back(nb::cast<std::size_t>(each));
    if (ret.size() == static_cast<std::size_t>(ranks))
        return ret.data();
    const std::string detail = "there are " + std::to_string(ret.size()) +
                               " counts or displacements; give one for each "
                               "of the " +
                               std::to_string(ranks) + " ranks";
    raise(GPURUN_ERR_ARGUMENT, name, detail.c_str());
}

void fits(const char* name, const Side& side, const std::size_t* counts, const std::size_t* displacements, int ranks) {
    if (side.in_place || side.none || counts == nullptr)
        return;
    std::size_t behind = 0;
    std::size_t end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        const std::size_t begin = displacements != nullptr ? displacements[rank] : behind;
        behind = begin + counts[rank];
        end = counts[rank] == 0 ? end : std::max(end, behind);
    }
    if (end <= side.count)
        return;
    const std::string detail =
        "the blocks end at element " + std::to_string(end) + ", and the buffer has " + std::to_string(side.count);
    raise(GPURUN_ERR_BUFFER, name, detail.c_str());
}

gpurun_op operation(nb::handle op) { return gpurun_make_op(nb::cast<std::uint64_t>(nb::int_(op))); }

} // namespace gpurun::python
