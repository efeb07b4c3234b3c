// Processes that are ended with all that they have started, also by the guard of a launcher that is killed.
#include "platform/process_tree.hpp"
#include "platform/byte_stream.hpp"
#include "platform/orphan_guard.hpp"
#include "platform/private_folder.hpp"
#include "platform/process.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpurun::platform;
using gpurun::test::must;

namespace {

constexpr int64_t kSoonMs = 10'000;

// A shell, its child in a session of its own, and that child's child: it prints their two numbers.
SpawnRequest family(int out) {
    SpawnRequest request;
    request.path = "/bin/sh";
    request.arguments = {"sh", "-c", "setsid sh -c 'sleep 100 & echo $$ $!; wait' & wait"};
    request.environment = {"PATH=/usr/bin:/bin"};
    request.standard_out = out;
    ::sigemptyset(&request.signal_mask);
    return request;
}

std::vector<int> read_numbers(int fd, size_t count) {
    std::string text;
    std::array<char, 64> piece{};
    std::vector<int> numbers;
    while (text.find('\n') == std::string::npos) {
        const ssize_t got = ::read(fd, piece.data(), piece.size());
        if (got <= 0)
            break;
        text.append(piece.data(), static_cast<size_t>(got));
    }
    std::istringstream words(text);
    for (int number = 0; words >> number;)
        numbers.push_back(number);
    REQUIRE(numbers.size() == count);
    return numbers;
}

// Starts a family under a guard, makes a folder, tells both, and then is killed.
[[noreturn]] void run_doomed_launcher(int out) {
    auto guard = OrphanGuard::create();
    auto folder = PrivateFolder::create("gpurun-unit-");
    if (!guard || !folder || !guard->watch_folder(folder->path()))
        ::_exit(1);
    SpawnRequest request = family(out);
    request.guard = &*guard;
    auto child = ChildProcess::start(request);
    auto file = folder->add_file("file");
    write_all(out, folder->path() + "\n");
    if (!child || !file)
        ::_exit(1);
    for (;;)
        ::pause();
}

std::string read_line(int fd) {
    std::string line;
    for (char one = 0; ::read(fd, &one, 1) == 1 && one != '\n';)
        line += one;
    return line;
}

} // namespace

TEST_SUITE_BEGIN("process tree");

TEST_CASE("a process is ended with its descendants, whatever groups they have made") {
    Pipe pipe = must(create_pipe());
    ChildProcess child = must(ChildProcess::start(family(pipe.write_end.get())));
    const std::vector<int> family_pids = read_numbers(pipe.read_end.get(), 2);
    REQUIRE(::getpgid(family_pids[0]) != child.pid());
    std::vector<int> found = descendants(child.pid());
    for (const int pid : family_pids)
        CHECK(std::count(found.begin(), found.end(), pid) == 1);
    CHECK_FALSE(wait_for_ends(family_pids, 50));
    child.end_tree();
    CHECK(wait_for_ends(family_pids, 0));
    CHECK(child.end().has_value());
}

TEST_CASE("a guard ends what it was told, and then removes the folder, when the launcher is killed") {
    Pipe pipe = must(create_pipe());
    const pid_t launcher = ::fork();
    if (launcher == 0)
        run_doomed_launcher(pipe.write_end.get());
    std::string folder;
    std::vector<int> pids;
    for (int line = 0; line < 2; ++line) { // the launcher's and the family's, in any order
        const std::string text = read_line(pipe.read_end.get());
        if (text.starts_with('/'))
            folder = text;
        else
            std::istringstream(text) >> pids.emplace_back() >> pids.emplace_back();
    }
    REQUIRE(std::filesystem::exists(folder + "/file"));
    REQUIRE(pids.size() == 2);
    REQUIRE_FALSE(wait_for_ends(pids, 0));
    ::kill(launcher, SIGKILL);
    ::waitpid(launcher, nullptr, 0);
    CHECK(wait_for_ends(pids, kSoonMs));
    for (int i = 0; i < kSoonMs && std::filesystem::exists(folder); ++i)
        ::usleep(1000);
    CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a guard that is destroyed leaves everything, and a forgotten process is not its business") {
    Pipe pipe = must(create_pipe());
    ChildProcess child = must(ChildProcess::start(family(pipe.write_end.get())));
    const std::vector<int> pids = read_numbers(pipe.read_end.get(), 2);
    const pid_t launcher = ::fork();
    if (launcher == 0) {
        auto guard = OrphanGuard::create();
        if (!guard)
            ::_exit(1);
        {
            auto destroyed = OrphanGuard::create();
            destroyed->watch_tree(child.pid());
        }
        guard->watch_tree(child.pid());
        guard->forget_tree(child.pid());
        ::_exit(0); // without destroying the guard
    }
    int status = -1;
    ::waitpid(launcher, &status, 0);
    CHECK(status == 0);
    CHECK_FALSE(wait_for_ends(pids, 300));
    child.end_tree();
}

TEST_CASE("a folder with a path that is too long to be told is an error") {
    const OrphanGuard guard = must(OrphanGuard::create());
    CHECK_STATUS(guard.watch_folder("/" + std::string(2000, 'x')), gpurun::base::Status::kSystem);
}

TEST_SUITE_END();
