// Messages of graphs whose peer dies: both sides capture them, and what the victim does not run survivors' streams wait
// for, without any host.
#include "peer_lost.hpp"

namespace faults {

namespace {

template <typename Calls>
gpurun_status capture(const Job& job, gpurun_graph* graph, const Calls& calls) {
    MUST(gpurun_capture_begin(job.stream));
    const gpurun_status called = calls();
    MUST(gpurun_capture_end(job.stream, graph));
    return called;
}
// Told by the stream, each time, and what follows there goes on.
template <typename Calls>
gpurun_status run_graph(const Job& job, int runs, const Calls& calls) {
    gpurun_graph graph = nullptr;
    gpurun_status result = capture(job, &graph, calls);
    const bool matched = result == GPURUN_OK; // else a slow machine, on which the victim has died in time
    for (int again = 0; again < 2 && matched; again++) {
        int followed = 0;
        for (int run = 0; run < runs; run++)
            MUST(gpurun_graph_launch(graph, job.stream));
        MUST(gpurun_launch_host(
            job.stream, [](void* flag) { *static_cast<int*>(flag) = 1; }, &followed));
        result = gpurun_stream_synchronize(job.stream);
        if (followed != 1)
            give_up("the stream was synchronized before its work was done");
        if (result != GPURUN_ERR_PEER_LOST)
            break;
    }
    MUST(gpurun_graph_destroy(graph));
    return result;
}
// The call itself waits for its match.
template <typename Call>
gpurun_status unmatched(const Job& job, const Call& call) {
    gpurun_graph graph = nullptr;
    const gpurun_status called = capture(job, &graph, call);
    MUST(gpurun_graph_destroy(graph));
    MUST(gpurun_stream_synchronize(job.stream));
    return called;
}
// The victim's part, which it runs as often as is said.
template <typename Calls>
void victim_captures(const Job& job, int runs, const Calls& calls) {
    gpurun_graph graph = nullptr; // goes with it
    MUST(capture(job, &graph, calls));
    for (int run = 0; run < runs; run++)
        MUST(gpurun_graph_launch(graph, job.stream));
    MUST(gpurun_stream_synchronize(job.stream));
}
template <typename Call>
gpurun_status with_each_survivor(const Job& job, const Call& call) {
    for (int rank = 0; rank < job.victim(); rank++)
        MUST(call(rank));
    return GPURUN_OK;
}

} // namespace

gpurun_status receive_in_graph(const Job& job, size_t bytes) {
    return run_graph(job, 1, [&] { return receive(job, job.stream, job.victim(), bytes); });
}
gpurun_status started_receive_in_graph(const Job& job, size_t bytes) {
    return run_graph(job, 1, [&] {
        gpurun_request request = start_receive(job, job.stream, job.victim(), bytes);
        MUST(gpurun_memset(job.other, 0, kSmall, job.stream));
        return gpurun_wait(&request, job.stream, nullptr);
    });
}
gpurun_status send_in_graph(const Job& job, size_t bytes, int runs) {
    return run_graph(job, runs, [&] { return send(job, job.stream, bytes); });
}
gpurun_status barrier_in_graph(const Job& job) {
    return run_graph(job, 1, [&] { return gpurun_barrier(GPURUN_COMM_WORLD, job.stream); });
}
gpurun_status reduction_in_graph(const Job& job, size_t bytes) {
    return run_graph(job, 1, [&] { return reduce(job, job.stream, bytes); });
}
gpurun_status broadcast_in_graph(const Job& job) {
    return run_graph(job, 1, [&] { return broadcast(job, job.stream, job.victim()); });
}
gpurun_status unmatched_receive_in_graph(const Job& job) {
    return unmatched(job, [&] { return receive(job, job.stream, job.victim(), kSmall); });
}
gpurun_status unmatched_barrier_in_graph(const Job& job) {
    return unmatched(job, [&] { return gpurun_barrier(GPURUN_COMM_WORLD, job.stream); });
}
gpurun_status receive_from_dead_graph(const Job& job) {
    gpurun_graph graph = nullptr;
    MUST(capture(job, &graph, [&] { return receive(job, job.stream, job.victim(), kSmall); }));
    sleep_seconds(kDiesAfter + 0.3);
    for (const gpurun_status expected : {GPURUN_OK, GPURUN_OK, GPURUN_ERR_PEER_LOST}) { // the victim ran it twice
        MUST(gpurun_memset(job.device, 1, kSmall, job.stream));
        MUST(gpurun_graph_launch(graph, job.stream));
        unsigned char last = 0;
        if (gpurun_stream_synchronize(job.stream) != expected)
            give_up("what the victim sent before its death is lost, or what it did not send was received");
        MUST(gpurun_memcpy(&last, static_cast<std::byte*>(job.device) + kSmall - 1, 1, job.stream));
        MUST(gpurun_stream_synchronize(job.stream));
        if (expected == GPURUN_OK && last != 7)
            give_up("a message that came before the victim's death is wrong");
    }
    MUST(gpurun_graph_destroy(graph));
    return GPURUN_OK;
}
void victim_sends_in_graph(const Job& job, size_t bytes, int runs) {
    MUST(gpurun_memset(job.device, 7, kSmall, job.stream));
    victim_captures(job, runs, [&] {
        return with_each_survivor(job, [&](int rank) {
            return gpurun_send(job.device, bytes, GPURUN_BYTE, rank, kTag, GPURUN_COMM_WORLD, job.stream);
        });
    });
}
void victim_receives_in_graph(const Job& job, size_t bytes) {
    victim_captures(job, 0, [&] {
        return with_each_survivor(job, [&](int rank) { return receive(job, job.stream, rank, bytes); });
    });
}
void victim_captures_barrier(const Job& job) {
    victim_captures(job, 0, [&] { return gpurun_barrier(GPURUN_COMM_WORLD, job.stream); });
}
void victim_captures_reduction(const Job& job, size_t bytes) {
    victim_captures(job, 0, [&] { return reduce(job, job.stream, bytes); });
}
void victim_captures_broadcast(const Job& job) {
    victim_captures(job, 0, [&] { return broadcast(job, job.stream, job.victim()); });
}

} // namespace faults
