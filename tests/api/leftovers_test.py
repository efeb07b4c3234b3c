"""leftovers_test.py GPURUN LEFTOVERS: with GPURUN_CHECK=1 gpurun_finalize() tells what a program has left, and only
then."""
import os
import subprocess
import sys
import unittest

gpurun, leftovers = sys.argv.pop(1), sys.argv.pop(1)

LEFT = """
rank 0 has not completed 1 collective: barrier, GPURUN_COMM_WORLD
rank 0 has not completed 1 loan to rank 1, tag 3, GPURUN_COMM_WORLD
rank 0 has not completed 1 loan to rank 1, tag 4, GPURUN_COMM_WORLD
rank 0 has not completed 1 send to rank 1, tag 8, halo
rank 0 has not freed 1 communicator of 2 ranks
rank 0 has not freed 1 communicator halo
rank 0 has not freed 1 persistent request of halo
rank 1 has not completed 1 collective: barrier, GPURUN_COMM_WORLD
rank 1 has not completed 1 receive from any rank, any tag, halo
rank 1 has not freed 1 communicator halo
rank 1 has not freed 1 communicator of 2 ranks
rank 1 has not given back 1 loan from rank 0, tag 3, GPURUN_COMM_WORLD
rank 1 has not received 1 message from rank 0, tag 6, GPURUN_COMM_WORLD, 8 bytes
rank 1 has not received 1 message from rank 1, tag 5, a communicator of 2 ranks, 16 bytes
rank 1 has not received 3 messages from rank 0, tag 7, GPURUN_COMM_WORLD, 24 bytes
"""


def told(how, check):
    environment = {name: value for name, value in os.environ.items() if name != "GPURUN_CHECK"}
    job = subprocess.run([gpurun, "-n", "2", "--device=emulated:2", "--oversubscribe", leftovers, how],
                         env=environment | ({"GPURUN_CHECK": check} if check else {}), capture_output=True, text=True,
                         timeout=60, check=False)
    assert job.returncode == 0, job
    return sorted(job.stderr.splitlines())


class Leftovers(unittest.TestCase):
    def test_each_kind_is_told_once_with_its_number(self):
        self.assertEqual(told("careless", "1"), sorted(f"gpurun: {line}" for line in LEFT.split("\n") if line))

    def test_nothing_is_told_without_gpurun_check(self):
        self.assertEqual(told("careless", None), [])
        self.assertEqual(told("careless", "0"), [])

    def test_a_program_that_leaves_nothing_is_told_nothing(self):
        self.assertEqual(told("clean", "1"), [])

    def test_of_many_kinds_the_first_are_told_and_how_many_there_are(self):
        lines = told("many", "1")
        self.assertEqual(len(lines), 17)
        self.assertIn("gpurun: rank 1 has left 24 more kinds of these", lines)


unittest.main()
