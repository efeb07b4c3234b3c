"""Two jobs meet by a name: the segment over the ranks of both, and all that can go wrong on the way.

meeting_test.py GPURUN MEETING
"""
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from own_folder import OwnFolderTest

SECONDS = 60  # nothing here takes longer, even on a busy machine
TIMEOUT, LAUNCHER = 27, 20
LONG_MS, SHORT_MS = 60_000, 300


class Meeting(OwnFolderTest):
    seconds = SECONDS

    def kill(self, process):
        os.killpg(process.pid, signal.SIGKILL)

    def check_nothing_left(self):
        self.until(lambda: not self.supervisors(), "a supervisor is left")
        super().check_nothing_left()

    def start(self, side, name="meet", ranks=1, timeout_ms=LONG_MS, rounds=1, mode=()):
        process = subprocess.Popen([MEETING, side, name, str(ranks), str(timeout_ms), str(rounds), *mode],
                                   env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        self.started.append(process)
        return process

    def end(self, process, status=0):
        out, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, status, out)
        return out

    def accepting(self, name="meet"):
        self.until(lambda: (self.place / f"@{name}").exists(), "nobody accepts")

    # ---- how they meet

    def test_whoever_comes_first(self):
        for first, second in (("accept", "connect"), ("connect", "accept")):
            for ranks in ((1, 1), (3, 2)):
                one = self.start(first, ranks=ranks[0])
                time.sleep(0.1)  # so that it most likely waits; either order is right
                other = self.start(second, ranks=ranks[1])
                self.end(one)
                self.end(other)

    def test_again_and_again_without_growth(self):
        sides = [self.start("accept", rounds=ROUNDS), self.start("connect", rounds=ROUNDS)]
        for side in reversed(sides):
            self.assertIn(f"met {ROUNDS} times", self.end(side))

    def staying(self, ranks=(2, 2)):
        """Two jobs that have met, and the processes of their ranks."""
        sides = [self.start("accept", ranks=ranks[0], mode=["stay"]), self.start("connect", ranks=ranks[1], mode=["stay"])]
        pids = {}
        for side, count in zip(sides, ranks):
            for _ in range(count):
                rank, size, pid = map(int, re.fullmatch(r"rank (\d+) of (\d+), pid (\d+)\n", side.stdout.readline()).groups())
                self.assertEqual(size, sum(ranks))
                pids[rank] = pid
        return sides, pids

    def test_the_acceptor_s_ranks_are_first_and_all_lose_who_is_killed(self):
        for victim in (0, 3):
            sides, pids = self.staying()
            self.assertEqual(sorted(pids), [0, 1, 2, 3])
            os.kill(pids[victim], signal.SIGKILL)
            said = sides[0].communicate(timeout=SECONDS)[0] + sides[1].communicate(timeout=SECONDS)[0]
            self.assertEqual(sorted(re.findall(r"rank (\d) lost rank (\d)", said)),
                             [(str(rank), str(victim)) for rank in range(4) if rank != victim])

    def test_without_a_supervisor_all_lose_each_other(self):
        sides, _ = self.staying((1, 1))
        os.kill(min(self.supervisors()), signal.SIGKILL)  # the other one is its guard
        for side in sides:
            self.assertIn("lost rank", self.end(side))

    def test_one_job_is_killed_and_comes_again(self):
        for _ in range(5):
            sides, _ = self.staying((1, 2))
            os.killpg(sides[1].pid, signal.SIGKILL)
            self.assertRegex(self.end(sides[0]), "rank 0 lost rank [12]")

    # ---- who does not come

    def test_nobody_connects(self):
        self.assertIn(f"{TIMEOUT}: no job has connected to 'meet' within 0.3 s",
                      self.end(self.start("accept", timeout_ms=SHORT_MS), 1))

    def test_nobody_accepts(self):
        self.assertIn(f"{TIMEOUT}: no job has accepted under the name 'meet' within 0.3 s",
                      self.end(self.start("connect", timeout_ms=SHORT_MS), 1))

    def test_another_name_is_not_met(self):
        one, other = self.start("accept", "a", timeout_ms=SHORT_MS), self.start("connect", "b", timeout_ms=SHORT_MS)
        self.end(one, 1)
        self.end(other, 1)

    def test_an_acceptor_that_dies_is_followed_by_the_next(self):
        first = self.start("accept")
        self.accepting()
        first.send_signal(signal.SIGSTOP)
        connector = self.start("connect")
        time.sleep(0.1)  # so that it most likely has called; either order is right
        first.kill()
        first.wait()
        second = self.start("accept")
        self.end(connector)
        self.end(second)

    def test_a_connector_that_dies_is_followed_by_the_next(self):
        acceptor = self.start("accept")
        self.accepting()
        for _ in range(3):
            dead = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            dead.connect(str(self.place / "@meet"))
            dead.close()
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(silent.close)
        silent.connect(str(self.place / "@meet"))
        self.end(self.start("connect"))
        self.end(acceptor)

    def test_a_stopped_acceptor_costs_the_time_limit(self):
        acceptor = self.start("accept")
        self.accepting()
        acceptor.send_signal(signal.SIGSTOP)
        self.assertIn(f"{TIMEOUT}: no job has accepted", self.end(self.start("connect", timeout_ms=SHORT_MS), 1))
        os.killpg(acceptor.pid, signal.SIGKILL)
        acceptor.wait()
        self.end(self.start("connect", timeout_ms=SHORT_MS), 1)  # and takes away what is left of it

    # ---- who comes too much

    def test_two_connectors_are_met_one_after_the_other(self):
        connectors = [self.start("connect") for _ in range(3)]
        for _ in range(3):
            self.end(self.start("accept"))
        for each in connectors:
            self.end(each)

    def test_a_name_is_accepted_under_once(self):
        first = self.start("accept")
        self.accepting()
        self.assertIn(f"{LAUNCHER}: another process accepts under the name 'meet' already", self.end(self.start("accept"), 1))
        self.end(self.start("connect"))
        self.end(first)

    def test_too_many_ranks(self):
        acceptor = self.start("accept", ranks=2, timeout_ms=3000)
        self.assertIn(f"{LAUNCHER}: the two would have 257 ranks together", self.end(self.start("connect", ranks=255), 1))
        self.end(acceptor, 1)

    def test_what_is_not_gpurun_is_refused(self):
        acceptor = self.start("accept")
        self.accepting()
        caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        caller.connect(str(self.place / "@meet"))
        caller.send(b"nonsense" * 4)
        self.assertIn(b"the same version of gpurun", caller.recv(4096))
        caller.close()
        self.end(self.start("connect"))
        self.end(acceptor)

    def test_wrong_names(self):
        for name in ("", "a/b", "..", ".hidden", "x" * 65):
            self.assertIn("cannot be the name", self.end(self.start("accept", name), 1))
            self.assertIn("cannot be the name", self.end(self.start("connect", name), 1))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be another user")
    def test_a_stranger_is_not_met(self):
        acceptor = self.start("accept")
        self.accepting()
        for path in (self.folder, self.place):
            os.chmod(path, 0o711)
        os.chmod(self.place / "@meet", 0o777)
        script = (f"import os, socket\nos.setgid(65534); os.setuid(65534)\n"
                  f"s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                  f"s.connect('{self.place}/@meet')\nprint(s.recv(4096))")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.stdout, "b''\n", done.stderr)
        for path in (self.folder, self.place):
            os.chmod(path, 0o700)
        self.end(self.start("connect"))
        self.end(acceptor)


if __name__ == "__main__":
    GPURUN, MEETING = map(os.path.abspath, sys.argv[1:3])
    ROUNDS = 200
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
