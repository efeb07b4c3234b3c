"""Ranks that are in their own job and in a joint one: messages of both, deaths, and again and again.

two_worlds_test.py GPURUN TWO_WORLDS
"""
import os
import signal
import subprocess
import sys
import unittest

from own_folder import OwnFolderTest

SECONDS = 60  # nothing here takes longer, even on a busy machine
ROUNDS = 30


class TwoWorlds(OwnFolderTest):
    seconds = SECONDS

    def check_nothing_left(self):
        # A gpurun that ends takes with it what its ranks have started, a supervisor too, whose socket stays until then.
        subprocess.run([GPURUN, "jobs"], env=self.environment, stdout=subprocess.DEVNULL, check=True)
        super().check_nothing_left()

    def job(self, name, side, ranks, rounds=1, mode=(), **variables):
        """A job that gpurun did not start. Each of its ranks is a process, with a device of its own."""
        started = []
        for rank in range(ranks):
            own = {"GPURUN_JOB": name, "GPURUN_RANK": str(rank), "GPURUN_SIZE": str(ranks),
                   "GPURUN_DEVICE": f"emulated:{rank + (0 if side == 'accept' else 4)}/8"}
            started.append(subprocess.Popen([WORLDS, side, "meet", str(rounds), *mode], env=self.environment | own | variables,
                                            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        self.started += started
        return started

    def end(self, ranks, status=0):
        said = ""
        for rank in ranks:
            out, _ = rank.communicate(timeout=SECONDS)
            said += out
            self.assertEqual(rank.returncode, status, said)
        return said

    def meet(self, sizes=(2, 2), rounds=1, **variables):
        jobs = [self.job("one", "accept", sizes[0], rounds, **variables), self.job("two", "connect", sizes[1], rounds, **variables)]
        return [self.end(ranks) for ranks in jobs]

    def test_messages_of_both_worlds(self):
        for sizes in ((1, 1), (2, 2), (3, 1), (1, 4)):
            self.meet(sizes)

    def test_with_events_without_peer_access_and_on_the_core_alone(self):
        self.meet(GPURUN_FENCE="event")
        self.meet(GPURUN_EMULATED_PEER_ACCESS="none")
        self.meet(GPURUN_EMULATED_CAPABILITIES="none")

    def test_again_and_again_without_growth(self):
        for said in self.meet((2, 1), ROUNDS):
            self.assertIn(f"met {ROUNDS} times", said)

    def test_a_job_that_gpurun_started(self):
        launched = subprocess.Popen([GPURUN, "-n", "2", "--device=emulated:8", WORLDS, "accept", "meet", "2"],
                                    env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(launched)
        self.end(self.job("two", "connect", 2, 2))
        self.assertEqual(self.end([launched]).count("met 2 times"), 2)

    def test_a_job_is_killed_and_comes_again(self):
        survivors = self.job("one", "accept", 2, 5, ["survive"])
        for round_ in range(5):
            self.end(self.job(f"two{round_}", "connect", 2, 1, ["die"]), -signal.SIGKILL)
        self.assertEqual(self.end(survivors).count("met 5 times"), 2)


if __name__ == "__main__":
    GPURUN, WORLDS = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
