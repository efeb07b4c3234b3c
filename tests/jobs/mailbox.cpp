// Small device messages, which go through the receiver's mailbox where there is one: at most 32 of them at a time that
// nobody has received, of at most 256 KiB. Whatever has no room there takes other paths, in the same order.
#include "support/job.hpp"

#include <algorithm>

namespace gpurun::test::mailbox {

namespace {

constexpr int kTag = 3, kOtherTag = 4;
constexpr size_t kSizes[] = {8,     1,     2,     7,    0,      9,    15,     16,     17,    63,    64,
                             65,    100,   4095,  4096, 4097,   8191, 8192,   8193,   0,     32768, 32769,
                             65535, 65536, 65537, 1,    200000, 24,   262144, 262145, 131072};
constexpr size_t kLargest = 262145;
constexpr Kind kOnStreams[] = {Kind::kDevice, Kind::kOrdered, Kind::kPinned};

// Messages begin at different places of one pattern, by their number.
constexpr size_t kNumbers = 1000;
Bytes window() { return pattern(kLargest + kNumbers, static_cast<uint64_t>(rank()) + 1); }
Bytes window_of(int sender) { return pattern(kLargest + kNumbers, static_cast<uint64_t>(sender) + 1); }

void isend(const Memory& from, size_t number, size_t bytes, int tag, gpurun_stream domain,
           std::vector<gpurun_request>& requests) {
    requests.emplace_back();
    REQUIRE_OK(gpurun_isend(from.at(number), bytes, GPURUN_BYTE, partner(), tag, kWorld, domain, &requests.back()));
}

void wait_for_all(std::vector<gpurun_request>& requests, gpurun_stream domain) {
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), domain, nullptr));
    requests.clear();
}

// Receives the message `number` of `bytes` and keeps it in `log`, in the order of `domain`.
void receive(const Memory& into, size_t bytes, gpurun_stream domain, std::vector<Bytes>& log) {
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_recv(into.get(), into.size(), GPURUN_BYTE, partner(), kTag, kWorld, domain, &status));
    CHECK(status.bytes == bytes);
    log.emplace_back(bytes);
    REQUIRE_OK(gpurun_memcpy(log.back().data(), into.get(), bytes, domain));
    REQUIRE_OK(gpurun_memset(into.get(), 0xee, std::min<size_t>(bytes + 8, into.size()), domain)); // nothing comes late
}

void check_log(const std::vector<Bytes>& log, const Bytes& sent, size_t first_number = 0) {
    for (size_t i = 0; i < log.size(); i++) {
        CAPTURE(i);
        CAPTURE(log[i].size());
        CHECK(first_difference(log[i].data(), &sent[first_number + i], log[i].size()) == -1);
    }
}

} // namespace

TEST_SUITE_BEGIN("mailbox");

TEST_CASE("messages of every size arrive whole and in order, from and into every kind of memory") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Bytes sent = window_of(partner());
    const Stream stream;
    for (const Kind from : kOnStreams)
        for (const Kind to : kKinds)
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                CAPTURE(name(from));
                CAPTURE(name(to));
                CAPTURE((domain == GPURUN_HOST));
                Memory out(from, kLargest + kNumbers);
                out.write(window());
                const Memory in(to, kLargest);
                std::vector<gpurun_request> requests;
                std::vector<Bytes> log;
                for (size_t i = 0; i < std::size(kSizes); i++) { // both ranks: both directions at once
                    isend(out, i, kSizes[i], kTag, domain, requests);
                    receive(in, kSizes[i], domain, log);
                }
                wait_for_all(requests, domain);
                synchronize(domain);
                check_log(log, sent);
            }
}

TEST_CASE("more messages than a mailbox has room for are received in order, and room comes back") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMessages = 120; // beyond the mailbox and the eager buffers
    const Bytes sent = window_of(partner());
    const Stream stream;
    Memory out(Kind::kDevice, kLargest + kNumbers);
    out.write(window());
    const auto bytes_of = [](size_t i) { return i % 7 == 0 ? 5000 + i : 1 + i * 31 % 4096; };
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const Kind to : {Kind::kDevice, Kind::kPageable})
            for (const size_t messages : {kMessages, size_t{33}, kMessages}) {
                CAPTURE((domain == GPURUN_HOST));
                CAPTURE(name(to));
                const Memory in(to, kLargest);
                std::vector<gpurun_request> requests;
                for (size_t i = 0; i < messages; i++)
                    isend(out, i, bytes_of(i), kTag, domain, requests);
                isend(out, 0, 1, kOtherTag, domain, requests);
                REQUIRE_OK(gpurun_probe(partner(), kOtherTag, kWorld, nullptr)); // behind all: they are here
                std::vector<Bytes> log;
                for (size_t i = 0; i < messages; i++)
                    receive(in, bytes_of(i), domain, log);
                REQUIRE_OK(gpurun_recv(in.get(), 1, GPURUN_BYTE, partner(), kOtherTag, kWorld, domain, nullptr));
                wait_for_all(requests, domain);
                synchronize(domain);
                check_log(log, sent);
            }
}

