// peer_lost SCENARIO: the last rank kills itself while the others wait for it. Each of them must get what the scenario
// expects (but for one, GPURUN_ERR_PEER_LOST) within kBoundMs, says how long that took, and must then be able to go on
// without the dead.
//
// The victim announces when it will die, so that survivors can tell an answer from a guess. It must be gone by then:
// what it had enqueued on a device may move bytes until the system has taken its process down.
#include "peer_lost.hpp"
#include "process_watch.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace faults;

namespace {

constexpr double kBoundMs = 10000;     // of the test; the runtime is much faster
constexpr int kRunsAhead = 5;          // more than a source can be ahead
constexpr size_t kMedium = 768u << 10; // pulled by one kernel, where larger ones are by the copy engine

// ---- what survivors wait in, each until the victim dies

// A wildcard receive goes on waiting while anybody lives who could send.
gpurun_status receive_from_survivor(const Job& job) {
    if (job.rank == 0)
        return receive(job, GPURUN_HOST, GPURUN_ANY_SOURCE, kSmall);
    sleep_seconds(kDiesAfter + 0.3);
    return gpurun_send(job.device, kSmall, GPURUN_BYTE, 0, kTag, GPURUN_COMM_WORLD, GPURUN_HOST);
}

// Requests of messages that the victim would have to send or receive. Each status names its own error.
gpurun_request start_send(const Job& job, gpurun_stream domain, size_t bytes) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_isend(job.other, bytes, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, domain, &request));
    return request;
}
gpurun_status wait(gpurun_request request, gpurun_stream domain) {
    gpurun_message_status status{};
    const gpurun_status result = gpurun_wait(&request, domain, &status);
    if (status.error != result || request.id != 0)
        give_up("the status does not say what the call says");
    return result;
}
gpurun_status wait_for_all(const Job& job, gpurun_stream domain) {
    gpurun_request requests[] = {start_receive(job, domain, job.victim(), kLarge), GPURUN_REQUEST_NULL,
                                 start_send(job, domain, kLarge)};
    gpurun_message_status statuses[3]{};
    const gpurun_status result = gpurun_waitall(3, requests, domain, statuses);
    if (statuses[0].error != result || statuses[1].error != GPURUN_OK || statuses[2].error != result)
        give_up("the statuses do not say which messages are lost");
    return result;
}
// A message each way with the victim, and one to itself, which the death leaves alone.
gpurun_status group_with_victim(const Job& job, gpurun_stream domain, size_t bytes) {
    gpurun_message_status lost{}, own{};
    char sent = 'x', received = 0;
    MUST(gpurun_group_begin());
    MUST(gpurun_send(job.other, bytes, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, domain));
    MUST(gpurun_recv(job.device, bytes, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, domain, &lost));
    MUST(gpurun_sendrecv(&sent, 1, GPURUN_BYTE, job.rank, kTag, &received, 1, GPURUN_BYTE, job.rank, kTag,
                         GPURUN_COMM_WORLD, GPURUN_HOST, &own));
    const gpurun_status result = gpurun_group_end();
    if ((bytes == kLarge && lost.error != result) || own.error != GPURUN_OK || received != 'x')
        give_up("the statuses do not say which messages of the group are lost");
    return result;
}
gpurun_status wait_for_any(const Job& job) {
    gpurun_request requests[] = {GPURUN_REQUEST_NULL, start_receive(job, GPURUN_HOST, job.victim(), kLarge)};
    int index = -1;
    const gpurun_status result = gpurun_waitany(2, requests, GPURUN_HOST, &index, nullptr);
    if (index != 1 || requests[1].id != 0)
        give_up("the request of the lost message is not complete");
    return result;
}
gpurun_status test_until_done(const Job& job) {
    gpurun_request request = start_receive(job, GPURUN_HOST, job.victim(), kLarge);
    gpurun_status result = GPURUN_OK;
    for (int done = 0; done == 0 && result == GPURUN_OK;)
        result = gpurun_test(&request, GPURUN_HOST, &done, nullptr);
    return result;
}
gpurun_status probe(int source) { return gpurun_probe(source, kTag, GPURUN_COMM_WORLD, nullptr); }
gpurun_status probe_for_message(int source) {
    gpurun_message message = GPURUN_MESSAGE_NULL;
    return gpurun_mprobe(source, kTag, GPURUN_COMM_WORLD, &message, nullptr);
}
// The victim dies while this rank is in no call.
gpurun_status wait_late(const Job& job) {
    const gpurun_request receive = start_receive(job, GPURUN_HOST, job.victim(), kLarge);
    sleep_seconds(kDiesAfter + 0.3);
    return wait(receive, GPURUN_HOST);
}
// As receive_from_survivor().
gpurun_status start_receive_from_survivor(const Job& job) {
    if (job.rank != 0)
        return receive_from_survivor(job);
    return wait(start_receive(job, GPURUN_HOST, GPURUN_ANY_SOURCE, kSmall), GPURUN_HOST);
}
gpurun_status start_again(const Job& job) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_recv_init(job.device, kSmall, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, GPURUN_HOST,
                          &request));
    gpurun_status result = GPURUN_OK;
    for (int round = 0; round < 2; round++) { // the second time the victim is known to be dead
        MUST(gpurun_start(&request));
        result = gpurun_wait(&request, GPURUN_HOST, nullptr);
        if (result != GPURUN_ERR_PEER_LOST)
            give_up("a persistent receive from the dead is complete");
    }
    MUST(gpurun_request_free(&request));
    return result;
}
// The message was taken, and its sender is dead when its bytes are asked for.
gpurun_status receive_taken(const Job& job) {
    gpurun_message message = GPURUN_MESSAGE_NULL;
    MUST(gpurun_mprobe(job.victim(), kTag, GPURUN_COMM_WORLD, &message, nullptr));
    sleep_seconds(kDiesAfter + 0.3);
    return gpurun_mrecv(job.device, kLarge, GPURUN_BYTE, &message, GPURUN_HOST, nullptr);
}
// So much that the death comes while it is copied out of the victim's memory.
constexpr size_t kHuge = 64u << 20;
constexpr int kHugeMessages = 100, kHugeTag = 100;
std::byte huge_buffer[kHuge]; // touched by messages alone: on a busy machine that may take longer than the victim has
void start_for_each_survivor(const Job& job, size_t bytes, int tag) {
    for (int rank = 0; rank < job.victim(); rank++) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        MUST(gpurun_isend(huge_buffer, bytes, GPURUN_BYTE, rank, tag, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    }
}
void victim_starts_huge(const Job& job) {
    for (int message = 0; message < kHugeMessages; message++)
        start_for_each_survivor(job, kHuge, kHugeTag);
}
gpurun_status receive_huge(const Job& job) {
    MUST(gpurun_probe(job.victim(), kHugeTag, GPURUN_COMM_WORLD, nullptr));
    sleep_seconds(kDiesAfter / 2);
    gpurun_status result = GPURUN_OK;
    for (int message = 0; message < kHugeMessages && result == GPURUN_OK; message++)
        result = gpurun_recv(huge_buffer, kHuge, GPURUN_BYTE, job.victim(), kHugeTag, GPURUN_COMM_WORLD, GPURUN_HOST,
                             nullptr);
    return result;
}
// A short one comes while the victim lives. Of the others the first tells this rank of the death, the second comes when
// it knows.
constexpr size_t kCopied = 64u << 10; // out of the victim's memory, too
void victim_starts_one_and_huge(const Job& job) {
    start_for_each_survivor(job, kCopied, kTag);
    victim_starts_huge(job);
}
gpurun_status receive_late(const Job& job) {
    const auto receive_one = [&] {
        return gpurun_recv(huge_buffer, kHuge, GPURUN_BYTE, job.victim(), kHugeTag, GPURUN_COMM_WORLD, GPURUN_HOST,
                           nullptr);
    };
    MUST(gpurun_recv(huge_buffer, kCopied, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, GPURUN_HOST, nullptr));
    sleep_seconds(kDiesAfter + 0.3);
    const gpurun_status first = receive_one(), second = receive_one();
    if (first != second)
        give_up("only one of two messages is lost");
    return second;
}
// With a core for each rank both copy a message when the victim dies, and others of the window wait for that.
gpurun_status cross_window(int peer, bool receives) {
    constexpr size_t kMessages = 32, kBytes = kHuge / kMessages;
    gpurun_request requests[kMessages];
    for (size_t i = 0; i < kMessages; i++) {
        std::byte* const bytes = huge_buffer + i * kBytes;
        MUST(receives
                 ? gpurun_irecv(bytes, kBytes, GPURUN_BYTE, peer, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, &requests[i])
                 : gpurun_isend(bytes, kBytes, GPURUN_BYTE, peer, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, &requests[i]));
    }
    return gpurun_waitall(kMessages, requests, GPURUN_HOST, nullptr);
}
gpurun_status cross_windows(const Job& job, bool receives) {
    gpurun_status result = GPURUN_OK;
    while (result == GPURUN_OK)
        result = cross_window(job.victim(), receives);
    return result;
}
void victim_crosses_windows(const Job& job, bool receives) {
    for (int rank = 0;; rank = (rank + 1) % job.victim())
        MUST(cross_window(rank, receives));
}
// Some message is under way when the victim dies, and every part of it that is enqueued is somewhere.
gpurun_status receive_until_lost(const Job& job) {
    gpurun_status result = GPURUN_OK;
    while (result == GPURUN_OK)
        result = in_stream(job, receive(job, job.stream, job.victim(), kLarge));
    return result;
}
gpurun_status send_until_lost(const Job& job) {
    gpurun_status result = GPURUN_OK;
    while (result == GPURUN_OK)
        result = in_stream(job, send(job, job.stream, kLarge));
    return result;
}
void victim_sends_for_ever(const Job& job) {
    for (int rank = 0;; rank = (rank + 1) % job.victim())
        MUST(gpurun_send(job.device, kLarge, GPURUN_BYTE, rank, kTag, GPURUN_COMM_WORLD, job.stream));
}
void victim_receives_for_ever(const Job& job) {
    for (int rank = 0;; rank = (rank + 1) % job.victim())
        MUST(receive(job, job.stream, rank, kLarge));
}
// The victim takes part in the message with a stream that never gets there: survivors' streams wait for its fence.
void victim_sends_held(const Job& job, size_t bytes) {
    hold_stream(job);
    for (int rank = 0; rank < job.victim(); rank++)
        MUST(gpurun_send(job.device, bytes, GPURUN_BYTE, rank, kTag, GPURUN_COMM_WORLD, job.stream));
}
void victim_reduces_held(const Job& job) {
    hold_stream(job);
    start_reduction(job);
}
// Small messages that arrive: what the dead has sent is received.
void victim_sends(const Job& job) {
    for (int rank = 0; rank < job.victim(); rank++)
        MUST(gpurun_send(job.device, kSmall, GPURUN_BYTE, rank, kTag, GPURUN_COMM_WORLD, job.stream));
    MUST(gpurun_stream_synchronize(job.stream));
}
gpurun_status receive_of_the_dead(const Job& job) {
    sleep_seconds(kDiesAfter + 0.3);
    return in_stream(job, receive(job, job.stream, job.victim(), kSmall));
}
// One stream waits for a message that never comes, and another for the next.
gpurun_status receive_in_two_streams(const Job& job) {
    gpurun_stream second = nullptr;
    MUST(gpurun_stream_create(&second));
    const gpurun_status called = receive(job, job.stream, job.victim(), kSmall);
    const gpurun_status next =
        gpurun_recv(job.other, kSmall, GPURUN_BYTE, job.victim(), kTag, GPURUN_COMM_WORLD, second, nullptr);
    const gpurun_status result = in_stream(job, called);
    const gpurun_status synchronized = gpurun_stream_synchronize(second);
    if ((next != GPURUN_OK ? next : synchronized) != result)
        give_up("only one of two streams is told");
    MUST(gpurun_stream_destroy(second));
    return result;
}
void victim_starts_held(const Job& job) {
    hold_stream(job);
    for (int rank = 0; rank < job.victim(); rank++) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        MUST(gpurun_isend(job.device, kLarge, GPURUN_BYTE, rank, kTag, GPURUN_COMM_WORLD, job.stream, &request));
    }
}
void victim_receives_held(const Job& job, size_t bytes) {
    hold_stream(job);
    for (int rank = 0; rank < job.victim(); rank++)
        MUST(gpurun_recv(job.device, bytes, GPURUN_BYTE, rank, kTag, GPURUN_COMM_WORLD, job.stream, nullptr));
}

