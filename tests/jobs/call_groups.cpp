// Groups of calls: started together, each complete in its own order domain.
#include "graphs.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>

namespace gpurun::test::call_groups {

namespace {

constexpr size_t kSizes[] = {0, 1, 8, 4096, 4097, 65536, 65537, 131072, 300'001, 3 << 20};

uint64_t seed(int from, int to, size_t number) { return static_cast<uint64_t>(from * 64 + to) * 64 + number; }

// A message each way with a peer, written and read in its order domain.
class Crossing {
  public:
    Crossing(Kind kind, size_t bytes, int peer, size_t number, gpurun_stream domain)
        : outgoing_(kind, bytes), incoming_(kind, bytes), bytes_(bytes), peer_(peer), number_(number), domain_(domain),
          content_(pattern(bytes, seed(rank(), peer, number))), got_(bytes) {
        REQUIRE_OK(gpurun_memset(incoming_.get(), 0, bytes_, domain_));
        delay(domain_, 200);
        REQUIRE_OK(gpurun_memcpy(outgoing_.get(), content_.data(), bytes_, domain_));
    }
    void send() { REQUIRE_OK(gpurun_send(outgoing_.get(), bytes_, GPURUN_BYTE, peer_, tag(), kWorld, domain_)); }
    void receive() {
        REQUIRE_OK(gpurun_recv(incoming_.get(), bytes_, GPURUN_BYTE, peer_, tag(), kWorld, domain_, &status_));
    }
    void sendrecv() {
        REQUIRE_OK(gpurun_sendrecv(outgoing_.get(), bytes_, GPURUN_BYTE, peer_, tag(), incoming_.get(), bytes_,
                                   GPURUN_BYTE, peer_, tag(), kWorld, domain_, &status_));
    }
    void check() {
        REQUIRE_OK(gpurun_memset(outgoing_.get(), 0xff, bytes_, domain_));
        REQUIRE_OK(gpurun_memcpy(got_.data(), incoming_.get(), bytes_, domain_));
        synchronize(domain_);
        CHECK(status_.source == peer_);
        CHECK(status_.bytes == bytes_);
        CHECK(status_.error == GPURUN_OK);
        CHECK(first_difference(got_, pattern(bytes_, seed(peer_, rank(), number_))) == -1);
    }

  private:
    int tag() const { return static_cast<int>(number_ % 3); }

    Memory outgoing_, incoming_;
    const size_t bytes_;
    const int peer_;
    const size_t number_;
    const gpurun_stream domain_;
    const Bytes content_;
    Bytes got_;
    gpurun_message_status status_{};
};

using Crossings = std::deque<Crossing>;

void exchange(Crossings& crossings) {
    REQUIRE_OK(gpurun_group_begin());
    for (Crossing& each : crossings)
        each.send();
    for (Crossing& each : crossings)
        each.receive();
    REQUIRE_OK(gpurun_group_end());
    for (Crossing& each : crossings)
        each.check();
}

} // namespace

TEST_SUITE_BEGIN("groups");

TEST_CASE("ranks that send before they receive do not deadlock in a group") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const size_t bytes : kSizes)
        for (const Kind kind : kKinds)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                CAPTURE(bytes);
                CAPTURE(name(kind));
                Crossings crossings;
                for (size_t i = 0; i < 3; ++i)
                    crossings.emplace_back(kind, bytes, partner(), i, domain);
                exchange(crossings);
            }
}

TEST_CASE("each message of a group is ordered with its own stream, or with the host") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream first, second, third;
    const gpurun_stream domains[] = {first, GPURUN_HOST, second, third, first};
    for (int round = 0; round < 5; ++round) {
        Crossings crossings;
        for (size_t i = 0; i < std::size(kSizes); ++i)
            crossings.emplace_back(i % 4 == 3 ? Kind::kPinned : Kind::kDevice, kSizes[i], partner(), i,
                                   domains[(i + static_cast<size_t>(round)) % std::size(domains)]);
        exchange(crossings);
    }
}

TEST_CASE("all ranks exchange several messages with all others in one group") {
    const Stream stream;
    for (const size_t bytes : {size_t{64}, size_t{4096}, size_t{40'000}, size_t{200'000}}) {
        CAPTURE(bytes);
        Crossings crossings;
        for (int peer = 0; peer < size(); ++peer)
            for (size_t i = 0; i < 6; ++i)
                if (peer != rank())
                    crossings.emplace_back(Kind::kDevice, bytes, peer, i, stream);
        exchange(crossings);
    }
}

