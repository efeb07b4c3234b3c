"""What ranks print is shown when they print it, and not lost with them: each prints to a pseudo-terminal."""
import fcntl
import hashlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

from launched import EMULATED, GPURUN, LONG_S, LaunchedTest, main, on_rank, on_terminal

PRINTING = os.path.abspath(sys.argv[3])
LINES = 40
ALL_LINES = b"".join(b"line %d\n" % line for line in range(LINES))

PYTHON = """
import os, signal, sys
for line in range(int(sys.argv[1])):
    print("line", line)
if sys.argv[2] == "abort":
    os.abort()
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "hang":
    open(os.environ["PRINTED"], "w").close()
    signal.pause()
sys.exit(0 if sys.stdin.read(1) == "x" else 3)
"""
FORTRAN = """
program printing
  integer :: line
  character :: typed
  open(10, file='/dev/stdin') ! a unit of its own: reading the standard one would show what was printed
  do line = 0, 39
    write(*, '(A, I0)') 'line ', line
  end do
  read(10, '(A)') typed
end program
"""
# In the order of the ways in which programs find out; then the variables that say more.
SHOW = ("sh", "-c", "for fd in 0 1 2; do if [ -t $fd ]; then printf 'yes '; else printf 'no '; fi; done; "
                    "echo \"${TERM-unset} ${NO_COLOR-unset} ${COLORTERM-unset} ${PAGER-unset} ${GIT_PAGER-unset}\"")
COLOURFUL = {"TERM": "xterm", "COLORTERM": "truecolor", "PAGER": "less", "GIT_PAGER": "less"}


def clean(environment):
    """The environment without what SHOW shows, and without wishes for colours or lines."""
    return {name: value for name, value in environment.items()
            if name not in (*COLOURFUL, "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PYTHONUNBUFFERED")}


