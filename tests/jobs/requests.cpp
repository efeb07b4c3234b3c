// Messages that are started now and completed later, in whichever order domains.
#include "signals.hpp"
#include "support/job.hpp"

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

namespace gpurun::test::requests {

namespace {

constexpr size_t kSizes[] = {0, 8, 4096, 4097, 100000, 300000, 6u << 20};
constexpr size_t kLarge = (3u << 20) + 5; // waits for its match on every path
constexpr int kData = 1, kGo = 2;

uint64_t seed_of(int from, size_t number) { return static_cast<uint64_t>(from) * 100000 + number; }

void say_go(int to) { REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, to, kGo, kWorld, GPURUN_HOST)); }
void await_go(int from) { REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, from, kGo, kWorld, GPURUN_HOST, nullptr)); }

gpurun_request start_send(const Memory& buffer, size_t bytes, int dest, int tag, gpurun_stream domain) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_isend(buffer.get(), bytes, GPURUN_BYTE, dest, tag, kWorld, domain, &request));
    CHECK(request.id != 0);
    return request;
}

gpurun_request start_receive(const Memory& buffer, size_t bytes, int source, int tag, gpurun_stream domain) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_irecv(buffer.get(), bytes, GPURUN_BYTE, source, tag, kWorld, domain, &request));
    CHECK(request.id != 0);
    return request;
}

void complete(gpurun_request& request, gpurun_stream domain, gpurun_message_status* status = nullptr) {
    REQUIRE_OK(gpurun_wait(&request, domain, status));
    CHECK(request.id == 0);
}

// Both ways at once: the message follows what was issued in the domain of the start, and what is issued in the domain
// of the completion follows the message.
void exchange(Kind from, Kind to, size_t bytes, gpurun_stream start, gpurun_stream end) {
    Memory outgoing(from, bytes), incoming(to, bytes);
    const Bytes content = pattern(bytes, seed_of(rank(), bytes));
    Bytes got(bytes);
    REQUIRE_OK(gpurun_memset(incoming.get(), 0x11, bytes, start));
    REQUIRE_OK(gpurun_memcpy(outgoing.get(), content.data(), bytes, start));
    gpurun_request receive = start_receive(incoming, bytes, partner(), kData, start);
    gpurun_request send = start_send(outgoing, bytes, partner(), kData, start);
    gpurun_message_status status{};
    complete(send, end);
    REQUIRE_OK(gpurun_memset(outgoing.get(), 0xff, bytes, end));
    complete(receive, end, &status);
    REQUIRE_OK(gpurun_memcpy(got.data(), incoming.get(), bytes, end));
    synchronize(end);
    synchronize(start);
    CHECK(status.source == partner());
    CHECK(status.tag == kData);
    CHECK(status.bytes == bytes);
    CHECK(status.count == bytes);
    CHECK(status.error == GPURUN_OK);
    CHECK(status.cancelled == 0);
    CHECK(first_difference(got, pattern(bytes, seed_of(partner(), bytes))) == -1);
}

// Many requests each way, received last to first.
void flood(gpurun_stream domain, Kind kind, size_t messages) {
    constexpr size_t kSlot = 6000;
    const auto bytes_of = [](size_t i) { return i % 50 == 7 ? kSlot : 8 + i % 5; };
    Memory outgoing(kind, messages * kSlot), incoming(kind, messages * kSlot);
    std::vector<gpurun_request> requests;
    Bytes contents(outgoing.size());
    for (size_t i = 0; i < messages; i++) {
        const Bytes content = pattern(bytes_of(i), seed_of(rank(), i));
        std::memcpy(&contents[i * kSlot], content.data(), content.size());
    }
    outgoing.write(contents);
    for (size_t i = 0; i < messages; i++) {
        requests.emplace_back();
        REQUIRE_OK(gpurun_isend(outgoing.at(i * kSlot), bytes_of(i), GPURUN_BYTE, partner(), static_cast<int>(i),
                                kWorld, domain, &requests.back()));
    }
    for (size_t i = messages; i-- > 0;) {
        requests.emplace_back();
        REQUIRE_OK(gpurun_irecv(incoming.at(i * kSlot), kSlot, GPURUN_BYTE, partner(), static_cast<int>(i), kWorld,
                                domain, &requests.back()));
    }
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), domain, nullptr));
    synchronize(domain);
    const Bytes got = incoming.read();
    for (size_t i = 0; i < messages; i++) {
        const Bytes content = pattern(bytes_of(i), seed_of(partner(), i));
        REQUIRE(first_difference(&got[i * kSlot], content.data(), content.size()) == -1);
    }
}

} // namespace

