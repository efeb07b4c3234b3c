"""What ranks print and read: whole lines, every byte, back-pressure, and input for rank 0."""
import os
import re
import subprocess
import sys
import tempfile
import time

from launched import EMULATED, GPURUN, LaunchedTest, main, on_terminal

WRITER = """
import os, sys
rank = int(os.environ["GPURUN_RANK"])
for line in range(int(sys.argv[1])):
    text = f"{rank} {line} " + chr(97 + rank) * ((line * 37 + rank) % 300) + "\\n"
    # In pieces, as a program without buffering writes.
    middle = len(text) // 2
    os.write(1, text[:middle].encode())
    os.write(1, text[middle:].encode())
"""

LENGTHS = [5_000_000, 1, 1_048_575, 300, 1_048_577, 2_000_000]
LONG_LINES = f"""
import os
letter = bytes([97 + int(os.environ["GPURUN_RANK"])])
for length in {LENGTHS}:
    rest = letter * length + b"\\n"
    while rest:
        rest = rest[os.write(1, rest[:40_000]):]
"""

# Rank 0 ends its line when rank 1 has printed more than fits anywhere.
WITHIN_A_LINE = """
import os, sys, time
fifo = sys.argv[1] + "/done"
if os.environ["GPURUN_RANK"] == "0":
    os.mkfifo(fifo + ".new")
    sys.stdout.write("x" * 2_000_000)
    sys.stdout.flush()
    os.rename(fifo + ".new", fifo)
    open(fifo).read()
    print()
else:
    while not os.path.exists(fifo):
        time.sleep(0.01)
    for _ in range(10_000):
        print("y" * 99)
    sys.stdout.flush()
    open(fifo, "w").close()
"""


