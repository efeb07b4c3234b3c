"""Ranks that mpirun of Open MPI and mpiexec.hydra of MPICH have started on two hosts join by themselves.

far_launchers_test.py GPURUN MEMBER LIBGPURUN JOB_TESTS
"""
import ctypes
import ctypes.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import launchers_test

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs", "launcher"))
from namespaces import HOSTS, INSIDE, Hosts, reenter  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS_HERE = None


def setUpModule():
    global HOSTS_HERE, AGENT
    HOSTS_HERE = Hosts(data=True)  # also addresses that lead nowhere
    AGENT = HOSTS_HERE.remote_shell()


def tearDownModule():
    HOSTS_HERE.close()


class FarLauncherTest(launchers_test.LauncherTest):
    hosts = "h1:2,h2:2"

    def start(self, ranks, *words, **variables):
        own, self.command = self.command, (*HOSTS_HERE.on("h1"), *self.launcher(), *self.command)
        try:
            return super().start(ranks, *words, **variables)
        finally:
            self.command = own

    def end(self, process):
        status, out = super().end(process)
        return status, re.sub(r"\[.*\] plm:rsh: Warning: .*\n", "", out)  # of mpirun, on a busy machine

    def supervisors_of(self, host):
        space = os.readlink(f"/proc/{HOSTS_HERE.holders[HOSTS.index(host)].pid}/ns/uts")
        return [pid for pid in self.supervisors() if os.readlink(f"/proc/{pid}/ns/uts") == space]


class FarLaunchers:
    """What holds with both launchers."""

    def test_ranks_of_two_hosts_join(self):
        self.check_ring(self.run_ranks(4, MEMBER), 4)
        self.check_ring(self.run_ranks(3, MEMBER), 3)
        self.hosts = "h1:1,h2:1"
        self.check_ring(self.run_ranks(2, MEMBER), 2)

    def test_neighbours_may_be_on_different_hosts(self):
        self.command = (*self.command, *self.in_turn)
        self.check_ring(self.run_ranks(4, MEMBER), 4)

    def test_messages_and_collectives_do_not_mind_that(self):
        self.command = (*self.command, *self.in_turn)
        status, out = self.run_ranks(3, JOB_TESTS, "--test-suite=sendrecv,requests,barrier,bcast,reductions,exchanges",
                                     GPURUN_EMULATED_MEMORY="512M")
        self.assertEqual(status, 0, out)

    def test_a_killed_rank_is_lost_to_all(self):
        self.hosts = "h1:1,h2:2"
        self.check_a_killed_rank_is_lost(MEMBER)

    def test_ranks_whose_supervisor_is_killed_are_lost(self):
        for host in HOSTS:
            process = self.start(4, MEMBER, "wait")
            self.pids(process, 4)
            self.assertEqual(len(self.supervisors()), 4)  # and their guards
            os.kill(min(self.supervisors_of(host)), signal.SIGKILL)
            status, out = self.end(process)
            self.assertEqual((status, out.count("GPURUN_ERR_PEER_LOST")), (0, 4), out)

    def test_gpurun_jobs_lists_the_ranks_of_each_host(self):
        process = self.start(3, MEMBER, "wait")
        self.pids(process, 3)
        listed = subprocess.run([GPURUN, "jobs", "--json"], env=self.environment, capture_output=True, text=True,
                                check=True)  # the folder is one for both
        jobs = sorted(json.loads(listed.stdout), key=lambda job: job["ranks"][0]["rank"])
        self.assertEqual([[(rank["rank"], rank["node"]) for rank in job["ranks"]] for job in jobs],
                         [[(0, jobs[0]["ranks"][0]["node"]), (1, jobs[0]["ranks"][0]["node"])],
                          [(2, 1 - jobs[0]["ranks"][0]["node"])]])
        self.assertEqual([job["size"] for job in jobs], [3, 3])
        os.kill(jobs[1]["ranks"][0]["pid"], signal.SIGKILL)
        self.end(process)

    def test_an_abort_ends_the_ranks_of_all_hosts(self):
        status, out = self.run_ranks(4, MEMBER, "abort")
        self.assertNotEqual(status, 0, out)
        self.until(lambda: not self.supervisors(), "a supervisor is left")

    def test_a_rank_that_does_not_come_is_an_error_in_all_others(self):
        status, out = self.shell(4, '[ RANK = 3 ] && sleep 4 || exec "$1"', MEMBER, GPURUN_JOIN_TIMEOUT="2")
        self.assertNotEqual(status, 0, out)
        self.assertRegex(out, "GPURUN_ERR_LAUNCHER: .*GPURUN_JOIN_TIMEOUT gives it more time")


    def test_mpi_works_before_and_after(self):
        try:
            ctypes.CDLL(self.mpi[0])
        except OSError as missing:
            self.skipTest(str(missing))
        self.hosts = "h1:1,h2:1"
        for order in ("mpi gpurun", "gpurun mpi"):
            done = self.run_ranks(2, sys.executable, f"{HERE}/with_mpi.py", LIBGPURUN, *self.mpi, order)
            self.assertEqual(done, (0, "2 of both\n" * 2))


@unittest.skipUnless(shutil.which("mpirun") and launchers_test.is_open_mpi() and ctypes.util.find_library("pmix"),
                     "mpirun of Open MPI, or libpmix.so.2, is not installed (Debian: openmpi-bin libpmix2)")
class OpenMpi(FarLaunchers, FarLauncherTest):
    rank = "OMPI_COMM_WORLD_RANK"
    mpi = ("libmpi.so.40", "ompi_mpi_comm_world")
    in_turn = ("--map-by", "node")

    def launcher(self):
        return ("mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--mca", "plm_rsh_agent", AGENT,
                "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0", "--host", self.hosts)

    def test_a_second_program_of_a_rank_is_told_what_to_do(self):
        status, out = self.shell(4, '"$1" && "$1"', MEMBER)
        self.assertNotEqual(status, 0, out)
        self.assertEqual(len(re.findall(r"^rank \d of 4 got", out, re.M)), 4, out)
        self.assertRegex(out, "(?m)^GPURUN_ERR_LAUNCHER: this is not the first program of rank . of 4, .* Start each program")


@unittest.skipUnless(shutil.which("mpiexec.hydra"), "mpiexec.hydra is not installed (Debian: mpich)")
class Hydra(FarLaunchers, FarLauncherTest):
    rank = "PMI_RANK"
    mpi = ("libmpich.so.12", "0x44000000")
    in_turn = ("-ppn", "1")

    def launcher(self):
        return ("mpiexec.hydra", "-launcher", "rsh", "-launcher-exec", AGENT, "-hosts", self.hosts)


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    GPURUN, MEMBER, LIBGPURUN, JOB_TESTS = map(os.path.abspath, sys.argv[1:5])
    unittest.main(argv=sys.argv[:1])
