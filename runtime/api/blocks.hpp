// The buffers of gathers, scatters and all-to-alls: elements of one rank, or a block for each of several.
#pragma once

#include "api/collective_call.hpp"
#include "comm/collective/parts.hpp"

namespace gpurun::api {

struct Buffer {
    const void* address;
    size_t count;
    gpurun_datatype type;
};
// All of `count` elements, or of `counts`.
struct Blocks {
    const void* address;
    size_t count;
    const size_t* counts;
    const size_t* displacements; // or null: behind each other
    gpurun_datatype type;
    bool listed;
};
struct Order {
    gpurun_comm comm;
    gpurun_stream stream;
};

// The operand that has all blocks.
struct AllBlocks {
    transfer::Operand operand;
    comm::Parts parts = comm::Parts::equal({}, 0);
};

base::Result<void> fill(AllBlocks& all, const Call& call, Access access, const Blocks& given, int number,
                        gpurun_stream stream);
base::Result<void> fill(transfer::Operand& operand, const Call& call, Access access, const Buffer& given,
                        gpurun_stream stream);
// What a rank sends itself.
base::Result<void> check_own(size_t given, size_t place);

} // namespace gpurun::api