TEST_CASE("a group may hold any number of messages, and sendrecv too") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    Crossings crossings;
    for (size_t i = 0; i < 100; ++i)
        crossings.emplace_back(Kind::kDevice, 8 + i * 97, partner(), i, stream);
    REQUIRE_OK(gpurun_group_begin());
    for (Crossing& each : crossings)
        each.sendrecv();
    REQUIRE_OK(gpurun_group_end());
    for (Crossing& each : crossings)
        each.check();
}

TEST_CASE("messages of a group match in the order of the calls, whether blocking or not") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    constexpr size_t kMessages = 8, kBytes = 1000;
    std::deque<Memory> sent, received;
    for (size_t i = 0; i < kMessages; ++i) {
        sent.emplace_back(Kind::kDevice, kBytes).write(pattern(kBytes, seed(rank(), partner(), i)));
        received.emplace_back(Kind::kDevice, kBytes);
    }
    gpurun_request requests[2 * kMessages] = {};
    REQUIRE_OK(gpurun_group_begin());
    for (size_t i = 0; i < kMessages; ++i)
        if (i % 2 == 0)
            REQUIRE_OK(gpurun_irecv(received[i].get(), kBytes, GPURUN_BYTE, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld,
                                    stream, &requests[i]));
        else
            REQUIRE_OK(gpurun_recv(received[i].get(), kBytes, GPURUN_BYTE, partner(), GPURUN_ANY_TAG, kWorld, stream,
                                   nullptr));
    for (size_t i = 0; i < kMessages; ++i)
        if (i % 3 == 0)
            REQUIRE_OK(gpurun_isend(sent[i].get(), kBytes, GPURUN_BYTE, partner(), 5, kWorld, stream,
                                    &requests[kMessages + i]));
        else
            REQUIRE_OK(gpurun_send(sent[i].get(), kBytes, GPURUN_BYTE, partner(), 5, kWorld, stream));
    REQUIRE_OK(gpurun_group_end());
    REQUIRE_OK(gpurun_waitall(2 * kMessages, requests, GPURUN_HOST, nullptr));
    stream.synchronize();
    for (size_t i = 0; i < kMessages; ++i) {
        CAPTURE(i);
        CHECK(first_difference(received[i].read(), pattern(kBytes, seed(partner(), rank(), i))) == -1);
    }
}

TEST_CASE("persistent requests are started with their group, and completed after it") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    constexpr size_t kBytes = 5000;
    Memory out(Kind::kDevice, kBytes), in(Kind::kDevice, kBytes);
    gpurun_request both[2] = {};
    REQUIRE_OK(gpurun_send_init(out.get(), kBytes, GPURUN_BYTE, partner(), 7, kWorld, stream, &both[0]));
    REQUIRE_OK(gpurun_recv_init(in.get(), kBytes, GPURUN_BYTE, partner(), 7, kWorld, stream, &both[1]));
    for (size_t round = 0; round < 4; ++round) {
        out.write(pattern(kBytes, seed(rank(), partner(), round)));
        REQUIRE_OK(gpurun_group_begin());
        REQUIRE_OK(gpurun_startall(2, both));
        CHECK(gpurun_start(&both[0]) == GPURUN_ERR_REQUEST); // it is active
        REQUIRE_OK(gpurun_group_end());
        REQUIRE_OK(gpurun_waitall(2, both, stream, nullptr));
        stream.synchronize();
        CHECK(first_difference(in.read(), pattern(kBytes, seed(partner(), rank(), round))) == -1);
    }
    REQUIRE_OK(gpurun_request_free(&both[0]));
    REQUIRE_OK(gpurun_request_free(&both[1]));
}

TEST_CASE("groups nest, and the outermost one counts") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    Crossings crossings;
    for (size_t i = 0; i < 4; ++i)
        crossings.emplace_back(Kind::kDevice, 100'000, partner(), i, stream);
    REQUIRE_OK(gpurun_group_begin());
    for (Crossing& each : crossings) {
        REQUIRE_OK(gpurun_group_begin());
        each.send();
        REQUIRE_OK(gpurun_group_end());
    }
    REQUIRE_OK(gpurun_group_begin());
    for (Crossing& each : crossings)
        each.receive();
    REQUIRE_OK(gpurun_group_end());
    REQUIRE_OK(gpurun_group_end());
    for (Crossing& each : crossings)
        each.check();
    CHECK(gpurun_group_end() == GPURUN_ERR_ARGUMENT);
    CHECK(std::string(gpurun_error_detail()).find("gpurun_group_begin() was not called") != std::string::npos);
}