constexpr Scenario kScenarios[] = {
    {"receive", [](const Job& job) { return receive(job, GPURUN_HOST, job.victim(), kLarge); }, nullptr},
    {"receive-in-stream", [](const Job& job) { return in_stream(job, receive(job, job.stream, job.victim(), kLarge)); },
     nullptr},
    {"receive-from-any", [](const Job& job) { return receive(job, GPURUN_HOST, GPURUN_ANY_SOURCE, kLarge); }, nullptr},
    {"receive-from-survivor", receive_from_survivor, nullptr, GPURUN_OK},
    {"send", [](const Job& job) { return send(job, GPURUN_HOST, kLarge); }, nullptr},
    {"send-in-stream", [](const Job& job) { return in_stream(job, send(job, job.stream, kLarge)); }, nullptr},
    {"fence-of-large-receive",
     [](const Job& job) { return in_stream(job, receive(job, job.stream, job.victim(), kLarge)); },
     [](const Job& job) { victim_sends_held(job, kLarge); }},
    {"fence-of-small-receive",
     [](const Job& job) { return in_stream(job, receive(job, job.stream, job.victim(), kSmall)); },
     [](const Job& job) { victim_sends_held(job, kSmall); }},
    {"fence-of-small-receive-for-host", [](const Job& job) { return receive(job, GPURUN_HOST, job.victim(), kSmall); },
     [](const Job& job) { victim_sends_held(job, kSmall); }},
    {"fence-of-small-started-receive",
     [](const Job& job) {
         return in_stream(job, wait(start_receive(job, job.stream, job.victim(), kSmall), job.stream));
     },
     [](const Job& job) { victim_sends_held(job, kSmall); }},
    {"fence-of-two-small-receives", receive_in_two_streams,
     [](const Job& job) {
         victim_sends_held(job, kSmall);
         victim_sends_held(job, kSmall);
     }},
    {"small-receive-of-the-dead", receive_of_the_dead, victim_sends, GPURUN_OK},
    {"fence-of-large-send", [](const Job& job) { return in_stream(job, send(job, job.stream, kLarge)); },
     [](const Job& job) { victim_receives_held(job, kLarge); }},
    {"large-receives-in-motion", receive_until_lost, victim_sends_for_ever},
    {"large-sends-in-motion", send_until_lost, victim_receives_for_ever},
    {"fence-of-host-receive", [](const Job& job) { return receive(job, GPURUN_HOST, job.victim(), kLarge); },
     [](const Job& job) { victim_sends_held(job, kLarge); }},
    {"fence-of-host-send", [](const Job& job) { return send(job, GPURUN_HOST, kLarge); },
     [](const Job& job) { victim_receives_held(job, kLarge); }},
    {"waitall", [](const Job& job) { return wait_for_all(job, GPURUN_HOST); }, nullptr},
    {"waitall-in-stream", [](const Job& job) { return in_stream(job, wait_for_all(job, job.stream)); }, nullptr},
    {"waitany", wait_for_any, nullptr},
    {"group", [](const Job& job) { return group_with_victim(job, GPURUN_HOST, kLarge); }, nullptr},
    {"group-in-stream", [](const Job& job) { return in_stream(job, group_with_victim(job, job.stream, kSmall)); },
     nullptr},
    {"fence-of-group", [](const Job& job) { return in_stream(job, group_with_victim(job, job.stream, kSmall)); },
     [](const Job& job) { victim_sends_held(job, kSmall); }},
    {"test", test_until_done, nullptr},
    {"late-wait", wait_late, nullptr},
    {"probe", [](const Job& job) { return probe(job.victim()); }, nullptr},
    {"matched-probe", [](const Job& job) { return probe_for_message(job.victim()); }, nullptr},
    {"probe-of-any", [](const Job&) { return probe(GPURUN_ANY_SOURCE); }, nullptr},
    {"receive-of-taken", receive_taken, victim_starts_held},
    {"copy-of-victims-memory", receive_huge, victim_starts_huge},
    {"late-copies-of-victims-memory", receive_late, victim_starts_one_and_huge},
    {"windows-of-victims-memory", [](const Job& job) { return cross_windows(job, true); },
     [](const Job& job) { victim_crosses_windows(job, false); }},
    {"windows-of-survivors-memory", [](const Job& job) { return cross_windows(job, false); },
     [](const Job& job) { victim_crosses_windows(job, true); }},
    {"small-series-in-motion", [](const Job& job) { return cross_series_until_lost(job, kSmall); },
     [](const Job& job) { victim_crosses_series(job, kSmall); }},
    {"large-series-in-motion", [](const Job& job) { return cross_series_until_lost(job, kLarge / 2); },
     [](const Job& job) { victim_crosses_series(job, kLarge / 2); }},
    {"started-receive-from-any",
     [](const Job& job) { return wait(start_receive(job, GPURUN_HOST, GPURUN_ANY_SOURCE, kLarge), GPURUN_HOST); },
     nullptr},
    {"started-receive-from-survivor", start_receive_from_survivor, nullptr, GPURUN_OK},
    {"persistent-receive", start_again, nullptr},
    {"fence-of-started-receive",
     [](const Job& job) {
         return in_stream(job, wait(start_receive(job, job.stream, job.victim(), kLarge), job.stream));
     },
     [](const Job& job) { victim_sends_held(job, kLarge); }},
    {"fence-of-started-send",
     [](const Job& job) { return in_stream(job, wait(start_send(job, job.stream, kLarge), job.stream)); },
     [](const Job& job) { victim_receives_held(job, kLarge); }},
    {"fence-of-started-receive-for-host",
     [](const Job& job) { return wait(start_receive(job, job.stream, job.victim(), kLarge), GPURUN_HOST); },
     [](const Job& job) { victim_sends_held(job, kLarge); }},
    {"barrier", [](const Job&) { return gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST); }, nullptr},
    {"barrier-in-stream", [](const Job& job) { return in_stream(job, gpurun_barrier(GPURUN_COMM_WORLD, job.stream)); },
     nullptr},
    {"reduction", [](const Job& job) { return reduce(job, GPURUN_HOST, kSmall); }, nullptr},
    {"reduction-in-stream", [](const Job& job) { return in_stream(job, reduce(job, job.stream, kSmall)); }, nullptr},
    {"large-reduction", [](const Job& job) { return reduce(job, GPURUN_HOST, kLarge); }, victim_reduces_held},
    {"large-reduction-in-stream", [](const Job& job) { return in_stream(job, reduce(job, job.stream, kLarge)); },
     victim_reduces_held},
    {"gather-to-survivor", gather_to_survivor, nullptr},
    {"neighbours", [](const Job& job) { return exchange_with_neighbours(job, false); }, victim_makes_ring},
    {"neighbours-in-stream", [](const Job& job) { return in_stream(job, exchange_with_neighbours(job, true)); },
     victim_makes_ring},
    {"comm-split", split_with_victim, nullptr},
    {"communicators-in-motion", make_until_lost, victim_makes_for_ever},
    {"comm-create-group", [](const Job& job) { return create_group(job, job.size); }, nullptr},
    {"comm-create-group-of-survivors", create_group_of_survivors, nullptr, GPURUN_OK},
    {"barrier-of-communicator", barrier_of_duplicate, victim_duplicates},
    {"receive-from-any-of-communicator", receive_from_any_of_pair, victim_splits},
    {"broadcast-of-victim", [](const Job& job) { return broadcast(job, GPURUN_HOST, job.victim()); }, nullptr},
    {"broadcast-of-victim-in-stream",
     [](const Job& job) { return in_stream(job, broadcast(job, job.stream, job.victim())); }, nullptr},
    {"graph-with-small-receive", [](const Job& job) { return receive_in_graph(job, kSmall); },
     [](const Job& job) { victim_sends_in_graph(job, kSmall, 0); }},
    {"graph-with-medium-receive", [](const Job& job) { return receive_in_graph(job, kMedium); },
     [](const Job& job) { victim_sends_in_graph(job, kMedium, 0); }},
    {"graph-with-large-receive", [](const Job& job) { return receive_in_graph(job, kLarge); },
     [](const Job& job) { victim_sends_in_graph(job, kLarge, 0); }},
    {"graph-with-started-receive", [](const Job& job) { return started_receive_in_graph(job, kMedium); },
     [](const Job& job) { victim_sends_in_graph(job, kMedium, 0); }},
    {"graph-with-large-send", [](const Job& job) { return send_in_graph(job, kLarge, 1); },
     [](const Job& job) { victim_receives_in_graph(job, kLarge); }},
    {"graph-with-small-sends-ahead", [](const Job& job) { return send_in_graph(job, kSmall, kRunsAhead); },
     [](const Job& job) { victim_receives_in_graph(job, kSmall); }},
    {"graph-with-barrier", barrier_in_graph, victim_captures_barrier},
    {"graph-with-small-reduction", [](const Job& job) { return reduction_in_graph(job, kSmall); },
     [](const Job& job) { victim_captures_reduction(job, kSmall); }},
    {"graph-with-large-reduction", [](const Job& job) { return reduction_in_graph(job, kLarge); },
     [](const Job& job) { victim_captures_reduction(job, kLarge); }},
    {"graph-with-broadcast-of-victim", broadcast_in_graph, victim_captures_broadcast},
    {"graph-that-the-victim-ran", receive_from_dead_graph,
     [](const Job& job) { victim_sends_in_graph(job, kSmall, 2); }, GPURUN_OK},
    {"capture-of-receive", unmatched_receive_in_graph, nullptr},
    {"capture-of-barrier", unmatched_barrier_in_graph, nullptr},
};

