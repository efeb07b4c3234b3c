"""Whatever ranks start goes with the job, also daemons: what has left their groups, their sessions, their parents.

gpurun finds these as their adoptive parent, the guard of a gpurun that is killed by the job's name in their environment;
where there are cgroups, both by the cgroup too. So everything here is tried without a cgroup, and with one if this
system has it.
"""
import os
import signal
import subprocess
import time

from launched import (EMULATED, GPURUN, LaunchedTest, cgroups_of, children_of, command_of, main, marked, own_cgroup, state_of,
                      wait_until)

# In a session of its own, as the child of a process that has ended.
DAEMON = "(setsid sh -c 'sleep 100 & echo up; exec sleep 100' &)"


class Strays(LaunchedTest):
    """Without a cgroup: where none may be made."""
    cgroup = None

    def setUp(self):
        super().setUp()
        parent = own_cgroup()
        if parent is None or not os.access(parent, os.W_OK):
            return
        self.cgroup = f"{parent}/test-{self.mark}"
        os.mkdir(self.cgroup)
        self.addCleanup(lambda: self.assertTrue(wait_until(self.remove_cgroup)))  # before nothing is left
        with open(f"{self.cgroup}/cgroup.max.descendants", "w", encoding="ascii") as file:
            file.write("0")

    def remove_cgroup(self):
        try:
            os.rmdir(self.cgroup)
            return True
        except OSError:
            return False

    def enter_cgroup(self):
        if self.cgroup:
            with open(f"{self.cgroup}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")

    def cgroups_of_ranks(self):
        found = set()
        for pid in marked(self.mark):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environment, \
                        open(f"/proc/{pid}/cgroup", encoding="ascii") as cgroup:
                    if b"GPURUN_RANK=" in environment.read():
                        found |= {line[3:].strip() for line in cgroup if line.startswith("0::")}
            except OSError:
                pass  # it ended meanwhile
        return found

    def check_cgroup(self):
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = "/gpurun-" in file.read()  # this test may itself be a rank
        for path in self.cgroups_of_ranks():
            self.assertEqual("/gpurun-" in path, own)

    def start_ready(self, script, lines, options=(), **more):
        """Two ranks. Returns once so many lines have come, each of them "up"."""
        process = self.start("-n", "2", *options, EMULATED, "sh", "-c", script, preexec_fn=self.enter_cgroup, **more)
        for _ in range(lines):
            self.assertEqual(process.stdout.readline(), b"up\n")
        self.check_cgroup()
        return process

    def test_what_left_its_session_goes_when_the_job_has_ended_well(self):
        process = self.start_ready(f"{DAEMON}; read line", 2, ("--stdin=all",), stdin=subprocess.PIPE)
        # gpurun, its guard, two ranks, two daemons with a child each
        self.assertTrue(wait_until(lambda: len(marked(self.mark)) == 8))
        _, error = process.communicate(b"go on\n", timeout=20)
        self.assertEqual((process.returncode, error), (0, b""))
        self.assertEqual(marked(self.mark), [])  # when gpurun has ended, not a while later

    def test_it_goes_when_a_rank_fails(self):
        process = self.start_ready(f"{DAEMON}; [ $GPURUN_RANK = 0 ] && exec sleep 100; read line; exit 3", 2,
                                   ("--stdin=1",), stdin=subprocess.PIPE)
        process.communicate(b"go on\n", timeout=20)
        self.assertEqual(process.returncode, 3)
        self.assertEqual(marked(self.mark), [])

    def test_it_goes_when_gpurun_is_told_to_end(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start_ready(f"{DAEMON}; exec sleep 100", 2)
            process.send_signal(number)
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, 128 + number)
            self.assertEqual(marked(self.mark), [])

    def test_it_goes_when_gpurun_is_killed(self):
        process = self.start_ready(f"{DAEMON}; exec sleep 100", 2)
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: not marked(self.mark)), marked(self.mark))

    def test_a_gpurun_that_is_killed_at_any_moment_of_its_start_leaves_nothing(self):
        for moment in range(30):
            process = self.start("-n", "3", EMULATED, "sh", "-c", f"{DAEMON}; sleep 100", preexec_fn=self.enter_cgroup)
            time.sleep(moment * 0.0004)  # all of it takes a few milliseconds
            process.kill()
            process.communicate()
        self.assertTrue(wait_until(lambda: not marked(self.mark)), marked(self.mark))

    def test_it_goes_even_if_it_hides_its_environment(self):
        mark = self.mark
        hidden = f"(setsid env -i sh -c 'echo up; exec sleep 100.{int(mark[:6], 16)}' &)"
        process = self.start_ready(f"{hidden}; sleep 100", 2)
        process.terminate()
        process.communicate(timeout=20)
        self.assertEqual(subprocess.run(["pgrep", "-f", f"100.{int(mark[:6], 16)}"], stdout=subprocess.PIPE,
                                        check=False).stdout, b"")

    def test_a_daemon_is_asked_to_end_before_it_is_killed(self):
        asked = "$TMPDIR/asked-$GPURUN_RANK"
        # A daemon only once its parent has ended: the rank says that, for it has waited for it.
        script = f"trap 'while [ ! -e {asked} ]; do sleep 0.02; done; rm {asked}; exit 0' TERM; " \
                 f"(setsid sh -c 'trap \"echo caught; touch {asked}; exit 0\" TERM; echo up; sleep 100 & wait' &); " \
                 "echo up; sleep 100 & wait"
        process = self.start_ready(script, 4, ("--grace=20",))
        process.terminate()
        out, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (143, b"caught\n" * 2))

    def test_it_is_killed_after_the_grace_if_it_does_not_end(self):
        script = "trap : TERM; setsid sh -c 'trap \"\" TERM; echo up; while :; do sleep 100; done' & wait; wait"
        process = self.start_ready(script, 2, ("--grace=0.3",))
        process.terminate()
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 143)

    def test_what_has_a_parent_in_the_job_is_left_to_it_so_that_no_signal_comes_twice(self):
        # As under another launcher: in a group of its own, with a parent that passes signals on.
        # A second signal would be caught in the last second.
        script = "trap 'kill -TERM $child; wait $child' TERM; setsid sh -c " \
                 "'trap \"echo caught\" TERM; echo up; sleep 100 & wait; sleep 1' & child=$!; echo up; wait"
        process = self.start_ready(script, 4)
        process.terminate()
        out, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (143, b"caught\n" * 2))

    def test_a_job_inside_a_job_goes_with_it(self):
        inner = f"exec '{GPURUN}' -n 2 {EMULATED} sh -c \"{DAEMON}; sleep 100\""
        for kill in (False, True):
            process = self.start_ready(inner, 4)
            if kill:
                process.kill()
            else:
                process.terminate()
            process.communicate(timeout=20)
            self.assertTrue(wait_until(lambda: not marked(self.mark)), marked(self.mark))

    def test_a_neighbouring_job_is_spared(self):
        other = self.start_ready(f"{DAEMON}; exec sleep 100", 2)
        # gpurun and its guard; two ranks, two daemons and their children, and no shell that is about to become one
        self.assertTrue(wait_until(lambda: sorted(map(command_of, marked(self.mark))) == ["gpurun"] * 2 + ["sleep"] * 6))
        there = set(marked(self.mark))
        process = self.start_ready(f"{DAEMON}; exec sleep 100", 2)
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: set(marked(self.mark)) <= there))
        self.assertEqual(set(marked(self.mark)), there)
        other.terminate()
        other.communicate(timeout=20)

    def test_what_was_there_before_gpurun_is_spared(self):
        # As with `exec gpurun > >(tee log)`: a child of gpurun that it has not started.
        script = f"setsid sleep 100 >/dev/null 2>&1 & echo $!; exec '{GPURUN}' -n 2 {EMULATED} true"
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, env=self.environment())
        out, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertIn(state_of(int(out)), ("S", "R"))
        os.kill(int(out), signal.SIGKILL)

    def test_those_that_end_while_the_job_runs_are_buried(self):
        process = self.start_ready("i=0; while [ $i -lt 20 ]; do (true &) ; i=$((i+1)); done; echo up; sleep 100", 2)
        self.assertTrue(wait_until(lambda: not any(state_of(pid) == "Z" for pid in children_of(process.pid))))
        self.assertLessEqual(len(children_of(process.pid)), 3)  # two ranks and the guard
        process.terminate()
        process.communicate(timeout=20)


