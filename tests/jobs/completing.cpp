// Waiting and testing: which request is complete when, and what the statuses say.
#include "support/job.hpp"

#include <algorithm>

namespace gpurun::test::completing {

namespace {

constexpr size_t kLarge = 500000;
constexpr int kData = 1, kSeen = 50, kGo = 51;
constexpr int kRequests = 12;

void tell(int to, int tag) { REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, to, tag, kWorld, GPURUN_HOST)); }
void await(int from, int tag) {
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, from, tag, kWorld, GPURUN_HOST, nullptr));
}

size_t bytes_of(int tag) { return tag % 3 == 0 ? kLarge + static_cast<size_t>(tag) : static_cast<size_t>(tag) * 10; }

// A set of receives, one a tag, and the sends that they are for.
struct Set {
    Memory buffer{Kind::kDevice, static_cast<size_t>(kRequests) * 2 * kLarge};
    std::vector<gpurun_request> requests = std::vector<gpurun_request>(kRequests);

    uint8_t* part(int tag) const { return buffer.at(static_cast<size_t>(tag) * 2 * kLarge); }

    void start_receives(gpurun_stream domain) {
        for (int tag = 0; tag < kRequests; tag++)
            REQUIRE_OK(gpurun_irecv(part(tag), 2 * kLarge, GPURUN_BYTE, partner(), tag, kWorld, domain,
                                    &requests[static_cast<size_t>(tag)]));
    }
    void send(int tag) const {
        const Bytes content = pattern(bytes_of(tag), static_cast<uint64_t>(tag));
        REQUIRE_OK(gpurun_send(content.data(), content.size(), GPURUN_BYTE, partner(), tag, kWorld, GPURUN_HOST));
    }
    void check(int tag, const gpurun_message_status& status) const {
        const size_t bytes = bytes_of(tag);
        Bytes got(bytes);
        CHECK(status.source == partner());
        CHECK(status.tag == tag);
        CHECK(status.bytes == bytes);
        CHECK(status.error == GPURUN_OK);
        CHECK(status.cancelled == 0);
        CHECK(requests[static_cast<size_t>(tag)].id == 0);
        REQUIRE_OK(gpurun_memcpy(got.data(), part(tag), bytes, GPURUN_HOST));
        CHECK(first_difference(got, pattern(bytes, static_cast<uint64_t>(tag))) == -1);
    }
};

void check_empty(const gpurun_message_status& status) {
    CHECK(status.error == GPURUN_OK);
    CHECK(status.cancelled == 0);
    CHECK(status.bytes == 0);
    CHECK(status.count == 0);
}

} // namespace

TEST_SUITE_BEGIN("completing");

TEST_CASE("gpurun_waitall completes all, and each status has its own error") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    constexpr size_t kRooms[] = {100, 10, 1000, 0, kLarge, 5}; // messages of 100 or kLarge bytes
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t bytes : {size_t{100}, kLarge}) {
            Memory buffer(Kind::kDevice, std::size(kRooms) * kLarge);
            buffer.write(Bytes(buffer.size(), 0x33));
            std::vector<gpurun_request> requests(2 * std::size(kRooms));
            std::vector<gpurun_message_status> statuses(requests.size());
            const Bytes content = pattern(bytes, 4);
            for (size_t i = 0; i < std::size(kRooms); i++) {
                REQUIRE_OK(gpurun_irecv(buffer.at(i * kLarge), kRooms[i], GPURUN_BYTE, partner(), static_cast<int>(i),
                                        kWorld, domain, &requests[2 * i]));
                REQUIRE_OK(gpurun_isend(content.data(), bytes, GPURUN_BYTE, partner(), static_cast<int>(i), kWorld,
                                        domain, &requests[2 * i + 1]));
            }
            CHECK(gpurun_waitall(requests.size(), requests.data(), domain, statuses.data()) == GPURUN_ERR_TRUNCATED);
            synchronize(domain);
            const Bytes got = buffer.read();
            for (size_t i = 0; i < std::size(kRooms); i++) {
                CAPTURE(i);
                CAPTURE(bytes);
                const size_t moved = std::min(bytes, kRooms[i]);
                CHECK(requests[2 * i].id == 0);
                CHECK(requests[2 * i + 1].id == 0);
                CHECK(statuses[2 * i].error == (kRooms[i] < bytes ? GPURUN_ERR_TRUNCATED : GPURUN_OK));
                CHECK(statuses[2 * i].bytes == bytes);
                CHECK(statuses[2 * i].source == partner());
                CHECK(statuses[2 * i].tag == static_cast<int>(i));
                CHECK(statuses[2 * i + 1].error == GPURUN_OK);
                CHECK(first_difference(&got[i * kLarge], content.data(), moved) == -1);
                if (moved < kLarge)
                    CHECK(got[i * kLarge + moved] == 0x33);
            }
        }
}