TEST_SUITE_BEGIN("requests");

TEST_CASE("a message is started in one order domain and completed into another, whole from any memory to any") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream first, second;
    size_t turn = 0;
    for (const size_t bytes : kSizes)
        for (const Kind from : kKinds) {
            const Kind to = kKinds[turn++ % std::size(kKinds)];
            for (const gpurun_stream start : {GPURUN_HOST, static_cast<gpurun_stream>(first)})
                for (const gpurun_stream end :
                     {GPURUN_HOST, static_cast<gpurun_stream>(first), static_cast<gpurun_stream>(second)}) {
                    CAPTURE(bytes);
                    CAPTURE(name(from));
                    CAPTURE(name(to));
                    CAPTURE((start == GPURUN_HOST));
                    CAPTURE((end == GPURUN_HOST));
                    exchange(from, to, bytes, start, end);
                }
            turn += from == Kind::kPageable ? 1 : 0; // so that each size pairs the kinds in another way
        }
}

TEST_CASE("what follows a start in its stream does not wait for the message") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    const Bytes content = pattern(kLarge, 5);
    for (const int sender : {0, 1}) {
        Memory buffer(Kind::kDevice, kLarge), other(Kind::kDevice, 1000);
        buffer.write(content);
        for (const bool receiver_is_late : {true, false}) {
            const bool sends = rank() % 2 == sender;
            if (sends != receiver_is_late)
                await_go(partner());
            gpurun_request request = sends ? start_send(buffer, kLarge, partner(), kData, stream)
                                           : start_receive(buffer, kLarge, partner(), kData, stream);
            REQUIRE_OK(gpurun_memset(other.get(), 3, other.size(), stream));
            if (sends == receiver_is_late) {
                stream.synchronize(); // the other side has not been started
                say_go(partner());
            }
            complete(request, stream);
            stream.synchronize();
            CHECK(first_difference(buffer.read(), content) == -1);
        }
    }
}

TEST_CASE("a stream waits for the message that was completed into it, and for no other") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream, waiting;
    Memory first(Kind::kDevice, kLarge), second(Kind::kDevice, kLarge);
    if (rank() % 2 == 0) {
        first.write(pattern(kLarge, 1));
        second.write(pattern(kLarge, 2));
        gpurun_request sent = start_send(second, kLarge, partner(), 12, stream);
        complete(sent, GPURUN_HOST);
        await_go(partner()); // the second message is there, the first not yet sent
        sent = start_send(first, kLarge, partner(), 11, stream);
        complete(sent, GPURUN_HOST);
        return;
    }
    gpurun_request one = start_receive(first, kLarge, partner(), 11, stream);
    gpurun_request two = start_receive(second, kLarge, partner(), 12, stream);
    complete(two, waiting);
    waiting.synchronize();
    CHECK(first_difference(second.read(), pattern(kLarge, 2)) == -1);
    say_go(partner());
    complete(one, waiting);
    waiting.synchronize();
    CHECK(first_difference(first.read(), pattern(kLarge, 1)) == -1);
}

