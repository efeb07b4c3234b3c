// Every misuse of a call has its own status and a message, changes no output, and loses nothing: a good message goes
// through afterwards.
#include "api/misuse.hpp"

#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace gpurun::test;

TEST_SUITE_BEGIN("bad input");

TEST_CASE("gpurun_send refuses what it cannot use") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"negative tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = -2; }});
    misuses.push_back({"wildcard tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = GPURUN_ANY_TAG; }});
    misuses.push_back({"wildcard rank", GPURUN_ERR_RANK, [](Arguments& a) { a.other = GPURUN_ANY_SOURCE; }});
    check_all(misuses, [](const Arguments& a) {
        return gpurun_send(a.buffer, a.count, a.type, a.other, a.tag, a.comm, a.stream);
    });
}

TEST_CASE("gpurun_recv refuses what it cannot use, and leaves the status as it is") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"negative tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = -2; }});
    check_all(misuses, [](const Arguments& a) {
        gpurun_message_status status = kUntouched;
        const gpurun_status result = gpurun_recv(a.buffer, a.count, a.type, a.other, a.tag, a.comm, a.stream, &status);
        CHECK(equal(status, kUntouched));
        return result;
    });
}

TEST_CASE("gpurun_sendrecv refuses either half, and then does neither") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"negative tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = -2; }});
    int good[4] = {};
    check_all(misuses, [&good](const Arguments& a) {
        gpurun_message_status status = kUntouched;
        const gpurun_status result = gpurun_sendrecv(a.buffer, a.count, a.type, a.other, a.tag, good, 4, GPURUN_INT32,
                                                     GPURUN_ANY_SOURCE, 1, a.comm, a.stream, &status);
        CHECK(equal(status, kUntouched));
        return result;
    });
    check_all(misuses, [&good](const Arguments& a) {
        gpurun_message_status status = kUntouched;
        const gpurun_status result = gpurun_sendrecv(good, 4, GPURUN_INT32, rank(), 1, a.buffer, a.count, a.type,
                                                     a.other, a.tag, a.comm, a.stream, &status);
        CHECK(equal(status, kUntouched));
        return result;
    });
}

TEST_CASE("gpurun_bcast refuses what it cannot use") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"wildcard root", GPURUN_ERR_RANK, [](Arguments& a) { a.other = GPURUN_ANY_SOURCE; }});
    misuses.push_back({"no root", GPURUN_ERR_RANK, [](Arguments& a) { a.other = GPURUN_PROC_NULL; }});
    check_all(misuses,
              [](const Arguments& a) { return gpurun_bcast(a.buffer, a.count, a.type, a.other, a.comm, a.stream); });
    int number = rank() == 0 ? 5 : 0;
    REQUIRE_OK(gpurun_bcast(&number, 1, GPURUN_INT32, 0, kWorld, GPURUN_HOST));
    CHECK(number == 5);
}

TEST_CASE("memory that is mapped read-only can be sent, but nothing is received into it") {
    constexpr size_t kPage = 4096;
    constexpr size_t kBytes = 5 * kPage;
    const int file = memfd_create("read-only", 0);
    const Bytes content = pattern(kBytes, 3);
    REQUIRE(write(file, content.data(), kBytes) == static_cast<ssize_t>(kBytes));
    auto* const mapped = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0));
    REQUIRE(mapped != MAP_FAILED);
    // A buffer may also begin where it is writable, and end where it is not.
    auto* const half =
        static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(mprotect(half + kPage, kBytes - kPage, PROT_READ) == 0);

    const Stream stream;
    const Memory device(Kind::kDevice, kBytes);
    const int self = rank();
    gpurun_request request = GPURUN_REQUEST_NULL;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (uint8_t* const buffer : {mapped, half}) {
            const auto refused = [](gpurun_status status) {
                check_refused(status, GPURUN_ERR_BUFFER);
                CHECK(std::string(gpurun_error_detail()).find("read-only") != std::string::npos);
            };
            refused(gpurun_recv(buffer, kBytes, GPURUN_BYTE, self, 5, kWorld, domain, nullptr));
            refused(gpurun_irecv(buffer, kBytes, GPURUN_BYTE, self, 5, kWorld, domain, &request));
            if (size() > 1)
                refused(gpurun_bcast(buffer, kBytes, GPURUN_BYTE, (self + 1) % size(), kWorld, domain));
            refused(gpurun_memset(buffer, 0, kBytes, domain));
            refused(gpurun_memcpy(buffer, device.get(), kBytes, domain));
        }
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        Bytes got(kBytes);
        REQUIRE_OK(gpurun_sendrecv(mapped, kBytes, GPURUN_BYTE, self, 5, got.data(), kBytes, GPURUN_BYTE, self, 5,
                                   kWorld, domain, nullptr));
        synchronize(domain);
        CHECK(got == content);
    }
    munmap(mapped, kBytes);
    munmap(half, kBytes);
    close(file);
}

TEST_CASE("gpurun_barrier refuses what it cannot use") {
    check_refused(gpurun_barrier(gpurun_make_comm(0), GPURUN_HOST), GPURUN_ERR_COMM);
    check_refused(gpurun_barrier(kWorld, foreign_stream()), GPURUN_ERR_STREAM);
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
}

TEST_CASE("the message about a wrong rank says which, and how many there are") {
    int number = 0;
    CHECK(gpurun_send(&number, 1, GPURUN_INT32, 1234, 0, kWorld, GPURUN_HOST) == GPURUN_ERR_RANK);
    const std::string detail = gpurun_error_detail();
    CHECK(detail.find("1234") != std::string::npos);
    CHECK(detail.find(std::to_string(size())) != std::string::npos);
}

