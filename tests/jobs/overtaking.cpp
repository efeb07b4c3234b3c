// Messages of one sender do not overtake each other, however each is sent and received.
#include "support/job.hpp"

#include <array>

namespace gpurun::test::overtaking {

namespace {

constexpr size_t kSizes[] = {8, 5000, 0, 40000, 4096, 300000, 16, 4097, 32768, 1, 70000, 8193, 16385, 8192, 12};
constexpr size_t kRoom = 300000;
constexpr int kMessages = 120, kTags = 3; // then sizes, ways, tags and places of the window come together again
constexpr size_t kWindow = 8;             // requests that are open at once

size_t bytes_of(int number) { return kSizes[static_cast<size_t>(number) % std::size(kSizes)]; }
int tag_of(int number) { return number / 2 % kTags; }
Bytes content_of(int from, int number) {
    return pattern(bytes_of(number), static_cast<uint64_t>(from * kMessages + number));
}

// A buffer whose message is under way.
struct Open {
    Memory buffer{Kind::kDevice, kRoom};
    gpurun_request request{};
    int number = -1; // the message's place in the order of sending; -1: none

    void complete(gpurun_stream domain, gpurun_message_status* status) {
        const bool persistent = number % 5 == 3;
        REQUIRE_OK(gpurun_wait(&request, domain, status));
        if (persistent)
            REQUIRE_OK(gpurun_request_free(&request));
        CHECK(request.id == 0);
    }
};
using Window = std::array<Open, kWindow>;

// Sends in one of five ways, in turn. True if the message is under way on return.
bool send(Open& open, int dest, gpurun_stream domain) {
    const Bytes content = content_of(rank(), open.number);
    const size_t bytes = content.size();
    const int tag = tag_of(open.number);
    void* const buffer = open.buffer.get();
    REQUIRE_OK(gpurun_memcpy(buffer, content.data(), bytes, GPURUN_HOST));
    switch (open.number % 5) {
    case 0: REQUIRE_OK(gpurun_send(buffer, bytes, GPURUN_BYTE, dest, tag, kWorld, domain)); return false;
    case 1: REQUIRE_OK(gpurun_isend(buffer, bytes, GPURUN_BYTE, dest, tag, kWorld, domain, &open.request)); break;
    case 2: REQUIRE_OK(gpurun_issend(buffer, bytes, GPURUN_BYTE, dest, tag, kWorld, domain, &open.request)); break;
    case 3:
        REQUIRE_OK(gpurun_send_init(buffer, bytes, GPURUN_BYTE, dest, tag, kWorld, domain, &open.request));
        REQUIRE_OK(gpurun_start(&open.request));
        break;
    case 4: REQUIRE_OK(gpurun_ssend(buffer, bytes, GPURUN_BYTE, dest, tag, kWorld, domain)); return false;
    }
    return true;
}

void send_all(int dest, gpurun_stream domain) {
    Window window;
    for (int number = 0; number < kMessages; number++) {
        Open& open = window[static_cast<size_t>(number) % kWindow];
        if (open.number >= 0)
            open.complete(GPURUN_HOST, nullptr);
        open.number = number;
        if (!send(open, dest, domain)) {
            synchronize(domain); // its buffer is written from the host next
            open.number = -1;
        }
    }
    for (Open& open : window)
        if (open.number >= 0)
            open.complete(GPURUN_HOST, nullptr);
    synchronize(domain);
}

void check(const Open& open, int from, const gpurun_message_status& status) {
    CAPTURE(open.number);
    const Bytes content = content_of(from, open.number);
    Bytes got(content.size());
    CHECK(status.source == from);
    CHECK(status.tag == tag_of(open.number));
    CHECK(status.bytes == content.size());
    REQUIRE_OK(gpurun_memcpy(got.data(), open.buffer.get(), got.size(), GPURUN_HOST));
    CHECK(first_difference(got, content) == -1);
}

// Receives in one of five ways, in turn. True if the receive is under way on return.
bool receive(Open& open, int source, int tag, gpurun_stream domain, gpurun_message_status* status) {
    void* const buffer = open.buffer.get();
    gpurun_message message{};
    switch (open.number % 5) {
    case 0: REQUIRE_OK(gpurun_recv(buffer, kRoom, GPURUN_BYTE, source, tag, kWorld, domain, status)); return false;
    case 1: REQUIRE_OK(gpurun_irecv(buffer, kRoom, GPURUN_BYTE, source, tag, kWorld, domain, &open.request)); break;
    case 2:
        REQUIRE_OK(gpurun_mprobe(source, tag, kWorld, &message, nullptr));
        REQUIRE_OK(gpurun_imrecv(buffer, kRoom, GPURUN_BYTE, &message, domain, &open.request));
        break;
    case 3:
        REQUIRE_OK(gpurun_recv_init(buffer, kRoom, GPURUN_BYTE, source, tag, kWorld, domain, &open.request));
        REQUIRE_OK(gpurun_start(&open.request));
        break;
    case 4: {
        gpurun_message_status probed{};
        REQUIRE_OK(gpurun_probe(source, tag, kWorld, &probed));
        REQUIRE_OK(gpurun_recv(buffer, probed.bytes, GPURUN_BYTE, probed.source, probed.tag, kWorld, domain, status));
        return false;
    }
    }
    return true;
}

// `shift` pairs the ways of sending with the ways of receiving differently.
void receive_all(int source, int shift, bool any_tag, gpurun_stream domain) {
    Window window;
    for (int number = 0; number < kMessages; number++) {
        Open& open = window[static_cast<size_t>(number) % kWindow];
        gpurun_message_status status{};
        if (open.number >= 0) {
            open.complete(GPURUN_HOST, &status);
            open.number -= shift;
            check(open, source, status);
        }
        open.number = number + shift;
        if (!receive(open, any_tag && number % 3 != 0 ? GPURUN_ANY_SOURCE : source,
                     any_tag ? GPURUN_ANY_TAG : tag_of(number), domain, &status)) {
            synchronize(domain);
            open.number = number;
            check(open, source, status);
            open.number = -1;
        }
    }
    for (Open& open : window)
        if (open.number >= 0) {
            gpurun_message_status status{};
            open.complete(GPURUN_HOST, &status);
            open.number -= shift;
            check(open, source, status);
        }
}

} // namespace

TEST_SUITE_BEGIN("overtaking");

TEST_CASE("messages that are sent and received in every way keep their order") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (int shift = 0; shift < 5; shift++)
        for (const bool any_tag : {false, true})
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                CAPTURE(shift);
                CAPTURE(any_tag);
                CAPTURE((domain == GPURUN_HOST));
                if (rank() % 2 == 0)
                    send_all(partner(), domain);
                else
                    receive_all(partner(), shift, any_tag, domain);
            }
}