const Scenario& find_scenario(const char* name) {
    for (const Scenario& scenario : kScenarios)
        if (std::strcmp(scenario.name, name) == 0)
            return scenario;
    for (const auto others : {loan_scenarios(), many_scenarios()})
        for (const Scenario& scenario : others)
            if (std::strcmp(scenario.name, name) == 0)
                return scenario;
    give_up("no such scenario");
}

// ---- the course of a job

// Everybody has talked to everybody, so that all connections and mappings are there when the victim dies.
void meet(const Job& job) {
    for (const size_t bytes : {kLarge, kSmall})
        for (int distance = 0; distance < job.size; distance++) {
            const int dest = (job.rank + distance) % job.size;
            const int source = (job.rank + job.size - distance) % job.size;
            MUST(gpurun_sendrecv(job.device, bytes, GPURUN_BYTE, dest, kTag, job.other, bytes, GPURUN_BYTE, source,
                                 kTag, GPURUN_COMM_WORLD, job.stream, nullptr));
        }
    MUST(gpurun_stream_synchronize(job.stream));
}

// What the victim announces.
struct Death {
    double at; // gpurun_wtime()
    int pid;
};

[[noreturn]] void die(const Job& job, const Scenario& scenario) {
    const Death death{gpurun_wtime() + kDiesAfter, getpid()};
    for (int rank = 0; rank < job.victim(); rank++)
        MUST(gpurun_send(&death, sizeof death, GPURUN_BYTE, rank, kDeathTag, GPURUN_COMM_WORLD, GPURUN_HOST));
    std::thread killer([death] {
        sleep_seconds(death.at - gpurun_wtime());
        kill(getpid(), SIGKILL);
    });
    if (scenario.victim != nullptr)
        scenario.victim(job);
    killer.join();
    give_up("the victim lives");
}