TEST_CASE("shorter buffers get what fits, and what follows through the same mailbox is whole") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kRooms[] = {0, 1, 8, 100, 4095};
    constexpr size_t kMessages = 80;
    const Bytes sent = window_of(partner());
    const Stream streams[3]; // a slot's next mail comes from another stream
    Memory out(Kind::kDevice, kLargest + kNumbers);
    out.write(window());
    for (const Kind to : {Kind::kDevice, Kind::kPinned, Kind::kPageable}) {
        CAPTURE(name(to));
        Memory in(to, 65536);
        in.write(Bytes(65536, 0x77));
        std::vector<gpurun_request> requests;
        std::vector<Bytes> log;
        for (size_t i = 0; i < kMessages; i++) {
            CAPTURE(i);
            const gpurun_stream stream = streams[i % 3];
            isend(out, i, i % 2 == 0 ? 65536 : 64, kTag, stream, requests);
            if (i % 2 != 0) {
                receive(in, 64, streams[0], log);
                REQUIRE_OK(gpurun_memset(in.get(), 0x77, 72, streams[0]));
                continue;
            }
            const size_t room = kRooms[i / 2 % std::size(kRooms)];
            gpurun_message_status status{};
            CHECK(gpurun_recv(in.get(), room, GPURUN_BYTE, partner(), kTag, kWorld, streams[0], &status) ==
                  GPURUN_ERR_TRUNCATED);
            CHECK(status.bytes == 65536);
            Bytes expected(5000, 0x77);
            std::copy_n(&sent[i], room, expected.begin());
            Bytes got(5000);
            REQUIRE_OK(gpurun_memcpy(got.data(), in.get(), got.size(), streams[0]));
            REQUIRE_OK(gpurun_memset(in.get(), 0x77, got.size(), streams[0]));
            streams[0].synchronize();
            CHECK(first_difference(got, expected) == -1);
        }
        wait_for_all(requests, streams[1]);
        for (const Stream& stream : streams)
            stream.synchronize();
        for (size_t i = 0; i < log.size(); i++)
            CHECK(first_difference(log[i].data(), &sent[2 * i + 1], 64) == -1);
    }
}

TEST_CASE("receives that were started before and after the send get their messages, in the order of any stream") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 3000, kRounds = 40;
    const Bytes own = window(), sent = window_of(partner());
    const Stream work, ended, read;
    for (const Kind to : {Kind::kDevice, Kind::kPinned, Kind::kPageable})
        for (const bool early : {true, false}) {
            CAPTURE(name(to));
            CAPTURE(early);
            const Memory out(Kind::kDevice, kBytes);
            const Memory in(to, kBytes);
            std::vector<Bytes> log;
            for (size_t round = 0; round < kRounds; round++) {
                gpurun_request receive = GPURUN_REQUEST_NULL, send = GPURUN_REQUEST_NULL;
                const auto start_receive = [&] {
                    REQUIRE_OK(gpurun_irecv(in.get(), kBytes, GPURUN_BYTE, partner(), kTag, kWorld, read, &receive));
                };
                if (early)
                    start_receive();
                delay(work, round % 8 == 3 ? 2000 : 0);
                REQUIRE_OK(gpurun_memcpy(out.get(), &own[round], kBytes, work));
                REQUIRE_OK(gpurun_isend(out.get(), kBytes, GPURUN_BYTE, partner(), kTag, kWorld, work, &send));
                if (!early) {
                    REQUIRE_OK(gpurun_probe(partner(), kTag, kWorld, nullptr));
                    start_receive();
                }
                REQUIRE_OK(
                    gpurun_wait(&send, ended, nullptr)); // another stream may use the buffer, when it comes to it
                REQUIRE_OK(gpurun_memset(out.get(), 0xdd, kBytes, ended));
                gpurun_event overwritten = nullptr;
                REQUIRE_OK(gpurun_event_create(&overwritten));
                REQUIRE_OK(gpurun_event_record(overwritten, ended));
                REQUIRE_OK(gpurun_stream_wait_event(work, overwritten));
                REQUIRE_OK(gpurun_event_destroy(overwritten));
                REQUIRE_OK(
                    gpurun_wait(&receive, round % 2 == 0 ? static_cast<gpurun_stream>(read) : GPURUN_HOST, nullptr));
                log.emplace_back(kBytes);
                REQUIRE_OK(gpurun_memcpy(log.back().data(), in.get(), kBytes, read));
                REQUIRE_OK(gpurun_memset(in.get(), 0xee, kBytes, read));
            }
            read.synchronize();
            work.synchronize();
            ended.synchronize();
            check_log(log, sent);
        }
}