class InCgroup(Strays):
    """With a cgroup, if this system lets us make one."""

    def setUp(self):
        parent = own_cgroup()
        if parent is None or not os.access(parent, os.W_OK) or not os.path.exists(f"{parent}/cgroup.procs"):
            self.skipTest("this user cannot make cgroups of version 2 here")
        LaunchedTest.setUp(self)

    def check_cgroup(self):
        self.assertTrue(self.cgroups_of_ranks())
        for path in self.cgroups_of_ranks():
            self.assertRegex(path, r"/gpurun-[0-9a-f.]+$")

    def test_it_goes_when_gpurun_is_killed_even_if_it_hides_its_environment(self):
        number = int(self.mark[:6], 16)
        process = self.start_ready(f"(setsid env -i sh -c 'echo up; exec sleep 100.{number}' &); sleep 100", 2)
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: subprocess.run(["pgrep", "-f", f"100.{number}"], stdout=subprocess.DEVNULL,
                                                          check=False).returncode == 1))

    def test_one_whose_launcher_and_guard_were_killed_together_goes_with_the_next_job(self):
        """As a batch system kills all processes of a step."""
        running = self.start_ready("echo up; sleep 100", 1)
        killed = self.start_ready("echo up; exec sleep 100", 1)
        self.assertEqual(len(cgroups_of(self.mark)), 2)
        children = children_of(killed.pid)
        for pid in (killed.pid, *children):
            os.kill(pid, signal.SIGSTOP)
        for pid in (*children, killed.pid):
            os.kill(pid, signal.SIGKILL)
        killed.communicate(timeout=20)
        self.assertEqual(len(cgroups_of(self.mark)), 2)
        self.assertTrue(wait_until(lambda: all(command_of(pid) == "" for pid in children)))
        self.assertEqual(self.run_gpurun("-n", "1", EMULATED, "true")[0], 0)
        self.assertEqual(len(cgroups_of(self.mark)), 1)  # of the one that runs
        running.terminate()
        running.communicate(timeout=20)

    def test_cgroups_that_ranks_make_go_too(self):
        make = "mkdir $(sed -n 's,^0::,'$0',p' /proc/self/cgroup)/inner; echo up; sleep 100"
        folder = own_cgroup()
        with open("/proc/self/cgroup", encoding="ascii") as file:
            path = [line[3:].strip().rstrip("/") for line in file if line.startswith("0::/")][0]
        process = self.start("-n", "1", EMULATED, "sh", "-c", make, folder[:len(folder) - len(path)])
        self.assertEqual(process.stdout.readline(), b"up\n")
        process.terminate()
        process.communicate(timeout=20)


main()
