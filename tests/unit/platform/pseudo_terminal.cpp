// Pseudo-terminals as the way of a program's output.
#include "platform/pseudo_terminal.hpp"
#include "support/unit.hpp"

#include <string>
#include <thread>

namespace gpurun::test::pseudo_terminal {

using namespace platform;

namespace {

Pipe opened() {
    auto pair = create_pseudo_terminal();
    if (!pair) // a container may have none
        MESSAGE(pair.error().detail);
    return pair ? std::move(*pair) : Pipe();
}

// All that comes until the end.
std::string read_all(int fd) {
    std::string all;
    char chunk[5000];
    for (;;) {
        const Transfer got = read_now(fd, chunk);
        all.append(chunk, got.bytes);
        if (got.state == StreamState::kClosed)
            return all;
    }
}

} // namespace

TEST_SUITE_BEGIN("pseudo terminal");

TEST_CASE("every byte passes a terminal, as often as it was written, and then comes the end") {
    Pipe pair = opened();
    if (!pair.read_end)
        return;
    CHECK(is_terminal(pair.write_end.get()));
    std::string text;
    for (int i = 0; i < 300'000; ++i)
        text += static_cast<char>(i * 7);
    std::thread writer([&] {
        write_all(pair.write_end.get(), text);
        pair.write_end.reset();
    });
    const std::string got = read_all(pair.read_end.get());
    writer.join();
    CHECK(got == text);
}

TEST_CASE("what was written before the terminal was closed is still to be read") {
    Pipe pair = opened();
    if (!pair.read_end)
        return;
    write_all(pair.write_end.get(), "the last line\n");
    pair.write_end.reset();
    CHECK(read_all(pair.read_end.get()) == "the last line\n");
}

TEST_CASE("a terminal that nobody has written to does not make its reader wait") {
    Pipe pair = opened();
    if (!pair.read_end)
        return;
    char chunk[10];
    CHECK(read_now(pair.read_end.get(), chunk).state == StreamState::kWouldWait);
}

TEST_CASE("who writes to a terminal that nobody reads any more finds it closed, and nothing broken") {
    Pipe pair = opened();
    if (!pair.read_end)
        return;
    pair.read_end.reset();
    const Transfer written = write_now(pair.write_end.get(), "x");
    CHECK(written.state == StreamState::kClosed);
    CHECK(written.error_number == 0);
}

TEST_CASE("a terminal has the size that it was given, at first none") {
    Pipe pair = opened();
    if (!pair.read_end)
        return;
    CHECK(window_size(pair.write_end.get()).columns == 0);
    set_window_size(pair.read_end.get(), {97, 31});
    CHECK(window_size(pair.write_end.get()).columns == 97);
    CHECK(window_size(pair.write_end.get()).rows == 31);
}

TEST_SUITE_END();

} // namespace gpurun::test::pseudo_terminal