TEST_CASE("small messages keep their order among those on every other path") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Bytes sent = window_of(partner());
    const Stream stream;
    Memory device(Kind::kDevice, kLargest + kNumbers), ordered(Kind::kOrdered, kLargest + kNumbers),
        pinned(Kind::kPinned, kLargest + kNumbers), pageable(Kind::kPageable, kLargest + kNumbers);
    const Memory* const sources[] = {&device, &pageable, &device, &ordered, &device, &pinned, &device};
    for (Memory* source : {&device, &ordered, &pinned, &pageable})
        source->write(window());
    const size_t sizes[] = {64, 100, kLargest, 1000, 0, 65537, 40, kLargest, 8, 65536, 1};
    constexpr size_t kMessages = 7 * std::size(sizes);
    for (const Kind to : {Kind::kDevice, Kind::kPageable}) {
        CAPTURE(name(to));
        const Memory in(to, kLargest);
        std::vector<gpurun_request> requests;
        std::vector<Bytes> log;
        for (size_t i = 0; i < kMessages; i++) // in turns on a stream and on the host
            isend(*sources[i % std::size(sources)], i, sizes[i % std::size(sizes)], kTag,
                  i % 3 == 0 ? GPURUN_HOST : static_cast<gpurun_stream>(stream), requests);
        for (size_t i = 0; i < kMessages; i++)
            receive(in, sizes[i % std::size(sizes)], stream, log);
        wait_for_all(requests, stream);
        stream.synchronize();
        check_log(log, sent);
    }
}

TEST_CASE("a message that waits in its sender's stream holds up no other stream's") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kBytes = 512;
    const Bytes sent = window_of(partner());
    const Stream held, free_stream;
    Memory out(Kind::kDevice, kLargest + kNumbers);
    out.write(window());
    const Memory late(Kind::kDevice, kBytes), in(Kind::kDevice, kBytes);
    Bytes got_late(kBytes);
    std::vector<Bytes> log;
    std::vector<gpurun_request> requests; // where there is no mailbox, sends may wait for their match
    delay(held, 50000);
    isend(out, 0, kBytes, kOtherTag, held, requests);
    REQUIRE_OK(gpurun_recv(late.get(), kBytes, GPURUN_BYTE, partner(), kOtherTag, kWorld, held, nullptr));
    REQUIRE_OK(gpurun_memcpy(got_late.data(), late.get(), kBytes, held));
    for (size_t i = 0; i < 100; i++) {
        isend(out, i, kBytes, kTag, free_stream, requests);
        receive(in, kBytes, free_stream, log);
    }
    free_stream.synchronize();
    check_log(log, sent);
    wait_for_all(requests, held);
    held.synchronize();
    CHECK(first_difference(got_late.data(), sent.data(), kBytes) == -1);
}

TEST_CASE("ranks that all send to all get each other's messages in order") {
    constexpr size_t kEach = 40;
    const Stream stream;
    for (int distance = 1; distance < size(); distance++) { // opens the mailboxes that there are
        const Memory buffer(Kind::kDevice, 16);
        REQUIRE_OK(gpurun_sendrecv(buffer.get(), 8, GPURUN_BYTE, (rank() + distance) % size(), kTag, buffer.at(8), 8,
                                   GPURUN_BYTE, (rank() + size() - distance) % size(), kTag, kWorld, stream, nullptr));
        stream.synchronize();
    }
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
    Memory out(Kind::kDevice, kLargest + kNumbers);
    out.write(window());
    const auto bytes_of = [](size_t i) { return 1 + i * 97 % 9000; };
    std::vector<gpurun_request> requests;
    for (size_t i = 0; i < kEach; i++)
        for (int dest = 0; dest < size(); dest++)
            if (dest != rank()) {
                requests.emplace_back();
                REQUIRE_OK(gpurun_isend(out.at(i), bytes_of(i), GPURUN_BYTE, dest, kTag, kWorld,
                                        i % 2 == 0 ? static_cast<gpurun_stream>(stream) : GPURUN_HOST,
                                        &requests.back()));
            }
    std::vector<std::vector<Bytes>> logs(static_cast<size_t>(size()));
    const Memory in(Kind::kDevice, 9000);
    for (size_t i = 0; i < kEach * static_cast<size_t>(size() - 1); i++) {
        gpurun_message_status status{};
        REQUIRE_OK(gpurun_recv(in.get(), in.size(), GPURUN_BYTE, GPURUN_ANY_SOURCE, kTag, kWorld, stream, &status));
        std::vector<Bytes>& log = logs.at(static_cast<size_t>(status.source));
        REQUIRE(status.bytes == bytes_of(log.size()));
        log.emplace_back(status.bytes);
        REQUIRE_OK(gpurun_memcpy(log.back().data(), in.get(), status.bytes, stream));
    }
    wait_for_all(requests, stream);
    stream.synchronize();
    for (int source = 0; source < size(); source++) {
        CAPTURE(source);
        check_log(logs[static_cast<size_t>(source)], window_of(source));
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::mailbox
