// What several ranks print to one place: lines that are too long to be kept.
#include "output.hpp"
#include "platform/pseudo_terminal.hpp"
#include "support/unit.hpp"

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

namespace gpurun::test::output {

using namespace launcher;

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLong = LineBuffer::kLongestLine + 300'000;
constexpr auto kSilence = std::chrono::milliseconds((Floor::kQuietTicks - 1) * Floor::kTickMs);

// Two ranks, one place, and whoever reads there.
class Bench {
  public:
    Bench() {
        sink_.share(must(platform::Timer::create()));
        for (Writer& writer : writers_) {
            platform::Pipe pipe = must(platform::create_pipe());
            writer.end = std::move(pipe.write_end);
            writer.pump =
                std::make_unique<OutputPump>(*loop_, std::move(pipe.read_end), OutputRoute{&sink_, nullptr, {}, true});
        }
    }

    static constexpr size_t kA = 0, kB = 1;
    static constexpr std::chrono::milliseconds kTurn{5};
    // Returns when the pipe has taken it all.
    void write(size_t rank, std::string_view text) {
        while (!text.empty()) {
            text.remove_prefix(platform::write_now(writers_[rank].end.get(), text).bytes);
            turn();
        }
    }
    void end(size_t rank) { writers_[rank].end.reset(); }
    // Until so much was read; fails after seconds.
    void read_until(size_t bytes) {
        const auto deadline = Clock::now() + std::chrono::seconds(30);
        while (got.size() < bytes) {
            REQUIRE(Clock::now() < deadline);
            turn();
        }
    }
    void turn_for(Clock::duration time) {
        for (const auto end = Clock::now() + time; Clock::now() < end;)
            turn();
    }

    std::string got;
    bool reads = true;
    int turns = 0;

  private:
    struct Writer {
        platform::UniqueFd end;
        std::unique_ptr<OutputPump> pump;
    };

    // The loop's next events, or none within kTurn.
    void turn() {
        ++turns;
        beat_.start(kTurn.count());
        REQUIRE_OK(loop_->run_once());
        char chunk[65536];
        while (reads) {
            const platform::Transfer transfer = platform::read_now(out_.read_end.get(), chunk);
            if (transfer.state != platform::StreamState::kOpen)
                break;
            got.append(chunk, transfer.bytes);
        }
    }

    std::unique_ptr<platform::EventLoop> loop_ = must(platform::EventLoop::create());
    platform::Timer beat_ = must(platform::Timer::create());
    platform::Watch beats_ = [this] {
        platform::Watch watch(*loop_, beat_.fd(), [this] { beat_.acknowledge(); });
        watch.wait_for(platform::Ready::kReadable);
        return watch;
    }();
    platform::Pipe out_ = must(platform::create_pipe());
    OutputSink sink_{*loop_, out_.write_end.get(), "the test's output"};
    Writer writers_[2];
};

} // namespace

TEST_SUITE_BEGIN("output");

TEST_CASE("others wait for the end of a line that is too long to be kept") {
    Bench bench;
    const std::string line(kLong, 'a');
    bench.write(Bench::kA, line);
    bench.read_until(LineBuffer::kLongestLine);
    bench.write(Bench::kB, "b\n");
    for (int i = 0; i < 20; ++i)
        bench.write(Bench::kA, "a");
    CHECK(bench.got.find('b') == std::string::npos);
    bench.write(Bench::kA, "\nnext of a\n");
    bench.read_until(kLong + 20 + 13);
    CHECK(bench.got == line + std::string(20, 'a') + "\nnext of a\nb\n");
}