TEST_CASE("receives that are started before the messages come take them in the order of starting") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr uint32_t kCount = 400;
    if (rank() % 2 == 0) {
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kTags, kWorld, GPURUN_HOST, nullptr));
        for (uint32_t i = 0; i < kCount; i++)
            REQUIRE_OK(gpurun_send(&i, 1, GPURUN_UINT32, partner(), static_cast<int>(i % kTags), kWorld, GPURUN_HOST));
        return;
    }
    // A wildcard now and then: it takes what no older receive fits.
    std::vector<uint32_t> numbers(kCount, ~0u);
    std::vector<gpurun_request> requests(kCount);
    for (uint32_t i = 0; i < kCount; i++)
        REQUIRE_OK(gpurun_irecv(&numbers[i], 1, GPURUN_UINT32, i % 4 == 1 ? GPURUN_ANY_SOURCE : partner(),
                                i % 5 < 2 ? GPURUN_ANY_TAG : static_cast<int>(i % kTags), kWorld, GPURUN_HOST,
                                &requests[i]));
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kTags, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_waitall(kCount, requests.data(), GPURUN_HOST, nullptr));
    for (uint32_t i = 0; i < kCount; i++)
        CHECK(numbers[i] == i);
}

TEST_CASE("the messages of every sender keep their order in wildcard receives of every kind") {
    constexpr int kEach = 200;
    if (rank() != 0) {
        const Stream stream;
        Window window;
        for (int number = 0; number < kEach; number++) {
            Open& open = window[static_cast<size_t>(number) % kWindow];
            if (open.number >= 0)
                open.complete(GPURUN_HOST, nullptr);
            open.number = number;
            const gpurun_stream domain = number % 2 == 0 ? GPURUN_HOST : static_cast<gpurun_stream>(stream);
            if (!send(open, 0, domain)) {
                synchronize(domain);
                open.number = -1;
            }
        }
        for (Open& open : window)
            if (open.number >= 0)
                open.complete(GPURUN_HOST, nullptr);
        return;
    }
    std::vector<int> next(static_cast<size_t>(size()), 0);
    Open open;
    for (int i = 0; i < kEach * (size() - 1); i++) {
        gpurun_message_status status{};
        open.number = i;
        if (receive(open, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, GPURUN_HOST, &status))
            open.complete(GPURUN_HOST, &status);
        REQUIRE(status.source > 0);
        open.number = next.at(static_cast<size_t>(status.source))++;
        check(open, status.source, status);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::overtaking
