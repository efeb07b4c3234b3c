// Messages and collectives of several communicators: they never meet, also when a communicator is freed and the next
// one takes its place.
#include "communicators.hpp"
#include "graphs.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <deque>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gpurun::test::communicator_messages {

namespace {

void send(int number, int dest, int tag, gpurun_comm comm) {
    REQUIRE_OK(gpurun_send(&number, 1, GPURUN_INT32, dest, tag, comm, GPURUN_HOST));
}

int recv(gpurun_comm comm, int source = GPURUN_ANY_SOURCE, int tag = GPURUN_ANY_TAG) {
    int number = -1;
    REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_INT32, source, tag, comm, GPURUN_HOST, nullptr));
    return number;
}

bool has_message(gpurun_comm comm) {
    int found = -1;
    REQUIRE_OK(gpurun_iprobe(GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, comm, &found, nullptr));
    return found != 0;
}

int next(const Comm& comm) { return (comm.rank() + 1) % comm.size(); }
int previous(const Comm& comm) { return (comm.rank() + comm.size() - 1) % comm.size(); }

// Memory of this process that is there.
long resident_kib() {
    std::ifstream file("/proc/self/statm");
    long all = 0, resident = 0;
    file >> all >> resident;
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// Everybody gets what the rank before it has, in `comm`.
void check_ring(const Comm& comm, gpurun_stream stream, int own) {
    Memory out(Kind::kDevice, sizeof own), in(Kind::kDevice, sizeof own);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&own);
    out.write(Bytes(bytes, bytes + sizeof own));
    REQUIRE_OK(gpurun_sendrecv(out.get(), 1, GPURUN_INT32, next(comm), 0, in.get(), 1, GPURUN_INT32, GPURUN_ANY_SOURCE,
                               GPURUN_ANY_TAG, comm, stream, nullptr));
    synchronize(stream);
    int root_has = own;
    REQUIRE_OK(gpurun_bcast(&root_has, 1, GPURUN_INT32, 0, comm, GPURUN_HOST));
    int got = -1;
    std::copy_n(in.read().data(), sizeof got, reinterpret_cast<uint8_t*>(&got));
    CHECK(got - root_has == previous(comm));
}

} // namespace

TEST_SUITE_BEGIN("communicator messages");

TEST_CASE("messages and collectives of the rank alone meet no others, and wait for nobody") {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t count : {1u, 1000u, 300'000u}) {
            const Bytes content = pattern(count, static_cast<uint64_t>(rank()));
            Memory sent(Kind::kDevice, count), got(Kind::kDevice, count), all(Kind::kDevice, count);
            sent.write(content);
            gpurun_request request{};
            REQUIRE_OK(gpurun_irecv(got.get(), count, GPURUN_BYTE, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, GPURUN_COMM_SELF,
                                    domain, &request));
            send(7, rank(), 3, kWorld);
            REQUIRE_OK(gpurun_send(sent.get(), count, GPURUN_BYTE, 0, 3, GPURUN_COMM_SELF, domain));
            gpurun_message_status status{};
            REQUIRE_OK(gpurun_wait(&request, domain, &status));
            CHECK(status.source == 0);
            CHECK(status.bytes == count);
            CHECK(recv(kWorld) == 7);
            if (rank() == 0) // alone
                REQUIRE_OK(gpurun_barrier(GPURUN_COMM_SELF, domain));
            REQUIRE_OK(
                gpurun_allreduce(sent.get(), all.get(), count, GPURUN_UINT8, GPURUN_SUM, GPURUN_COMM_SELF, domain));
            synchronize(domain);
            CHECK(first_difference(got.read(), content) == -1);
            CHECK(first_difference(all.read(), content) == -1);
        }
    int number = 0;
    CHECK(gpurun_send(&number, 1, GPURUN_INT32, 1, 0, GPURUN_COMM_SELF, GPURUN_HOST) == GPURUN_ERR_RANK);
}