TEST_CASE("an empty group, and one of messages to nobody, ends at once") {
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_group_end());
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, GPURUN_PROC_NULL, 1, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, GPURUN_PROC_NULL, 1, kWorld, GPURUN_HOST, &status));
    REQUIRE_OK(gpurun_group_end());
    CHECK(status.source == GPURUN_PROC_NULL);
    CHECK(status.bytes == 0);
}

TEST_CASE("messages to itself cross in a group") {
    const Stream stream;
    Crossings crossings;
    for (const size_t bytes : kSizes)
        for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
            crossings.emplace_back(Kind::kDevice, bytes, rank(), bytes, domain);
    exchange(crossings);
}

TEST_CASE("collectives of a group are complete in their order domains with it") {
    const Stream stream;
    constexpr size_t kBytes = 30'000;
    Memory data(Kind::kDevice, kBytes);
    data.write(rank() == 0 ? pattern(kBytes, 77) : Bytes(kBytes, 0));
    Bytes got(kBytes);
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_bcast(data.get(), kBytes, GPURUN_BYTE, 0, kWorld, stream));
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_group_end());
    REQUIRE_OK(gpurun_memcpy(got.data(), data.get(), kBytes, stream));
    stream.synchronize();
    CHECK(first_difference(got, pattern(kBytes, 77)) == -1);
}

