"""How a job ends: its exit status, the one line that says why, and nothing left behind."""
import os
import resource
import signal
import subprocess
import sys
import time

from launched import EMULATED, LaunchedTest, cpu_seconds, main, marked, on_rank, wait_until


class Endings(LaunchedTest):
    def start_ready(self, ranks, script, options=(), **more):
        """Returns once every rank has printed its line."""
        process = self.start("-n", str(ranks), EMULATED, *options, "sh", "-c", f"echo up; {script}", **more)
        for _ in range(ranks):
            self.assertEqual(process.stdout.readline(), b"up\n")
        return process

    def test_the_status_is_that_of_the_rank_that_failed(self):
        status, _, error = self.run_gpurun("-n", "3", EMULATED, *on_rank(2, "exit 42"))
        self.assertEqual(status, 42)
        self.check_own_line(error, "rank 2 (pid ", "exited with status 42", "the other ranks were ended")

    def test_a_signal_gives_128_and_its_number(self):
        for name, number in (("SEGV", 11), ("KILL", 9), ("ABRT", 6)):
            with self.subTest(name):
                status, _, error = self.run_gpurun("-n", "2", EMULATED, *on_rank(1, f"kill -{name} $$"))
                self.assertEqual(status, 128 + number)
                self.check_own_line(error, "rank 1 (pid ", f"was killed by signal {number} (")

    def test_a_rank_alone_has_no_others(self):
        status, _, error = self.run_gpurun(EMULATED, "sh", "-c", "exit 3")
        self.assertEqual(status, 3)
        self.check_own_line(error, "rank 0 (pid ", "exited with status 3")
        self.assertNotIn("others", error)

    def test_the_first_failure_counts_and_its_consequences_are_not_blamed(self):
        status, _, error = self.run_gpurun(
            "-n", "4", EMULATED, *on_rank(1, "exit 7", "trap 'exit 9' TERM; sleep 100 & wait"))
        self.assertEqual(status, 7)
        self.check_own_line(error, "rank 1 ")

    def test_a_rank_that_ignores_the_end_is_killed_after_the_grace(self):
        self.end_one_that_ignores_it(at_least=2)

    def test_the_grace_can_be_chosen(self):
        self.end_one_that_ignores_it("--grace=3", at_least=3)
        # What a rank still does of what takes it two seconds says that it is short: it has no other time than ours.
        ticks = self.end_one_that_ignores_it("--grace=0", at_least=0)
        self.assertLess(ticks, 15)

    def end_one_that_ignores_it(self, *options, at_least):
        """Ends a job of which a rank ignores that, and says how many tenths of a second the rank lives on."""
        process = self.start_ready(2, "if [ $GPURUN_RANK = 0 ]; then read line; exit 5; fi; trap '' TERM; echo up; "
                                      "read line; while :; do echo tick; sleep 0.1; done", ("--stdin=all", *options),
                                   stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n")
        before = time.monotonic()
        out, _ = process.communicate(b"go\n", timeout=20)
        self.assertEqual(process.returncode, 5)
        self.assertGreater(time.monotonic() - before, at_least)
        return out.count(b"tick")

    def test_a_timeout_ends_the_job_with_124_and_says_so(self):
        process = self.start_ready(2, "trap 'echo caught; exit 0' TERM; sleep 100 & wait", ("--timeout=3",))
        out, error = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (124, b"caught\n" * 2))
        self.check_own_line(error.decode(), "--timeout=3", "ended")

    def test_a_job_that_ends_in_time_does_not_feel_its_timeout(self):
        self.assertEqual(self.run_gpurun("-n", "2", "--timeout=50", EMULATED, "echo", "x"), (0, b"x\n" * 2, ""))

    def test_a_timeout_ends_a_job_whose_output_nobody_reads_too(self):
        process = self.start("-n", "2", "--timeout=0.7", EMULATED, "head", "-c", "200000", "/dev/zero")
        self.assertEqual(process.wait(timeout=20), 124)

    def test_a_timeout_ends_a_job_that_has_failed_before_and_whose_output_nobody_reads(self):
        process = self.start("-n", "2", "--timeout=4", "--grace=0.5", EMULATED, *on_rank(
            1, "head -c 100000 /dev/zero; exit 3"))
        failed = b"exited with status 3" in process.stderr.readline()  # else this machine stood still for so long
        self.assertEqual(process.wait(timeout=20), 3 if failed else 124)

    def test_a_rank_that_has_gone_to_another_group_is_ended_too(self):
        script = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \
                 "os.setpgid(0, os.getpgid(os.getppid())); print('up', flush=True); time.sleep(100)"
        process = self.start("--grace=0.3", EMULATED, sys.executable, "-c", script)
        self.assertEqual(process.stdout.readline(), b"up\n")
        process.terminate()
        self.assertEqual(process.wait(timeout=20), 143)

    def test_files_that_may_not_be_as_large_are_an_error(self):
        status, _, error = self.run_gpurun("-n", "2", EMULATED, "true", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual(status, 1)
        self.check_own_line(error, "ulimit -f", "File too large")

    def test_a_summary_names_the_device_and_the_last_line_of_stderr(self):
        status, out, error = self.run_gpurun("-n", "2", EMULATED, *on_rank(
            1, "echo first >&2; echo out; printf 'no memory left' >&2; exit 3"))
        self.assertEqual((status, out), (3, b"out\n"))
        self.assertRegex(error, r"^first\nno memory left\ngpurun: rank 1 \(pid \d+, emulated device 1\) exited with status "
                                r"3; the other ranks were ended; the last line of its stderr: no memory left\n$")

    def test_keep_going_leaves_the_others_running(self):
        process = self.start("-n", "3", "--keep-going", "--stdin=all", EMULATED, *on_rank(
            1, "exit 6", "read line; echo done"), stdin=subprocess.PIPE)
        self.check_own_line(process.stderr.readline().decode(), "rank 1 ", "the other ranks go on")
        self.assertEqual(process.communicate(b"go\n", timeout=20), (b"done\n" * 2, b""))
        self.assertEqual(process.returncode, 6)

    def test_signals_to_gpurun_reach_the_ranks_and_are_its_status(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                name = number.name[3:]
                process = self.start_ready(3, f"trap 'echo caught; exit 0' {name}; echo up; sleep 100 & wait")
                for _ in range(3):
                    self.assertEqual(process.stdout.readline(), b"up\n")
                process.send_signal(number)
                out, error = process.communicate(timeout=20)
                self.assertEqual(process.returncode, 128 + number)
                self.assertEqual(out, b"caught\n" * 3)
                self.check_own_line(error.decode(), f"signal {int(number)} (")

    def test_a_second_interrupt_does_not_wait_for_the_grace(self):
        process = self.start_ready(2, "trap '' INT TERM; echo up; while :; do sleep 100; done", ("--grace=100",))
        for _ in range(2):
            self.assertEqual(process.stdout.readline(), b"up\n")
        process.send_signal(signal.SIGINT)
        self.check_own_line(process.stderr.readline().decode(), "signal 2 (")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)

    def test_user_signals_reach_the_ranks_and_not_their_children_and_the_job_goes_on(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(number.name):
                process = self.start_ready(3, f"trap 'echo caught; got=1' {number.name[3:]}; "
                                              "exec 3<&0; sh -c 'read line; echo child lives' <&3 & echo up; "
                                              "while [ -z \"$got\" ]; do sleep 0.02; done; wait", ("--stdin=all",),
                                           stdin=subprocess.PIPE)
                for _ in range(3):
                    self.assertEqual(process.stdout.readline(), b"up\n")
                process.send_signal(number)
                for _ in range(3):
                    self.assertEqual(process.stdout.readline(), b"caught\n")
                out, error = process.communicate(b"go\n", timeout=20)
                self.assertEqual((process.returncode, error), (0, b""))
                self.assertEqual(sorted(out.splitlines()), [b"child lives"] * 3)

    def test_a_user_signal_that_a_rank_does_not_expect_is_its_end(self):
        process = self.start_ready(2, "exec sleep 100")
        process.send_signal(signal.SIGUSR1)
        _, error = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGUSR1)
        self.check_own_line(error.decode(), "killed by signal 10 (")

    def test_children_that_the_system_was_to_reap_unseen_are_seen(self):
        status, _, error = self.run_gpurun("-n", "2", EMULATED, *on_rank(1, "exit 42"),
                                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(status, 42)
        self.check_own_line(error, "rank 1 ", "status 42")

    def test_an_ignored_hangup_stays_ignored(self):
        process = self.start_ready(2, "read line; echo done", ("--stdin=all",), stdin=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(b"go\n", timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(out.count(b"done"), 2)

    def test_what_ranks_leave_in_their_group_goes_with_the_job(self):
        status, _, _ = self.run_gpurun("-n", "2", EMULATED, "sh", "-c", "sleep 100 & exit 0")
        self.assertEqual(status, 0)

    def test_children_of_ranks_go_when_a_rank_fails_or_gpurun_is_interrupted(self):
        self.assertEqual(self.run_gpurun("-n", "2", EMULATED, *on_rank(0, "exit 1", "sleep 100 & wait"))[0], 1)
        process = self.start_ready(2, "sleep 100 & wait")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)

    def test_nothing_outlives_a_gpurun_that_is_killed(self):
        process = self.start_ready(4, "sleep 100 & sleep 100")
        self.assertTrue(wait_until(lambda: len(marked(self.mark)) > 8), marked(self.mark))
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: not marked(self.mark)), marked(self.mark))

    def test_a_killed_group_of_gpurun_leaves_nothing_either(self):
        process = self.start("-n", "2", EMULATED, "sh", "-c", "echo up; sleep 100 & sleep 100", start_new_session=True)
        for _ in range(2):
            self.assertEqual(process.stdout.readline(), b"up\n")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertTrue(wait_until(lambda: not marked(self.mark)), marked(self.mark))

    def test_an_idle_job_uses_no_cpu(self):
        process = self.start_ready(4, "exec sleep 100")

        def activity():
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                return [cpu_seconds(process.pid), *(line for line in file if "ctxt_switches" in line)]

        def is_quiet():
            before = activity()
            time.sleep(2)
            return activity() == before

        self.assertTrue(wait_until(is_quiet), activity())  # not at once: the last line causes something
        process.terminate()
        process.communicate(timeout=20)

    def test_ranks_start_with_the_signals_that_gpurun_was_started_with(self):
        status, out, _ = self.run_gpurun(EMULATED, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
        expected = subprocess.run(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"], stdout=subprocess.PIPE,
                                  check=True)
        self.assertEqual((status, out), (0, expected.stdout))


main()