class Streams(LaunchedTest):
    def test_lines_of_16_ranks_are_never_torn(self):
        lines = 3000
        status, out, error = self.run_gpurun("-n", "16", EMULATED, sys.executable, "-c", WRITER, str(lines))
        self.assertEqual((status, error), (0, ""))
        self.check_whole_lines(out, 16, lines)

    def test_a_slow_reader_gets_everything_and_gpurun_does_not_grow(self):
        idle = self.start("-n", "8", EMULATED, "sh", "-c", "echo up; exec sleep 100")
        for _ in range(8):
            idle.stdout.readline()
        idle_kib = self.peak_kib(idle)
        idle.terminate()
        process = self.start("-n", "8", EMULATED, sys.executable, "-c", WRITER, "40000")  # 50 MB
        time.sleep(2)
        self.assertLess(self.peak_kib(process) - idle_kib, 13_000)
        out, error = process.communicate(timeout=60)
        self.assertEqual((process.returncode, error), (0, b""))
        self.check_whole_lines(out, 8, 40000)

    @staticmethod
    def peak_kib(process):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])

    def check_whole_lines(self, out, ranks, lines):
        seen = [0] * ranks
        for line in out.decode().splitlines():
            rank, number, *letters = line.split(" ")
            rank, number = int(rank), int(number)
            self.assertEqual("".join(letters), chr(97 + rank) * ((number * 37 + rank) % 300))
            self.assertEqual(number, seen[rank])  # in order
            seen[rank] += 1
        self.assertEqual(seen, [lines] * ranks)

    def test_stdout_and_stderr_in_one_pipe_are_not_torn_either(self):
        script = 'i=0; while [ $i -lt 300 ]; do echo "out out out"; echo "error error" >&2; i=$((i+1)); done'
        status, out, _ = self.run_gpurun("-n", "8", EMULATED, "sh", "-c", script, stderr=subprocess.STDOUT)
        self.assertEqual(status, 0)
        self.assertEqual(sorted(set(out.splitlines())), [b"error error", b"out out out"])
        self.assertEqual(len(out.splitlines()), 8 * 600)

    def test_bytes_pass_unchanged(self):
        data = bytes(range(256)) * 4000
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            script = f"[ $GPURUN_RANK = 1 ] && cat {file.name}; true"
            self.assertEqual(self.run_gpurun("-n", "2", EMULATED, "sh", "-c", script), (0, data, ""))

    def test_a_last_line_without_end_is_kept(self):
        script = "[ $GPURUN_RANK = 0 ] || printf 'no end'"
        self.assertEqual(self.run_gpurun("-n", "2", EMULATED, "sh", "-c", script), (0, b"no end", ""))

    def test_a_progress_bar_moves_also_beside_other_ranks(self):
        for options in ((), ("--pty=off",)):
            process = self.start("-n", "2", EMULATED, *options, "sh", "-c",
                                 "[ $GPURUN_RANK = 1 ] || printf 'half\\r'; read end; [ $GPURUN_RANK = 1 ] || echo done",
                                 stdin=subprocess.PIPE)
            self.assertEqual(os.read(process.stdout.fileno(), 100), b"half\r")
            self.assertEqual(process.communicate(b"\n", timeout=30), (b"done\n", b""))

    def test_lines_of_mebibytes_are_never_torn_however_many_ranks_print_them(self):
        status, out, error = self.run_gpurun("-n", "8", EMULATED, sys.executable, "-c", LONG_LINES)
        self.assertEqual((status, error), (0, ""))
        lines = out.split(b"\n")
        self.assertEqual(lines.pop(), b"")
        counted = sorted((line[:1], len(line)) for line in lines)
        self.assertTrue(all(line == line[:1] * len(line) for line in lines), counted)
        self.assertEqual(counted, sorted((bytes([97 + rank]), length) for rank in range(8) for length in LENGTHS))

    def test_a_rank_that_waits_within_a_long_line_for_another_one_waits_a_second(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out, error = self.run_gpurun("-n", "2", EMULATED, sys.executable, "-c", WITHIN_A_LINE, folder)
        self.assertEqual((status, error), (0, ""))
        self.assertEqual((out.count(b"x"), out.count(b"y" * 99 + b"\n")), (2_000_000, 10_000))
        self.assertEqual(len(out), 2_000_000 + 1 + 1_000_000)

    def test_output_of_a_rank_that_dies_is_all_there(self):
        script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; kill -KILL $$"
        status, out, _ = self.run_gpurun(EMULATED, "sh", "-c", script)
        self.assertEqual(status, 137)
        self.assertEqual(len(out.splitlines()), 2000)

    def test_a_rank_alone_shows_a_prompt_at_once(self):
        process = self.start(EMULATED, "sh", "-c", "printf 'name? '; sleep 100")
        self.assertEqual(os.read(process.stdout.fileno(), 100), b"name? ")
        process.terminate()
        process.communicate(timeout=20)

    def test_jobs_that_print_into_one_pipe_can_be_ended_when_nobody_reads_it_any_more(self):
        for _ in range(8):
            reader, writer = os.pipe()
            jobs = [self.start("-n", "2", "--grace=0.2", EMULATED, "yes", letter * 40, stdout=writer,
                               stderr=subprocess.DEVNULL) for letter in "abc"]
            os.close(writer)
            missing = {b"a", b"b", b"c"}
            while missing:
                missing -= {bytes([letter]) for letter in os.read(reader, 4096)}
            for _ in range(5000):  # whenever there is room again, each of them finds it
                os.read(reader, 4096)
            time.sleep(0.05)
            for _ in range(2):
                for job in jobs:
                    job.terminate()
                time.sleep(0.05)
            statuses = [job.wait(timeout=20) for job in jobs]
            os.close(reader)
            self.assertEqual(statuses, [143] * 3)

    def test_a_full_disk_is_said(self):
        with open("/dev/full", "wb") as full:
            status, _, error = self.run_gpurun("-n", "2", EMULATED, "sh", "-c", "while :; do echo line; done",
                                               stdout=full)
        self.assertEqual(status, 128 + 13)
        self.assertIn("gpurun: writing the ranks' output: No space left on device\n", error)

    def test_what_could_not_be_written_fails_the_job_also_if_its_rank_prints_no_more(self):
        with open("/dev/full", "wb") as full:
            for ranks in ("1", "2"):
                status, _, error = self.run_gpurun("-n", ranks, EMULATED, "echo", "once", stdout=full)
                self.assertEqual(status, 1)
                self.check_own_line(error, "writing the ranks' output: No space left on device")

    def test_rank_0_reads_stdin_and_the_others_nothing(self):
        data = os.urandom(3_000_000)
        status, out, _ = self.run_gpurun("-n", "3", EMULATED, "sh", "-c", "cat; [ $GPURUN_RANK = 0 ] || echo; :",
                                         input_bytes=data)
        self.assertEqual(status, 0)
        self.assertEqual(len(out), len(data) + 2)

    def test_what_rank_0_does_not_read_is_left_for_the_next_program(self):
        loop = 'while read line; do echo "got $line"; "$0" -n 2 --device=emulated true; done'
        result = subprocess.run(["sh", "-c", loop, GPURUN], input=b"1\n2\n3\n",
                                stdout=subprocess.PIPE, check=True)
        self.assertEqual(result.stdout, b"got 1\ngot 2\ngot 3\n")


class Terminal(LaunchedTest):
    def start_on_terminal(self, script, *options):
        """gpurun as the foreground job of a terminal of its own. Returns its pid and the terminal's other end."""
        pid, terminal = on_terminal([GPURUN, *options, EMULATED, "sh", "-c", script], self.environment())
        self.addCleanup(os.close, terminal)
        return pid, terminal

    def read_until(self, terminal, text):
        seen = b""
        while text not in seen:
            seen += os.read(terminal, 4096)
        return seen

    def test_what_is_typed_reaches_rank_0_until_its_end(self):
        pid, terminal = self.start_on_terminal("while read line; do echo \"rank $GPURUN_RANK got $line\"; done", "-n", "2")
        os.write(terminal, b"hello\n")
        self.assertIn(b"rank 0 got hello", self.read_until(terminal, b"got hello\r\n"))
        os.write(terminal, b"\x04")  # ^D
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_control_c_ends_the_job(self):
        pid, terminal = self.start_on_terminal("echo up; sleep 100 & wait", "-n", "2")
        self.read_until(terminal, b"up\r\nup")
        os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130)

    def test_in_the_background_gpurun_leaves_the_terminal_to_the_one_in_front(self):
        job = f"{GPURUN} {EMULATED} sh -c 'echo up; exec sleep 1'"
        script = f"set -m; {job} </dev/tty & read line; echo \"front got $line\"; wait"
        pid, terminal = on_terminal(["/bin/sh", "-c", script], self.environment())
        self.addCleanup(os.close, terminal)
        self.read_until(terminal, b"up\r\n")
        os.write(terminal, b"typed\n")
        self.assertIn(b"front got typed", self.read_until(terminal, b"front got typed\r\n"))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


main()