void survive(const Job& job, const Scenario& scenario) {
    Death death{};
    MUST(gpurun_recv(&death, sizeof death, GPURUN_BYTE, job.victim(), kDeathTag, GPURUN_COMM_WORLD, GPURUN_HOST,
                     nullptr));
    ProcessWatch victim(death.pid);
    if (!victim.valid())
        give_up("pidfd_open");
    const gpurun_status status = scenario.survivor(job);
    const double told = gpurun_wtime(), late_ms = (told - death.at) * 1e3;
    const bool gone = victim.is_gone();
    if (status != scenario.expected) {
        std::fprintf(stderr, "rank %d: %s instead of %s, %.1f ms after the death\n", job.rank,
                     gpurun_status_string(status), gpurun_status_string(scenario.expected), late_ms);
        give_up(scenario.name);
    }
    if (late_ms < 0 || late_ms > kBoundMs)
        give_up("the answer came too early or too late");
    if (status != GPURUN_ERR_PEER_LOST) {
        std::printf("rank %d: went on %.1f ms after the death\n", job.rank, late_ms);
        return;
    }
    if (!gone)
        give_up("the answer came before the process of the dead was gone");
    std::printf("rank %d: told %.1f ms after the death, %.1f ms after its process was gone: %s\n", job.rank, late_ms,
                (told - victim.gone_at()) * 1e3, gpurun_error_detail());
}

