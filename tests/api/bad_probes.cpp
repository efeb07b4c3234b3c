// Probes and the receives of what they took refuse what they cannot use, and the message is still to be received.
#include "api/misuse.hpp"

#include <limits>

using namespace gpurun::test;

namespace {

const gpurun_message kUntouchedMessage = gpurun_make_message(77);

enum class Way { kProbe, kIprobe, kMprobe, kImprobe };
constexpr Way kWays[] = {Way::kProbe, Way::kIprobe, Way::kMprobe, Way::kImprobe};

gpurun_status probe(Way way, int source, int tag, gpurun_comm comm, int* found, gpurun_message* message,
                    gpurun_message_status* status) {
    switch (way) {
    case Way::kProbe: return gpurun_probe(source, tag, comm, status);
    case Way::kIprobe: return gpurun_iprobe(source, tag, comm, found, status);
    case Way::kMprobe: return gpurun_mprobe(source, tag, comm, message, status);
    case Way::kImprobe: return gpurun_improbe(source, tag, comm, found, message, status);
    }
    return GPURUN_ERR_INTERNAL;
}

void check_no_probe(int source, int tag, gpurun_comm comm, gpurun_status expected) {
    for (const Way way : kWays) {
        CAPTURE(static_cast<int>(way));
        int found = 7;
        gpurun_message message = kUntouchedMessage;
        gpurun_message_status status = kUntouched;
        check_refused(probe(way, source, tag, comm, &found, &message, &status), expected);
        CHECK(found == 7);
        CHECK(message.id == kUntouchedMessage.id);
        CHECK(equal(status, kUntouched));
    }
}

gpurun_message take_from_self(int number) {
    gpurun_message message{};
    REQUIRE_OK(gpurun_send(&number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_mprobe(rank(), kSelfTag, kWorld, &message, nullptr));
    return message;
}

// Neither blocking nor not.
void check_not_received(const Arguments& a, gpurun_message* message, gpurun_status expected) {
    const gpurun_message before = message == nullptr ? gpurun_message{} : *message;
    gpurun_message_status status = kUntouched;
    gpurun_request request = gpurun_make_request(77);
    check_refused(gpurun_mrecv(a.buffer, a.count, a.type, message, a.stream, &status), expected);
    check_refused(gpurun_imrecv(a.buffer, a.count, a.type, message, a.stream, &request), expected);
    CHECK(equal(status, kUntouched));
    CHECK(request.id == 77);
    if (message != nullptr)
        CHECK(message->id == before.id);
}

} // namespace

TEST_SUITE_BEGIN("bad probes");

TEST_CASE("probes refuse what gpurun_recv refuses") {
    check_no_probe(rank(), 1, gpurun_make_comm(0), GPURUN_ERR_COMM);
    check_no_probe(rank(), 1, gpurun_make_comm(12345), GPURUN_ERR_COMM);
    check_no_probe(rank(), -2, kWorld, GPURUN_ERR_TAG);
    check_no_probe(size(), 1, kWorld, GPURUN_ERR_RANK);
    check_no_probe(INT_MAX, 1, kWorld, GPURUN_ERR_RANK);
    check_no_probe(-3, 1, kWorld, GPURUN_ERR_RANK);
    check_good_message();
}

TEST_CASE("probes without a place for what is to be known are refused, and take nothing") {
    const int number = 4;
    int got = 0, found = 7;
    gpurun_message message = kUntouchedMessage;
    REQUIRE_OK(gpurun_send(&number, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST));
    check_refused(gpurun_iprobe(rank(), kSelfTag, kWorld, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_mprobe(rank(), kSelfTag, kWorld, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_improbe(rank(), kSelfTag, kWorld, nullptr, &message, nullptr), GPURUN_ERR_ARGUMENT);
    check_refused(gpurun_improbe(rank(), kSelfTag, kWorld, &found, nullptr, nullptr), GPURUN_ERR_ARGUMENT);
    CHECK(found == 7);
    CHECK(message.id == kUntouchedMessage.id);
    REQUIRE_OK(gpurun_recv(&got, 1, GPURUN_INT32, rank(), kSelfTag, kWorld, GPURUN_HOST, nullptr));
    CHECK(got == number);
}

TEST_CASE("what is no probed message, or was received before, is not received") {
    int numbers[4] = {};
    const Arguments good{.buffer = numbers, .other = rank()};
    gpurun_message received = take_from_self(3);
    gpurun_message copy = received;
    REQUIRE_OK(gpurun_mrecv(numbers, 1, GPURUN_INT32, &received, GPURUN_HOST, nullptr));
    CHECK(numbers[0] == 3);
    CHECK(received.id == 0);
    gpurun_message started = take_from_self(4);
    gpurun_message copy_of_started = started;
    gpurun_request request{};
    REQUIRE_OK(gpurun_imrecv(numbers, 1, GPURUN_INT32, &started, GPURUN_HOST, &request));
    CHECK(started.id == 0);
    check_not_received(good, &copy_of_started, GPURUN_ERR_REQUEST);
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    CHECK(numbers[0] == 4);
    for (gpurun_message none : {copy, copy_of_started, GPURUN_MESSAGE_NULL, gpurun_make_message(uint64_t{1} << 40),
                                gpurun_make_message(std::numeric_limits<uint64_t>::max())}) {
        CAPTURE(none.id);
        check_not_received(good, &none, GPURUN_ERR_REQUEST);
    }
    check_not_received(good, nullptr, GPURUN_ERR_ARGUMENT);
}

TEST_CASE("a message whose receive is refused is still to be received") {
    const Memory device(Kind::kDevice, 1000), memory(Kind::kDevice, 64);
    gpurun_message message = take_from_self(11);
    for (const Misuse& misuse : misuses_of_any_call(device)) {
        if (misuse.expected == GPURUN_ERR_COMM || misuse.expected == GPURUN_ERR_RANK)
            continue; // it names neither
        CAPTURE(misuse.what);
        Arguments arguments{.buffer = memory.get(), .other = rank()};
        misuse.spoil(arguments);
        check_not_received(arguments, &message, misuse.expected);
    }
    int number = 0;
    check_refused(gpurun_imrecv(&number, 1, GPURUN_INT32, &message, GPURUN_HOST, nullptr), GPURUN_ERR_ARGUMENT);
    REQUIRE_OK(gpurun_mrecv(&number, 1, GPURUN_INT32, &message, GPURUN_HOST, nullptr));
    CHECK(number == 11);
}

TEST_SUITE_END();
