#include "comm/agreement.hpp"

#include <algorithm>

namespace gpurun::comm {

void build_agreement(Schedule& schedule, std::span<const Rank> ranks, size_t self, std::span<Wish> wishes,
                     Schedule::Work propose, int first_round) {
    const size_t size = ranks.size();
    GPURUN_ASSERT(wishes.size() == size && self < size);
    const auto part = [&](size_t first, size_t count) {
        const std::span<std::byte> bytes = std::as_writable_bytes(wishes.subspan(first, count));
        return Schedule::Buffer{bytes.data(), bytes.size(), {}};
    };
    Schedule::StepId known = schedule.local(std::move(propose));
    int round = first_round;
    for (size_t distance = 1; distance < size; distance *= 2, ++round) {
        const size_t count = std::min(distance, size - distance);
        schedule.send(ranks[(self + size - distance) % size], round, part(0, count), {known});
        known = schedule.receive(ranks[(self + distance) % size], round, part(distance, count), {known});
    }
}

} // namespace gpurun::comm
