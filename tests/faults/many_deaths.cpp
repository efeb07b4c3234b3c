// Deaths while many messages are not received.
#include "peer_lost.hpp"

#include <vector>

namespace faults {

namespace {

constexpr int kMany = 160; // more than a pair has slots for
constexpr int kFirstTag = 100, kLastTag = kFirstTag + kMany - 1;

// Many messages that nobody has received: each is lost. Synchronous, so that none is complete before.
std::vector<gpurun_request> start_many(const Job& job, int dest, size_t bytes, gpurun_stream domain) {
    std::vector<gpurun_request> requests(kMany);
    for (int i = 0; i < kMany; i++)
        MUST(gpurun_issend(job.other, bytes, GPURUN_BYTE, dest, kFirstTag + i, GPURUN_COMM_WORLD, domain,
                           &requests[static_cast<size_t>(i)]));
    return requests;
}
gpurun_status wait_for_many(const Job& job, size_t bytes, gpurun_stream started, gpurun_stream completed) {
    std::vector<gpurun_request> requests = start_many(job, job.victim(), bytes, started);
    std::vector<gpurun_message_status> statuses(kMany);
    const gpurun_status result = gpurun_waitall(kMany, requests.data(), completed, statuses.data());
    for (const gpurun_message_status& status : statuses)
        if (status.error != result)
            give_up("a message that nobody has received is complete");
    return result;
}
// The last of them, when they are there.
gpurun_status receive_last_of_many(const Job& job, gpurun_stream domain) {
    MUST(gpurun_probe(job.victim(), kLastTag, GPURUN_COMM_WORLD, nullptr));
    return gpurun_recv(job.device, kLarge, GPURUN_BYTE, job.victim(), kLastTag, GPURUN_COMM_WORLD, domain, nullptr);
}
gpurun_status receive_last_of_many_late(const Job& job, gpurun_stream domain) {
    MUST(gpurun_probe(job.victim(), kLastTag, GPURUN_COMM_WORLD, nullptr));
    sleep_seconds(kDiesAfter + 0.3);
    return receive_last_of_many(job, domain);
}
// The victim dies in a call: their records do not all fit into a ring, and it may be that only calls send the rest.
void victim_starts_many(const Job& job, size_t bytes, gpurun_stream domain) {
    if (domain != GPURUN_HOST)
        hold_stream(job);
    std::vector<gpurun_request> requests;
    for (int rank = 0; rank < job.victim(); rank++) {
        const std::vector<gpurun_request> started = start_many(job, rank, bytes, domain);
        requests.insert(requests.end(), started.begin(), started.end());
    }
    MUST(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
}
// The victim asks for the last of the survivors' messages with a stream that never gets there.
void victim_receives_last_of_many_held(const Job& job) {
    hold_stream(job);
    for (int rank = 0; rank < job.victim(); rank++)
        MUST(gpurun_recv(job.device, kLarge, GPURUN_BYTE, rank, kLastTag, GPURUN_COMM_WORLD, job.stream, nullptr));
}

constexpr Scenario kManyScenarios[] = {
    {"waitall-of-many", [](const Job& job) { return wait_for_many(job, kLarge, GPURUN_HOST, GPURUN_HOST); }, nullptr},
    {"waitall-of-many-in-stream",
     [](const Job& job) { return in_stream(job, wait_for_many(job, kLarge, job.stream, job.stream)); }, nullptr},
    {"waitall-of-many-and-empty", [](const Job& job) { return wait_for_many(job, 0, job.stream, GPURUN_HOST); },
     nullptr},
    {"receive-behind-many", [](const Job& job) { return receive_last_of_many_late(job, GPURUN_HOST); },
     [](const Job& job) { victim_starts_many(job, kLarge, GPURUN_HOST); }},
    {"fence-of-receive-behind-many",
     [](const Job& job) { return in_stream(job, receive_last_of_many(job, job.stream)); },
     [](const Job& job) { victim_starts_many(job, kLarge, job.stream); }},
    {"fence-of-host-receive-behind-many", [](const Job& job) { return receive_last_of_many(job, GPURUN_HOST); },
     [](const Job& job) { victim_starts_many(job, kLarge, job.stream); }},
    {"fence-of-empty-receive-behind-many",
     [](const Job& job) { return in_stream(job, receive_last_of_many(job, job.stream)); },
     [](const Job& job) { victim_starts_many(job, 0, job.stream); }},
    {"fence-of-send-behind-many",
     [](const Job& job) { return in_stream(job, wait_for_many(job, kLarge, job.stream, job.stream)); },
     victim_receives_last_of_many_held},
};

} // namespace

std::span<const Scenario> many_scenarios() { return kManyScenarios; }

} // namespace faults
