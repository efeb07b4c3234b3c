// Operations of the program's own: in every reduction and every form, on host memory alone.
#include "collectives.hpp"

#include <cstring>

namespace gpurun::test::own_operations {

namespace {

// x -> factor * x + summand: composing these does not commute, and loses nothing.
struct Map {
    uint32_t factor;
    uint32_t summand;
};
Map composed(Map first, Map second) {
    return {first.factor * second.factor, second.factor * first.summand + second.summand};
}
void compose(const void* in, void* inout, size_t count, gpurun_datatype type) {
    CHECK(type == GPURUN_UINT64);
    for (size_t i = 0; i < count; i++) {
        Map first, second;
        std::memcpy(&first, static_cast<const Map*>(in) + i, sizeof first);
        std::memcpy(&second, static_cast<Map*>(inout) + i, sizeof second);
        const Map both = composed(first, second);
        std::memcpy(static_cast<Map*>(inout) + i, &both, sizeof both);
    }
}

class Operation {
  public:
    Operation() { REQUIRE_OK(gpurun_op_create(compose, 0, &op_)); }
    ~Operation() { CHECK(gpurun_op_free(&op_) == GPURUN_OK); }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    operator gpurun_op() const { return op_; }

  private:
    gpurun_op op_ = GPURUN_OP_NULL;
};

constexpr auto kType = GPURUN_UINT64;

Map map_of(int of_rank, size_t i) {
    return {static_cast<uint32_t>(2 * i + 3), static_cast<uint32_t>(of_rank * 1000) + static_cast<uint32_t>(i)};
}
std::vector<Map> maps_of(int of_rank, size_t count) {
    std::vector<Map> maps;
    for (size_t i = 0; i < count; i++)
        maps.push_back(map_of(of_rank, i));
    return maps;
}
// Of `count` elements from `first` on, of the first so many ranks.
Bytes expected(int ranks, size_t first, size_t count) {
    std::vector<Map> maps;
    for (size_t i = first; i < first + count; i++) {
        Map all = map_of(0, i);
        for (int of_rank = 1; of_rank < ranks; of_rank++)
            all = composed(all, map_of(of_rank, i));
        maps.push_back(all);
    }
    const auto* const bytes = reinterpret_cast<const uint8_t*>(maps.data());
    return Bytes(bytes, bytes + maps.size() * sizeof(Map));
}

struct Reductions {
    gpurun_op op;
    size_t count; // of the result
    const void* from;
    void* into;

    template <typename Function, typename... More>
    auto call_of(Function function, More... more) const {
        return
            [*this, function, more...] { return function(from, into, count, kType, op, more..., kWorld, GPURUN_HOST); };
    }
    template <typename Function, typename... More>
    auto start_of(Function function, More... more) const {
        return [*this, function, more...](gpurun_request* ret) {
            return function(from, into, count, kType, op, more..., kWorld, GPURUN_HOST, ret);
        };
    }
};

void check_forms(const Calls& calls, Guarded& recv, const Bytes& result) {
    for (const Form form : kForms) {
        recv.write(Bytes(result.size(), 0x77));
        call({.form = form}, calls, {&recv});
        CHECK(first_difference(recv.read(), result) == -1);
    }
}

} // namespace

TEST_SUITE_BEGIN("operations of the program");

TEST_CASE("every reduction combines by a function in the order of the ranks, in every form") {
    const Operation op;
    for (const size_t count : {1u, 61u, 20'011u}) {
        CAPTURE(count);
        const size_t all = count * static_cast<size_t>(size());
        const std::vector<Map> own = maps_of(rank(), all);
        Guarded recv(Kind::kPageable, Bytes(count * sizeof(Map)));
        const Reductions with{op, count, own.data(), recv.get()};
        const size_t first = static_cast<size_t>(rank()) * count;
        const std::vector<size_t> counts(static_cast<size_t>(size()), count);
        check_forms(
            {with.call_of(gpurun_allreduce), with.start_of(gpurun_iallreduce), with.start_of(gpurun_allreduce_init)},
            recv, expected(size(), 0, count));
        check_forms({with.call_of(gpurun_scan), with.start_of(gpurun_iscan), with.start_of(gpurun_scan_init)}, recv,
                    expected(rank() + 1, 0, count));
        check_forms({with.call_of(gpurun_reduce_scatter_block), with.start_of(gpurun_ireduce_scatter_block),
                     with.start_of(gpurun_reduce_scatter_block_init)},
                    recv, expected(size(), first, count));
        check_forms({[&] {
                         return gpurun_reduce_scatter(own.data(), recv.get(), counts.data(), kType, op, kWorld,
                                                      GPURUN_HOST);
                     },
                     [&](gpurun_request* ret) {
                         return gpurun_ireduce_scatter(own.data(), recv.get(), counts.data(), kType, op, kWorld,
                                                       GPURUN_HOST, ret);
                     },
                     [&](gpurun_request* ret) {
                         return gpurun_reduce_scatter_init(own.data(), recv.get(), counts.data(), kType, op, kWorld,
                                                           GPURUN_HOST, ret);
                     }},
                    recv, expected(size(), first, count));
        const int root = size() - 1;
        const Bytes untouched(count * sizeof(Map), 0x77);
        check_forms({with.call_of(gpurun_reduce, root), with.start_of(gpurun_ireduce, root),
                     with.start_of(gpurun_reduce_init, root)},
                    recv, rank() == root ? expected(size(), 0, count) : untouched);
        check_forms({with.call_of(gpurun_exscan), with.start_of(gpurun_iexscan), with.start_of(gpurun_exscan_init)},
                    recv, rank() == 0 ? untouched : expected(rank(), 0, count));
    }
}

TEST_CASE("a function of the program is refused on a stream, for device memory, and once it is freed") {
    const Stream stream;
    gpurun_op op = GPURUN_OP_NULL;
    REQUIRE_OK(gpurun_op_create(compose, 0, &op));
    Memory device(Kind::kDevice, 2 * sizeof(Map));
    uint64_t own = 1, all = 0;
    CHECK(gpurun_allreduce(&own, &all, 1, kType, op, kWorld, stream) == GPURUN_ERR_UNSUPPORTED);
    CHECK(std::strstr(gpurun_error_detail(), "GPURUN_HOST") != nullptr);
    CHECK(gpurun_reduce(&own, &all, 1, kType, op, 0, kWorld, stream) == GPURUN_ERR_UNSUPPORTED);
    CHECK(gpurun_allreduce(device.get(), device.at(sizeof(Map)), 1, kType, op, kWorld, GPURUN_HOST) ==
          GPURUN_ERR_UNSUPPORTED);
    CHECK(std::strstr(gpurun_error_detail(), "host memory") != nullptr);
    const gpurun_op freed = op;
    REQUIRE_OK(gpurun_op_free(&op));
    CHECK(op.id == GPURUN_OP_NULL.id);
    op = freed;
    CHECK(gpurun_allreduce(&own, &all, 1, kType, op, kWorld, GPURUN_HOST) == GPURUN_ERR_OP);
    CHECK(gpurun_op_free(&op) == GPURUN_ERR_OP);
    op = GPURUN_SUM;
    CHECK(gpurun_op_free(&op) == GPURUN_ERR_OP);
    CHECK(gpurun_op_create(nullptr, 1, &op) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_op_create(compose, 1, nullptr) == GPURUN_ERR_ARGUMENT);
}

TEST_SUITE_END();

} // namespace gpurun::test::own_operations
