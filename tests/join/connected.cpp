// A rank whose job meets another one by the public API:
//
//   connected accept|connect NAME ROUNDS [survive|die|leave|hold]
//   connected accept|connect|both NAME TIMEOUT_MS try
//
// In each round the two jobs meet, their ranks use the communicator of both in every way, while messages of their own
// job are under way, and free it. With `survive` they wait until the last rank is lost, which dies with `die`, as all
// of its job. With `leave` the last communicator is left to gpurun_finalize(), and with `hold` all of them are, which
// are as many as there may be. With `try` it meets once, and says what has come of it; with `both` rank 0 accepts, and
// the others connect.
#include <gpurun/gpurun.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kLongMs = 60'000;
constexpr size_t kSmall = 512;
constexpr size_t kLarge = 3 << 20;

[[noreturn]] void fail(const char* what, int line) {
    std::printf("line %d: %s: %s\n", line, what, gpurun_error_detail());
    std::fflush(stdout);
    std::_Exit(1);
}
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != GPURUN_OK)                                                                                       \
            fail(#call, __LINE__);                                                                                     \
    } while (0)
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail(#condition, __LINE__);                                                                                \
    } while (0)

struct Counts {
    long descriptors = 0;
    long mappings = 0;
    long threads = 0;
    long resident_kib = 0;
};