class Terminals(LaunchedTest):
    def environment(self):
        return clean(super().environment())

    def programs(self):
        yield "C", (PRINTING, "c")
        yield "C++", (PRINTING, "c++")
        yield "Python", (sys.executable, "-c", PYTHON)

    def read_lines(self, process, count):
        """Fails where they do not come before the program ends."""
        hangs = threading.Timer(LONG_S, process.kill)
        hangs.start()
        lines = [process.stdout.readline() for _ in range(count)]
        hangs.cancel()
        return lines

    def check_live(self, *program):
        process = self.start("-n", "2", "--stdin=all", EMULATED, *program, stdin=subprocess.PIPE)
        self.assertEqual(sorted(self.read_lines(process, 2 * LINES)), sorted(ALL_LINES.splitlines(True) * 2))
        self.assertEqual(process.communicate(b"x\n", timeout=LONG_S), (b"", b""))
        self.assertEqual(process.returncode, 0)

    def test_lines_appear_while_the_program_goes_on(self):
        for language, program in self.programs():
            with self.subTest(language):
                self.check_live(*program, str(LINES), "read")

    @unittest.skipUnless(shutil.which("gfortran"), "there is no gfortran")
    def test_lines_of_fortran_appear_while_the_program_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "printing.f90"), os.path.join(folder, "printing")
            with open(source, "w", encoding="ascii") as file:
                file.write(FORTRAN)
            if subprocess.run(["gfortran", "-o", program, source], check=False).returncode != 0:
                self.skipTest("gfortran makes no programs here")
            self.check_live(program)

    def test_no_line_is_lost_with_a_rank_that_aborts_or_is_killed(self):
        for language, program in self.programs():
            for end, status in (("abort", 134), ("kill", 137)):
                for others in ((), ("-n", "2")):
                    with self.subTest(f"{language} {end} {others}"):
                        got, out, error = self.run_gpurun(*others, EMULATED, "sh", "-c", "[ $GPURUN_RANK = 0 ] || exec "
                                                          "sleep 100; exec \"$0\" \"$@\"", *program, str(LINES), end)
                        self.assertEqual((got, out), (status, ALL_LINES))
                        self.assertIn("gpurun: rank 0 (pid ", error)

    def test_the_lines_before_a_hang_are_not_lost_with_a_timeout(self):
        for language, program in self.programs():
            with self.subTest(language), tempfile.TemporaryDirectory() as folder:
                printed = os.path.join(folder, "printed")
                status, out, error = self.run_gpurun("--timeout=4", "--grace=0", f"--env=PRINTED={printed}", EMULATED,
                                                     *program, str(LINES), "hang")
                if not os.path.exists(printed):
                    self.skipTest("this machine stood still")
                self.assertEqual((status, out), (124, ALL_LINES))
                self.check_own_line(error, "--timeout=4")

    def test_every_byte_passes_also_at_many_megabytes_a_second(self):
        data = bytes(range(256)) + os.urandom((64 << 20) - 256)
        for ranks in ("1", "2"):
            with self.subTest(ranks), tempfile.NamedTemporaryFile() as source, tempfile.TemporaryFile() as target:
                source.write(data)
                source.flush()
                status, _, error = self.run_gpurun("-n", ranks, EMULATED, *on_rank(
                    int(ranks) - 1, f"exec cat {source.name}", "exit 0"), stdout=target)
                self.assertEqual((status, error), (0, ""))
                target.seek(0)
                self.assertEqual(hashlib.sha256(target.read()).digest(), hashlib.sha256(data).digest())

    def test_bytes_that_mean_something_to_terminals_mean_nothing(self):
        text = rb"\003\004\021\023\025\026\027\032\034\177\r\n\t\000\377 \n\r"
        self.assertEqual(self.run_gpurun(EMULATED, "printf", text.decode()),
                         (0, b"\3\4\21\23\25\26\27\32\34\177\r\n\t\0\377 \n\r", ""))

    def shown(self, *options, **variables):
        status, out, error = self.run_gpurun(*options, EMULATED, *SHOW, extra_env=variables)
        self.assertEqual((status, error), (0, ""))
        return out.decode().rstrip("\n")

    def test_only_standard_output_is_a_terminal_and_has_no_colours_where_gpuruns_has_none(self):
        self.assertEqual(self.shown(**COLOURFUL), "no yes no dumb 1 unset cat cat")
        self.assertEqual(self.shown(), "no yes no dumb 1 unset cat cat")

    def test_what_the_user_wants_of_colours_and_pagers_stays(self):
        for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
            self.assertEqual(self.shown(**COLOURFUL, **{name: "1"}), "no yes no xterm unset truecolor cat cat")
            self.assertEqual(self.shown(**COLOURFUL, **{name: "0"}), "no yes no dumb 1 unset cat cat")
        self.assertEqual(self.shown("--env=TERM=vt100", "--env=PAGER=more", "--env=COLORTERM", **COLOURFUL),
                         "no yes no vt100 1 truecolor more cat")

    def test_who_wants_pipes_gets_pipes_and_an_environment_as_it_was(self):
        self.assertEqual(self.shown("--pty=off", **COLOURFUL), "no no no xterm unset truecolor less less")
        self.assertEqual(self.run_gpurun("--pty=off", EMULATED, "sh", "-c", "[ -p /dev/stdout ] && echo pipe"),
                         (0, b"pipe\n", ""))

    def test_no_program_is_made_the_leader_of_the_terminal(self):
        # The 7th field is the controlling terminal. A session's leader would take one that it opened.
        script = "cut -d' ' -f7 /proc/self/stat; setsid -w cut -d' ' -f7 /proc/self/stat"
        _, out, _ = self.run_gpurun(EMULATED, "sh", "-c", script, start_new_session=True)
        self.assertEqual(out, b"0\n0\n")

    def test_what_has_the_terminal_open_when_its_rank_ends_does_not_keep_the_job(self):
        self.assertEqual(self.run_gpurun(EMULATED, "sh", "-c", "setsid sleep 100 & echo done"), (0, b"done\n", ""))