TEST_CASE("all ranks start large sends to all others, then receive, on one stream") {
    const Stream stream;
    for (const gpurun_stream domain : {static_cast<gpurun_stream>(stream), GPURUN_HOST}) {
        Memory outgoing(Kind::kDevice, kLarge), incoming(Kind::kDevice, kLarge);
        std::vector<gpurun_request> sends;
        std::vector<Bytes> got(static_cast<size_t>(size()), Bytes(kLarge));
        const Bytes content = pattern(kLarge, seed_of(rank(), 0));
        REQUIRE_OK(gpurun_memcpy(outgoing.get(), content.data(), kLarge, domain));
        for (int other = 0; other < size(); other++)
            sends.push_back(start_send(outgoing, kLarge, other, kData, domain));
        for (int distance = 0; distance < size(); distance++) {
            const int other = (rank() + size() - distance) % size();
            REQUIRE_OK(gpurun_recv(incoming.get(), kLarge, GPURUN_BYTE, other, kData, kWorld, domain, nullptr));
            REQUIRE_OK(gpurun_memcpy(got[static_cast<size_t>(other)].data(), incoming.get(), kLarge, domain));
        }
        REQUIRE_OK(gpurun_waitall(sends.size(), sends.data(), domain, nullptr));
        REQUIRE_OK(gpurun_memset(outgoing.get(), 0, kLarge, domain));
        synchronize(domain);
        for (int other = 0; other < size(); other++)
            CHECK(first_difference(got[static_cast<size_t>(other)], pattern(kLarge, seed_of(other, 0))) == -1);
    }
}

TEST_CASE("all ranks start receives from all others, then send large messages, on one stream") {
    const Stream stream;
    const Bytes content = pattern(kLarge, seed_of(rank(), 1));
    Memory outgoing(Kind::kDevice, kLarge), incoming(Kind::kDevice, kLarge * static_cast<size_t>(size()));
    REQUIRE_OK(gpurun_memcpy(outgoing.get(), content.data(), kLarge, stream));
    std::vector<gpurun_request> receives(static_cast<size_t>(size()));
    for (size_t other = 0; other < receives.size(); other++)
        REQUIRE_OK(gpurun_irecv(incoming.at(other * kLarge), kLarge, GPURUN_BYTE, static_cast<int>(other), kData,
                                kWorld, stream, &receives[other]));
    for (int distance = 0; distance < size(); distance++)
        REQUIRE_OK(
            gpurun_send(outgoing.get(), kLarge, GPURUN_BYTE, (rank() + distance) % size(), kData, kWorld, stream));
    REQUIRE_OK(gpurun_waitall(receives.size(), receives.data(), stream, nullptr));
    stream.synchronize();
    const Bytes got = incoming.read();
    for (size_t other = 0; other < receives.size(); other++)
        CHECK(first_difference(&got[other * kLarge], pattern(kLarge, seed_of(static_cast<int>(other), 1)).data(),
                               kLarge) == -1);
}

TEST_CASE("thousands of requests are under way each way at once, and are received last to first") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    flood(GPURUN_HOST, Kind::kPageable, 3000);
    flood(stream, Kind::kDevice, 1500);
}

TEST_CASE("a request that one thread has started is completed by another") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    for (const size_t bytes : {size_t{64}, kLarge}) {
        Memory outgoing(Kind::kDevice, bytes), incoming(Kind::kDevice, bytes);
        outgoing.write(pattern(bytes, seed_of(rank(), bytes)));
        gpurun_request send{}, receive{};
        std::thread starts([&] {
            receive = start_receive(incoming, bytes, partner(), kData, GPURUN_HOST);
            send = start_send(outgoing, bytes, partner(), kData, GPURUN_HOST);
        });
        starts.join();
        std::thread waits([&] { complete(receive, GPURUN_HOST); });
        complete(send, GPURUN_HOST);
        waits.join();
        CHECK(first_difference(incoming.read(), pattern(bytes, seed_of(partner(), bytes))) == -1);
    }
}

