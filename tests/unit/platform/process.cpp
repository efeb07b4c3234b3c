// Finding and starting programs, and how they end.
#include "platform/process.hpp"
#include "platform/byte_stream.hpp"
#include "support/unit.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace gpurun::platform;
using gpurun::test::must;

using Step = StartFailure::Step;

namespace {

SpawnRequest shell(const std::string& script) {
    SpawnRequest request;
    request.path = "/bin/sh";
    request.arguments = {"sh", "-c", script};
    ::sigemptyset(&request.signal_mask);
    return request;
}

ProcessEnd wait_for(const ChildProcess& child) {
    pollfd ended{child.pidfd(), POLLIN, 0};
    REQUIRE(::poll(&ended, 1, 10'000) == 1);
    REQUIRE(child.end().has_value());
    return *child.end();
}

std::string output_of(SpawnRequest request) {
    Pipe pipe = must(create_pipe());
    request.standard_out = pipe.write_end.get();
    ChildProcess child = must(ChildProcess::start(request));
    pipe.write_end.reset();
    std::string text;
    char piece[256];
    for (ssize_t got = 0; (got = ::read(pipe.read_end.get(), piece, sizeof piece)) > 0;)
        text.append(piece, static_cast<size_t>(got));
    CHECK(wait_for(child).value == 0);
    return text;
}

} // namespace

TEST_SUITE_BEGIN("process");

TEST_CASE("a program is found as a shell finds it") {
    CHECK(find_program("sh", "/nowhere:/bin").path == "/bin/sh");
    CHECK(find_program("/bin/sh", nullptr).exit_status == 0);
    CHECK(find_program("no-such-program", "/bin:/usr/bin").exit_status == 127);
    CHECK(find_program("/nowhere/sh", "/bin").exit_status == 127);
    CHECK(find_program("/etc/passwd", "").exit_status == 126);
    CHECK(find_program("passwd", "/etc").exit_status == 126);
    CHECK(find_program("/etc", "").exit_status == 126);
    CHECK(find_program("", "/bin").exit_status == 127);
    CHECK(find_program("bin", "/usr").exit_status == 127); // a folder of that name is no program
}

TEST_CASE("a child's status and signal are told, and it stays until it is reaped") {
    ChildProcess exits = must(ChildProcess::start(shell("exit 7")));
    CHECK(exits.wait_for_exec().step == Step::kNone);
    CHECK(wait_for(exits).value == 7);
    CHECK_FALSE(exits.end()->by_signal);
    CHECK(::kill(exits.pid(), 0) == 0);

    ChildProcess dies = must(ChildProcess::start(shell("kill -ILL $$")));
    CHECK(wait_for(dies).by_signal);
    CHECK(wait_for(dies).value == SIGILL);
}

TEST_CASE("a program that cannot be executed is told with its reason") {
    SpawnRequest request = shell("");
    request.path = "/etc/passwd";
    ChildProcess child = must(ChildProcess::start(request));
    const StartFailure failure = child.wait_for_exec();
    CHECK(failure.step == Step::kExec);
    CHECK(failure.error_number == EACCES);
}

TEST_CASE("a script without an interpreter line is run by the shell") {
    char path[] = "/tmp/gpurun-script-XXXXXX";
    {
        const UniqueFd file(::mkstemp(path));
        write_all(file.get(), "echo \"ran $1\"\n");
        REQUIRE(::fchmod(file.get(), 0700) == 0);
    } // a file that is open for writing cannot be executed
    SpawnRequest request = shell("");
    request.path = path;
    request.arguments = {"script", "well"};
    CHECK(output_of(request) == "ran well\n");
    ::unlink(path);
}

TEST_CASE("a child starts with its environment, in a process group of its own") {
    SpawnRequest request = shell("echo $WORD; test $(ps -o pgid= $$) = $$ && echo leads");
    request.environment = {"WORD=said", "PATH=/usr/bin:/bin"};
    CHECK(output_of(request) == "said\nleads\n");
}

TEST_CASE("a child starts with the signal mask that it is given") {
    SpawnRequest request;
    request.path = "/bin/grep";
    request.arguments = {"grep", "SigBlk", "/proc/self/status"};
    ::sigemptyset(&request.signal_mask);
    ::sigaddset(&request.signal_mask, SIGUSR1);
    CHECK(output_of(request) == "SigBlk:\t0000000000000200\n");
}

TEST_CASE("a child is bound to the CPUs that it is given") {
    SpawnRequest request = shell("grep Cpus_allowed_list /proc/self/status");
    request.environment = {"PATH=/usr/bin:/bin"};
    request.cpus = {0};
    CHECK(output_of(request) == "Cpus_allowed_list:\t0\n");
}

TEST_CASE("a child runs in the folder that it is given, or says that it cannot") {
    SpawnRequest request = shell("pwd");
    request.folder = "/usr/bin/..";
    CHECK(output_of(request) == "/usr\n");
    request.folder = "/nowhere";
    ChildProcess child = must(ChildProcess::start(request));
    const StartFailure failure = child.wait_for_exec();
    CHECK(failure.step == Step::kFolder);
    CHECK(failure.error_number == ENOENT);
}

TEST_CASE("memory that must come from a node that is not there stops a start, memory that should does not") {
    SpawnRequest request = shell("exit 0");
    request.memory = {1000};
    CHECK(must(ChildProcess::start(request)).wait_for_exec().step == Step::kNone);
    request.strict_memory = true;
    CHECK(must(ChildProcess::start(request)).wait_for_exec().step == Step::kMemory);
}

TEST_CASE("a child that is dropped is killed with its group") {
    int pid = -1;
    {
        ChildProcess child = must(ChildProcess::start(shell("sleep 100 & sleep 100")));
        REQUIRE(child.wait_for_exec().step == Step::kNone);
        pid = child.pid();
    }
    // Its members may still be on their way out, or wait for init to reap them.
    for (int i = 0; i < 20000 && ::kill(-pid, 0) == 0; ++i)
        ::usleep(1000);
    CHECK(::kill(-pid, 0) != 0);
}

TEST_SUITE_END();