class OnTerminal(LaunchedTest):
    def environment(self):
        return {**clean(super().environment()), **COLOURFUL}

    def start_on_terminal(self, *arguments):
        pid, self.terminal = on_terminal([GPURUN, *arguments], self.environment())
        self.addCleanup(os.close, self.terminal)
        return pid

    def output_of(self, pid):
        out = b""
        try:
            while True:
                out += os.read(self.terminal, 4096)
        except OSError:  # its other end is closed
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, out)
        return out

    def test_colours_are_those_of_gpuruns_terminal(self):
        self.assertIn(b"yes no xterm unset truecolor cat cat\r\n", self.output_of(self.start_on_terminal(EMULATED, *SHOW)))

    def test_files_get_no_colours_even_so(self):
        with tempfile.TemporaryDirectory() as folder:
            out = self.output_of(self.start_on_terminal("--output-dir", folder, EMULATED, *SHOW))
        self.assertIn(b"yes no dumb 1 unset cat cat\r\n", out)

    def test_the_size_is_that_of_gpuruns_terminal_less_the_tag_and_follows_it(self):
        for options, columns in ((), 101), (("--tag-output",), 97):
            pid = self.start_on_terminal("-n", "2", *options, EMULATED, "sh", "-c",
                                         f"exec 3<&1; until [ \"$(stty size <&3)\" = '31 {columns}' ]; do sleep 0.02; done; echo fits")
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 101, 0, 0))
            self.assertEqual(self.output_of(pid).count(b"fits"), 2)


class WithoutTerminals(LaunchedTest):
    """A machine whose /dev/ptmx opens no terminals, or two."""
    NONE = "mount --bind /dev/null /dev/ptmx"
    TWO = "mount -t devpts -o newinstance,ptmxmode=0666,max=2 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx"

    def run_hidden(self, *arguments, mounts=NONE):
        hidden = ("unshare", "-rm", "sh", "-c", f'{mounts} && exec "$0" "$@"')
        if not shutil.which("unshare") or subprocess.run([*hidden, "true"], stderr=subprocess.DEVNULL,
                                                         check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        done = subprocess.run([*hidden, GPURUN, *arguments], env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=LONG_S, check=False)
        return done.returncode, done.stdout, done.stderr.decode()

    def test_too_few_terminals_are_for_nobody(self):
        script = ("sh", "-c", "[ -t 1 ] && echo terminal || echo pipe")
        self.assertEqual(self.run_hidden("-n", "2", EMULATED, *script, mounts=self.TWO), (0, b"terminal\n" * 2, ""))
        status, out, error = self.run_hidden("-n", "3", EMULATED, *script, mounts=self.TWO)
        self.assertEqual((status, out), (0, b"pipe\n" * 3))
        self.check_own_line(error, "no pseudo-terminals", "all pseudo-terminals of the system are in use")

    def test_ranks_print_to_pipes_and_that_is_said_once(self):
        status, out, error = self.run_hidden("-n", "3", EMULATED, "sh", "-c", "[ -p /dev/stdout ] && echo pipe")
        self.assertEqual((status, out), (0, b"pipe\n" * 3))
        self.check_own_line(error, "no pseudo-terminals", "/dev/ptmx", "--pty=off")

    def test_who_accepts_that_is_told_nothing(self):
        self.assertEqual(self.run_hidden("--pty=off", EMULATED, "echo", "x"), (0, b"x\n", ""))

    def test_who_insists_on_terminals_gets_an_error_before_anything_starts(self):
        status, out, error = self.run_hidden("--pty=on", EMULATED, "echo", "x")
        self.assertEqual((status, out), (1, b""))
        self.check_own_line(error, "--pty=on", "/dev/ptmx")


class Unread(LaunchedTest):
    """The reader goes away, as head(1) does."""

    def start_and_leave(self, *arguments, **options):
        process = self.start(*arguments, **options)
        self.assertNotEqual(process.stdout.readline(), b"")
        process.stdout.close()
        process.stdout = None
        return process

    def test_a_job_that_nobody_reads_any_more_ends_in_silence(self):
        for ranks in ("1", "2", "5"):
            for options in (), ("--pty=off",), ("--tag-output",):
                with self.subTest(f"{ranks} {options}"):
                    process = self.start_and_leave("-n", ranks, *options, EMULATED, "yes")
                    self.assertEqual(process.communicate(timeout=LONG_S)[1], b"")
                    self.assertEqual(process.returncode, 128 + signal.SIGPIPE)

    def test_a_job_within_a_job_ends_in_silence_too(self):
        process = self.start_and_leave("-n", "1", EMULATED, GPURUN, "-n", "2", EMULATED, "yes")
        self.assertEqual(process.communicate(timeout=LONG_S)[1], b"")
        self.assertEqual(process.returncode, 128 + signal.SIGPIPE)

    def test_a_pipeline_ends_in_silence(self):
        done = subprocess.run(["sh", "-c", f'"$0" -n 2 {EMULATED} yes | head -1', GPURUN], env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LONG_S, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"y\n", b""))

    def test_a_rank_that_prints_no_more_goes_on(self):
        for option in ("--pty=on", "--pty=off"):
            process = self.start_and_leave(option, EMULATED, "sh", "-c", "echo one; read line; echo two; read line; exit 5",
                                           stdin=subprocess.PIPE)
            error = process.communicate(b"1\n2\n", timeout=LONG_S)[1]
            self.assertEqual(process.returncode, 5)
            self.check_own_line(error.decode(), "exited with status 5")

    def test_a_rank_that_ignores_sigpipe_gets_an_error(self):
        script = "import sys\ntry:\n  while True: print('x')\nexcept OSError:\n  sys.stderr.close()\n  sys.exit(6)"
        process = self.start_and_leave(EMULATED, sys.executable, "-c", script)
        self.assertIn(b"exited with status ", process.communicate(timeout=LONG_S)[1])
        self.assertIn(process.returncode, (6, 120))  # 120: it could not flush

    def test_a_rank_that_fails_for_a_reason_of_its_own_is_told_of(self):
        process = self.start_and_leave(EMULATED, "sh", "-c", "echo one; read line; echo two; exit 7", stdin=subprocess.PIPE)
        self.check_own_line(process.communicate(b"1\n", timeout=LONG_S)[1].decode(), "exited with status 7")


