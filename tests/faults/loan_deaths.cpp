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

// What is mapped of a dead rank's pinned memory stays, and what is not is mapped no more.
gpurun_status borrow_pinned_of_victim(const Job& job) {
    gpurun_loan loan = GPURUN_LOAN_NULL, late = GPURUN_LOAN_NULL;
    void* lent = nullptr;
    size_t bytes = 0;
    MUST(gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, GPURUN_HOST, &loan, nullptr));
    MUST(gpurun_loan_buffer(loan, &lent, &bytes, nullptr));
    if (gpurun_probe(job.victim(), kNoTag, GPURUN_COMM_WORLD, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("a probe of the dead ends otherwise than by its death");
    if (gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, GPURUN_HOST, &late, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("pinned memory of the dead is borrowed, or refused otherwise than by its death");
    const auto* const content = static_cast<const unsigned char*>(lent);
    if (content[0] != kContent || content[bytes - 1] != kContent)
        give_up("pinned memory of the dead has changed");
    return gpurun_give_back(&loan, GPURUN_HOST);
}

void victim_lends_pinned(const Job& job) {
    for (int each = 0; each < 2; each++) {
        void* pinned = nullptr;
        MUST(gpurun_malloc_host(&pinned, kLarge));
        MUST(gpurun_memset(pinned, kContent, kLarge, GPURUN_HOST));
        for (int rank = 0; rank < job.victim(); rank++) {
            gpurun_request request = GPURUN_REQUEST_NULL;
            MUST(gpurun_lend(pinned, kLarge, GPURUN_LOAN_READ_ONLY, rank, kTag, GPURUN_COMM_WORLD, GPURUN_HOST,
                             &request));
        }
    }
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

// The stream waits for the victim, and then has no room for a loan more: that call waits under the engine's lock.
gpurun_status lend_in_full_stream(const Job& job) {
    constexpr int kAlmostFull = 1000; // of the 1,024 operations that a stream takes
    constexpr int kLoans = 200;       // that need one each
    gpurun_loan loan = GPURUN_LOAN_NULL;
    MUST(gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
    for (int each = 0; each < kAlmostFull; ++each)
        MUST(gpurun_memset(job.device, 0, 1, job.stream));
    gpurun_status result = GPURUN_OK;
    std::vector<gpurun_request> requests;
    for (int each = 0; each < kLoans && result == GPURUN_OK; ++each) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        result = gpurun_lend(job.device, kLarge, GPURUN_LOAN_READ_ONLY, job.victim(), kTag, GPURUN_COMM_WORLD,
                             job.stream, &request);
        if (result == GPURUN_OK)
            requests.push_back(request);
    }
    for (gpurun_request& each : requests)
        (void)gpurun_wait(&each, job.stream, nullptr);
    (void)gpurun_give_back(&loan, job.stream);
    const gpurun_status end = gpurun_stream_synchronize(job.stream);
    return end == GPURUN_OK ? result : end;
}

// A loan each way, again and again; the death may come at any moment of one.
gpurun_status exchange_loans(const Job& job) {
    for (;;) {
        gpurun_request request = lend_to_victim(job, job.stream);
        gpurun_loan loan = GPURUN_LOAN_NULL;
        gpurun_status result = gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr);
        if (result == GPURUN_OK) {
            void* lent = nullptr;
            MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
            MUST(gpurun_memset(lent, job.rank, kSmall, job.stream));
            result = gpurun_give_back(&loan, job.stream);
        }
        const gpurun_status returned = gpurun_wait(&request, job.stream, nullptr);
        if (result == GPURUN_OK)
            result = returned;
        if (result == GPURUN_OK)
            continue;
        (void)gpurun_stream_synchronize(job.stream); // which the death may have cut short
        return result;
    }
}

void victim_exchanges_loans(const Job& job) {
    for (;;)
        for (int rank = 0; rank < job.victim(); rank++) {
            gpurun_request request = GPURUN_REQUEST_NULL;
            gpurun_loan loan = GPURUN_LOAN_NULL;
            void* lent = nullptr;
            MUST(gpurun_lend(job.device, kLarge, GPURUN_LOAN_EXCLUSIVE, rank, kTag, GPURUN_COMM_WORLD, job.stream,
                             &request));
            MUST(gpurun_borrow(rank, kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
            MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
            MUST(gpurun_memset(lent, kContent, kLarge, job.stream));
            MUST(gpurun_give_back(&loan, job.stream));
            MUST(gpurun_wait(&request, job.stream, nullptr));
        }
}

// ---- of three ranks: what is lent on

constexpr unsigned char kLast = 0x59;

gpurun_loan borrow(const Job& job, int source) {
    gpurun_loan loan = GPURUN_LOAN_NULL;
    MUST(gpurun_borrow(source, kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr));
    return loan;
}

gpurun_request lend_on(const Job& job, gpurun_loan loan, int dest) {
    void* lent = nullptr;
    size_t bytes = 0;
    gpurun_loan_kind kind{};
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_loan_buffer(loan, &lent, &bytes, &kind));
    MUST(gpurun_lend(lent, bytes, kind, dest, kTag, GPURUN_COMM_WORLD, job.stream, &request));
    return request;
}

void await_death(const Job& job) {
    if (gpurun_probe(job.victim(), kNoTag, GPURUN_COMM_WORLD, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("a probe of the dead ends otherwise than by its death");
}

// The victim has the memory of rank 0, and lends it on to rank 1, which uses it for long after the death.
gpurun_status use_what_victim_lends_on(const Job& job) {
    const gpurun_loan loan = borrow(job, job.victim());
    gpurun_loan given = loan;
    void* lent = nullptr;
    await_death(job);
    sleep_seconds(0.5);
    MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
    MUST(gpurun_launch_host(
        job.stream, [](void*) { sleep_seconds(0.2); }, nullptr));
    MUST(gpurun_memset(lent, kLast, kLarge, job.stream));
    const gpurun_status result = gpurun_give_back(&given, job.stream);
    MUST(gpurun_stream_synchronize(job.stream));
    return result;
}

gpurun_status lend_through_victim(const Job& job, gpurun_stream domain) {
    if (job.rank == 1)
        return use_what_victim_lends_on(job);
    gpurun_request request = lend_to_victim(job, domain);
    const gpurun_status result = gpurun_wait(&request, domain, nullptr);
    std::vector<unsigned char> got(kLarge);
    MUST(gpurun_memcpy(got.data(), job.device, kLarge, GPURUN_HOST));
    if (std::any_of(got.begin(), got.end(), [](unsigned char byte) { return byte != kLast; }))
        give_up("the loan came back before the last borrower had done with it");
    return result;
}

void victim_lends_on(const Job& job) { (void)lend_on(job, borrow(job, 0), 1); }

// Nobody takes what the victim lends on: the loan ends with the victim, and what was lent on with it.
gpurun_status lend_through_victim_to_nobody(const Job& job) {
    if (job.rank == 0) {
        gpurun_request request = lend_to_victim(job, GPURUN_HOST);
        return gpurun_wait(&request, GPURUN_HOST, nullptr);
    }
    await_death(job);
    gpurun_loan loan = GPURUN_LOAN_NULL;
    return gpurun_borrow(job.victim(), kTag, GPURUN_COMM_WORLD, job.stream, &loan, nullptr);
}

// The victim is the last: its lender goes on, and gives the loan back as ever.
gpurun_status lend_on_to_victim(const Job& job) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    if (job.rank == 0) {
        MUST(gpurun_memset(job.device, 0, kLarge, job.stream));
        MUST(gpurun_lend(job.device, kLarge, GPURUN_LOAN_EXCLUSIVE, 1, kTag, GPURUN_COMM_WORLD, job.stream, &request));
        MUST(gpurun_wait(&request, job.stream, nullptr));
        unsigned char byte = 0;
        MUST(gpurun_memcpy(&byte, job.device, 1, job.stream));
        MUST(gpurun_stream_synchronize(job.stream));
        if (byte != kContent)
            give_up("the middle did not have the memory again");
        return gpurun_probe(job.victim(), kNoTag, GPURUN_COMM_WORLD, nullptr);
    }
    gpurun_loan loan = borrow(job, 0);
    void* lent = nullptr;
    MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
    request = lend_on(job, loan, job.victim());
    const gpurun_status result = gpurun_wait(&request, job.stream, nullptr);
    MUST(gpurun_memset(lent, kContent, 1, job.stream));
    MUST(gpurun_give_back(&loan, job.stream));
    MUST(gpurun_stream_synchronize(job.stream));
    return result;
}

void victim_borrows_of_middle(const Job& job) { (void)borrow(job, 1); }

// The victim is the first: both mappings outlive it.
gpurun_status lend_on_of_victim(const Job& job) {
    gpurun_loan loan = borrow(job, job.rank == 0 ? job.victim() : 0);
    gpurun_request request = job.rank == 0 ? lend_on(job, loan, 1) : GPURUN_REQUEST_NULL;
    check_content(job, loan);
    await_death(job);
    check_content(job, loan);
    MUST(gpurun_wait(&request, job.stream, nullptr));
    if (job.rank == 0) {
        void* lent = nullptr;
        MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
        if (gpurun_lend(lent, 1, GPURUN_LOAN_READ_ONLY, 1, kTag, GPURUN_COMM_WORLD, job.stream, &request) !=
            GPURUN_ERR_PEER_LOST)
            give_up("memory of the dead is lent on");
    }
    const gpurun_status result = gpurun_give_back(&loan, job.stream);
    MUST(gpurun_stream_synchronize(job.stream));
    return result;
}

void victim_lends_to_first(const Job& job) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_memset(job.device, kContent, kLarge, job.stream));
    MUST(gpurun_lend(job.device, kLarge, GPURUN_LOAN_READ_ONLY, 0, kTag, GPURUN_COMM_WORLD, job.stream, &request));
}

// To all at once: the request is complete when the living have given back, too.
gpurun_status lend_to_all(const Job& job) {
    if (job.rank == 1) {
        gpurun_loan loan = borrow(job, 0);
        void* lent = nullptr;
        await_death(job);
        sleep_seconds(0.2);
        MUST(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
        MUST(gpurun_memset(lent, kLast, 1, job.stream));
        MUST(gpurun_give_back(&loan, job.stream));
        MUST(gpurun_stream_synchronize(job.stream));
        return GPURUN_ERR_PEER_LOST;
    }
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_memset(job.device, 0, kLarge, job.stream));
    MUST(gpurun_lend(job.device, kLarge, GPURUN_LOAN_SHARED, GPURUN_ALL_RANKS, kTag, GPURUN_COMM_WORLD, job.stream,
                     &request));
    const gpurun_status result = gpurun_wait(&request, job.stream, nullptr);
    unsigned char byte = 0;
    MUST(gpurun_memcpy(&byte, job.device, 1, job.stream));
    (void)gpurun_stream_synchronize(job.stream); // which the death may have cut short
    if (byte != kLast)
        give_up("the request was complete before all had given back");
    return result;
}

void victim_borrows_of_first(const Job& job) { (void)borrow(job, 0); }

constexpr Scenario kScenarios[] = {
    {"loan-to-all", lend_to_all, victim_borrows_of_first},
    {"loan-that-victim-lends-on", [](const Job& job) { return lend_through_victim(job, GPURUN_HOST); },
     victim_lends_on},
    {"loan-in-stream-that-victim-lends-on", [](const Job& job) { return lend_through_victim(job, job.stream); },
     victim_lends_on},
    {"loan-that-victim-lends-on-to-nobody", lend_through_victim_to_nobody, victim_lends_on},
    {"loan-lent-on-to-victim", lend_on_to_victim, victim_borrows_of_middle},
    {"loan-of-victim-lent-on", lend_on_of_victim, victim_lends_to_first},
    {"loan", [](const Job& job) { return wait_for_loan(job, GPURUN_HOST); }, nullptr},
    {"loan-in-stream", [](const Job& job) { return wait_for_loan(job, job.stream); }, nullptr},
    {"borrowed-loan", [](const Job& job) { return wait_for_loan(job, GPURUN_HOST); }, victim_borrows},
    {"borrowed-loan-in-stream", [](const Job& job) { return wait_for_loan(job, job.stream); }, victim_borrows},
    {"fence-of-loan", [](const Job& job) { return wait_for_loan(job, job.stream); }, victim_gives_back_held},
    {"fence-of-loan-for-host", [](const Job& job) { return wait_for_loan(job, GPURUN_HOST); }, victim_gives_back_held},
    {"borrow", borrow_nothing, nullptr},
    {"loan-of-victim", borrow_of_victim, [](const Job& job) { victim_lends(job, false); }},
    {"pinned-loan-of-victim", borrow_pinned_of_victim, victim_lends_pinned},
    {"loans-in-full-stream", lend_in_full_stream, [](const Job& job) { victim_lends(job, true); }},
    {"loans-in-motion", exchange_loans, victim_exchanges_loans},
    {"fence-of-loan-of-victim", borrow_held_of_victim, [](const Job& job) { victim_lends(job, true); }},
};

} // namespace

std::span<const Scenario> loan_scenarios() { return kScenarios; }

} // namespace faults