TEST_CASE("a line that goes on with every second piece of another's is whole") {
    Bench bench;
    const std::string a(kLong, 'a');
    const std::string b(kLong, 'b');
    bench.write(Bench::kA, a);
    bench.read_until(LineBuffer::kLongestLine);
    bench.write(Bench::kB, b.substr(0, 50'000));
    bench.write(Bench::kA, "\na\na");
    bench.write(Bench::kB, b.substr(50'000));
    bench.read_until(kLong + 3 + LineBuffer::kLongestLine);
    bench.write(Bench::kA, "\n");
    bench.write(Bench::kB, "\n");
    bench.read_until(2 * kLong + 6);
    CHECK(bench.got == a + "\na\n" + b + "\na\n");
}

TEST_CASE("a rank that has said nothing more of its line for a second gives way, and loses nothing") {
    Bench bench;
    const std::string line(kLong, 'a');
    bench.write(Bench::kA, line);
    bench.read_until(kLong);
    const auto before = Clock::now();
    bench.write(Bench::kB, "b\n");
    bench.read_until(kLong + 2);
    CHECK(Clock::now() - before >= kSilence);
    bench.write(Bench::kA, "rest\n");
    bench.write(Bench::kB, "b\n");
    bench.read_until(kLong + 9);
    CHECK(bench.got.substr(kLong, 2) == "b\n");
    CHECK(bench.got.find("rest\n") != std::string::npos);
}

TEST_CASE("a rank that only pauses in its line keeps its turn") {
    Bench bench;
    bench.write(Bench::kA, std::string(kLong, 'a'));
    bench.read_until(kLong);
    bench.write(Bench::kB, "b\n");
    for (int i = 0; i < 20; ++i) {
        bench.turn_for(kSilence / 10);
        bench.write(Bench::kA, "a");
    }
    CHECK(bench.got.find('b') == std::string::npos);
    bench.write(Bench::kA, "\n");
    bench.read_until(kLong + 23);
    CHECK(bench.got.substr(kLong) == std::string(20, 'a') + "\nb\n");
}

TEST_CASE("a reader that takes nothing is not silence of the rank") {
    Bench bench;
    bench.write(Bench::kA, std::string(kLong, 'a'));
    bench.read_until(kLong);
    bench.write(Bench::kB, "b\n");
    bench.reads = false;
    const std::string more(3 * 65536, 'a'); // more than the pipe to the reader holds
    bench.write(Bench::kA, more);
    bench.turn_for(std::chrono::milliseconds((Floor::kQuietTicks + 1) * Floor::kTickMs));
    bench.reads = true;
    bench.read_until(kLong + more.size());
    bench.write(Bench::kA, "\n");
    bench.read_until(kLong + more.size() + 3);
    CHECK(bench.got.substr(kLong) == more + "\nb\n");
}

TEST_CASE("the end of a rank's output is the end of its line") {
    Bench bench;
    bench.write(Bench::kA, std::string(kLong, 'a'));
    bench.read_until(LineBuffer::kLongestLine);
    bench.write(Bench::kB, "b\n");
    bench.end(Bench::kA);
    const int before = bench.turns;
    bench.read_until(kLong + 2);
    CHECK(bench.got.substr(kLong) == "b\n");
    CHECK(bench.turns - before < kSilence / Bench::kTurn / 2);
}

TEST_CASE("progress bars are shown as they move, each behind its tag, and without line feeds of gpurun's") {
    auto loop = must(platform::EventLoop::create());
    platform::Pipe shown = must(platform::create_pipe());
    OutputSink sink(*loop, shown.write_end.get(), "the test's output");
    const LineTag tags[] = {{0, {true}}, {1, {true}}};
    const auto show = [&](size_t rank, std::string_view text) {
        sink.write_tagged(&tags[rank], tags[rank], text);
        char chunk[256];
        return std::string(chunk, platform::read_now(shown.read_end.get(), chunk).bytes);
    };
    CHECK(show(0, "10%\r") == "[0] 10%\r");
    CHECK(show(1, "15%\r20%\r") == "[1] 15%\r[1] 20%\r");
    CHECK(show(0, "20%\r") == "[0] 20%\r");
    CHECK(show(0, "\n") == "\n"); // the end of that line
    CHECK(show(0, "\n") == "[0] \n");
    CHECK(show(1, "part") == "[1] part");
    CHECK(show(0, "10%\r") == "\n[0] 10%\r");
    sink.write_lines("gpurun: a line\n");
    CHECK(show(0, "a\r\n") == "\ngpurun: a line\n[0] a\r\n");
}

TEST_CASE("a stream that nobody reads is not the end of who writes until it writes on") {
    std::signal(SIGPIPE, SIG_IGN); // as gpurun has it
    auto loop = must(platform::EventLoop::create());
    auto beat = must(platform::Timer::create());
    platform::Watch beats(*loop, beat.fd(), [&] { beat.acknowledge(); });
    beats.wait_for(platform::Ready::kReadable);
    const auto turn = [&] {
        beat.start(5);
        REQUIRE_OK(loop->run_once());
    };
    platform::Pipe of_rank = must(platform::create_pipe());
    platform::Pipe unread = must(platform::create_pipe());
    unread.read_end.reset();
    OutputSink sink(*loop, unread.write_end.get(), "the test's output");
    int stopped = 0;
    OutputRoute route{&sink, nullptr, {}, true};
    route.stop_writer = [&] { ++stopped; };
    OutputPump pump(*loop, std::move(of_rank.read_end), std::move(route));
    const auto print = [&] { CHECK(platform::write_now(of_rank.write_end.get(), "line\n").bytes == 5); };

    print();
    while (!sink.closed())
        turn();
    for (int i = 0; i < 5; ++i)
        turn();
    CHECK(stopped == 0);
    CHECK_FALSE(pump.done());
    print();
    while (!pump.done())
        turn();
    CHECK(stopped == 1);
}

TEST_CASE("lines that flood a terminal are read together, and none is lost or late") {
    auto loop = must(platform::EventLoop::create());
    Pace pace(*loop, must(platform::Timer::create()));
    platform::Pipe of_rank = must(platform::create_pseudo_terminal());
    platform::Pipe shown = must(platform::create_pipe());
    OutputSink sink(*loop, shown.write_end.get(), "the test's output");
    OutputRoute route{&sink, nullptr, {}, false};
    route.pace = &pace;
    OutputPump pump(*loop, std::move(of_rank.read_end), std::move(route));
    size_t written = 0, got = 0, alone = 0, together = 0;
    const auto print = [&] { written += platform::write_now(of_rank.write_end.get(), "line\n").bytes; };
    const auto read = [&] {
        char chunk[4096];
        const size_t bytes = platform::read_now(shown.read_end.get(), chunk).bytes;
        alone += bytes == 5;
        together += bytes > 5;
        got += bytes;
    };

    for (int i = 0; i < 500; ++i) {
        print();
        REQUIRE_OK(loop->run_once());
        read();
    }
    CHECK(alone >= 20); // before it was a flood
    CHECK(together > 100);
    while (got < written) {
        REQUIRE_OK(loop->run_once());
        read();
    }

    print();
    pump.finish(); // also while it rests
    read();
    CHECK(got == written);
    CHECK(pump.done());
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * Pace::kRestMs));
}

TEST_SUITE_END();

} // namespace gpurun::test::output
