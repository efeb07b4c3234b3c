"""Debuggers, as gpurun_debugging(7) shows them: --debug, what has the terminal, gdb, valgrind and perf."""
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from launched import EMULATED, GPURUN, LONG_S, LaunchedTest, command_of, main, marked, on_terminal, state_of, wait_until

RING = os.path.abspath(sys.argv[3])
DEBUGGER = '''
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))  # print() may be what it interrupts
print("debugs", *sys.argv[1:], sys.stdin.isatty(), sys.stdout.isatty(), flush=True)
for line in sys.stdin:
    print("got", line, end="", flush=True)
    if line == "end\\n":
        break
'''


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"{tool} is not installed")


class DebuggerTest(LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.folder = folder
        with open(f"{folder}/debugger.py", "w", encoding="ascii") as file:
            file.write(DEBUGGER)
        self.debugger = f"{sys.executable} {folder}/debugger.py"


class Input(DebuggerTest):
    def test_the_rank_alone_is_under_the_debugger_and_reads_the_input(self):
        status, out, error = self.run_gpurun("-n", "3", "--tag-output", f"--debug=1:{self.debugger}", EMULATED, "sh",
                                             "-c", "echo not; cat", input_bytes=b"one\nend\n")
        self.assertEqual(status, 0, error)
        self.assertEqual(sorted(out.decode().splitlines()),
                         ["[0] not", f"[1] debugs {shutil.which('sh')} -c echo not; cat False True",
                          "[1] got end", "[1] got one", "[2] not"])
        self.assertRegex(error, r"^gpurun: rank 1 runs under \S+ \(pid \d+\)\n$")

    def test_a_folder_of_the_program_does_not_matter_to_the_debugger(self):
        os.symlink("/bin/echo", f"{self.folder}/show")
        status, out, error = self.run_gpurun("-n", "1", "--chdir=/", "--debug=0:./show runs", EMULATED, "true",
                                             cwd=self.folder)
        self.assertEqual((status, out.split()[0]), (0, b"runs"), error)

    def test_what_cannot_be_meant_is_an_error(self):
        for option, said in (("--debug=x", "must be RANK or RANK:COMMAND"), ("--debug=1:", "must be RANK or"),
                             ("--debug=-1", "must be RANK or"), (f"--debug=2:{self.debugger}", "ranks are 0 to 1"),
                             ("-gdb", "write --debug RANK")):
            status, _, error = self.run_gpurun("-n", "2", option, EMULATED, "true")
            self.assertEqual(status, 2, option)
            self.check_own_line(error, said)
        status, _, error = self.run_gpurun("-n", "2", f"--debug=1:{self.debugger}", "--stdin=all", EMULATED, "true")
        self.assertEqual(status, 2)
        self.check_own_line(error, "leave --stdin out")
        status, _, error = self.run_gpurun("-n", "2", "--debug=1:no-such-debugger", EMULATED, "true")
        self.assertEqual(status, 127)
        self.check_own_line(error, "no-such-debugger", "--debug 1:COMMAND")


class Terminal(DebuggerTest):
    def environment(self):
        return {**super().environment(), "TERM": "dumb"}  # no colours between words

    def start(self, command):
        self.pid, self.terminal = on_terminal(command, self.environment())
        self.seen = b""
        self.addCleanup(os.close, self.terminal)

    def read_until(self, part):
        while part not in self.seen:
            if not select.select([self.terminal], [], [], LONG_S)[0]:
                self.fail(f"waits for {part}: {self.seen}")
            try:
                self.seen += os.read(self.terminal, 4096)
            except OSError:
                self.fail(f"ended before {part}: {self.seen}")
        self.seen = self.seen.split(part, 1)[1]

    def type(self, text):
        os.write(self.terminal, text)

    def interrupt(self):
        """Until Python says so: one that comes just before it begins to read waits for the next line."""
        seen = self.seen
        for _ in range(LONG_S):
            self.type(b"\x03")
            while b"interrupted" not in seen and select.select([self.terminal], [], [], 1)[0]:
                seen += os.read(self.terminal, 4096)
            if b"interrupted" in seen:
                break
        self.seen = seen
        self.read_until(b"interrupted")

    def end(self):
        """Its status."""
        try:
            while True:
                self.seen += os.read(self.terminal, 4096)
        except OSError:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def job(self, ranks, rank, *program):
        return [GPURUN, "-n", str(ranks), f"--debug={rank}:{self.debugger}", EMULATED, *program]

    def test_control_c_is_the_debuggers(self):
        self.start(self.job(2, 1, "true"))
        self.read_until(b"which has the terminal")
        self.read_until(b"true True True")
        self.interrupt()
        self.type(b"end\n")
        self.read_until(b"got end")
        self.assertEqual(self.end(), 0)
        self.assertNotIn(b"gpurun:", self.seen)

    def test_control_z_suspends_the_job_and_fg_gives_the_terminal_back(self):
        job = shlex.join(self.job(2, 0, "sleep", "0"))
        self.start(["/bin/sh", "-c", f"set -m; {job}; echo stopped $?; read line; fg >/dev/null; echo ended $?"])
        self.read_until(b"sleep 0 True True")
        self.type(b"\x1a")
        self.read_until(b"stopped 148")
        self.type(b"go on\n")
        self.type(b"typed\n")
        self.read_until(b"got typed")
        self.interrupt()
        self.type(b"end\n")
        self.read_until(b"ended 0")
        self.assertEqual(self.end(), 0)

    def test_the_terminal_is_as_before_when_the_debugger_is_killed(self):
        with open(f"{self.folder}/raw", "w", encoding="ascii") as file:
            file.write("stty raw -echo; echo raw; kill -9 $$\n")
        job = shlex.join([GPURUN, "-n", "1", "--debug=0:sh", EMULATED, f"{self.folder}/raw"])
        os.chmod(f"{self.folder}/raw", 0o755)
        self.start(["/bin/sh", "-c", f"{job}; stty -a"])
        self.assertEqual(self.end(), 0)
        self.assertRegex(self.seen, rb"[^-]icanon[^-]*\biexten [^-]*echo")

    def test_an_interactive_program_behind_env_has_the_terminal(self):
        self.start([GPURUN, "-n", "1", "--debug", "0:env", EMULATED, sys.executable, "-q"])
        self.read_until(b">>> ")
        self.type(b"40 + 2\n")
        self.read_until(b"42")
        self.read_until(b">>> ")
        self.type(b"exit()\n")
        self.assertEqual(self.end(), 0)

    @needs("gdb")
    def test_gdb_stops_one_rank_at_a_breakpoint(self):
        self.start([GPURUN, "-n", "2", "--debug=1", EMULATED, RING])
        for typed, answer in ((b"break gpurun_send", b"Breakpoint 1 at"), (b"run", b"hit Breakpoint 1"),
                              (b"backtrace", b"in main"), (b"delete 1", b"delete 1"),
                              (b"continue", b"exited normally")):
            self.read_until(b"(gdb) ")
            self.type(typed + b"\n")
            self.read_until(answer)
        self.type(b"quit\n")
        self.assertEqual(self.end(), 0)

    @needs("gdb")
    def test_control_c_in_gdb_stops_the_program_and_not_the_job(self):
        self.start([GPURUN, "-n", "1", "--debug=0", EMULATED, "sleep", "100"])
        self.read_until(b"(gdb) ")
        self.type(b"run\n")
        self.read_until(b"Starting program")
        self.assertTrue(wait_until(lambda: any(command_of(pid) == "sleep" and state_of(pid) == "S"
                                               for pid in marked(self.mark))))
        self.type(b"\x03")
        self.read_until(b"SIGINT")
        self.type(b"kill\n")
        self.read_until(b"(y or n)")
        self.type(b"y\n")
        self.read_until(b"killed]")
        self.type(b"quit\n")
        self.assertEqual(self.end(), 0)


class Tools(DebuggerTest):
    @needs("gdb")
    def test_each_rank_runs_under_a_gdb_of_its_own_that_reads_no_input(self):
        status, out, error = self.run_gpurun("-n", "2", "--tag-output", EMULATED, "gdb", "-q", "-batch", "-ex",
                                             "break gpurun_send", "-ex", "run", "-ex", "backtrace", "-ex", "delete",
                                             "-ex", "continue", "--args", RING)
        self.assertEqual(status, 0, error)
        for rank in (0, 1):
            self.assertRegex(out.decode(), rf"(?m)^\[{rank}\] .*hit Breakpoint 1")

    @needs("valgrind")
    def test_each_rank_runs_under_valgrind(self):
        status, out, error = self.run_gpurun("-n", "2", EMULATED, "valgrind", "--error-exitcode=9",
                                             f"--log-file={self.folder}/valgrind.%q{{GPURUN_RANK}}", RING)
        self.assertEqual((status, out), (0, b"the token has been at all 2 ranks\n"), error)
        for rank in (0, 1):
            with open(f"{self.folder}/valgrind.{rank}", encoding="utf-8") as file:
                self.assertIn("ERROR SUMMARY: 0 errors", file.read())

    @needs("valgrind")
    def test_what_gpurun_asks_of_memory_is_no_error_to_valgrind(self):
        # Of a stack, whose place the environment decides, and of memory that nobody has written.
        for room in range(0, 4096, 1024):
            status, _, error = self.run_gpurun("-n", "2", EMULATED, "valgrind", "-q", "--error-exitcode=9", RING,
                                               extra_env={"ROOM": "x" * room})
            self.assertEqual((status, error), (0, ""))
        large = os.path.join(os.path.dirname(RING), "broadcast")
        status, _, error = self.run_gpurun("-n", "2", EMULATED, "valgrind", "-q", "--error-exitcode=9", large)
        self.assertEqual(status, 0, error)

    @needs("valgrind")
    def test_one_rank_runs_under_valgrind(self):
        status, out, error = self.run_gpurun("-n", "2", "--debug=1:valgrind --error-exitcode=9", EMULATED, RING)
        self.assertEqual((status, out), (0, b"the token has been at all 2 ranks\n"), error)
        self.assertEqual(error.count("ERROR SUMMARY: 0 errors"), 1, error)

    @needs("valgrind")
    def test_what_valgrind_finds_is_the_jobs_exit_status(self):
        source, program = f"{self.folder}/bad.c", f"{self.folder}/bad"
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <stdlib.h>\nint main(void) { volatile int *p = malloc(4); return p[1] == 77; }\n")
        if subprocess.run(["cc", "-O0", "-o", program, source], check=False).returncode != 0:
            self.skipTest("needs a C compiler")
        status, _, error = self.run_gpurun("-n", "1", EMULATED, "valgrind", "--error-exitcode=9", program)
        self.assertEqual(status, 9, error)
        self.assertIn("Invalid read of size 4", error)

    @needs("perf")
    def test_perf_records_the_job_and_each_rank(self):
        data = f"{self.folder}/data"
        tried = subprocess.run(["perf", "record", "-o", data, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"perf cannot record here: {tried.stderr.strip()}")
        ran = subprocess.run(["perf", "record", "-g", "-o", data, GPURUN, "-n", "2", EMULATED, RING],
                             capture_output=True, text=True, env=self.environment(), check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        status, _, error = self.run_gpurun("-n", "2", EMULATED, "sh", "-c",
                                           f"exec perf record -o {data}.$GPURUN_RANK {RING}")
        self.assertEqual(status, 0, error)
        for name in (data, f"{data}.0", f"{data}.1"):
            report = subprocess.run(["perf", "report", "--stdio", "--sort", "comm", "-i", name], capture_output=True,
                                    text=True, check=False)
            self.assertEqual(report.returncode, 0, report.stderr)
            self.assertTrue(re.search(r"\bring\b", report.stdout), report.stdout)


main()
