#include "collective_contents.hpp"

namespace gpurun::bench {

void CollectiveContents::write(const Task& task, const CollectiveBuffers& buffers, uint64_t number) {
    const size_t part = block(task);
    switch (task.collective) {
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kReduceScatter: contents_.write_terms(buffers.out, task.bytes, rank_, number); break;
    case Collective::kAllgather:
    case Collective::kGather: contents_.write(buffers.out, part, rank_, message(number)); break;
    case Collective::kBcast:
        if (is_root())
            contents_.write(buffers.out, task.bytes, rank_, message(number));
        break;
    case Collective::kScatter:
        if (!is_root())
            break;
        [[fallthrough]];
    case Collective::kAlltoall:
        for (int to = 0; to < ranks_; ++to)
            contents_.write(buffers.out + static_cast<size_t>(to) * part, part, rank_, message(number, to));
        break;
    case Collective::kBarrier: break;
    }
}

void CollectiveContents::check(const Task& task, const CollectiveBuffers& buffers, uint64_t number) {
    const size_t part = block(task);
    const auto check_blocks = [&](int to) {
        for (int from = 0; from < ranks_; ++from)
            contents_.check(buffers.in + static_cast<size_t>(from) * part, part, from, message(number, to));
    };
    switch (task.collective) {
    case Collective::kAllreduce: contents_.check_sums(buffers.in, task.bytes, 0, ranks_, number); break;
    case Collective::kReduce:
        if (is_root())
            contents_.check_sums(buffers.in, task.bytes, 0, ranks_, number);
        break;
    case Collective::kReduceScatter:
        contents_.check_sums(buffers.in, part, static_cast<size_t>(rank_) * part, ranks_, number);
        break;
    case Collective::kBcast: contents_.check(buffers.in, task.bytes, kRoot, message(number)); break;
    case Collective::kAllgather: check_blocks(0); break;
    case Collective::kGather:
        if (is_root())
            check_blocks(0);
        break;
    case Collective::kAlltoall: check_blocks(rank_); break;
    case Collective::kScatter: contents_.check(buffers.in, part, kRoot, message(number, rank_)); break;
    case Collective::kBarrier: break;
    }
}

} // namespace gpurun::bench