TEST_CASE("a successful call leaves the last message as it is") {
    int number = 0;
    CHECK(gpurun_comm_rank(gpurun_make_comm(0), &number) == GPURUN_ERR_COMM);
    const std::string detail = gpurun_error_detail();
    REQUIRE_OK(gpurun_comm_rank(kWorld, &number));
    CHECK(detail == gpurun_error_detail());
}

TEST_CASE("questions about communicators, types and devices are checked") {
    int number = 41;
    size_t bytes = 41;
    gpurun_device_info info{};
    check_refused(gpurun_comm_rank(kWorld, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_comm_size(kWorld, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_comm_rank(gpurun_make_comm(99), &number), GPURUN_ERR_COMM);
    check_refused(gpurun_comm_size(gpurun_make_comm(99), &number), GPURUN_ERR_COMM);
    check_refused(gpurun_type_size(static_cast<gpurun_datatype>(0), &bytes), GPURUN_ERR_TYPE);
    check_refused(gpurun_type_size(GPURUN_INT8, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_device(nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_device(&info), GPURUN_ERR_ARGUMENT); // its size is 0
    info.size = 3;
    check_refused(gpurun_device(&info), GPURUN_ERR_ARGUMENT);
    CHECK(number == 41);
    CHECK(bytes == 41);
}

TEST_CASE("memory calls are checked") {
    const Stream stream;
    void* pointer = g_no_stream;
    check_refused(gpurun_malloc(nullptr, 8), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_malloc_host(nullptr, 8), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_malloc_async(nullptr, 8, stream), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_malloc_async(&pointer, 8, GPURUN_HOST), GPURUN_ERR_STREAM);
    check_refused(gpurun_malloc_async(&pointer, 8, foreign_stream()), GPURUN_ERR_STREAM);
    check_refused(gpurun_malloc(&pointer, size_t{1} << 60), GPURUN_ERR_MEMORY);
    check_refused(gpurun_malloc_async(&pointer, size_t{1} << 60, stream), GPURUN_ERR_MEMORY);
    CHECK(pointer == g_no_stream);

    check_refused(gpurun_free(g_no_stream), GPURUN_ERR_BUFFER);
    check_refused(gpurun_free_async(g_no_stream, stream), GPURUN_ERR_BUFFER);
    const Memory device(Kind::kDevice, 1000);
    check_refused(gpurun_free(device.at(8)), GPURUN_ERR_BUFFER);
    check_refused(gpurun_free(freed_device_memory()), GPURUN_ERR_BUFFER);
    REQUIRE_OK(gpurun_free(nullptr));
    REQUIRE_OK(gpurun_malloc(&pointer, 0));
    CHECK(pointer == nullptr);
}

TEST_CASE("copies are checked on both sides, in both order domains") {
    const Stream stream;
    const Memory device(Kind::kDevice, 1000);
    char host[2000] = {};
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        check_refused(gpurun_memcpy(nullptr, host, 8, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memcpy(host, nullptr, 8, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memcpy(device.get(), host, 1001, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memcpy(host, device.at(1), 1000, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memcpy(host, freed_device_memory(), 8, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memset(nullptr, 0, 8, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memset(device.at(999), 0, 2, domain), GPURUN_ERR_BUFFER);
        check_refused(gpurun_memset(freed_device_memory(), 0, 8, domain), GPURUN_ERR_BUFFER);
        REQUIRE_OK(gpurun_memcpy(nullptr, nullptr, 0, domain));
        REQUIRE_OK(gpurun_memset(nullptr, 0, 0, domain));
    }
    check_refused(gpurun_memcpy(device.get(), host, 8, foreign_stream()), GPURUN_ERR_STREAM);
    check_refused(gpurun_memset(device.get(), 0, 8, foreign_stream()), GPURUN_ERR_STREAM);
}

TEST_CASE("streams and events are checked") {
    const Stream stream;
    gpurun_event event = nullptr;
    int done = 41;
    REQUIRE_OK(gpurun_event_create(&event));
    check_refused(gpurun_stream_create(nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_event_create(nullptr), GPURUN_ERR_ARGUMENT);
    for (const gpurun_stream none : {foreign_stream(), destroyed_stream(), GPURUN_HOST}) {
        CAPTURE((none == GPURUN_HOST));
        check_refused(gpurun_stream_destroy(none), GPURUN_ERR_STREAM);
        check_refused(gpurun_stream_synchronize(none), GPURUN_ERR_STREAM);
        check_refused(gpurun_stream_query(none, &done), GPURUN_ERR_STREAM);
        check_refused(gpurun_stream_wait_event(none, event), GPURUN_ERR_STREAM);
        check_refused(gpurun_event_record(event, none), GPURUN_ERR_STREAM);
        check_refused(gpurun_launch_host(
                          none, [](void*) {}, nullptr),
                      GPURUN_ERR_STREAM);
    }
    check_refused(gpurun_stream_query(stream, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_event_query(event, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_launch_host(stream, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    REQUIRE_OK(gpurun_event_destroy(event));
    for (const gpurun_event none : {foreign_event(), event, static_cast<gpurun_event>(nullptr)}) {
        check_refused(gpurun_event_destroy(none), GPURUN_ERR_EVENT);
        check_refused(gpurun_event_synchronize(none), GPURUN_ERR_EVENT);
        check_refused(gpurun_event_query(none, &done), GPURUN_ERR_EVENT);
        check_refused(gpurun_stream_wait_event(stream, none), GPURUN_ERR_EVENT);
        check_refused(gpurun_event_record(none, stream), GPURUN_ERR_EVENT);
    }
    CHECK(done == 41);
}

TEST_SUITE_END();
