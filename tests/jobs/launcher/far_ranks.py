"""What ranks of two hosts do if the network between them is not as it should be. The hosts have two: the one by which
gpurun reaches them, and one for data, which does what a test wants.
"""
import os
import signal
import subprocess
import sys
import time
import unittest

from launched import EMULATED, GPURUN, LONG_S, LaunchedTest, main, readme_program, state_of, wait_until
from namespaces import INSIDE, Hosts, reenter

FAR_RANKS, SOURCE, BUILD = map(os.path.abspath, sys.argv[2:5])
PROVIDER = os.environ.get("GPURUN_TEST_FABRIC", "tcp;ofi_rxm")  # also tcp, with libfabric 1.18 or later
DATA = ("GPURUN_FABRIC_INTERFACE=10.78.0.0/24", f"GPURUN_FABRIC={PROVIDER}")
LOST_S = 4  # after which a peer that does not answer is lost
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


class Networks(FarRanksTest):
    def test_what_nobody_lets_through_loses_the_peer_and_is_no_deadlock(self):
        HOSTS_HERE.swallow_data()
        before = time.monotonic()
        status, out, error = self.outcome("--hang-timeout=1", "--keep-going", FAR_RANKS)
        self.assertLess(time.monotonic() - before, 3 * LOST_S)
        self.assertNotEqual(status, 0)
        self.assertNotIn("deadlock", error)
        # Both notice, unless the first one's end is told to the other before.
        self.assertRegex(error, rf"gpurun: rank \d on h\d cannot reach rank \d at 10\.78\.0\.\d:\d+ over {PROVIDER}: ")
        self.assertIn("GPURUN_FABRIC_INTERFACE", error)
        self.assertIn("rank 0: barrier: GPURUN_ERR_PEER_LOST", out[0])

    def test_a_network_that_fails_while_ranks_only_wait_loses_the_peer(self):
        process = self.start("--keep-going", FAR_RANKS, "wait")
        self.await_barrier(process)
        HOSTS_HERE.swallow_data()
        before = time.monotonic()
        out, error = process.communicate(timeout=40)
        self.assertLess(time.monotonic() - before, 3 * LOST_S)
        for rank in range(2):  # the first that sees it may have ended before the other does
            self.assertRegex(out, f"rank {rank}: recv: GPURUN_ERR_PEER_LOST: rank {1 - rank} (cannot be reached|has died)")
        self.assertIn("cannot be reached any more", out)
        self.assertIn("nothing has come through for 4 seconds", error)

    def test_a_rank_that_is_stopped_is_not_lost(self):
        process = self.start(FAR_RANKS, "stop")
        self.await_barrier(process)
        stopped = wait_until(lambda: [pid for pid in self.ranks() if state_of(pid) == "T"])
        self.assertTrue(stopped)
        time.sleep(2 * LOST_S)
        for pid in self.ranks():
            os.kill(pid, signal.SIGCONT)
        out, error = process.communicate(timeout=40)
        self.assertEqual((process.returncode, error), (0, ""))
        self.assertIn("rank 0: recv: GPURUN_OK", out)

    @staticmethod
    def ranks():
        def is_one(pid):
            try:
                return os.readlink(f"/proc/{pid}/exe") == FAR_RANKS
            except OSError:
                return False
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_one(pid)]


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
        self.assertIn("cannot use GPURUN_FABRIC_INTERFACE=moon0", out[0])

    def test_ranks_that_take_different_providers_are_told_so(self):
        script = "[ $GPURUN_RANK = 0 ] && export GPURUN_FABRIC=net || export 'GPURUN_FABRIC=tcp;ofi_rxm'; exec $0"
        status, out, _ = self.outcome("--keep-going", "sh", "-c", script, FAR_RANKS, settings=())
        self.assertNotEqual(status, 0)
        self.assertIn("rank 0 takes libfabric's provider 'net' and rank 1 takes 'tcp;ofi_rxm'", "".join(out))

    def test_a_provider_that_does_not_leave_its_machine_is_refused(self):
        status, out, _ = self.outcome("--fabric=shm", FAR_RANKS, settings=())
        self.assertNotEqual(status, 0)
        self.assertIn("libfabric's provider 'shm' reaches processes of its own machine only", out[0])


class Strangers(FarRanksTest):
    """Ranks that exchange nothing have no connection, and leave together all the same."""

    def test_ranks_that_never_meet_open_no_connection(self):
        before = self.connects()
        self.assertEqual(self.outcome(FAR_RANKS, "strangers", hosts="h1:3,h2:3"), (0, [], ""))
        self.assertLessEqual(self.connects() - before, 2)  # gpurun's own

    def test_the_first_message_comes_though_its_source_leaves_at_once(self):
        for _ in range(10):
            self.assertEqual(self.outcome(FAR_RANKS, "leave", hosts="h1:3,h2:3"), (0, [], ""))

    @staticmethod
    def connects():
        """How often somebody on one of the hosts has connected by TCP."""
        total = 0
        for holder in HOSTS_HERE.holders:
            with open(f"/proc/{holder.pid}/net/snmp", encoding="ascii") as file:
                names, values = [line.split() for line in file if line.startswith("Tcp:")]
            total += int(values[names.index("ActiveOpens")])
        return total


class Readme(FarRanksTest):
    """What README.md shows of several hosts."""

    def test_what_the_readme_shows_is_so(self):
        hello, transcripts = readme_program(SOURCE, BUILD, self.temporary_files)
        shown = next(each for each in transcripts if each.startswith("$ gpurun --hosts"))
        for part in shown.split("$ gpurun ")[1:]:
            command, *lines = part.splitlines()
            script = f"exec {GPURUN} --agent {HOSTS_HERE.agent} {command}"
            done = subprocess.run([*HOSTS_HERE.on("h1"), "sh", "-c", script], cwd=self.temporary_files, text=True,
                                  env=self.environment(), capture_output=True, check=False, timeout=LONG_S)
            self.assertEqual((done.returncode, done.stderr, sorted(done.stdout.splitlines())), (0, "", lines), command)
        os.unlink(hello)


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
