// Streams that are read and written without waiting.
#include "platform/byte_stream.hpp"
#include "support/unit.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <string>
#include <unistd.h>

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

TEST_CASE("a write end of one's own does not wait though the pipe has become full, and leaves the other as it is") {
    const Pipe pipe = must(create_pipe());
    const UniqueFd own = own_write_end(pipe.write_end.get());
    REQUIRE(own);
    const std::string page(4096, 'x');
    while (::write(own.get(), page.data(), page.size()) > 0) {
    }
    CHECK(errno == EAGAIN);
    CHECK((::fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("what is no pipe has no such end, and that of a pipe that nobody reads is closed") {
    std::signal(SIGPIPE, SIG_IGN);
    Pipe pipe = must(create_pipe());
    pipe.read_end.reset();
    const UniqueFd own = own_write_end(pipe.write_end.get());
    CHECK(write_now(own.get(), "text").state == StreamState::kClosed);
    const UniqueFd nothing = must(open_null());
    CHECK_FALSE(own_write_end(nothing.get()));
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