class OwnLines(LaunchedTest):
    def check_all_own(self, text, lines):
        self.assertEqual([line for line in text.splitlines() if not line.startswith("gpurun: ")], [], text)
        self.assertGreaterEqual(len(text.splitlines()), lines)

    def test_each_line_of_a_table_begins_with_gpuruns_name(self):
        status, _, error = self.run_gpurun("-n", "3", "--report-bindings", EMULATED, *on_rank(1, "exit 4"))
        self.assertEqual(status, 4)
        self.check_all_own(error, 5)
        self.assertRegex(error, r"\ngpurun:    2 ")

    def test_it_begins_a_line_also_behind_one_that_a_rank_has_not_ended(self):
        with open("/dev/full", "wb") as full:
            status, _, error = self.run_gpurun(EMULATED, "sh", "-c", "printf half >&2; echo x", stdout=full)
        self.assertEqual(status, 1)
        self.assertRegex(error, "^(half\n)?gpurun: writing the ranks' output: No space left on device\n(half)?$")

    def test_a_job_in_a_scripts_background_says_what_its_ranks_wait_for_when_it_is_asked(self):
        # There a shell has SIGINT and SIGQUIT ignored. Ranks start as they would without gpurun: SIGQUIT, 4, is ignored.
        script = f'"$0" -n 2 {EMULATED} sh -c "grep SigIgn /proc/self/status; exec sleep 100" & echo $!; wait $!; exit $?'
        process = subprocess.Popen(["sh", "-c", script, GPURUN], env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        lines = [process.stdout.readline() for _ in range(3)]
        job = int(next(line for line in lines if not line.startswith(b"Sig")))
        for line in lines:
            if line.startswith(b"Sig"):
                self.assertEqual(int(line.split()[1], 16) & 6, 6)
        os.kill(job, signal.SIGQUIT)
        table = "".join(process.stderr.readline().decode() for _ in range(4))
        self.check_all_own(table, 4)
        self.assertIn("(SIGQUIT)", table)
        os.kill(job, signal.SIGINT)  # which is still ignored
        os.kill(job, signal.SIGQUIT)
        self.assertIn(b"(SIGQUIT)", process.stderr.readline())
        os.kill(job, signal.SIGTERM)
        self.assertIn(b"signal 15", process.communicate(timeout=LONG_S)[1])
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)


main()
