#include "stress/joint.hpp"

#include "stress/arena.hpp"

#include <algorithm>
#include <string>

namespace gpurun::stress {

namespace {

constexpr uint32_t kUnset = 0x5a5a5a5a;
constexpr auto kType = GPURUN_UINT32;

int rank_in(gpurun_comm comm) {
    int rank = 0;
    REQUIRE_OK(gpurun_comm_rank(comm, &rank));
    return rank;
}

// In blocks of `count`, one for each rank.
bool gives_blocks(const Joint& joint) {
    return joint.what == Joint::kAlltoall || joint.what == Joint::kReduceScatterBlock;
}
bool gets_blocks(const Joint& joint) { return joint.what == Joint::kAllgather || joint.what == Joint::kAlltoall; }

} // namespace

JointCall::JointCall(const Joint& joint, gpurun_comm comm)
    : joint_(joint), comm_(comm), rank_(rank_in(comm)), size_(test::size()), given_(given_by(rank_)),
      got_(joint.count * (gets_blocks(joint) ? at(size_) : 1), kUnset),
      send_(joint.kind, given_.size() * sizeof(uint32_t)), recv_(joint.kind, got_.size() * sizeof(uint32_t)) {}

JointCall::Numbers JointCall::given_by(int rank) const {
    Numbers numbers(joint_.count * (gives_blocks(joint_) ? at(size_) : 1));
    for (size_t i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<uint32_t>(joint_.content + i * 2654435761u) * static_cast<uint32_t>(2 * rank + 1);
    return numbers;
}

bool JointCall::has_result() const {
    return joint_.what != Joint::kBarrier && (joint_.what != Joint::kReduce || rank_ == joint_.root);
}

JointCall::Numbers JointCall::result() const {
    Numbers expected(got_.size(), kUnset);
    if (!has_result())
        return expected;
    const auto own_block = static_cast<std::ptrdiff_t>(at(rank_) * joint_.count);
    const auto length = static_cast<std::ptrdiff_t>(joint_.count);
    for (int from = 0; from < size_; from++) {
        const Numbers theirs = given_by(from);
        const auto place = expected.begin() + from * length;
        switch (joint_.what) {
        case Joint::kBcast:
            if (from == joint_.root)
                expected = theirs;
            break;
        case Joint::kAllgather: std::copy(theirs.begin(), theirs.end(), place); break;
        case Joint::kAlltoall: std::copy(theirs.begin() + own_block, theirs.begin() + own_block + length, place); break;
        case Joint::kScan:
            if (from > rank_)
                break;
            [[fallthrough]];
        default:
            for (size_t i = 0; i < expected.size(); i++) {
                const uint32_t number = theirs[i + (gives_blocks(joint_) ? static_cast<size_t>(own_block) : 0)];
                expected[i] = from == 0 ? number : expected[i] + number;
            }
        }
    }
    return expected;
}

void JointCall::fill(gpurun_stream order) {
    const bool gives_in_recv = joint_.what == Joint::kBcast && rank_ == joint_.root;
    REQUIRE_OK(gpurun_memcpy(send_.get(), given_.data(), given_.size() * sizeof(uint32_t), order));
    REQUIRE_OK(gpurun_memset(recv_.get(), kEmpty, got_.size() * sizeof(uint32_t), order));
    if (gives_in_recv)
        REQUIRE_OK(gpurun_memcpy(recv_.get(), given_.data(), given_.size() * sizeof(uint32_t), order));
}

void JointCall::begin(gpurun_stream order) {
    fill(order);
    switch (joint_.form) {
    case Joint::kBlocking:
        REQUIRE_OK(call(order));
        take(order);
        break;
    case Joint::kStarted: REQUIRE_OK(start(order, &request_)); break;
    case Joint::kPersistent:
        REQUIRE_OK(prepare(order, &request_));
        REQUIRE_OK(gpurun_start(&request_));
        break;
    }
}

void JointCall::end(gpurun_stream order) {
    REQUIRE_OK(gpurun_wait(&request_, order, nullptr));
    if (joint_.form == Joint::kPersistent)
        REQUIRE_OK(gpurun_request_free(&request_));
    take(order);
}

// What was sent may be overwritten now, and what was received is there.
void JointCall::take(gpurun_stream order) {
    REQUIRE_OK(gpurun_memset(send_.get(), 0xa5, given_.size() * sizeof(uint32_t), order));
    REQUIRE_OK(gpurun_memcpy(got_.data(), recv_.get(), got_.size() * sizeof(uint32_t), order));
}

void JointCall::check() const {
    if (got_ != result())
        fail("a collective gave something else: number " + std::to_string(joint_.what) + " in form " +
             std::to_string(joint_.form) + " at position " + std::to_string(joint_.position) + ", root " +
             std::to_string(joint_.root) + ", " + std::to_string(joint_.count) + " elements");
}

// The collective in one of its forms, which have a prefix or a suffix, with the last arguments of that.
#define JOINT_CALLS(PREFIX, SUFFIX, ...)                                                                               \
    const size_t n = joint_.count;                                                                                     \
    switch (joint_.what) {                                                                                             \
    case Joint::kBarrier: return gpurun_##PREFIX##barrier##SUFFIX(__VA_ARGS__);                                        \
    case Joint::kBcast: return gpurun_##PREFIX##bcast##SUFFIX(recv_.get(), n, kType, joint_.root, __VA_ARGS__);        \
    case Joint::kAllreduce:                                                                                            \
        return gpurun_##PREFIX##allreduce##SUFFIX(send_.get(), recv_.get(), n, kType, GPURUN_SUM, __VA_ARGS__);        \
    case Joint::kReduce:                                                                                               \
        return gpurun_##PREFIX##reduce##SUFFIX(send_.get(), recv_.get(), n, kType, GPURUN_SUM, joint_.root,            \
                                               __VA_ARGS__);                                                           \
    case Joint::kScan:                                                                                                 \
        return gpurun_##PREFIX##scan##SUFFIX(send_.get(), recv_.get(), n, kType, GPURUN_SUM, __VA_ARGS__);             \
    case Joint::kReduceScatterBlock:                                                                                   \
        return gpurun_##PREFIX##reduce_scatter_block##SUFFIX(send_.get(), recv_.get(), n, kType, GPURUN_SUM,           \
                                                             __VA_ARGS__);                                             \
    case Joint::kAllgather:                                                                                            \
        return gpurun_##PREFIX##allgather##SUFFIX(send_.get(), n, kType, recv_.get(), n, kType, __VA_ARGS__);          \
    case Joint::kAlltoall: break;                                                                                      \
    }                                                                                                                  \
    return gpurun_##PREFIX##alltoall##SUFFIX(send_.get(), n, kType, recv_.get(), n, kType, __VA_ARGS__)

gpurun_status JointCall::call(gpurun_stream order) const { JOINT_CALLS(, , comm_, order); }
gpurun_status JointCall::start(gpurun_stream order, gpurun_request* ret_request) const {
    JOINT_CALLS(i, , comm_, order, ret_request);
}
gpurun_status JointCall::prepare(gpurun_stream order, gpurun_request* ret_request) const {
    JOINT_CALLS(, _init, comm_, order, ret_request);
}
#undef JOINT_CALLS

} // namespace gpurun::stress