TEST_CASE("a request that is given twice is completed once, and both of its handles are null then") {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        const Memory from(Kind::kPinned, 8), into(Kind::kPinned, 8);
        gpurun_request requests[3] = {};
        REQUIRE_OK(gpurun_isend(from.get(), 8, GPURUN_BYTE, rank(), 0, kWorld, domain, &requests[0]));
        REQUIRE_OK(gpurun_irecv(into.get(), 8, GPURUN_BYTE, rank(), 0, kWorld, domain, &requests[1]));
        requests[2] = requests[1];
        REQUIRE_OK(gpurun_waitall(3, requests, domain, nullptr));
        for (const gpurun_request& each : requests)
            CHECK(each.id == 0);
        stream.synchronize(); // before the memory is freed
    }
}

TEST_CASE("gpurun_waitany completes each request once, as its message comes, then none") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr int kOrder[] = {7, 3, 11, 0, 1, 2, 10, 9, 8, 4, 6, 5};
    Set set;
    if (rank() % 2 == 0) {
        for (const int tag : kOrder) {
            await(partner(), kGo);
            set.send(tag);
        }
        return;
    }
    set.start_receives(GPURUN_HOST);
    for (const int tag : kOrder) { // only one of them can be complete
        int index = -1;
        gpurun_message_status status{};
        tell(partner(), kGo);
        REQUIRE_OK(gpurun_waitany(kRequests, set.requests.data(), GPURUN_HOST, &index, &status));
        CHECK(index == tag);
        set.check(tag, status);
    }
    int index = -1;
    gpurun_message_status status{1, 1, 1, 1, GPURUN_ERR_INTERNAL, 1};
    REQUIRE_OK(gpurun_waitany(kRequests, set.requests.data(), GPURUN_HOST, &index, &status));
    CHECK(index == GPURUN_UNDEFINED);
    check_empty(status);
}

TEST_CASE("gpurun_waitsome completes all that can be, in ascending order") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        Set set;
        if (rank() % 2 == 0) {
            await(partner(), kGo);
            for (const int tag : {8, 2, 5}) // without a wait for a match, but for those of no room for small messages
                set.send(tag);
            tell(partner(), kSeen);
            await(partner(), kGo);
            for (const int tag : {0, 1, 3, 4, 6, 7, 9, 10, 11})
                set.send(tag);
            continue;
        }
        set.start_receives(domain);
        tell(partner(), kGo);
        await(partner(), kSeen); // sent later by the same rank: the three are here
        std::vector<int> indices(kRequests);
        std::vector<gpurun_message_status> statuses(kRequests);
        int completed = 0, count = 0;
        while (completed < kRequests) {
            REQUIRE_OK(
                gpurun_waitsome(kRequests, set.requests.data(), domain, &count, indices.data(), statuses.data()));
            REQUIRE(count > 0);
            synchronize(domain);
            for (int i = 0; i < count; i++) {
                CHECK((i == 0 || indices[static_cast<size_t>(i)] > indices[static_cast<size_t>(i) - 1]));
                set.check(indices[static_cast<size_t>(i)], statuses[static_cast<size_t>(i)]);
            }
            completed += count;
            if (completed == 3)
                tell(partner(), kGo);
        }
        REQUIRE_OK(gpurun_waitsome(kRequests, set.requests.data(), domain, &count, indices.data(), nullptr));
        CHECK(count == GPURUN_UNDEFINED);
    }
}