// The ranks need not agree on the order of collectives of different communicators that are under way together.
TEST_CASE("collectives of a group on two communicators, or beside messages, may be called in any order") {
    const Stream stream;
    gpurun_comm other{};
    REQUIRE_OK(gpurun_comm_dup(kWorld, &other));
    const int32_t own[2] = {rank(), 1};
    int32_t sums[2] = {-1, -1};
    Memory from(Kind::kDevice, sizeof own), into(Kind::kDevice, sizeof sums);
    REQUIRE_OK(gpurun_memcpy(from.get(), own, sizeof own, stream));
    const auto sum = [&](int i) {
        REQUIRE_OK(gpurun_allreduce(from.at(sizeof own[0] * i), into.at(sizeof sums[0] * i), 1, GPURUN_INT32,
                                    GPURUN_SUM, i == 0 ? kWorld : other, stream));
    };
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    Memory out(Kind::kDevice, 100'000), in(Kind::kDevice, 100'000);
    out.write(pattern(100'000, seed(rank(), next, 1)));
    for (const bool with_messages : {false, true}) {
        REQUIRE_OK(gpurun_memset(into.get(), 0xff, sizeof sums, stream));
        REQUIRE_OK(gpurun_group_begin());
        if (with_messages)
            REQUIRE_OK(gpurun_send(out.get(), 100'000, GPURUN_BYTE, next, 1, kWorld, stream));
        sum(rank() % 2);
        sum(1 - rank() % 2);
        if (with_messages)
            REQUIRE_OK(gpurun_recv(in.get(), 100'000, GPURUN_BYTE, previous, 1, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_group_end());
        REQUIRE_OK(gpurun_memcpy(sums, into.get(), sizeof sums, stream));
        stream.synchronize();
        CHECK(sums[0] == size() * (size() - 1) / 2);
        CHECK(sums[1] == size());
    }
    CHECK(first_difference(in.read(), pattern(100'000, seed(previous, rank(), 1))) == -1);
    REQUIRE_OK(gpurun_comm_free(&other));
}

TEST_CASE("a message that is too long is named by the group's end, and all others arrive") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    Memory out(Kind::kDevice, 5000), in(Kind::kDevice, 5000);
    out.write(pattern(5000, seed(rank(), partner(), 9)));
    in.write(Bytes(5000, 0));
    gpurun_message_status statuses[2] = {};
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_send(out.get(), 3000, GPURUN_BYTE, partner(), 1, kWorld, stream));
    REQUIRE_OK(gpurun_send(out.at(3000), 2000, GPURUN_BYTE, partner(), 2, kWorld, stream));
    REQUIRE_OK(gpurun_recv(in.get(), 1000, GPURUN_BYTE, partner(), 1, kWorld, stream, &statuses[0]));
    REQUIRE_OK(gpurun_recv(in.at(3000), 2000, GPURUN_BYTE, partner(), 2, kWorld, stream, &statuses[1]));
    CHECK(gpurun_group_end() == GPURUN_ERR_TRUNCATED);
    const std::string detail = gpurun_error_detail();
    CHECK_MESSAGE(detail.find("gpurun_recv() from rank " + std::to_string(partner()) + ", number 3 of the group") !=
                      std::string::npos,
                  detail);
    stream.synchronize();
    CHECK(statuses[0].error == GPURUN_ERR_TRUNCATED);
    CHECK(statuses[0].bytes == 3000);
    CHECK(statuses[1].error == GPURUN_OK);
    Bytes expected = pattern(5000, seed(partner(), rank(), 9));
    std::fill(expected.begin() + 1000, expected.begin() + 3000, uint8_t{0});
    CHECK(first_difference(in.read(), expected) == -1);
}

TEST_CASE("a call whose arguments cannot be used is not part of its group") {
    REQUIRE_OK(gpurun_group_begin());
    CHECK(gpurun_send(nullptr, 0, GPURUN_BYTE, size(), 1, kWorld, GPURUN_HOST) == GPURUN_ERR_RANK);
    CHECK(gpurun_recv(nullptr, 8, GPURUN_BYTE, rank(), 1, kWorld, GPURUN_HOST, nullptr) == GPURUN_ERR_BUFFER);
    REQUIRE_OK(gpurun_group_end());
}

TEST_CASE("what waits for messages is refused in a group") {
    const auto is_refused = [](gpurun_status status, const char* call) {
        CHECK(status == GPURUN_ERR_UNSUPPORTED);
        const std::string detail = gpurun_error_detail();
        CHECK_MESSAGE(detail.find(std::string(call) + "() cannot be called between gpurun_group_begin()") == 0, detail);
    };
    gpurun_request request = GPURUN_REQUEST_NULL;
    int number = 0, other = 0;
    char byte = 0;
    REQUIRE_OK(gpurun_group_begin());
    is_refused(gpurun_wait(&request, GPURUN_HOST, nullptr), "gpurun_wait");
    is_refused(gpurun_waitall(1, &request, GPURUN_HOST, nullptr), "gpurun_waitall");
    is_refused(gpurun_test(&request, GPURUN_HOST, &number, nullptr), "gpurun_test");
    is_refused(gpurun_waitany(1, &request, GPURUN_HOST, &number, nullptr), "gpurun_waitany");
    is_refused(gpurun_testsome(1, &request, GPURUN_HOST, &number, &other, nullptr), "gpurun_testsome");
    is_refused(gpurun_probe(rank(), 1, kWorld, nullptr), "gpurun_probe");
    is_refused(gpurun_iprobe(rank(), 1, kWorld, &number, nullptr), "gpurun_iprobe");
    is_refused(gpurun_cancel(&request), "gpurun_cancel");
    is_refused(gpurun_request_free(&request), "gpurun_request_free");
    is_refused(gpurun_sendrecv_replace(&byte, 1, GPURUN_BYTE, rank(), 1, rank(), 1, kWorld, GPURUN_HOST, nullptr),
               "gpurun_sendrecv_replace");
    is_refused(gpurun_finalize(), "gpurun_finalize");
    REQUIRE_OK(gpurun_group_end());
}

TEST_CASE("a probed message is received in a group") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    int number = rank(), got = -1;
    gpurun_request sent{};
    REQUIRE_OK(gpurun_isend(&number, 1, GPURUN_INT, partner(), 8, kWorld, GPURUN_HOST, &sent));
    gpurun_message message{};
    REQUIRE_OK(gpurun_mprobe(partner(), 8, kWorld, &message, nullptr));
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_group_begin());
    REQUIRE_OK(gpurun_mrecv(&got, 1, GPURUN_INT, &message, GPURUN_HOST, &status));
    REQUIRE_OK(gpurun_group_end());
    CHECK(got == partner());
    CHECK(status.tag == 8);
    REQUIRE_OK(gpurun_wait(&sent, GPURUN_HOST, nullptr));
}

} // namespace gpurun::test::call_groups
