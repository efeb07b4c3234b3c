#include "api/blocks.hpp"

#include <algorithm>

namespace gpurun::api {

using base::Result;
using base::Status;
using comm::Parts;
using transfer::Operand;

static Result<void> fill_listed(AllBlocks& all, const Call& call, Access access, const Blocks& given, int number,
                                gpurun_stream stream) {
    if (given.counts == nullptr && number != 0)
        return base::error(Status::kArgument, "the counts are NULL: pass a count for each of the {} blocks", number);
    GPURUN_ASSIGN(const size_t element, comm::type_size(static_cast<int>(given.type)));
    std::vector<Parts::Part> parts;
    size_t end = 0; // of the block before, in elements
    size_t last = 0;
    for (int i = 0; i < number; ++i) {
        const size_t begin = given.displacements != nullptr ? given.displacements[i] : end;
        if (__builtin_add_overflow(begin, given.counts[i], &end) || end > comm::kMostBytes / element)
            return comm::no_such_message(SIZE_MAX, static_cast<int>(given.type));
        parts.push_back({begin * element, given.counts[i] * element});
        last = given.counts[i] == 0 ? last : std::max(last, end);
    }
    GPURUN_TRY(fill_operand(all.operand, *call.runtime, access, given.address, last, given.type, stream));
    all.parts = Parts::listed(buffer_of(all.operand), std::move(parts));
    return {};
}

Result<void> fill(AllBlocks& all, const Call& call, Access access, const Blocks& given, int number,
                  gpurun_stream stream) {
    if (given.listed)
        return fill_listed(all, call, access, given, number, stream);
    size_t count = 0;
    if (__builtin_mul_overflow(given.count, static_cast<size_t>(number), &count))
        return comm::no_such_message(SIZE_MAX, static_cast<int>(given.type));
    GPURUN_TRY(fill_operand(all.operand, *call.runtime, access, given.address, count, given.type, stream));
    all.parts = Parts::equal(buffer_of(all.operand), given.count * comm::size_of_type(static_cast<int>(given.type)));
    return {};
}

Result<void> fill(Operand& operand, const Call& call, Access access, const Buffer& given, gpurun_stream stream) {
    return fill_operand(operand, *call.runtime, access, given.address, given.count, given.type, stream);
}

Result<void> check_own(size_t given, size_t place) {
    if (given == place)
        return {};
    return base::error(given > place ? Status::kTruncated : Status::kCount,
                       "this rank sends itself {} bytes, where it expects {}: the counts and types must agree", given,
                       place);
}

} // namespace gpurun::api