TEST_CASE("tests complete nothing before the message comes, and then what they are asked for") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        Set set;
        if (rank() % 2 == 0) {
            await(partner(), kGo);
            for (int tag = 0; tag < kRequests; tag++)
                set.send(tag);
            continue;
        }
        set.start_receives(domain);
        const std::vector<gpurun_request> before = set.requests;
        gpurun_message_status statuses[kRequests]{};
        int indices[kRequests], done = 7, index = 7, count = 7;
        REQUIRE_OK(gpurun_test(&set.requests[0], domain, &done, statuses));
        CHECK(done == 0);
        REQUIRE_OK(gpurun_testall(kRequests, set.requests.data(), domain, &done, statuses));
        CHECK(done == 0);
        REQUIRE_OK(gpurun_testany(kRequests, set.requests.data(), domain, &index, &done, statuses));
        CHECK(done == 0);
        REQUIRE_OK(gpurun_testsome(kRequests, set.requests.data(), domain, &count, indices, statuses));
        CHECK(count == 0);
        for (size_t i = 0; i < before.size(); i++)
            CHECK(set.requests[i].id == before[i].id);

        tell(partner(), kGo);
        while (done == 0)
            REQUIRE_OK(gpurun_test(&set.requests[0], domain, &done, statuses));
        synchronize(domain);
        set.check(0, statuses[0]);
        for (done = 0; done == 0;)
            REQUIRE_OK(gpurun_testany(kRequests, set.requests.data(), domain, &index, &done, statuses));
        synchronize(domain);
        set.check(index, statuses[0]);
        for (count = 0; count == 0;)
            REQUIRE_OK(gpurun_testsome(kRequests, set.requests.data(), domain, &count, indices, statuses));
        synchronize(domain);
        for (int i = 0; i < count; i++)
            set.check(indices[i], statuses[i]);
        for (done = 0; done == 0;)
            REQUIRE_OK(gpurun_testall(kRequests, set.requests.data(), domain, &done, statuses));
        synchronize(domain);
        for (int tag = 0; tag < kRequests; tag++)
            if (statuses[tag].bytes != 0)
                set.check(tag, statuses[tag]);
        REQUIRE_OK(gpurun_testany(kRequests, set.requests.data(), domain, &index, &done, statuses));
        CHECK(done == 1);
        CHECK(index == GPURUN_UNDEFINED);
        REQUIRE_OK(gpurun_testsome(kRequests, set.requests.data(), domain, &count, indices, nullptr));
        CHECK(count == GPURUN_UNDEFINED);
    }
}

TEST_CASE("GPURUN_REQUEST_NULL and no requests at all are complete") {
    gpurun_request none[3] = {GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL};
    gpurun_message_status statuses[3];
    int done = 0, index = 0, count = 0, indices[3];
    for (gpurun_message_status& status : statuses)
        status = {9, 9, 9, 9, GPURUN_ERR_INTERNAL, 9};
    REQUIRE_OK(gpurun_wait(none, GPURUN_HOST, statuses));
    check_empty(statuses[0]);
    REQUIRE_OK(gpurun_waitall(3, none, GPURUN_HOST, statuses));
    for (const gpurun_message_status& status : statuses)
        check_empty(status);
    REQUIRE_OK(gpurun_test(none, GPURUN_HOST, &done, nullptr));
    CHECK(done == 1);
    for (const size_t requests : {3, 0}) {
        done = 0;
        REQUIRE_OK(gpurun_waitall(requests, requests == 0 ? nullptr : none, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_testall(requests, none, GPURUN_HOST, &done, nullptr));
        CHECK(done == 1);
        REQUIRE_OK(gpurun_waitany(requests, none, GPURUN_HOST, &index, nullptr));
        CHECK(index == GPURUN_UNDEFINED);
        REQUIRE_OK(gpurun_waitsome(requests, none, GPURUN_HOST, &count, indices, nullptr));
        CHECK(count == GPURUN_UNDEFINED);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::completing