long entries_of(const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

Counts counts() {
    Counts now;
    now.descriptors = entries_of("/proc/self/fd");
    now.threads = entries_of("/proc/self/task");
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        ++now.mappings;
    long pages = 0;
    long shared = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages >> shared;
    now.resident_kib = (pages - shared) * (::sysconf(_SC_PAGESIZE) / 1024); // of its own
    return now;
}

// Of one communicator.
class Ring {
  public:
    explicit Ring(gpurun_comm comm) : comm_(comm) {
        MUST(gpurun_comm_rank(comm, &rank));
        MUST(gpurun_comm_size(comm, &size));
        next = (rank + 1) % size;
        before = (rank + size - 1) % size;
    }
    int rank = 0, size = 0, next = 0, before = 0;

    void pass_number(int tag) const {
        int got = -1;
        gpurun_message_status status;
        MUST(gpurun_sendrecv(&rank, 1, GPURUN_INT32, next, tag, &got, 1, GPURUN_INT32, before, tag, comm_, GPURUN_HOST,
                             &status));
        EXPECT(got == before && status.source == before);
    }

    // In the order of a stream, through device memory.
    void pass_memory(size_t bytes) const {
        gpurun_stream stream = nullptr;
        void *out = nullptr, *in = nullptr;
        MUST(gpurun_stream_create(&stream));
        MUST(gpurun_malloc(&out, bytes));
        MUST(gpurun_malloc(&in, bytes));
        std::vector<unsigned char> seen(bytes);
        MUST(gpurun_memset(out, rank + 1, bytes, stream));
        MUST(gpurun_sendrecv(out, bytes, GPURUN_BYTE, next, 5, in, bytes, GPURUN_BYTE, before, 5, comm_, stream,
                             nullptr));
        MUST(gpurun_memset(out, 0, bytes, stream)); // the message was read before
        MUST(gpurun_stream_synchronize(stream));
        MUST(gpurun_memcpy(seen.data(), in, bytes, GPURUN_HOST));
        EXPECT(std::all_of(seen.begin(), seen.end(), [&](unsigned char each) { return each == before + 1; }));
        MUST(gpurun_free(in));
        MUST(gpurun_free(out));
        MUST(gpurun_stream_destroy(stream));
    }

    void use_requests() const {
        int got = -1, done = 0, index = -1;
        gpurun_request requests[2];
        MUST(gpurun_irecv(&got, 1, GPURUN_INT32, GPURUN_ANY_SOURCE, 7, comm_, GPURUN_HOST, &requests[0]));
        MUST(gpurun_isend(&rank, 1, GPURUN_INT32, next, 7, comm_, GPURUN_HOST, &requests[1]));
        gpurun_message_status statuses[2];
        MUST(gpurun_waitall(2, requests, GPURUN_HOST, statuses));
        EXPECT(got == before && statuses[0].source == before);
        MUST(gpurun_testall(2, requests, GPURUN_HOST, &done, nullptr));
        EXPECT(done == 1);
        // Persistent ones, twice.
        MUST(gpurun_recv_init(&got, 1, GPURUN_INT32, before, 8, comm_, GPURUN_HOST, &requests[0]));
        MUST(gpurun_send_init(&rank, 1, GPURUN_INT32, next, 8, comm_, GPURUN_HOST, &requests[1]));
        for (int i = 0; i < 2; ++i) {
            got = -1;
            MUST(gpurun_startall(2, requests));
            MUST(gpurun_waitany(2, requests, GPURUN_HOST, &index, nullptr));
            MUST(gpurun_waitall(2, requests, GPURUN_HOST, nullptr));
            EXPECT(got == before);
        }
        MUST(gpurun_request_free(&requests[0]));
        MUST(gpurun_request_free(&requests[1]));
        // One that is taken back.
        MUST(gpurun_irecv(&got, 1, GPURUN_INT32, before, 9, comm_, GPURUN_HOST, &requests[0]));
        MUST(gpurun_cancel(&requests[0]));
        MUST(gpurun_wait(&requests[0], GPURUN_HOST, &statuses[0]));
        EXPECT(statuses[0].cancelled == 1);
    }

    void use_probes() const {
        int got = -1;
        gpurun_request sent;
        gpurun_message message;
        gpurun_message_status status;
        MUST(gpurun_isend(&rank, 1, GPURUN_INT32, next, 10, comm_, GPURUN_HOST, &sent));
        MUST(gpurun_mprobe(GPURUN_ANY_SOURCE, 10, comm_, &message, &status));
        EXPECT(status.source == before && status.bytes == sizeof got);
        MUST(gpurun_mrecv(&got, 1, GPURUN_INT32, &message, GPURUN_HOST, nullptr));
        EXPECT(got == before);
        MUST(gpurun_wait(&sent, GPURUN_HOST, nullptr));
    }

    void use_a_group_of_calls() const {
        int got = -1;
        MUST(gpurun_group_begin());
        MUST(gpurun_send(&rank, 1, GPURUN_INT32, next, 11, comm_, GPURUN_HOST));
        MUST(gpurun_recv(&got, 1, GPURUN_INT32, before, 11, comm_, GPURUN_HOST, nullptr));
        MUST(gpurun_group_end());
        EXPECT(got == before);
    }

    void use_collectives() const {
        int sum = 0, number = rank == 0 ? 4711 : 0;
        MUST(gpurun_allreduce(&rank, &sum, 1, GPURUN_INT32, GPURUN_SUM, comm_, GPURUN_HOST));
        EXPECT(sum == size * (size - 1) / 2);
        gpurun_request started;
        MUST(gpurun_ibcast(&number, 1, GPURUN_INT32, 0, comm_, GPURUN_HOST, &started));
        MUST(gpurun_wait(&started, GPURUN_HOST, nullptr));
        EXPECT(number == 4711);
        MUST(gpurun_bcast_init(&number, 1, GPURUN_INT32, 0, comm_, GPURUN_HOST, &started));
        for (int i = 0; i < 2; ++i) {
            number = rank == 0 ? i : -1;
            MUST(gpurun_start(&started));
            MUST(gpurun_wait(&started, GPURUN_HOST, nullptr));
            EXPECT(number == i);
        }
        MUST(gpurun_request_free(&started));
    }

    // Ranks of both jobs, and a group of them.
    void split() const {
        gpurun_comm half = GPURUN_COMM_NULL, made = GPURUN_COMM_NULL;
        MUST(gpurun_comm_split(comm_, rank % 2, -rank, &half));
        const Ring ring(half);
        ring.pass_number(1);
        gpurun_comm kept = comm_;
        EXPECT(gpurun_comm_free(&kept) == GPURUN_ERR_COMM && kept.id == comm_.id); // there are others of its job
        gpurun_group all, home;
        gpurun_comparison how;
        MUST(gpurun_comm_group(comm_, &all));
        MUST(gpurun_comm_group(GPURUN_COMM_WORLD, &home));
        EXPECT(gpurun_comm_create(GPURUN_COMM_WORLD, all, &made) == GPURUN_ERR_ARGUMENT);
        EXPECT(gpurun_group_union(all, home, &all) == GPURUN_ERR_ARGUMENT);
        MUST(gpurun_comm_compare(comm_, GPURUN_COMM_WORLD, &how));
        EXPECT(how == GPURUN_UNEQUAL);
        MUST(gpurun_comm_create(comm_, all, &made));
        MUST(gpurun_comm_compare(comm_, made, &how));
        EXPECT(how == GPURUN_CONGRUENT);
        int found = -1;
        MUST(gpurun_group_rank(all, &found));
        EXPECT(found == rank);
        MUST(gpurun_comm_free(&made));
        MUST(gpurun_comm_free(&half));
        MUST(gpurun_group_free(&all));
        MUST(gpurun_group_free(&home));
    }

    gpurun_comm comm_;
};

bool lends() {
    const char* const access = std::getenv("GPURUN_EMULATED_PEER_ACCESS");
    return access == nullptr || std::strcmp(access, "none") != 0; // else no device reaches another
}

// The same memory lent to the next of either job, at the same time.
void lend_round(const Ring& joint, const Ring& home) {
    if (!lends())
        return;
    gpurun_stream stream = nullptr;
    MUST(gpurun_stream_create(&stream));
    void* memory = nullptr;
    MUST(gpurun_malloc(&memory, kLarge));
    MUST(gpurun_memset(memory, joint.rank + 1, kLarge, stream));
    gpurun_request lent[2];
    const Ring* rings[] = {&joint, &home};
    for (int i = 0; i < 2; ++i)
        MUST(gpurun_lend(memory, kLarge, GPURUN_LOAN_READ_ONLY, rings[i]->next, 6, rings[i]->comm_, stream, &lent[i]));
    EXPECT(gpurun_free(memory) == GPURUN_ERR_LOAN);
    std::vector<unsigned char> seen(kLarge);
    for (int i = 0; i < 2; ++i) {
        const bool of_itself = rings[i]->size == 1;
        gpurun_loan loan, other;
        MUST(gpurun_borrow(rings[i]->before, 6, rings[i]->comm_, stream, &loan, nullptr));
        void* there = nullptr;
        size_t bytes = 0;
        MUST(gpurun_loan_buffer(loan, &there, &bytes, nullptr));
        EXPECT(bytes == kLarge);
        EXPECT(of_itself || gpurun_memset(there, 1, 1, stream) == GPURUN_ERR_BUFFER); // borrowed read-only
        EXPECT(of_itself || gpurun_free(there) == GPURUN_ERR_LOAN);
        gpurun_request on;
        if (!of_itself && rings[1 - i]->size > 1)
            EXPECT(gpurun_lend(there, bytes, GPURUN_LOAN_READ_ONLY, rings[1 - i]->next, 6, rings[1 - i]->comm_, stream,
                               &on) == GPURUN_ERR_LOAN);
        MUST(gpurun_stream_synchronize(stream));
        MUST(gpurun_memcpy(seen.data(), there, bytes, GPURUN_HOST));
        EXPECT(seen[0] == seen[kLarge - 1] && seen[0] != 0);
        EXPECT(i == 1 || seen[0] == joint.before + 1);
        other = loan;
        MUST(gpurun_give_back(&loan, stream));
        EXPECT(gpurun_give_back(&other, stream) != GPURUN_OK);
    }
    int index = 0, done = 0;
    EXPECT(gpurun_waitall(2, lent, stream, nullptr) == GPURUN_ERR_REQUEST); // of two jobs
    EXPECT(gpurun_testany(2, lent, stream, &index, &done, nullptr) == GPURUN_ERR_REQUEST);
    EXPECT(lent[0].id != GPURUN_REQUEST_NULL.id && lent[1].id != GPURUN_REQUEST_NULL.id);
    for (gpurun_request& each : lent)
        MUST(gpurun_wait(&each, stream, nullptr));
    MUST(gpurun_stream_synchronize(stream));
    MUST(gpurun_unregister(memory, kLongMs));
    MUST(gpurun_free(memory));
    MUST(gpurun_stream_destroy(stream));
}

// A captured message, three times.
void graph_round(const Ring& ring) {
    gpurun_stream stream = nullptr;
    MUST(gpurun_stream_create(&stream));
    void* memory = nullptr;
    MUST(gpurun_malloc(&memory, 2 * kSmall));
    auto* const out = static_cast<unsigned char*>(memory);
    MUST(gpurun_memset(out, ring.rank + 1, kSmall, stream));
    gpurun_graph graph = nullptr;
    if (lends() && std::getenv("GPURUN_FENCE") == nullptr && std::getenv("GPURUN_EMULATED_CAPABILITIES") == nullptr) {
        MUST(gpurun_capture_begin(stream));
        MUST(gpurun_sendrecv(out, kSmall, GPURUN_BYTE, ring.next, 8, out + kSmall, kSmall, GPURUN_BYTE, ring.before, 8,
                             ring.comm_, stream, nullptr));
        MUST(gpurun_capture_end(stream, &graph));
        for (int i = 0; i < 3; ++i)
            MUST(gpurun_graph_launch(graph, stream));
        MUST(gpurun_stream_synchronize(stream));
        unsigned char seen[kSmall];
        MUST(gpurun_memcpy(seen, out + kSmall, kSmall, GPURUN_HOST));
        EXPECT(seen[0] == ring.before + 1 && seen[kSmall - 1] == ring.before + 1);
        MUST(gpurun_graph_destroy(graph));
    }
    MUST(gpurun_free(memory));
    MUST(gpurun_stream_destroy(stream));
}

void speak(const Ring& joint, const Ring& home) {
    joint.pass_number(1);
    home.pass_number(1); // the same tag: they do not mix
    for (const Ring* each : {&joint, &home}) {
        each->pass_memory(64);
        each->pass_memory(kLarge);
        each->use_requests();
        each->use_probes();
        each->use_a_group_of_calls();
        each->use_collectives();
        graph_round(*each);
    }
    joint.split();
    lend_round(joint, home);
    // Calls of two jobs in one group: none is made.
    int number = 0;
    MUST(gpurun_group_begin());
    MUST(gpurun_send(&number, 1, GPURUN_INT32, joint.rank, 30, joint.comm_, GPURUN_HOST));
    MUST(gpurun_send(&number, 1, GPURUN_INT32, home.rank, 30, home.comm_, GPURUN_HOST));
    EXPECT(gpurun_group_end() == GPURUN_ERR_UNSUPPORTED);
}

// The ranks of the other job are told by all of this one that they have spoken.
void tell(const Ring& joint, const Ring& home) {
    for (int other = home.size; other < joint.size; ++other)
        MUST(gpurun_send(&other, 1, GPURUN_INT32, other, 11, joint.comm_, GPURUN_HOST));
}
void hear(const Ring& joint, const Ring& home) {
    int number = 0;
    for (int other = 0; other < joint.size - home.size; ++other)
        MUST(gpurun_recv(&number, 1, GPURUN_INT32, other, 11, joint.comm_, GPURUN_HOST, nullptr));
    if (home.size > 1)
        home.pass_number(12);
}

void await_death(const Ring& joint) {
    int number = 0;
    for (int i = 0; i < 2; ++i)
        EXPECT(gpurun_recv(&number, 1, GPURUN_INT32, joint.size - 1, 9, joint.comm_, GPURUN_HOST, nullptr) ==
               GPURUN_ERR_PEER_LOST);
}

void try_once(const std::string& side, const char* name, int timeout_ms, const Ring& home) {
    gpurun_comm both = GPURUN_COMM_NULL;
    const bool accepts = side == "accept" || (side == "both" && home.rank == 0);
    const gpurun_status status =
        (accepts ? gpurun_comm_accept : gpurun_comm_connect)(name, timeout_ms, GPURUN_COMM_WORLD, &both);
    std::printf("%s: %s\n", gpurun_status_string(status), status == GPURUN_OK ? "met" : gpurun_error_detail());
    std::fflush(stdout);
    if (status == GPURUN_OK) {
        Ring(both).pass_number(1);
        MUST(gpurun_comm_free(&both));
    } else {
        EXPECT(both.id == GPURUN_COMM_NULL.id);
        if (home.size > 1)
            home.pass_number(2); // the job goes on
    }
}

// One process of a job accepts, and another one connects to it.
void meet_itself(const char* name, const Ring& home) {
    gpurun_comm alone = GPURUN_COMM_NULL, both = GPURUN_COMM_NULL;
    MUST(gpurun_comm_split(GPURUN_COMM_WORLD, home.rank, 0, &alone));
    const gpurun_status status = home.rank == 0 ? gpurun_comm_accept(name, 2000, alone, &both)
                                                : gpurun_comm_connect(name, kLongMs, alone, &both);
    EXPECT(status == (home.rank == 0 ? GPURUN_ERR_TIMEOUT : GPURUN_ERR_LAUNCHER));
    MUST(gpurun_comm_free(&alone));
    std::printf("%s\n", gpurun_error_detail());
}

// As many as there may be, and one more.
void hold(const Ring& home, const char* name, int most, decltype(&gpurun_comm_accept) meet) {
    std::vector<gpurun_comm> all(most + 1, GPURUN_COMM_NULL);
    for (int i = 0; i < most; ++i) {
        MUST(meet(name, kLongMs, GPURUN_COMM_WORLD, &all[i]));
        EXPECT(i == 0 || meet(name, 0, all[0], &all[i]) == GPURUN_ERR_COMM); // which is of a joint job
    }
    EXPECT(meet(name, kLongMs, GPURUN_COMM_WORLD, &all[most]) == GPURUN_ERR_MEMORY);
    for (int i = 0; i < most; ++i)
        Ring(all[i]).pass_number(i);
    gpurun_request requests[2]; // of two joint jobs
    int number = 0;
    for (int i = 0; i < 2; ++i) {
        const Ring ring(all[i]);
        MUST(gpurun_isend(&number, 1, GPURUN_INT32, ring.rank, 3, all[i], GPURUN_HOST, &requests[i]));
    }
    EXPECT(gpurun_waitall(2, requests, GPURUN_HOST, nullptr) == GPURUN_ERR_REQUEST);
    MUST(gpurun_waitall(1, &requests[0], GPURUN_HOST, nullptr));
    MUST(gpurun_waitall(1, &requests[1], GPURUN_HOST, nullptr));
    MUST(gpurun_comm_free(&all[most / 2]));
    MUST(meet(name, kLongMs, GPURUN_COMM_WORLD, &all[most / 2]));
    home.pass_number(1);
}

// Rank 1 is in as many joint jobs as it may be, and then the whole job is to meet another one.
void meet_where_one_cannot(const Ring& home, const std::string& name, int most, decltype(&gpurun_comm_accept) meet) {
    gpurun_comm alone = GPURUN_COMM_NULL, both = GPURUN_COMM_NULL;
    MUST(gpurun_comm_split(GPURUN_COMM_WORLD, home.rank, 0, &alone));
    for (int i = 0; i < most && home.rank == 1; ++i)
        MUST(meet((name + "-1").c_str(), kLongMs, alone, &both));
    EXPECT(meet(name.c_str(), kLongMs, GPURUN_COMM_WORLD, &both) == GPURUN_ERR_MEMORY);
    std::printf("%s\n", gpurun_error_detail());
    std::fflush(stdout);
    home.pass_number(1);
}

void check_growth(int rounds, const Counts& early) {
    const Counts late = counts();
    std::printf("met %d times; descriptors %ld and %ld, mappings %ld and %ld, threads %ld and %ld, KiB %ld and %ld\n",
                rounds, early.descriptors, late.descriptors, early.mappings, late.mappings, early.threads, late.threads,
                early.resident_kib, late.resident_kib);
    std::fflush(stdout);
    if (rounds < 4)
        return;
    EXPECT(early.descriptors == late.descriptors);
    EXPECT(late.threads <= early.threads + 2); // those that a rank starts when it first needs them
    EXPECT(late.mappings <= early.mappings + 8);
    EXPECT(late.resident_kib <= early.resident_kib + 8192);
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 4)
        return 2;
    const bool accepts = std::strcmp(argv[1], "accept") == 0;
    const int rounds = std::atoi(argv[3]);
    const std::string mode = argc > 4 ? argv[4] : "";
    const auto meet = accepts ? gpurun_comm_accept : gpurun_comm_connect;
    MUST(gpurun_init());
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, nullptr));
    const Ring home(GPURUN_COMM_WORLD);
    if (mode == "try")
        try_once(argv[1], argv[2], rounds, home);
    else if (mode == "itself")
        meet_itself(argv[2], home);
    else if (mode == "hold")
        hold(home, argv[2], rounds, meet);
    else if (mode == "uneven")
        meet_where_one_cannot(home, argv[2], rounds, meet);
    if (mode == "try" || mode == "itself" || mode == "hold" || mode == "uneven") {
        MUST(gpurun_finalize());
        return 0;
    }
    Counts early;
    gpurun_comm both = GPURUN_COMM_NULL, before = GPURUN_COMM_NULL;
    for (int round = 0; round < rounds; ++round) {
        MUST(meet(argv[2], kLongMs, GPURUN_COMM_WORLD, &both));
        const Ring joint(both);
        EXPECT(accepts ? joint.rank == home.rank : joint.rank == joint.size - home.size + home.rank);
        int number = 0;
        if (round != 0) // an earlier one is known to be gone
            EXPECT(gpurun_comm_rank(before, &number) == GPURUN_ERR_COMM && before.id != both.id);
        speak(joint, home);
        if (mode == "die") {
            hear(joint, home);
            ::raise(SIGKILL);
        }
        if (mode == "survive") {
            tell(joint, home);
            await_death(joint);
            home.pass_number(3);
        }
        if (mode == "stay") { // until it is killed
            hear(joint, home);
            for (;;)
                ::pause();
        }
        before = both;
        if (mode == "leave" && round == rounds - 1)
            break;
        MUST(gpurun_comm_free(&both));
        EXPECT(both.id == GPURUN_COMM_NULL.id);
        if (round == rounds / 2)
            early = counts();
    }
    if (mode != "leave")
        check_growth(rounds, early);
    MUST(gpurun_finalize());
    return 0;
}
