"""Ranks that mpirun of Open MPI and mpiexec.hydra of MPICH have started join by themselves.

launchers_test.py GPURUN MEMBER LIBGPURUN
"""
import ctypes.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from own_folder import OwnFolderTest

SECONDS = 60  # nothing here takes longer, even on a busy machine
HERE = os.path.dirname(os.path.abspath(__file__))
# Rank 1 starts its program as a child, since most launchers end all ranks when one of theirs is killed.
VICTIM = """[ RANK = 1 ] || exec "$1" wait
"$1" wait; :"""


def is_open_mpi():
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    return "Open MPI" in version


class LauncherTest(OwnFolderTest):
    seconds = SECONDS
    variables = {"GPURUN_ERRORS": "return", "GPURUN_DEVICE": "emulated:0/1", "GPURUN_EMULATED_MEMORY": "64M",
                 "GPURUN_JOIN_TIMEOUT": "30"}
    command = ()
    rank = ""  # the variable that has it
    kind = ""  # of name that its jobs have
    mpi = ()   # its MPI library, and the expression for MPI_COMM_WORLD

    def start(self, ranks, *words, **variables):
        process = subprocess.Popen([*self.command, "-n", str(ranks), *words], env=self.environment | variables, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def kill(self, process):
        process.terminate()  # it ends its ranks
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()

    def end(self, process):
        out, _ = process.communicate(timeout=SECONDS)
        return process.returncode, out

    def run_ranks(self, ranks, *words, **variables):
        return self.end(self.start(ranks, *words, **variables))

    def start_shell(self, ranks, script, *arguments, **variables):
        return self.start(ranks, "sh", "-c", script.replace("RANK", "$" + self.rank), "sh", *arguments, **variables)

    def shell(self, ranks, script, *arguments, **variables):
        return self.end(self.start_shell(ranks, script, *arguments, **variables))

    def pids(self, process, ranks):
        """Of the ranks, once all of them have passed their number round."""
        found = {}
        while len(found) < ranks:
            line = process.stdout.readline()
            self.assertTrue(line, f"only {sorted(found)} have spoken")
            if got := re.match(r"rank (\d+) of \d+ got \d+, pid (\d+)$", line):
                found[int(got[1])] = int(got[2])
        return found

    def check_a_killed_rank_is_lost(self, member):
        process = self.start_shell(3, VICTIM, member)
        os.kill(self.pids(process, 3)[1], signal.SIGKILL)
        status, out = self.end(process)
        self.assertEqual((status, out.count("GPURUN_ERR_PEER_LOST")), (0, 2), out)

    def check_ring(self, result, ranks, times=1):
        status, out = result
        self.assertEqual(status, 0, out)
        found = re.findall(r"rank (\d+) of (\d+) got (\d+)", out)
        wanted = [(str(rank), str(ranks), str((rank - 1) % ranks)) for rank in range(ranks)]
        self.assertEqual(sorted(found), sorted(wanted * times), out)
        self.assertEqual(len(out.splitlines()), ranks * times, out)

    def check_nothing_left(self):
        self.until(lambda: not self.supervisors(), "a supervisor is left")
        super().check_nothing_left()


class Launchers:
    """What holds with every launcher."""

    def test_ranks_join_by_themselves(self):
        for ranks in (1, 2, 5):
            self.check_ring(self.run_ranks(ranks, MEMBER), ranks)

    def test_a_rank_has_the_number_that_the_launcher_gave_it(self):
        status, out = self.shell(3, f'"$1" | sed "s/^/RANK /"', MEMBER)
        self.assertEqual(status, 0, out)
        self.assertEqual(sorted(re.findall(r"^(\d) rank (\d)", out, re.M)), [(str(each), str(each)) for each in range(3)])

    def test_several_at_once_are_several_jobs(self):
        for each in [self.start(3, MEMBER) for _ in range(4)]:
            self.check_ring(self.end(each), 3)

    def named_as(self, pattern, **variables):
        process = self.start(2, MEMBER, "wait", **variables)
        self.pids(process, 2)
        names = os.listdir(self.place)
        self.kill(process)
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], pattern)

    def test_a_job_has_the_launchers_name_unless_it_has_been_given_one(self):
        self.named_as(rf"^{self.kind}-\w+-[0-9a-f]{{16}}$")
        self.named_as("^mine$", GPURUN_JOB="mine")

    def test_a_job_of_its_own_is_made_where_that_is_said(self):
        status, out = self.run_ranks(2, MEMBER, GPURUN_SIZE="1")
        self.assertEqual((status, len(re.findall("rank 0 of 1", out))), (0, 2), out)

    def test_ranks_of_torchrun_that_it_has_started_are_told_what_to_do(self):
        status, out = self.run_ranks(2, MEMBER, TORCHELASTIC_RUN_ID="none", RANK="1", WORLD_SIZE="4")
        self.assertEqual((status, out.count("process 1 of 4 of torchrun")), (0, 2), out)

    def test_ranks_that_a_rank_has_started_do_not_pass_for_it(self):
        status, out = self.run_ranks(2, MEMBER, RANK="3", WORLD_SIZE="4")
        self.assertEqual((status, out.count("process 3 of 4 of torchrun")), (0, 2), out)

    def test_a_killed_rank_is_lost_to_the_others(self):
        self.check_a_killed_rank_is_lost(MEMBER)

    def test_mpi_works_before_and_after(self):
        try:
            ctypes.CDLL(self.mpi[0])
        except OSError as missing:
            self.skipTest(str(missing))
        for order in ("mpi gpurun", "gpurun mpi"):
            done = self.run_ranks(2, sys.executable, f"{HERE}/with_mpi.py", LIBGPURUN, *self.mpi, order)
            self.assertEqual(done, (0, "2 of both\n" * 2))


