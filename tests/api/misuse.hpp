// What the tests of bad input share: arguments that are right but for one, and what must be said about each.
#pragma once

#include "support/job.hpp"

#include <climits>
#include <cstring>
#include <functional>
#include <vector>

namespace gpurun::test {

// The arguments of a communication call, all of them right until a case spoils one.
struct Arguments {
    void* buffer;
    size_t count = 4;
    gpurun_datatype type = GPURUN_INT32;
    int other;
    int tag = 1;
    gpurun_comm comm = kWorld;
    gpurun_stream stream = GPURUN_HOST;
};

struct Misuse {
    doctest::String what;
    gpurun_status expected;
    std::function<void(Arguments&)> spoil;
};

inline constexpr int kSelfTag = 9; // of messages to self, which no other test sends

inline constexpr gpurun_message_status kUntouched{7, 7, 7, 7, GPURUN_ERR_INTERNAL, 7};

inline bool equal(const gpurun_message_status& a, const gpurun_message_status& b) {
    return a.source == b.source && a.tag == b.tag && a.count == b.count && a.bytes == b.bytes && a.error == b.error &&
           a.cancelled == b.cancelled;
}

// gpurun_error_detail() is one thread's last failure: it must be about this one.
inline void check_refused(gpurun_status got, gpurun_status expected) {
    CHECK(got == expected);
    CHECK(std::strlen(gpurun_error_detail()) > 10);
}

inline void check_good_message() {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const int mine = rank();
    int theirs = -1;
    REQUIRE_OK(gpurun_sendrecv(&mine, 1, GPURUN_INT32, partner(), 1, &theirs, 1, GPURUN_INT32, partner(), 1, kWorld,
                               GPURUN_HOST, nullptr));
    CHECK(theirs == partner());
}

inline void* freed_device_memory() {
    void* memory = nullptr;
    REQUIRE_OK(gpurun_malloc(&memory, 4096));
    REQUIRE_OK(gpurun_free(memory));
    return memory;
}

inline gpurun_stream destroyed_stream() {
    gpurun_stream stream = nullptr;
    REQUIRE_OK(gpurun_stream_create(&stream));
    REQUIRE_OK(gpurun_stream_destroy(stream));
    return stream;
}

inline char g_no_stream[4096];
inline gpurun_stream foreign_stream() { return reinterpret_cast<gpurun_stream>(g_no_stream); }
inline gpurun_event foreign_event() { return reinterpret_cast<gpurun_event>(g_no_stream); }

inline std::vector<Misuse> misuses_of_any_call(const Memory& device) {
    return {
        {"no communicator", GPURUN_ERR_COMM, [](Arguments& a) { a.comm = gpurun_make_comm(0); }},
        {"another communicator", GPURUN_ERR_COMM, [](Arguments& a) { a.comm = gpurun_make_comm(12345); }},
        {"type 0", GPURUN_ERR_TYPE, [](Arguments& a) { a.type = static_cast<gpurun_datatype>(0); }},
        {"type 99", GPURUN_ERR_TYPE, [](Arguments& a) { a.type = static_cast<gpurun_datatype>(99); }},
        {"count that overflows", GPURUN_ERR_COUNT, [](Arguments& a) { a.count = SIZE_MAX / 2; }},
        {"NULL", GPURUN_ERR_BUFFER, [](Arguments& a) { a.buffer = nullptr; }},
        {"freed memory", GPURUN_ERR_BUFFER, [](Arguments& a) { a.buffer = freed_device_memory(); }},
        {"past the end", GPURUN_ERR_BUFFER,
         [&device](Arguments& a) {
             a.buffer = device.at(device.size() - 4);
             a.count = 2;
         }},
        {"an address of nothing", GPURUN_ERR_BUFFER, [](Arguments& a) { a.buffer = reinterpret_cast<void*>(64); }},
        {"a stream of nobody", GPURUN_ERR_STREAM, [](Arguments& a) { a.stream = foreign_stream(); }},
        {"a destroyed stream", GPURUN_ERR_STREAM, [](Arguments& a) { a.stream = destroyed_stream(); }},
        {"rank too high", GPURUN_ERR_RANK, [](Arguments& a) { a.other = size(); }},
        {"rank far too high", GPURUN_ERR_RANK, [](Arguments& a) { a.other = INT_MAX; }},
        {"rank below all wildcards", GPURUN_ERR_RANK, [](Arguments& a) { a.other = -3; }},
    };
}

inline void check_all(const std::vector<Misuse>& misuses, const std::function<gpurun_status(const Arguments&)>& call) {
    const Memory memory(Kind::kDevice, 64);
    for (const Misuse& misuse : misuses) {
        CAPTURE(misuse.what);
        Arguments arguments{.buffer = memory.get(), .other = rank() ^ 1};
        if (arguments.other >= size())
            arguments.other = 0;
        misuse.spoil(arguments);
        check_refused(call(arguments), misuse.expected);
        check_good_message();
    }
}

} // namespace gpurun::test