TEST_CASE("wildcards of one communicator take no message of another, nor of a collective") {
    const Comm one = Comm::dup(), other = Comm::split(0, -rank());
    const gpurun_comm comms[] = {kWorld, one, other};
    int numbers[3] = {-1, -1, -1};
    gpurun_request receives[3];
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(gpurun_irecv(&numbers[i], 1, GPURUN_INT32, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, comms[i], GPURUN_HOST,
                                &receives[i]));
    for (const gpurun_comm each : comms)
        REQUIRE_OK(gpurun_barrier(each, GPURUN_HOST));
    for (int i = 2; i >= 0; i--) { // to the next process, in the order in which nobody has posted
        const int to = (rank() + 1) % size();
        send(10 * rank() + i, i == 2 ? size() - 1 - to : to, 5, comms[i]);
    }
    gpurun_message_status statuses[3];
    REQUIRE_OK(gpurun_waitall(3, receives, GPURUN_HOST, statuses));
    const int from = (rank() + size() - 1) % size();
    for (int i = 0; i < 3; i++) {
        CHECK(numbers[i] == 10 * from + i);
        CHECK(statuses[i].source == (i == 2 ? size() - 1 - from : from));
    }
}

TEST_CASE("probes and unexpected messages are those of their communicator, however many wait in others") {
    const Comm one = Comm::dup(), other = Comm::dup();
    for (int i = 0; i < 50; i++)
        send(i, next(one), i, one);
    REQUIRE_OK(gpurun_barrier(other, GPURUN_HOST));
    CHECK_FALSE(has_message(other));
    REQUIRE_OK(gpurun_barrier(other, GPURUN_HOST));
    send(99, next(other), 3, other);
    gpurun_message_status status;
    REQUIRE_OK(gpurun_probe(GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, other, &status));
    CHECK(status.tag == 3);
    gpurun_message message = GPURUN_MESSAGE_NULL;
    REQUIRE_OK(gpurun_mprobe(GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, other, &message, nullptr));
    for (int i = 0; i < 50; i++)
        CHECK(recv(one) == i);
    int number = -1;
    REQUIRE_OK(gpurun_mrecv(&number, 1, GPURUN_INT32, &message, GPURUN_HOST, nullptr));
    CHECK(number == 99);
    CHECK_FALSE(has_message(one));
}

TEST_CASE("a probed message outlives its communicator, and its source is a rank of that") {
    Comm reversed = Comm::split(0, -rank());
    send(7, next(reversed), 0, reversed);
    send(8, next(reversed), 0, reversed);
    gpurun_message first = GPURUN_MESSAGE_NULL, second = GPURUN_MESSAGE_NULL;
    REQUIRE_OK(gpurun_mprobe(GPURUN_ANY_SOURCE, 0, reversed, &first, nullptr));
    REQUIRE_OK(gpurun_mprobe(GPURUN_ANY_SOURCE, 0, reversed, &second, nullptr));
    const int source = previous(reversed);
    reversed.free();
    gpurun_message_status status;
    int number = -1;
    REQUIRE_OK(gpurun_mrecv(&number, 1, GPURUN_INT32, &first, GPURUN_HOST, &status));
    CHECK(status.source == source);
    gpurun_request request;
    REQUIRE_OK(gpurun_imrecv(&number, 1, GPURUN_INT32, &second, GPURUN_HOST, &request));
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
    CHECK(status.source == source);
    CHECK(number == 8);
}

