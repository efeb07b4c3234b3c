// What the scenarios of peer_lost share: its job, and the calls that they are made of.
#pragma once

#include <gpurun/gpurun.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <thread>

namespace faults {

inline constexpr double kDiesAfter = 0.4; // seconds, enough for everybody to be waiting
inline constexpr size_t kLarge = 4u << 20;
inline constexpr size_t kSmall = 1000;
inline constexpr int kTag = 1, kDeathTag = 2, kLifeTag = 3, kNoTag = 4; // the last of no message

struct Job {
    int rank = 0, size = 0;
    gpurun_stream stream = nullptr;
    void* device = nullptr; // kLarge bytes
    void* other = nullptr;  // and as many again
    int victim() const { return size - 1; }
};

struct Scenario {
    const char* name;
    gpurun_status (*survivor)(const Job& job);
    void (*victim)(const Job& job); // before it waits for its death; may be null
    gpurun_status expected = GPURUN_ERR_PEER_LOST;
};

[[noreturn]] inline void give_up(const char* what) {
    std::fprintf(stderr, "%s (the last message: %s)\n", what, gpurun_error_detail());
    gpurun_abort(1);
}

inline void must(gpurun_status status, const char* what) {
    if (status != GPURUN_OK) {
        std::fprintf(stderr, "%s: %s\n", what, gpurun_status_string(status));
        give_up(what);
    }
}
#define MUST(call) must((call), #call)

inline void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

inline gpurun_status receive(const Job& job, gpurun_stream domain, int source, size_t bytes) {
    return gpurun_recv(job.device, bytes, GPURUN_BYTE, source, kTag, GPURUN_COMM_WORLD, domain, nullptr);
}
inline gpurun_status send(const Job& job, gpurun_stream domain, size_t bytes) {
    return gpurun_send(job.device, bytes, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, domain);
}
inline gpurun_status broadcast(const Job& job, gpurun_stream domain, int root) {
    return gpurun_bcast(job.device, kLarge, GPURUN_BYTE, root, GPURUN_COMM_WORLD, domain);
}
inline gpurun_request start_receive(const Job& job, gpurun_stream domain, int source, size_t bytes) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_irecv(job.device, bytes, GPURUN_BYTE, source, kTag, GPURUN_COMM_WORLD, domain, &request));
    return request;
}

// The call may end because the peer died, or the stream, or only the stream if the call was done before.
inline gpurun_status in_stream(const Job& job, gpurun_status called) {
    const gpurun_status synchronized = gpurun_stream_synchronize(job.stream);
    return called != GPURUN_OK ? called : synchronized;
}

// A stream that never gets further.
inline void hold_stream(const Job& job) {
    MUST(gpurun_launch_host(
        job.stream, [](void*) { sleep_seconds(1000); }, nullptr));
}

// collective_deaths.cpp: collectives that reduce and gather.
gpurun_status reduce(const Job& job, gpurun_stream domain, size_t bytes);
gpurun_status gather_to_survivor(const Job& job);
void start_reduction(const Job& job);
gpurun_status exchange_with_neighbours(const Job& job, bool in_stream);
void victim_makes_ring(const Job& job);

// series_deaths.cpp: requests that are started and completed again and again.
gpurun_status cross_series_until_lost(const Job& job, size_t bytes);
void victim_crosses_series(const Job& job, size_t bytes);

// communicator_deaths.cpp: communicators that are made, and used.
gpurun_status split_with_victim(const Job& job);
gpurun_status make_until_lost(const Job& job);
void victim_makes_for_ever(const Job& job);
gpurun_status create_group(const Job& job, int members);
gpurun_status create_group_of_survivors(const Job& job);
gpurun_status barrier_of_duplicate(const Job& job);
gpurun_status receive_from_any_of_pair(const Job& job);
void victim_duplicates(const Job& job);
void victim_splits(const Job& job);

// graph_deaths.cpp: messages of graphs. What a survivor's stream gets, and the victim's part before it dies.
gpurun_status receive_in_graph(const Job& job, size_t bytes);
gpurun_status started_receive_in_graph(const Job& job, size_t bytes);
gpurun_status send_in_graph(const Job& job, size_t bytes, int runs);
gpurun_status barrier_in_graph(const Job& job);
gpurun_status reduction_in_graph(const Job& job, size_t bytes);
gpurun_status broadcast_in_graph(const Job& job);
gpurun_status receive_from_dead_graph(const Job& job);
gpurun_status unmatched_receive_in_graph(const Job& job);
gpurun_status unmatched_barrier_in_graph(const Job& job);
void victim_sends_in_graph(const Job& job, size_t bytes, int runs);
void victim_receives_in_graph(const Job& job, size_t bytes);
void victim_captures_barrier(const Job& job);
void victim_captures_reduction(const Job& job, size_t bytes);
void victim_captures_broadcast(const Job& job);

// many_deaths.cpp: many messages that are not received.
std::span<const Scenario> many_scenarios();

// loan_deaths.cpp: what survivors lend to the victim, or borrow of it.
std::span<const Scenario> loan_scenarios();

} // namespace faults
