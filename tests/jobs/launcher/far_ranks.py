"""What ranks of two hosts do if the network between them is not as it should be. The hosts have two: the one by which
gpurun reaches them, and one for data, which does what a test wants.
"""
import os
import subprocess
import sys
import unittest

from launched import EMULATED, GPURUN, LaunchedTest, main
from namespaces import INSIDE, Hosts, reenter

FAR_RANKS = os.path.abspath(sys.argv[2])
DATA = ("GPURUN_FABRIC_INTERFACE=10.78.0.0/24", "GPURUN_FABRIC=tcp;ofi_rxm")
HOSTS_HERE = None


def setUpModule():
    global HOSTS_HERE
    HOSTS_HERE = Hosts(data=True)


def tearDownModule():
    HOSTS_HERE.close()


class FarRanksTest(LaunchedTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(HOSTS_HERE.join_data)

    def start(self, *words, settings=DATA, hosts="h1:1,h2:1", agent=None):
        options = [word for setting in settings for word in ("--env", setting)]
        process = subprocess.Popen([*HOSTS_HERE.on("h1"), GPURUN, "--hosts", hosts, "--agent", agent or HOSTS_HERE.agent,
                                    EMULATED, *options, *words], env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def outcome(self, *words, seconds=40, **options):
        process = self.start(*words, **options)
        out, error = process.communicate(timeout=seconds)
        return process.returncode, sorted(out.splitlines()), error

    def await_barrier(self, process):
        for _ in range(2):
            self.assertRegex(process.stdout.readline(), r"rank [01]: barrier: GPURUN_OK")


class Choices(FarRanksTest):
    def test_messages_take_the_network_by_which_gpurun_reaches_the_hosts(self):
        HOSTS_HERE.swallow_data()
        status, out, error = self.outcome(FAR_RANKS, settings=())
        self.assertEqual((status, error), (0, ""), out)

    def test_a_network_can_be_named(self):
        for place in ("eth1", "10.78.0.0/24"):
            status, out, error = self.outcome(FAR_RANKS, settings=(f"GPURUN_FABRIC_INTERFACE={place}",))
            self.assertEqual((status, error), (0, ""), out)
        status, out, _ = self.outcome(FAR_RANKS, settings=("GPURUN_FABRIC_INTERFACE=moon0",))
        self.assertNotEqual(status, 0)
        self.assertIn("can do nothing at GPURUN_FABRIC_INTERFACE=moon0", out[0])

    def test_ranks_that_take_different_providers_are_told_so(self):
        script = "[ $GPURUN_RANK = 0 ] && export GPURUN_FABRIC=net || export 'GPURUN_FABRIC=tcp;ofi_rxm'; exec $0"
        status, out, _ = self.outcome("--keep-going", "sh", "-c", script, FAR_RANKS, settings=())
        self.assertNotEqual(status, 0)
        self.assertIn("rank 0 takes libfabric's provider 'net' and rank 1 takes 'tcp;ofi_rxm'", "".join(out))

    def test_a_provider_that_does_not_leave_its_machine_is_refused(self):
        status, out, _ = self.outcome("--fabric=shm", FAR_RANKS, settings=())
        self.assertNotEqual(status, 0)
        self.assertIn("libfabric's provider 'shm' reaches processes of its own machine only", out[0])


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
