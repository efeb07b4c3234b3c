"""Memory that is lent when the supervisor of a job is killed: it is its lender's again once the borrower has given it
back or has ended, and not before.

orphaned_test.py GPURUN ORPHANED
"""
import os
import signal
import subprocess
import sys
import time
import unittest

from own_folder import OwnFolderTest

SECONDS = 30  # nothing here takes longer, even on a busy machine
LOST = "GPURUN_ERR_PEER_LOST: the supervisor of this job has died, so its ranks have lost each other: rank 1 is lost"


class Orphaned(OwnFolderTest):
    seconds = SECONDS
    variables = {"GPURUN_ERRORS": "return", "GPURUN_EMULATED_MEMORY": "64M"}

    def setUp(self):
        super().setUp()
        self.lender, self.borrower = [
            subprocess.Popen([ORPHANED, str(rank)], env=self.environment | {"GPURUN_DEVICE": f"emulated:{rank}/2"},
                             text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for rank in range(2)]
        self.started = [self.lender, self.borrower]
        self.assertEqual(self.borrower.stdout.readline(), "borrowed\n")
        self.assertEqual(self.lender.stdout.readline(), "lent\n")
        for pid in self.supervisors():
            os.kill(pid, signal.SIGKILL)
        self.assertIn(LOST, self.lender.stdout.readline())
        self.assertIn("memset: GPURUN_ERR_LOAN", self.lender.stdout.readline())
        time.sleep(0.3)  # for what must not happen, and otherwise would in far less

    def own_memory_is_used(self):
        self.assertEqual(self.lender.stdout.readline(), "own: 3\n")

    def test_it_comes_back_when_the_borrower_gives_it_back(self):
        self.borrower.stdin.write("\n")
        self.borrower.stdin.flush()
        said = self.borrower.stdout.readline()
        self.assertIn("give back: GPURUN_ERR_PEER_LOST: the supervisor of this job has died", said)
        self.assertEqual(self.lender.stdout.readline(), "wait: GPURUN_OK: \n")
        self.own_memory_is_used()
        self.assertIn("unregister: GPURUN_ERR_TIMEOUT", self.lender.stdout.readline())
        time.sleep(0.1)
        self.borrower.stdin.close()
        self.borrower.stdin = None  # which tearDown() leaves alone
        self.assertIn("unregister later: GPURUN_OK", self.lender.stdout.readline())
        self.assertEqual(self.lender.wait(SECONDS), 0)

    def test_it_comes_back_when_the_borrower_ends(self):
        self.borrower.kill()
        self.assertIn("wait: " + LOST, self.lender.stdout.readline())
        self.own_memory_is_used()
        self.assertIn("unregister: GPURUN_OK", self.lender.stdout.readline())
        self.assertIn("unregister later: GPURUN_OK", self.lender.stdout.readline())
        self.assertEqual(self.lender.wait(SECONDS), 0)


if __name__ == "__main__":
    ORPHANED = os.path.abspath(sys.argv[2])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