@unittest.skipUnless(shutil.which("mpirun") and is_open_mpi(), "mpirun of Open MPI is not installed (Debian: openmpi-bin)")
class OpenMpi(Launchers, LauncherTest):
    command = ("mpirun", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []))
    rank = "OMPI_COMM_WORLD_RANK"
    kind = "pmix"
    mpi = ("libmpi.so.40", "ompi_mpi_comm_world")

    def start(self, ranks, *words, **variables):
        own = tempfile.mkdtemp(prefix="mpirun-")  # of several that start at once, only one can make the usual folder
        self.addCleanup(shutil.rmtree, own, ignore_errors=True)
        return super().start(ranks, *words, OMPI_MCA_orte_tmpdir_base=own, **variables)

    def test_programs_one_after_another_are_jobs_one_after_another(self):
        self.check_ring(self.shell(3, '"$1" && "$1" && "$1"', MEMBER), 3, times=3)

    @unittest.skipUnless(ctypes.util.find_library("pmix"), "libpmix.so.2 is not installed (Debian: libpmix2)")
    def test_a_launcher_that_serves_pmix_alone_is_asked(self):
        self.check_ring(self.shell(3, 'unset OMPI_COMM_WORLD_SIZE; exec "$1"', MEMBER), 3)
        self.check_ring(self.shell(1, 'unset OMPI_COMM_WORLD_SIZE; exec "$1"', MEMBER), 1)

    @unittest.skipUnless(ctypes.util.find_library("pmix"), "libpmix.so.2 is not installed (Debian: libpmix2)")
    def test_an_mpi_program_without_a_launcher_is_a_job_of_one_rank(self):
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for order in ("mpi gpurun", "gpurun mpi"):  # MPI_Init() makes itself a launcher, and says so in the environment
            done = subprocess.run([sys.executable, f"{HERE}/with_mpi.py", LIBGPURUN, *self.mpi, order],
                                  env=self.environment | as_root, capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "1 of both\n"), done.stderr)

    @unittest.skipUnless(ctypes.util.find_library("pmix"), "libpmix.so.2 is not installed (Debian: libpmix2)")
    def test_a_launcher_that_has_ended_is_an_error(self):
        done = subprocess.run([MEMBER], env=self.environment | {"PMIX_NAMESPACE": "gone", "PMIX_RANK": "0"},
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("it does not answer (PMIx_Init:", done.stdout)

    def test_a_library_that_cannot_be_loaded_is_an_error(self):
        with open(f"{self.folder}/libpmix.so.2", "w", encoding="ascii"):
            status, out = self.shell(2, 'unset OMPI_COMM_WORLD_SIZE; LD_LIBRARY_PATH=$2 exec "$1"', MEMBER, self.folder)
        os.remove(f"{self.folder}/libpmix.so.2")
        self.assertNotEqual(status, 0, out)
        self.assertIn("libpmix.so.2, which asks it, cannot be loaded", out)


@unittest.skipUnless(shutil.which("mpiexec.hydra"), "mpiexec.hydra is not installed (Debian: mpich)")
class Hydra(Launchers, LauncherTest):
    command = ("mpiexec.hydra",)
    rank = "PMI_RANK"
    kind = "pmi"
    mpi = ("libmpich.so.12", "0x44000000")

    def test_a_death_does_not_end_the_others_where_that_is_said(self):
        self.command = ("mpiexec.hydra", "-disable-auto-cleanup")
        self.check_a_killed_rank_is_lost(MEMBER)

    def test_one_host_that_has_two_names_is_refused(self):
        self.command = ("mpiexec.hydra", "-launcher", "fork", "-hosts", "localhost,127.0.0.1")
        status, out = self.run_ranks(2, MEMBER)
        self.assertNotEqual(status, 0, out)
        self.assertEqual(len(re.findall("^GPURUN_ERR_LAUNCHER.* is one more than .*: name each host once", out, re.M)), 2, out)

    def test_a_second_program_of_a_rank_is_told_what_to_do(self):
        status, out = self.shell(2, '"$1" && "$1"', MEMBER)
        self.assertNotEqual(status, 0, out)
        self.assertEqual(out.count("set GPURUN_JOB to a name that all ranks share"), 2, out)
        self.check_ring(self.shell(2, 'GPURUN_JOB=one "$1" && GPURUN_JOB=two "$1"', MEMBER), 2, times=2)


if __name__ == "__main__":
    GPURUN, MEMBER, LIBGPURUN = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=sys.argv[:1])
