// Handles that were destroyed stay destroyed, whatever the runtime makes for its messages meanwhile: the address of
// what was destroyed may be given to one of its own.
#include "support/job.hpp"

#include <memory>
#include <vector>

using namespace gpurun::test;

namespace {

constexpr int kRounds = 2000;
constexpr size_t kLarge = 256 * 1024;
constexpr int kTag = 3;

gpurun_event destroyed_event() {
    gpurun_event event = nullptr;
    REQUIRE_OK(gpurun_event_create(&event));
    REQUIRE_OK(gpurun_event_destroy(event));
    return event;
}

gpurun_stream destroyed_stream() {
    gpurun_stream stream = nullptr;
    REQUIRE_OK(gpurun_stream_create(&stream));
    REQUIRE_OK(gpurun_stream_destroy(stream));
    return stream;
}

// How often a handle was destroyed that had been before.
struct Tally {
    int taken = 0;
    void add(gpurun_status again, gpurun_status expected) { taken += again == expected ? 0 : 1; }
};

} // namespace

TEST_SUITE_BEGIN("stale handles");

TEST_CASE("an event that is destroyed twice is refused, and the messages that came between arrive") {
    const Stream stream;
    const int self = rank();
    std::vector<int> got(kRounds, -1), sent(kRounds);
    std::vector<gpurun_request> requests(2 * kRounds, GPURUN_REQUEST_NULL);
    Tally events;
    for (int i = 0; i < kRounds; ++i) {
        const gpurun_event stale = destroyed_event();
        REQUIRE_OK(gpurun_irecv(&got[static_cast<size_t>(i)], 1, GPURUN_INT32, self, kTag, kWorld, stream,
                                &requests[static_cast<size_t>(i)]));
        events.add(gpurun_event_destroy(stale), GPURUN_ERR_EVENT);
    }
    CHECK(events.taken == 0);
    for (int i = 0; i < kRounds; ++i) {
        sent[static_cast<size_t>(i)] = i;
        const gpurun_event stale = destroyed_event();
        REQUIRE_OK(gpurun_isend(&sent[static_cast<size_t>(i)], 1, GPURUN_INT32, self, kTag, kWorld, stream,
                                &requests[static_cast<size_t>(kRounds + i)]));
        events.add(gpurun_event_destroy(stale), GPURUN_ERR_EVENT);
    }
    CHECK(events.taken == 0);
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
    CHECK(got == sent);
}

TEST_CASE("a stream that is destroyed twice is refused, and the messages that came between arrive") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr int kMessages = 48;
    Memory from(Kind::kDevice, kLarge);
    from.write(pattern(kLarge, static_cast<uint64_t>(rank())));
    const Bytes expected = pattern(kLarge, static_cast<uint64_t>(partner()));
    std::vector<std::unique_ptr<Memory>> into;
    std::vector<gpurun_request> requests(2 * kMessages, GPURUN_REQUEST_NULL);
    Tally streams;
    for (size_t i = 0; i < kMessages; ++i) {
        into.push_back(std::make_unique<Memory>(Kind::kDevice, kLarge));
        const gpurun_stream stale = destroyed_stream();
        REQUIRE_OK(
            gpurun_irecv(into[i]->get(), kLarge, GPURUN_BYTE, partner(), kTag, kWorld, GPURUN_HOST, &requests[2 * i]));
        REQUIRE_OK(
            gpurun_isend(from.get(), kLarge, GPURUN_BYTE, partner(), kTag, kWorld, GPURUN_HOST, &requests[2 * i + 1]));
        streams.add(gpurun_stream_destroy(stale), GPURUN_ERR_STREAM);
    }
    REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
    CHECK(streams.taken == 0);
    for (const auto& each : into)
        CHECK(first_difference(each->read(), expected) == -1);
}

TEST_CASE("a destroyed handle names nothing, however many streams and events come after it") {
    gpurun_device_info info{};
    info.size = sizeof info;
    REQUIRE_OK(gpurun_device(&info));
    if (info.kind != GPURUN_DEVICE_EMULATED)
        return; // CUDA gives addresses again
    const gpurun_stream stale = destroyed_stream();
    const gpurun_event stale_event = destroyed_event();
    const Stream stream;
    int number = 0, done = 0;
    for (int i = 0; i < 200; ++i) {
        gpurun_stream fresh = nullptr;
        gpurun_event event = nullptr;
        REQUIRE_OK(gpurun_stream_create(&fresh));
        REQUIRE_OK(gpurun_event_create(&event));
        CHECK(gpurun_send(&number, 1, GPURUN_INT32, rank(), kTag, kWorld, stale) == GPURUN_ERR_STREAM);
        CHECK(gpurun_stream_synchronize(stale) == GPURUN_ERR_STREAM);
        CHECK(gpurun_event_query(stale_event, &done) == GPURUN_ERR_EVENT);
        CHECK(gpurun_event_record(stale_event, stream) == GPURUN_ERR_EVENT);
        REQUIRE_OK(gpurun_event_destroy(event));
        REQUIRE_OK(gpurun_stream_destroy(fresh));
    }
}

TEST_SUITE_END();
