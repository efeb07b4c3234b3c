// Streams that are read and written without waiting.
#include "platform/byte_stream.hpp"
#include "support/unit.hpp"

#include <array>
#include <csignal>
#include <string>

using namespace gpurun::platform;
using gpurun::test::must;

TEST_SUITE_BEGIN("byte stream");

TEST_CASE("an empty pipe would wait, a closed one is closed") {
    Pipe pipe = must(create_pipe());
    std::array<char, 8> buffer;
    CHECK(read_now(pipe.read_end.get(), buffer).state == StreamState::kWouldWait);
    pipe.write_end.reset();
    CHECK(read_now(pipe.read_end.get(), buffer).state == StreamState::kClosed);
}

TEST_CASE("a pipe takes what it has room for, and what it took arrives unchanged") {
    Pipe pipe = must(create_pipe());
    std::string sent(1 << 20, '\0');
    for (size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<char>(i * 7);
    std::string received;
    size_t at = 0;
    while (received.size() < sent.size()) {
        const Transfer written = write_now(pipe.write_end.get(), std::string_view(sent).substr(at));
        REQUIRE(written.state != StreamState::kClosed);
        at += written.bytes;
        std::array<char, 5000> buffer;
        for (;;) {
            const Transfer got = read_now(pipe.read_end.get(), buffer);
            if (got.state != StreamState::kOpen)
                break;
            received.append(buffer.data(), got.bytes);
        }
    }
    CHECK(received == sent);
}

TEST_CASE("writing to a pipe that nobody reads says that it is closed") {
    std::signal(SIGPIPE, SIG_IGN);
    Pipe pipe = must(create_pipe());
    pipe.read_end.reset();
    const Transfer written = write_now(pipe.write_end.get(), "text");
    CHECK(written.state == StreamState::kClosed);
    CHECK(written.error_number == 0);
}

TEST_CASE("the ends of a pipe are the same file, those of two are not") {
    Pipe one = must(create_pipe());
    Pipe other = must(create_pipe());
    CHECK(same_file(one.read_end.get(), one.write_end.get()));
    CHECK_FALSE(same_file(one.read_end.get(), other.read_end.get()));
}

TEST_SUITE_END();