TEST_CASE("a started message is there for its receiver while the sender makes no call") {
    if (partner() == GPURUN_PROC_NULL || !goes_on_without_calls() || !can_signal_partner())
        return;
    constexpr int kMany = 100, kOthers = 100; // behind it; their tags
    Memory buffer(Kind::kPageable, kLarge);
    const Memory many(Kind::kDevice, 300000), in_stream(Kind::kDevice, 300000);
    const Stream stream;
    pid_t other = getpid();
    if (rank() % 2 == 1) {
        REQUIRE_OK(gpurun_recv(&other, sizeof other, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_recv(buffer.get(), kLarge, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, nullptr));
        CHECK(first_difference(buffer.read(), pattern(kLarge, 9)) == -1);
        for (int i = kMany - 1; i >= 0; i--) {
            const bool on_host = i % 2 == 0; // two orders, so two buffers
            REQUIRE_OK(gpurun_recv(on_host ? many.get() : in_stream.get(), many.size(), GPURUN_BYTE, partner(),
                                   kOthers + i, kWorld, on_host ? GPURUN_HOST : static_cast<gpurun_stream>(stream),
                                   nullptr));
        }
        stream.synchronize();
        REQUIRE(kill(other, SIGUSR1) == 0); // no message: its receiver makes no call
        return;
    }
    buffer.write(pattern(kLarge, 9));
    await_signal();
    REQUIRE_OK(gpurun_send(&other, sizeof other, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    gpurun_request request = start_send(buffer, kLarge, partner(), kData, GPURUN_HOST);
    std::vector<gpurun_request> others;
    for (int i = 0; i < kMany; i++)
        others.push_back(start_send(many, i % 3 == 0 ? 0 : many.size(), partner(), kOthers + i, stream));
    sleep_until_signal();
    complete(request, GPURUN_HOST);
    REQUIRE_OK(gpurun_waitall(others.size(), others.data(), GPURUN_HOST, nullptr));
}

TEST_CASE("large messages that a call has matched move on while their receiver makes no other") {
    if (partner() == GPURUN_PROC_NULL || !goes_on_without_calls() || !can_signal_partner())
        return;
    constexpr size_t kMany = 24;
    Memory buffer(Kind::kPageable, kMany * kLarge);
    pid_t other = getpid();
    std::vector<gpurun_request> requests(kMany);
    if (rank() % 2 == 1) {
        buffer.write(pattern(buffer.size(), 4));
        REQUIRE_OK(gpurun_recv(&other, sizeof other, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(gpurun_isend(buffer.at(i * kLarge), kLarge, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST,
                                    &requests[i]));
        REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
        REQUIRE(kill(other, SIGUSR1) == 0); // no message: its receiver makes no call
        return;
    }
    await_signal();
    for (size_t i = 0; i < kMany; i++)
        REQUIRE_OK(gpurun_irecv(buffer.at(i * kLarge), kLarge, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST,
                                &requests[i]));
    REQUIRE_OK(gpurun_send(&other, sizeof other, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    complete(requests[0], GPURUN_HOST); // others have been matched by then
    sleep_until_signal();
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
    CHECK(first_difference(buffer.read(), pattern(buffer.size(), 4)) == -1);
}

TEST_CASE("a ring full of small messages is emptied while their receiver makes no call") {
    if (partner() == GPURUN_PROC_NULL || !goes_on_without_calls() || !can_signal_partner())
        return;
    constexpr int kMany = 2000;
    std::vector<int> values(kMany), expected(kMany);
    std::iota(expected.begin(), expected.end(), 0);
    pid_t other = getpid();
    if (rank() % 2 == 1) {
        REQUIRE_OK(gpurun_recv(&other, sizeof other, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        std::this_thread::sleep_for(std::chrono::milliseconds(50)); // so that it is in no call any more
        for (const int& value : expected)
            REQUIRE_OK(gpurun_send(&value, 1, GPURUN_INT32, partner(), kData, kWorld, GPURUN_HOST));
        REQUIRE(kill(other, SIGUSR1) == 0);
        return;
    }
    await_signal();
    std::vector<gpurun_request> requests(kMany);
    for (size_t i = 0; i < requests.size(); i++)
        REQUIRE_OK(gpurun_irecv(&values[i], 1, GPURUN_INT32, partner(), kData, kWorld, GPURUN_HOST, &requests[i]));
    REQUIRE_OK(gpurun_send(&other, sizeof other, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    sleep_until_signal();
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
    CHECK((values == expected));
}

TEST_SUITE_END();

} // namespace gpurun::test::requests
