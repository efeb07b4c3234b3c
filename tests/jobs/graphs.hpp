// What the tests of graphs share: a captured stream's graph, and exchanges with a peer that can be captured.
#pragma once

#include "support/job.hpp"

#include <functional>
#include <string>

namespace gpurun::test {

inline constexpr int kData = 1, kOther = 2, kEager = 3;
inline constexpr size_t kGraphSizes[] = {0, 1, 8, 100, 4096, 4097, 65536, 65537, 300'001, 3 << 20};

// A captured stream's graph, as often as it is launched.
class Graph {
  public:
    Graph(gpurun_stream stream, const std::function<void()>& capture) {
        REQUIRE_OK(gpurun_capture_begin(stream));
        capture();
        REQUIRE_OK(gpurun_capture_end(stream, &graph_));
        CHECK(graph_ != nullptr);
    }
    ~Graph() { CHECK(gpurun_graph_destroy(graph_) == GPURUN_OK); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    void launch(gpurun_stream stream) const { REQUIRE_OK(gpurun_graph_launch(graph_, stream)); }

  private:
    gpurun_graph graph_ = nullptr;
};

inline gpurun_status exchange_nothing(gpurun_stream stream, int peer) {
    return gpurun_sendrecv(nullptr, 0, GPURUN_BYTE, peer, kOther, nullptr, 0, GPURUN_BYTE, peer, kOther, kWorld, stream,
                           nullptr);
}

// Whether messages with the peer can be captured: not without mailboxes, nor where nothing may wait in a kernel. Both
// ranks come to the same answer.
inline bool can_capture(int peer) {
    if (peer == GPURUN_PROC_NULL || !has_graphs())
        return false;
    const Stream stream;
    gpurun_status status = GPURUN_OK;
    {
        const Graph graph(stream, [&] { status = exchange_nothing(stream, peer); });
    }
    if (status == GPURUN_OK)
        return true;
    CHECK(status == GPURUN_ERR_UNSUPPORTED);
    CHECK(std::string(gpurun_error_detail()).find("outside of the capture") != std::string::npos);
    return false;
}

// Whether collectives of all ranks can be captured. All come to the same answer, since each has a message with each.
inline bool can_capture_collectives(gpurun_stream stream) {
    if (!has_graphs())
        return false;
    const Memory numbers(Kind::kDevice, 2 * sizeof(float));
    gpurun_status status = GPURUN_OK;
    const Graph graph(stream, [&] {
        status =
            gpurun_allreduce(numbers.get(), numbers.at(sizeof(float)), 1, GPURUN_FLOAT, GPURUN_SUM, kWorld, stream);
    });
    if (status != GPURUN_OK)
        CHECK(status == GPURUN_ERR_UNSUPPORTED);
    return status == GPURUN_OK;
}

inline uint64_t seed_of(int from, int run, size_t bytes) {
    return static_cast<uint64_t>(from) * 1'000'003 + static_cast<uint64_t>(run) * 1009 + bytes;
}

// Two buffers for an exchange with a peer, and pinned memory by which a graph gets at their contents.
struct Exchange {
    Exchange(Kind from, Kind into, size_t bytes_, size_t skew = 0)
        : bytes(bytes_), outgoing(from, bytes_ + skew), incoming(into, bytes_ + skew), fresh(Kind::kPinned, bytes_ + 1),
          got(Kind::kPinned, bytes_ + 1), out(outgoing.at(skew)), in(incoming.at(skew)) {}

    void begin(gpurun_stream stream) const { REQUIRE_OK(gpurun_memcpy(out, fresh.get(), bytes, stream)); }
    void end(gpurun_stream stream) const {
        REQUIRE_OK(gpurun_memset(out, 0xee, bytes, stream)); // nothing of it is needed any more
        REQUIRE_OK(gpurun_memcpy(got.get(), in, bytes, stream));
    }
    gpurun_status sendrecv(int peer, int tag, gpurun_stream stream) const {
        return gpurun_sendrecv(out, bytes, GPURUN_BYTE, peer, tag, in, bytes, GPURUN_BYTE, peer, tag, kWorld, stream,
                               nullptr);
    }
    void prepare(int run) { fresh.write(pattern(bytes, seed_of(rank(), run, bytes))); }
    void check(int peer, int run) const {
        CHECK(first_difference(got.get(), pattern(bytes, seed_of(peer, run, bytes)).data(), bytes) == -1);
    }

    const size_t bytes;
    Memory outgoing, incoming, fresh, got;
    uint8_t* const out;
    uint8_t* const in;
};

inline void run_and_check(const Graph& graph, Exchange& exchange, gpurun_stream stream, int peer, int runs) {
    for (int run = 0; run < runs; run++) {
        exchange.prepare(run);
        graph.launch(stream);
        synchronize(stream);
        exchange.check(peer, run);
    }
}

} // namespace gpurun::test
