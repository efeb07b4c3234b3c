"""Jobs that meet by gpurun_comm_accept() and gpurun_comm_connect().

connect_test.py GPURUN CONNECTED
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from own_folder import OwnFolderTest

SECONDS = 60  # nothing here takes longer, even on a busy machine
ROUNDS = int(os.environ.get("GPURUN_TEST_MEETINGS", "20"))  # at night 1,000


class Connect(OwnFolderTest):
    seconds = SECONDS + ROUNDS * 2

    def job(self, name, side, ranks, *arguments, meeting="meet", **variables):
        """A job that gpurun did not start. Each of its ranks is a process, with a device of its own."""
        started = []
        for rank in range(ranks):
            own = {"GPURUN_JOB": name, "GPURUN_RANK": str(rank), "GPURUN_SIZE": str(ranks),
                   "GPURUN_DEVICE": f"emulated:{rank + (0 if side == 'accept' else 4)}/8"}
            started.append(subprocess.Popen([CONNECTED, side, meeting, *map(str, arguments)],
                                            env=self.environment | own | variables, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        self.started += started
        return started

    def end(self, ranks, status=0):
        said = ""
        for rank in ranks:
            out, _ = rank.communicate(timeout=self.seconds)
            said += out
            self.assertEqual(rank.returncode, status, said)
        return said

    def is_accepted(self):
        return self.place.exists() and any("meet" in name for name in os.listdir(self.place))

    def meet(self, sizes, *arguments, **variables):
        jobs = [self.job("one", "accept", sizes[0], *arguments, **variables),
                self.job("two", "connect", sizes[1], *arguments, **variables)]
        return [self.end(ranks) for ranks in jobs]

    def test_one_communicator_for_both_jobs(self):
        for sizes in ((1, 1), (2, 2), (3, 1), (1, 4)):
            self.meet(sizes, 2)

    def test_with_events_without_peer_access_and_on_the_core_alone(self):
        self.meet((2, 2), 1, GPURUN_FENCE="event")
        self.meet((2, 2), 1, GPURUN_EMULATED_PEER_ACCESS="none")
        self.meet((2, 2), 1, GPURUN_EMULATED_CAPABILITIES="none")

    def test_again_and_again_without_growth(self):
        for said in self.meet((2, 1), ROUNDS):
            self.assertIn(f"met {ROUNDS} times", said)

    def test_a_job_is_killed_and_comes_again(self):
        survivors = self.job("one", "accept", 2, ROUNDS, "survive")
        for round_ in range(ROUNDS):
            self.end(self.job(f"two{round_}", "connect", 2, 1, "die"), -signal.SIGKILL)
        self.assertEqual(self.end(survivors).count(f"met {ROUNDS} times"), 2)

    def test_finalize_leaves_all_joint_jobs(self):
        self.meet((2, 2), 2, "leave")
        self.meet((1, 2), 15, "hold")

    def test_a_job_that_gpurun_started(self):
        launched = subprocess.Popen([GPURUN, "-n", "2", "--device=emulated:8", CONNECTED, "accept", "meet", "2"],
                                    env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(launched)
        self.end(self.job("two", "connect", 2, 2))
        self.assertEqual(self.end([launched]).count("met 2 times"), 2)

    def test_jobs_that_gpurun_started_leave_nothing(self):
        # The supervisor of both is started by a rank of one, and does not end with that one's gpurun.
        for _ in range(ROUNDS // 2):
            sides = [subprocess.Popen([GPURUN, "-n", "2", "--device=emulated:4", f"--gpus={gpus}", CONNECTED, side, "meet",
                                       "1"], env=self.environment, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT) for side, gpus in (("accept", "0,1"), ("connect", "2,3"))]
            self.started += sides
            self.end(sides)
            self.until(lambda: not self.place.exists() or not os.listdir(self.place), "a socket is left")

    def test_time_limits(self):
        self.assertEqual(self.end(self.job("one", "accept", 2, 200, "try")).count(
            "GPURUN_ERR_TIMEOUT: no job has connected to 'meet' within 0.2 s"), 2)
        self.assertEqual(self.end(self.job("one", "connect", 2, 200, "try")).count(
            "GPURUN_ERR_TIMEOUT: no job has accepted under the name 'meet' within 0.2 s"), 2)

    def test_connect_waits_for_accept(self):
        early = self.job("two", "connect", 1, 60_000, "try")
        time.sleep(0.3)
        self.assertIn("GPURUN_OK", self.end(self.job("one", "accept", 2, 60_000, "try")))
        self.assertIn("GPURUN_OK", self.end(early))

    def test_names(self):
        said = self.end(self.job("one", "accept", 2, 60_000, "try", meeting="a/b"))
        self.assertEqual(said.count("GPURUN_ERR_SETTING: 'a/b' cannot be the name of a job"), 2)
        other = self.job("one", "accept", 1, 3000, "try", meeting="this")
        self.assertIn("GPURUN_ERR_TIMEOUT", self.end(self.job("two", "connect", 1, 200, "try", meeting="that")))
        self.assertIn("GPURUN_ERR_TIMEOUT", self.end(other))

    def test_a_name_that_is_taken(self):
        first = self.job("one", "accept", 1, 60_000, "try")
        self.until(self.is_accepted, "nobody accepts")
        said = self.end(self.job("three", "accept", 2, 60_000, "try"))
        self.assertEqual(said.count("GPURUN_ERR_LAUNCHER: another process accepts under the name 'meet' already"), 2)
        self.assertIn("GPURUN_OK", self.end(self.job("two", "connect", 1, 60_000, "try")))
        self.assertIn("GPURUN_OK", self.end(first))

    def test_two_connectors(self):
        both = [self.job(name, "connect", 1, 60_000, "try") for name in ("two", "three")]
        for _ in both:
            self.assertIn("GPURUN_OK", self.end(self.job("one", "accept", 1, 60_000, "try")))
        for each in both:
            self.assertIn("GPURUN_OK", self.end(each))

    def test_an_acceptor_that_dies(self):
        first = self.job("one", "accept", 1, 60_000, "try")
        self.until(self.is_accepted, "nobody accepts")
        first[0].kill()
        connector = self.job("two", "connect", 1, 60_000, "try")
        self.end(first, -signal.SIGKILL)
        self.assertIn("GPURUN_OK", self.end(self.job("three", "accept", 1, 60_000, "try")))
        self.assertIn("GPURUN_OK", self.end(connector))

    def test_a_job_does_not_meet_itself(self):
        said = self.end(self.job("one", "accept", 2, 0, "itself"))
        self.assertIn("a job cannot connect to itself", said)

    def test_ranks_that_call_accept_and_connect(self):
        both = self.job("one", "both", 2, 60_000, "try", GPURUN_JOIN_TIMEOUT="2")
        other = self.job("two", "connect", 1, 60_000, "try", GPURUN_JOIN_TIMEOUT="2")
        said = self.end(both)
        self.assertIn("GPURUN_ERR_ARGUMENT: rank 0 of the communicator has called gpurun_comm_accept()", said)
        self.assertIn("GPURUN_ERR_LAUNCHER", self.end(other))

    def test_a_rank_that_cannot_meet(self):
        for said in self.meet((2, 2), 15, "uneven"):
            self.assertIn("rank 1 of the communicator cannot meet another job, and is told why", said)
            self.assertIn("this rank is in 15 joint jobs", said)

    def test_settings_of_the_first_rank_count_for_both_jobs(self):
        one = self.job("one", "accept", 2, 2, GPURUN_CHECK="1", GPURUN_ALLREDUCE="pieces")
        other = self.job("two", "connect", 2, 2, GPURUN_ALLREDUCE="doubling", GPURUN_BCAST="tree")
        for ranks in (one, other):
            self.assertEqual(self.end(ranks).count("met 2 times"), 2)

    def test_settings_that_do_not_go_together(self):
        one = self.job("one", "accept", 2, 60_000, "try", GPURUN_FENCE="event")
        other = self.job("two", "connect", 2, 60_000, "try")
        for said in (self.end(one), self.end(other)):
            self.assertEqual(said.count("GPURUN_ERR_SETTING: this rank orders streams by"), 2)
        said = self.end(self.job("one", "accept", 2, 60_000, "try", GPURUN_PROGRESS="calls"))
        self.assertEqual(said.count("GPURUN_ERR_UNSUPPORTED: with GPURUN_PROGRESS=calls"), 2)

    def test_waits_are_listed_in_the_joint_job(self):
        table = tempfile.NamedTemporaryFile()
        self.addCleanup(table.close)
        launched = subprocess.Popen([GPURUN, "-n", "1", "--device=emulated:8", CONNECTED, "accept", "meet", "1", "survive"],
                                    env=self.environment, stdout=subprocess.DEVNULL, stderr=table)
        self.started.append(launched)
        other = self.job("two", "connect", 1, 1, "stay")

        def listed():
            said = subprocess.run([GPURUN, "jobs"], env=self.environment, text=True, stdout=subprocess.PIPE, check=True)
            return said.stdout

        def is_listed():
            said = listed()
            return (re.search(r"gpurun_recv +[0-9.]+ s +a rank of another job: gpurun jobs lists the joint job meet-", said)
                    and re.search(r"gpurun_recv +[0-9.]+ s +recv +1 +9 +4  a matching message", said))

        self.until(is_listed, listed)
        launched.send_signal(signal.SIGQUIT)
        self.until(lambda: "a rank of another job: gpurun jobs lists the joint job meet-" in Path(table.name).read_text(),
                   "no hang table")
        other[0].kill()
        self.assertEqual(launched.wait(SECONDS), 0)
        self.end(other, -signal.SIGKILL)


if __name__ == "__main__":
    GPURUN, CONNECTED = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