// The buffer of a call that has failed is its caller's again: nothing that was under way may still write to it.
void reuse_buffer(const Job& job) {
    std::vector<unsigned char> later(kLarge);
    MUST(gpurun_memset(job.device, 0x42, kLarge, GPURUN_HOST));
    sleep_seconds(0.05);
    MUST(gpurun_memcpy(later.data(), job.device, kLarge, GPURUN_HOST));
    const auto written = std::find_if(later.begin(), later.end(), [](unsigned char byte) { return byte != 0x42; });
    if (written == later.end())
        return;
    std::fprintf(stderr, "rank %d: byte %td of the buffer was written after the call had failed\n", job.rank,
                 written - later.begin());
    give_up("a late write");
}

// Some scenarios end without it, and a process that is killed on a busy GPU takes its time to be gone.
void await_news_of_death(const Job& job) {
    if (gpurun_probe(job.victim(), kNoTag, GPURUN_COMM_WORLD, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("a probe of the dead ends otherwise than by its death");
}

// What is left works: refused at once with the dead, as ever among the living and within the device.
void live_on(const Job& job) {
    await_news_of_death(job);
    const double start = gpurun_wtime();
    for (const gpurun_stream domain : {GPURUN_HOST, job.stream}) {
        if (send(job, domain, 8) != GPURUN_ERR_PEER_LOST || send(job, domain, kLarge) != GPURUN_ERR_PEER_LOST)
            give_up("a send to the dead is not refused");
        if (receive(job, domain, job.victim(), kLarge) != GPURUN_ERR_PEER_LOST)
            give_up("a receive from the dead is not refused");
        if (wait(start_send(job, domain, 8), domain) != GPURUN_ERR_PEER_LOST ||
            wait(start_send(job, domain, kLarge), domain) != GPURUN_ERR_PEER_LOST ||
            wait(start_receive(job, domain, job.victim(), kLarge), domain) != GPURUN_ERR_PEER_LOST)
            give_up("a message to or from the dead that was started is complete");
    }
    int found = 0;
    if (gpurun_iprobe(job.victim(), kTag, GPURUN_COMM_WORLD, &found, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("a probe of the dead is not refused");
    if ((gpurun_wtime() - start) * 1e3 > kBoundMs)
        give_up("refusing took too long");

    const int survivors = job.size - 1;
    const int next = (job.rank + 1) % survivors;
    const int previous = (job.rank + survivors - 1) % survivors;
    for (const size_t bytes : {kSmall, kLarge}) {
        unsigned char first = 0;
        MUST(gpurun_memset(job.device, 10 + job.rank, bytes, job.stream));
        MUST(gpurun_sendrecv(job.device, bytes, GPURUN_BYTE, next, kLifeTag, job.other, bytes, GPURUN_BYTE, previous,
                             kLifeTag, GPURUN_COMM_WORLD, job.stream, nullptr));
        MUST(gpurun_memcpy(&first, job.other, 1, job.stream));
        MUST(gpurun_stream_synchronize(job.stream));
        if (first != 10 + previous)
            give_up("a message among survivors is wrong");
    }
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 2)
        return 2;
    const Scenario& scenario = find_scenario(argv[1]);
    Job job;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &job.rank));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, &job.size));
    MUST(gpurun_stream_create(&job.stream));
    MUST(gpurun_malloc(&job.device, kLarge));
    MUST(gpurun_malloc(&job.other, kLarge));
    meet(job);
    if (job.rank == job.victim())
        die(job, scenario);
    survive(job, scenario);
    reuse_buffer(job);
    live_on(job);

    MUST(gpurun_stream_destroy(job.stream));
    MUST(gpurun_free(job.other));
    MUST(gpurun_free(job.device));
    const gpurun_status left = gpurun_finalize();
    if (left != GPURUN_OK && left != GPURUN_ERR_PEER_LOST)
        give_up("gpurun_finalize");
    std::printf("rank %d: survived\n", job.rank);
    return 0;
}
