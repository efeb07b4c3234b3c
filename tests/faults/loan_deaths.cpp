// Loans whose borrower or lender dies.
#include "peer_lost.hpp"

#include <algorithm>
#include <vector>

namespace faults {

namespace {

constexpr unsigned char kContent = 0x37;

gpurun_request lend_to_victim(const Job& job, gpurun_stream domain) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_lend(job.device, kLarge, GPURUN_LOAN_EXCLUSIVE, job.victim(), kTag, GPURUN_COMM_WORLD, domain,
                     &request));
    return request;
}

// Longer than the victim lives.
void hold(gpurun_stream stream) {
    MUST(gpurun_launch_host(
        stream, [](void*) { sleep_seconds(30); }, nullptr));
}

void check_content(const Job& job, gpurun_loan loan) {
    void* lent = nullptr;
    std::vector<unsigned char> got(kLarge);
    MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
    MUST(gpurun_memcpy(got.data(), lent, kLarge, job.stream));
    MUST(gpurun_stream_synchronize(job.stream));
    if (std::any_of(got.begin(), got.end(), [](unsigned char byte) { return byte != kContent; }))
        give_up("what was borrowed of the victim is not what it has lent");
}

gpurun_status wait_for_loan(const Job& job, gpurun_stream domain) {
    gpurun_request request = lend_to_victim(job, domain);
    gpurun_status result = gpurun_wait(&request, domain, nullptr);
    if (domain != GPURUN_HOST && result == GPURUN_OK)
        result = gpurun_stream_synchronize(domain);
    return result;
}

// The mapping outlives the lender: it is read before its death and after it, until it is given back.
gpurun_status borrow_of_victim(const Job& job) {
    gpurun_loan loan = GPURUN_LOAN_NULL;
    MUST(gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
    check_content(job, loan);
    if (gpurun_probe(job.victim(), kNoTag, GPURUN_COMM_WORLD, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("a probe of the dead ends otherwise than by its death");
    check_content(job, loan);
    const gpurun_status result = gpurun_give_back(&loan, job.stream);
    if (loan.id != 0)
        give_up("a loan of the dead was not given back");
    MUST(gpurun_stream_synchronize(job.stream));
    return result;
}

gpurun_status borrow_held_of_victim(const Job& job) {
    gpurun_loan loan = GPURUN_LOAN_NULL;
    MUST(gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
    const gpurun_status result = gpurun_stream_synchronize(job.stream);
    if (gpurun_give_back(&loan, GPURUN_HOST) != GPURUN_ERR_PEER_LOST)
        give_up("a loan of the dead is given back as if it lived");
    return result;
}

gpurun_status borrow_nothing(const Job& job) {
    gpurun_loan loan = GPURUN_LOAN_NULL;
    return gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr);
}

void victim_borrows(const Job& job) {
    for (int rank = 0; rank < job.victim(); rank++) {
        gpurun_loan loan = GPURUN_LOAN_NULL;
        MUST(gpurun_borrow(rank, kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
    }
}

void victim_gives_back_held(const Job& job) {
    hold(job.stream);
    for (int rank = 0; rank < job.victim(); rank++) {
        gpurun_loan loan = GPURUN_LOAN_NULL;
        MUST(gpurun_borrow(rank, kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
        MUST(gpurun_give_back(&loan, job.stream));
    }
}

void victim_lends(const Job& job, bool held) {
    MUST(gpurun_memset(job.device, kContent, kLarge, job.stream));
    if (held)
        hold(job.stream);
    for (int rank = 0; rank < job.victim(); rank++) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        MUST(gpurun_lend(job.device, kLarge, GPURUN_LOAN_READ_ONLY, rank, kTag, GPURUN_COMM_WORLD, job.stream,
                         &request));
    }
}

constexpr Scenario kScenarios[] = {
    {"loan", [](const Job& job) { return wait_for_loan(job, GPURUN_HOST); }, nullptr},
    {"loan-in-stream", [](const Job& job) { return wait_for_loan(job, job.stream); }, nullptr},
    {"borrowed-loan", [](const Job& job) { return wait_for_loan(job, GPURUN_HOST); }, victim_borrows},
    {"borrowed-loan-in-stream", [](const Job& job) { return wait_for_loan(job, job.stream); }, victim_borrows},
    {"fence-of-loan", [](const Job& job) { return wait_for_loan(job, job.stream); }, victim_gives_back_held},
    {"fence-of-loan-for-host", [](const Job& job) { return wait_for_loan(job, GPURUN_HOST); }, victim_gives_back_held},
    {"borrow", borrow_nothing, nullptr},
    {"loan-of-victim", borrow_of_victim, [](const Job& job) { victim_lends(job, false); }},
    {"fence-of-loan-of-victim", borrow_held_of_victim, [](const Job& job) { victim_lends(job, true); }},
};

} // namespace

std::span<const Scenario> loan_scenarios() { return kScenarios; }

} // namespace faults
