// Every misuse of a request or a probe has its own status, changes no output, and leaves what it names as it was.
#include "api/misuse.hpp"

#include <limits>

using namespace gpurun::test;

namespace {

using StartSend = gpurun_status (*)(const void*, size_t, gpurun_datatype, int, int, gpurun_comm, gpurun_stream,
                                    gpurun_request*);
using StartReceive = gpurun_status (*)(void*, size_t, gpurun_datatype, int, int, gpurun_comm, gpurun_stream,
                                       gpurun_request*);
constexpr StartSend kStartSends[] = {gpurun_isend, gpurun_issend, gpurun_send_init, gpurun_ssend_init};
constexpr StartReceive kStartReceives[] = {gpurun_irecv, gpurun_recv_init};

const gpurun_request kUntouchedRequest = gpurun_make_request(77);

// What is no request: of no form, of no place, of a place that never was, completed, freed.
std::vector<gpurun_request> no_requests() {
    int number = 0;
    gpurun_request completed{}, freed{};
    REQUIRE_OK(gpurun_isend(&number, 1, GPURUN_INT32, GPURUN_PROC_NULL, 0, kWorld, GPURUN_HOST, &completed));
    gpurun_request copy = completed;
    REQUIRE_OK(gpurun_wait(&completed, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_send_init(&number, 1, GPURUN_INT32, GPURUN_PROC_NULL, 0, kWorld, GPURUN_HOST, &freed));
    gpurun_request copy_of_freed = freed;
    REQUIRE_OK(gpurun_request_free(&freed));
    return {gpurun_make_request(1),
            gpurun_make_request(0x123456789abcdef0u),
            gpurun_make_request(std::numeric_limits<uint64_t>::max()),
            gpurun_make_request(uint64_t{1} << 32),
            copy,
            copy_of_freed};
}

gpurun_request receive_from_self(int* number) {
    gpurun_request request{};
    REQUIRE_OK(gpurun_irecv(number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, &request));
    return request;
}
void send_to_self(int number) {
    REQUIRE_OK(gpurun_send(&number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST));
}

// Every way to complete `count` requests is refused with `expected`, and leaves all outputs as they are.
void check_not_completed(size_t count, gpurun_request* requests, gpurun_stream stream, gpurun_status expected) {
    std::vector<gpurun_request> before(requests, requests + count);
    std::vector<gpurun_message_status> statuses(count, kUntouched);
    std::vector<int> indices(count, 7);
    int done = 7, index = 7, found = 7;
    if (count == 1) {
        check_refused(gpurun_wait(requests, stream, statuses.data()), expected);
        check_refused(gpurun_test(requests, stream, &done, statuses.data()), expected);
    }
    check_refused(gpurun_waitall(count, requests, stream, statuses.data()), expected);
    check_refused(gpurun_waitany(count, requests, stream, &index, statuses.data()), expected);
    check_refused(gpurun_waitsome(count, requests, stream, &found, indices.data(), statuses.data()), expected);
    check_refused(gpurun_testall(count, requests, stream, &done, statuses.data()), expected);
    check_refused(gpurun_testany(count, requests, stream, &index, &done, statuses.data()), expected);
    check_refused(gpurun_testsome(count, requests, stream, &found, indices.data(), statuses.data()), expected);
    CHECK(done == 7);
    CHECK(index == 7);
    CHECK(found == 7);
    for (size_t i = 0; i < count; i++) {
        CHECK(requests[i].id == before[i].id);
        CHECK(equal(statuses[i], kUntouched));
        CHECK(indices[i] == 7);
    }
}

} // namespace

TEST_SUITE_BEGIN("bad requests");

TEST_CASE("what starts a send refuses what gpurun_send refuses, and gives no request") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"negative tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = -2; }});
    misuses.push_back({"wildcard tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = GPURUN_ANY_TAG; }});
    misuses.push_back({"wildcard rank", GPURUN_ERR_RANK, [](Arguments& a) { a.other = GPURUN_ANY_SOURCE; }});
    for (const StartSend start : kStartSends) {
        check_all(misuses, [start](const Arguments& a) {
            gpurun_request request = kUntouchedRequest;
            const gpurun_status result = start(a.buffer, a.count, a.type, a.other, a.tag, a.comm, a.stream, &request);
            CHECK(request.id == kUntouchedRequest.id);
            return result;
        });
        int number = 0;
        check_refused(start(&number, 1, GPURUN_INT32, rank(), 1, kWorld, GPURUN_HOST, nullptr), GPURUN_ERR_ARGUMENT);
    }
    check_all(misuses, [](const Arguments& a) {
        return gpurun_ssend(a.buffer, a.count, a.type, a.other, a.tag, a.comm, a.stream);
    });
}

TEST_CASE("what starts a receive refuses what gpurun_recv refuses, and gives no request") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"negative tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = -2; }});
    for (const StartReceive start : kStartReceives) {
        check_all(misuses, [start](const Arguments& a) {
            gpurun_request request = kUntouchedRequest;
            const gpurun_status result = start(a.buffer, a.count, a.type, a.other, a.tag, a.comm, a.stream, &request);
            CHECK(request.id == kUntouchedRequest.id);
            return result;
        });
        int number = 0;
        check_refused(start(&number, 1, GPURUN_INT32, rank(), 1, kWorld, GPURUN_HOST, nullptr), GPURUN_ERR_ARGUMENT);
    }
}

TEST_CASE("gpurun_sendrecv_replace refuses either half, and then does neither") {
    const Memory device(Kind::kDevice, 1000);
    std::vector<Misuse> misuses = misuses_of_any_call(device);
    misuses.push_back({"negative tag", GPURUN_ERR_TAG, [](Arguments& a) { a.tag = -2; }});
    check_all(misuses, [](const Arguments& a) {
        gpurun_message_status status = kUntouched;
        const gpurun_status result = gpurun_sendrecv_replace(a.buffer, a.count, a.type, a.other, a.tag,
                                                             GPURUN_ANY_SOURCE, 1, a.comm, a.stream, &status);
        CHECK(equal(status, kUntouched));
        return result;
    });
    check_all(misuses, [](const Arguments& a) {
        gpurun_message_status status = kUntouched;
        const gpurun_status result =
            gpurun_sendrecv_replace(a.buffer, a.count, a.type, rank(), 1, a.other, a.tag, a.comm, a.stream, &status);
        CHECK(equal(status, kUntouched));
        return result;
    });
}

TEST_CASE("what is no request, or no longer one, is not completed") {
    for (gpurun_request none : no_requests()) {
        CAPTURE(none.id);
        check_not_completed(1, &none, GPURUN_HOST, GPURUN_ERR_REQUEST);
        int number = 0;
        gpurun_request good = receive_from_self(&number);
        send_to_self(5);
        gpurun_request among[3] = {good, none, GPURUN_REQUEST_NULL};
        check_not_completed(3, among, GPURUN_HOST, GPURUN_ERR_REQUEST);
        REQUIRE_OK(gpurun_wait(&good, GPURUN_HOST, nullptr)); // was left as it was
        CHECK(number == 5);
    }
    check_good_message();
}

TEST_CASE("a request is not completed into what is no stream") {
    int number = 0;
    gpurun_request request = receive_from_self(&number);
    send_to_self(6);
    for (const gpurun_stream none : {foreign_stream(), destroyed_stream()})
        check_not_completed(1, &request, none, GPURUN_ERR_STREAM);
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    CHECK(number == 6);
}

TEST_CASE("waiting and testing without a place for what is to be known is refused") {
    int number = 0, done = 7, index = 7, indices[1] = {7};
    gpurun_request request = receive_from_self(&number);
    send_to_self(7);
    check_refused(gpurun_wait(nullptr, GPURUN_HOST, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_waitall(1, nullptr, GPURUN_HOST, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_waitany(1, nullptr, GPURUN_HOST, &index, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_waitany(1, &request, GPURUN_HOST, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_waitsome(1, nullptr, GPURUN_HOST, &index, indices, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_waitsome(1, &request, GPURUN_HOST, nullptr, indices, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_waitsome(1, &request, GPURUN_HOST, &index, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_test(nullptr, GPURUN_HOST, &done, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_test(&request, GPURUN_HOST, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_testall(1, nullptr, GPURUN_HOST, &done, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_testall(1, &request, GPURUN_HOST, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_testany(1, &request, GPURUN_HOST, nullptr, &done, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_testany(1, &request, GPURUN_HOST, &index, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_testsome(1, &request, GPURUN_HOST, nullptr, indices, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_testsome(1, &request, GPURUN_HOST, &index, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    CHECK(done == 7);
    CHECK(index == 7);
    CHECK(indices[0] == 7);
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    CHECK(number == 7);
}

TEST_CASE("only an active receive is taken back") {
    int number = 0;
    for (gpurun_request none : no_requests()) {
        const gpurun_request before = none;
        check_refused(gpurun_cancel(&none), GPURUN_ERR_REQUEST);
        CHECK(none.id == before.id);
    }
    gpurun_request null = GPURUN_REQUEST_NULL, inactive{}, send{};
    check_refused(gpurun_cancel(nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_cancel(&null), GPURUN_ERR_REQUEST);
    REQUIRE_OK(gpurun_recv_init(&number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, &inactive));
    check_refused(gpurun_cancel(&inactive), GPURUN_ERR_REQUEST);
    REQUIRE_OK(gpurun_request_free(&inactive));
    const int sent = 8;
    REQUIRE_OK(gpurun_isend(&sent, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, &send));
    check_refused(gpurun_cancel(&send), GPURUN_ERR_UNSUPPORTED);
    CHECK(send.id != 0);
    REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_wait(&send, GPURUN_HOST, nullptr)); // goes on all the same
    CHECK(number == 8);
}

TEST_CASE("only a request is given up, and only once") {
    for (gpurun_request none : no_requests()) {
        const gpurun_request before = none;
        check_refused(gpurun_request_free(&none), GPURUN_ERR_REQUEST);
        CHECK(none.id == before.id);
    }
    gpurun_request null = GPURUN_REQUEST_NULL;
    check_refused(gpurun_request_free(nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_request_free(&null), GPURUN_ERR_REQUEST);
}

TEST_CASE("a request that is freed while it is active is found no more, and ends by itself") {
    int number = 0, next = 0;
    gpurun_request freed = receive_from_self(&number);
    gpurun_request copy = freed;
    REQUIRE_OK(gpurun_request_free(&freed));
    int done = 7;
    check_refused(gpurun_test(&copy, GPURUN_HOST, &done, nullptr), GPURUN_ERR_REQUEST);
    check_refused(gpurun_cancel(&copy), GPURUN_ERR_REQUEST);
    check_refused(gpurun_request_free(&copy), GPURUN_ERR_REQUEST);
    CHECK(done == 7);
    send_to_self(3);
    send_to_self(4);
    REQUIRE_OK(gpurun_recv(&next, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, nullptr));
    CHECK(number == 3);
    CHECK(next == 4);
    check_good_message();
}

TEST_CASE("only an inactive persistent request whose memory is there is started") {
    int number = 0;
    for (gpurun_request none : no_requests())
        check_refused(gpurun_start(&none), GPURUN_ERR_REQUEST);
    gpurun_request null = GPURUN_REQUEST_NULL;
    check_refused(gpurun_start(nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_startall(1, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_start(&null), GPURUN_ERR_REQUEST);
    REQUIRE_OK(gpurun_startall(0, nullptr));

    gpurun_request once = receive_from_self(&number), again[2]{};
    check_refused(gpurun_start(&once), GPURUN_ERR_REQUEST);
    send_to_self(1);
    REQUIRE_OK(gpurun_wait(&once, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_recv_init(&number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, &again[0]));
    REQUIRE_OK(gpurun_start(&again[0]));
    check_refused(gpurun_start(&again[0]), GPURUN_ERR_REQUEST);
    check_refused(gpurun_startall(2, again), GPURUN_ERR_REQUEST);
    send_to_self(2);
    REQUIRE_OK(gpurun_wait(&again[0], GPURUN_HOST, nullptr)); // was started once
    CHECK(number == 2);

    // gpurun_startall() goes up to the first that fails.
    void* memory = nullptr;
    REQUIRE_OK(gpurun_malloc(&memory, 64));
    REQUIRE_OK(gpurun_send_init(memory, 64, GPURUN_BYTE, rank(), 1, kWorld, GPURUN_HOST, &again[1]));
    REQUIRE_OK(gpurun_free(memory));
    check_refused(gpurun_startall(2, again), GPURUN_ERR_BUFFER);
    check_refused(gpurun_start(&again[0]), GPURUN_ERR_REQUEST);  // is active
    check_refused(gpurun_cancel(&again[1]), GPURUN_ERR_REQUEST); // is not
    REQUIRE_OK(gpurun_cancel(&again[0]));
    REQUIRE_OK(gpurun_wait(&again[0], GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_request_free(&again[0]));
    REQUIRE_OK(gpurun_request_free(&again[1]));
    check_good_message();
}

TEST_SUITE_END();