TEST_CASE("what is under way when a communicator is freed completes, and persistent requests can still be started") {
    Comm comm = Comm::dup();
    const int to = next(comm), from = previous(comm);
    std::array<int, 3> got{-1, -1, -1}, sent{1, 2, 3};
    gpurun_request receive, again_out, again_in, barrier;
    REQUIRE_OK(gpurun_irecv(&got[0], 1, GPURUN_INT32, GPURUN_ANY_SOURCE, 1, comm, GPURUN_HOST, &receive));
    REQUIRE_OK(gpurun_recv_init(&got[1], 1, GPURUN_INT32, from, 2, comm, GPURUN_HOST, &again_in));
    REQUIRE_OK(gpurun_send_init(&sent[1], 1, GPURUN_INT32, to, 2, comm, GPURUN_HOST, &again_out));
    gpurun_request send;
    REQUIRE_OK(gpurun_isend(&sent[0], 1, GPURUN_INT32, to, 1, comm, GPURUN_HOST, &send));
    REQUIRE_OK(gpurun_ibarrier(comm, GPURUN_HOST, &barrier));
    comm.free();
    const Comm other = Comm::dup(); // not in its place
    for (int round = 0; round < 3; round++) {
        sent[1] = 10 * round + rank();
        REQUIRE_OK(gpurun_start(&again_in));
        REQUIRE_OK(gpurun_start(&again_out));
        REQUIRE_OK(gpurun_wait(&again_out, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_wait(&again_in, GPURUN_HOST, nullptr));
        CHECK(got[1] == 10 * round + from);
    }
    gpurun_message_status status;
    REQUIRE_OK(gpurun_wait(&receive, GPURUN_HOST, &status));
    CHECK(status.source == from);
    CHECK(got[0] == 1);
    REQUIRE_OK(gpurun_wait(&send, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_wait(&barrier, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_request_free(&again_in));
    REQUIRE_OK(gpurun_request_free(&again_out));
    CHECK_FALSE(has_message(other));
}

TEST_CASE("a thread that waits in a communicator which another frees gets its message") {
    Comm comm = Comm::dup();
    const gpurun_comm handle = comm;
    const int to = next(comm), from = previous(comm);
    int got = -1, number = 5;
    gpurun_request answer;
    REQUIRE_OK(gpurun_send_init(&number, 1, GPURUN_INT32, to, 1, comm, GPURUN_HOST, &answer));
    std::thread waiting([&] {
        int there = 1;
        REQUIRE_OK(gpurun_sendrecv(&there, 1, GPURUN_INT32, to, 2, &got, 1, GPURUN_INT32, from, 1, handle, GPURUN_HOST,
                                   nullptr));
    });
    CHECK(recv(comm, from, 2) == 1); // the other's thread is in its call, which it learns by a message
    send(1, from, 3, kWorld);
    CHECK(recv(kWorld, to, 3) == 1);
    comm.free();
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_start(&answer));
    REQUIRE_OK(gpurun_wait(&answer, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_request_free(&answer));
    waiting.join();
    CHECK(got == 5);
}

// In each round one message of each kind is never received: its id comes back many times.
TEST_CASE("a message that nobody received before its communicator was freed meets no later one") {
    Memory device(Kind::kDevice, 4096);
    constexpr int kRounds = 1500;
    for (int round = 0; round < kRounds; round++) {
        Comm comm = Comm::dup();
        send(round, next(comm), 1, comm);
        if (round % 50 == 0)
            REQUIRE_OK(gpurun_send(device.get(), 64, GPURUN_BYTE, next(comm), 2, comm, GPURUN_HOST));
        comm.free();
        const Comm later = Comm::dup();
        REQUIRE_OK(gpurun_barrier(later, GPURUN_HOST));
        REQUIRE_FALSE(has_message(later));
        REQUIRE_OK(gpurun_barrier(later, GPURUN_HOST));
        send(-round, next(later), 1, later);
        REQUIRE(recv(later) == -round);
    }
}

TEST_CASE("large messages that nobody received are dropped with their communicator, and their sends complete") {
    if (size() == 1)
        return;
    constexpr size_t kLarge = 1 << 20;
    const Stream stream;
    Memory host(Kind::kPageable, kLarge), device(Kind::kDevice, kLarge);
    Comm comm = Comm::dup();
    gpurun_request sends[2] = {GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL};
    if (rank() == 0) {
        REQUIRE_OK(gpurun_isend(host.get(), kLarge, GPURUN_BYTE, 1, 1, comm, GPURUN_HOST, &sends[0]));
        REQUIRE_OK(gpurun_isend(device.get(), kLarge, GPURUN_BYTE, 1, 2, comm, stream, &sends[1]));
    }
    REQUIRE_OK(gpurun_barrier(comm, GPURUN_HOST));
    comm.free();
    REQUIRE_OK(gpurun_waitall(2, sends, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST)); // so that the others make progress meanwhile
}

TEST_CASE("many communicators at the same time each have their messages, and are freed in another order") {
    std::deque<Comm> comms;
    constexpr int kComms = 60;
    for (int i = 0; i < kComms; i++)
        comms.push_back(i % 3 == 0 ? Comm::split(0, -rank()) : i % 3 == 1 ? Comm::split(rank() % 2, 0) : Comm::dup());
    std::vector<int> numbers(kComms, -1);
    std::vector<gpurun_request> receives(kComms);
    for (size_t i = 0; i < kComms; i++)
        REQUIRE_OK(gpurun_irecv(&numbers[i], 1, GPURUN_INT32, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, comms[i], GPURUN_HOST,
                                &receives[i]));
    for (size_t i = kComms; i-- > 0;)
        send(static_cast<int>(i), next(comms[i]), 0, comms[i]);
    for (int i = 0; i < kComms / 2; i++) // from both ends
        i % 2 == 0 ? comms.pop_front() : comms.pop_back();
    REQUIRE_OK(gpurun_waitall(kComms, receives.data(), GPURUN_HOST, nullptr));
    for (int i = 0; i < kComms; i++)
        CHECK(numbers[static_cast<size_t>(i)] == i);
    for (const Comm& each : comms)
        REQUIRE_OK(gpurun_barrier(each, GPURUN_HOST));
}

TEST_CASE("collectives of several communicators go on at the same time, in threads and streams of their own") {
    const Comm one = Comm::dup(), other = Comm::split(rank() % 2, -rank());
    const auto work = [](const Comm& comm, int start) {
        const Stream stream;
        for (int round = 0; round < 10; round++)
            check_ring(comm, round % 2 == 0 ? static_cast<gpurun_stream>(stream) : GPURUN_HOST, start + comm.rank());
    };
    std::thread beside([&] { work(one, 100); });
    work(other, 200);
    beside.join();
}

TEST_CASE("collectives that are started in several communicators may be waited for in any order") {
    const Comm one = Comm::dup(), other = Comm::dup();
    constexpr size_t kEach = 8;
    int numbers[2 * kEach];
    gpurun_request requests[2 * kEach];
    for (size_t i = 0; i < kEach; i++)
        for (size_t which = 0; which < 2; which++) { // ranks start those of different communicators in different orders
            const size_t at = 2 * i + (rank() % 2 == 0 ? which : 1 - which);
            numbers[at] = rank() == 0 ? static_cast<int>(at) : -1;
            REQUIRE_OK(
                gpurun_ibcast(&numbers[at], 1, GPURUN_INT32, 0, at % 2 == 0 ? one : other, GPURUN_HOST, &requests[at]));
        }
    std::reverse(std::begin(requests), std::end(requests));
    REQUIRE_OK(gpurun_waitall(2 * kEach, requests, GPURUN_HOST, nullptr));
    for (size_t i = 0; i < 2 * kEach; i++)
        CHECK(numbers[i] == static_cast<int>(i));
}

TEST_CASE("a group of calls may use several communicators") {
    const Comm one = Comm::dup(), other = Comm::split(0, -rank());
    int sent[2] = {10 + rank(), 20 + rank()}, got[2] = {-1, -1}, all = rank() == 0 ? 3 : -1;
    gpurun_message_status statuses[2];
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_recv(&got[0], 1, GPURUN_INT32, GPURUN_ANY_SOURCE, 1, one, GPURUN_HOST, &statuses[0]));
    REQUIRE_OK(gpurun_recv(&got[1], 1, GPURUN_INT32, GPURUN_ANY_SOURCE, 1, other, GPURUN_HOST, &statuses[1]));
    REQUIRE_OK(gpurun_send(&sent[1], 1, GPURUN_INT32, next(other), 1, other, GPURUN_HOST));
    REQUIRE_OK(gpurun_send(&sent[0], 1, GPURUN_INT32, next(one), 1, one, GPURUN_HOST));
    REQUIRE_OK(gpurun_bcast(&all, 1, GPURUN_INT32, 0, one, GPURUN_HOST));
    REQUIRE_OK(gpurun_barrier(other, GPURUN_HOST));
    REQUIRE_OK(gpurun_group_end());
    CHECK(got[0] == 10 + previous(one));
    CHECK(statuses[0].source == previous(one));
    CHECK(got[1] == 20 + size() - 1 - previous(other));
    CHECK(statuses[1].source == previous(other));
    CHECK(all == 3);
}

TEST_CASE("a graph's messages in a communicator go on when that has been freed") {
    Comm comm = Comm::split(rank() / 2, -rank()); // with the partner
    const bool captures = can_capture(partner());
    const Comm later_pair = Comm::split(rank() / 2, 0);
    if (!captures)
        return;
    const Stream stream;
    Memory out(Kind::kDevice, 4096), in(Kind::kDevice, 4096), all(Kind::kDevice, 64);
    gpurun_graph graph = nullptr;
    REQUIRE_OK(gpurun_capture_begin(stream));
    REQUIRE_OK(gpurun_sendrecv(out.get(), out.size(), GPURUN_BYTE, next(comm), 0, in.get(), in.size(), GPURUN_BYTE,
                               previous(comm), 0, comm, stream, nullptr));
    REQUIRE_OK(gpurun_bcast(all.get(), all.size(), GPURUN_BYTE, 0, comm, stream));
    REQUIRE_OK(gpurun_capture_end(stream, &graph));
    const auto from = static_cast<uint64_t>(previous(comm));
    const auto own = static_cast<uint64_t>(comm.rank());
    comm.free();
    const Comm in_its_place = Comm::split(0, 0, later_pair);
    for (uint64_t round = 0; round < 3; round++) {
        out.write(pattern(out.size(), 100 * round + own));
        all.write(pattern(all.size(), own == 0 ? round : 99));
        REQUIRE_OK(gpurun_graph_launch(graph, stream));
        stream.synchronize();
        CHECK(first_difference(in.read(), pattern(in.size(), 100 * round + from)) == -1);
        CHECK(first_difference(all.read(), pattern(all.size(), round)) == -1);
        REQUIRE_OK(gpurun_barrier(in_its_place, GPURUN_HOST));
    }
    REQUIRE_OK(gpurun_graph_destroy(graph));
}

TEST_CASE("communicators are made and freed again and again, on one rank a million times, and take no more memory") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const int rounds = 10'000;
    const long most_kib = LONG_MAX; // the sanitizer keeps what is freed for a while
#else
    const long most_kib = 1024; // of a million each would take a byte
    const int rounds = size() == 1 ? 1'000'000 : size() == 2 ? 100'000 : 10'000;
#endif
    const auto make_and_free = [](int times) {
        for (int round = 0; round < times; round++) {
            gpurun_comm made = GPURUN_COMM_NULL;
            REQUIRE(gpurun_comm_dup(kWorld, &made) == GPURUN_OK);
            REQUIRE(gpurun_comm_free(&made) == GPURUN_OK);
        }
    };
    make_and_free(1000);
    const long before = resident_kib();
    make_and_free(rounds);
    CHECK(resident_kib() - before < most_kib);
    CHECK(Comm::dup().size() == size());
}

TEST_SUITE_END();

} // namespace gpurun::test::communicator_messages
