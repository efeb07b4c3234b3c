"""What a terminal does to the job in front of it: ^C, ^Z and fg, and that it goes away."""
import os
import shlex
import signal
import time

from launched import EMULATED, GPURUN, LaunchedTest, main, marked, on_terminal, state_of, wait_until


class JobControl(LaunchedTest):
    def start(self, *arguments, **options):
        """gpurun as the leader of a terminal's session. Returns its pid; self.terminal is the other end."""
        return self.start_program([GPURUN, *arguments], **options)

    def start_shell(self, script):
        """A shell with job control, whose jobs gpurun is one of."""
        return self.start_program(["/bin/sh", "-c", f"set -m; {script}"])

    def start_program(self, command):
        pid, self.terminal = on_terminal(command, self.environment())
        self.seen = b""
        self.addCleanup(os.close, self.terminal)
        return pid

    def type(self, text):
        os.write(self.terminal, text)

    def read_until(self, condition):
        while not condition(self.seen):
            self.seen += os.read(self.terminal, 4096)

    def read_lines(self, line, count):
        self.read_until(lambda seen: seen.count(line + b"\r\n") >= count)

    def status_of(self, pid):
        """Reads what is still printed, too: a terminal that is full would hold gpurun up."""
        try:
            while True:
                self.seen += os.read(self.terminal, 4096)
        except OSError:  # closed by its last user
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def awake(self, shell):
        # D is that of vfork(): it waits for a child that is stopped.
        return [pid for pid in marked(self.mark) if pid != shell and state_of(pid) in ("R", "S")]

    def test_control_c_reaches_the_ranks_once(self):
        script = "trap 'echo caught; exit 0' INT; echo up; sleep 100 & wait"
        pid = self.start("-n", "3", EMULATED, "sh", "-c", script)
        self.read_lines(b"up", 3)
        self.type(b"\x03")
        self.assertEqual(self.status_of(pid), 130)
        self.assertEqual(self.seen.count(b"caught"), 3)
        self.assertIn(b"gpurun: got signal 2 (Interrupt)", self.seen)

    def test_a_second_control_c_kills(self):
        pid = self.start("-n", "2", "--grace=60", EMULATED, "sh", "-c",
                         "trap 'echo caught' INT; trap '' TERM; echo up; while :; do sleep 100 & wait; done")
        self.read_lines(b"up", 2)
        self.type(b"\x03")
        self.read_lines(b"caught", 2)
        before = time.monotonic()
        self.type(b"\x03")
        self.assertEqual(self.status_of(pid), 130)
        self.assertLess(time.monotonic() - before, 10)

    def test_control_z_suspends_everything_and_fg_resumes_it(self):
        # One rank ignores what ^Z is; one has a grandchild in a session of its own.
        job = f"{shlex.quote(GPURUN)} -n 2 {EMULATED} sh -c " + shlex.quote(
            "trap '' TSTP; [ $GPURUN_RANK = 0 ] || setsid sleep 100 & echo up; "
            "while [ ! -e $TMPDIR/end ]; do sleep 0.05; done; rm -f $TMPDIR/end$GPURUN_RANK; setsid true; exit 5")
        pid = self.start_shell(f"{job}; echo stopped $?; read line; fg >/dev/null; echo ended $?")
        self.read_lines(b"up", 2)
        processes = [other for other in marked(self.mark) if other != pid]
        self.assertGreaterEqual(len(processes), 5)  # gpurun, its guard, two ranks, a sleep
        self.type(b"\x1a")
        self.read_until(lambda seen: b"stopped 148\r\n" in seen)  # 128 + SIGTSTP
        self.assertTrue(wait_until(lambda: len(self.awake(pid)) == 1), self.awake(pid))  # the guard
        with open(f"{self.temporary_files}/end", "w", encoding="ascii"):
            pass
        self.type(b"go on\n")
        self.read_until(lambda seen: b"ended 5\r\n" in seen)
        os.remove(f"{self.temporary_files}/end")
        self.assertEqual(self.status_of(pid), 0)

    def test_a_suspended_job_can_be_ended(self):
        job = f"{shlex.quote(GPURUN)} -n 2 {EMULATED} sh -c 'echo up; sleep 100'"
        pid = self.start_shell(f"{job}; kill -TERM %1; fg >/dev/null; echo ended $?")
        self.read_lines(b"up", 2)
        self.type(b"\x1a")
        self.read_until(lambda seen: b"ended 143\r\n" in seen)
        self.assertEqual(self.status_of(pid), 0)

    def test_without_a_shell_that_could_resume_it_control_z_does_not_suspend(self):
        pid = self.start("-n", "2", EMULATED, "sh", "-c", "echo up; read line; echo done")
        self.read_lines(b"up", 2)
        self.type(b"\x1a")
        self.type(b"go on\n")
        self.assertEqual(self.status_of(pid), 0)
        self.assertEqual(self.seen.count(b"done"), 2)

    def test_nothing_survives_the_terminal(self):
        pid = self.start("-n", "2", EMULATED, "sh", "-c", "echo up; (setsid sleep 100 &); sleep 100")
        self.read_lines(b"up", 2)
        with open("/dev/null", "rb") as nothing:
            os.dup2(nothing.fileno(), self.terminal)  # which closes it
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 128 + signal.SIGHUP)


main()
