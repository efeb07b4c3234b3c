"""Jobs inside an allocation of Slurm: munged, slurmctld and two slurmd of the system's packages, in namespaces."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from launched import EMULATED, GPURUN, LONG_S, SOON_S, LaunchedTest, described, main, marked, readme_program, wait_until
from namespaces import HOSTS, INSIDE, Hosts, reenter

JOB_TESTS = os.path.abspath(sys.argv[3]) if sys.argv[3:] else ""  # none without libfabric, and under sanitizers
NODE_CPUS = 4  # that Slurm is told of, whatever the machine has
READY_S = 60

CONFIGURATION = """
ClusterName=test
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=h1 NodeAddr=10.77.0.1 CPUs={cpus} RealMemory=1000
NodeName=h2 NodeAddr=10.77.0.2 CPUs={cpus} RealMemory=1000
PartitionName=all Nodes=ALL Default=YES
"""


def check_tools():
    missing = [tool for tool in ("munged", "slurmctld", "slurmd", "salloc", "srun") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        print("skipped: " + (f"Slurm is not installed ({', '.join(missing)}; Debian: slurmctld slurmd slurm-client munge)"
                             if missing else "Slurm's daemons need root"))
        sys.exit(77)


class Cluster:
    """Slurm on two hosts."""

    def __init__(self):
        self.hosts = Hosts()
        self.folder = self.hosts.folder
        os.chmod(self.folder, 0o755)  # munged asks for it
        with open(f"{self.folder}/munge.key", "wb") as file:
            os.chmod(file.name, 0o600)
            file.write(os.urandom(128))
        with open(f"{self.folder}/slurm.conf", "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(folder=self.folder, cpus=NODE_CPUS))
        os.mkdir(f"{self.folder}/state")
        self.environment = {"SLURM_CONF": f"{self.folder}/slurm.conf", "SLURM_PMIX_TMPDIR": "/mnt"}
        munge = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        self.daemons = [self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *munge)]
        self.wait(lambda: os.path.exists(f"{self.folder}/munge.socket"), "munged")
        self.daemons.append(self.start(*self.hosts.on("h1"), "slurmctld", "-D"))
        # Its PMIx keeps files in a folder that hosts do not share: /mnt, of each slurmd's own.
        slurmd = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /mnt && exec slurmd -D -N "$0"')
        self.daemons += [self.start(*self.hosts.on(host), *slurmd, host) for host in HOSTS]
        self.wait(lambda: self.states() == ["idle"] * 2, "slurmctld and slurmd")

    def start(self, *words):
        with open(f"{self.folder}/daemons.log", "ab") as log:
            return subprocess.Popen(words, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=log)

    def run(self, *words):
        return subprocess.run([*self.hosts.on("h1"), *words], env={**os.environ, **self.environment}, capture_output=True,
                              text=True, check=False, timeout=LONG_S)

    def states(self):
        return self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()

    def wait(self, is_so, who):
        if not wait_until(is_so, READY_S):
            with open(f"{self.folder}/daemons.log", encoding="utf-8", errors="replace") as log:
                sys.exit(f"{who} did not start here:\n{log.read()[-2000:]}")

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        self.hosts.close()


CLUSTER = None


def setUpModule():
    global CLUSTER
    CLUSTER = Cluster()


def tearDownModule():
    CLUSTER.close()


class SlurmTest(LaunchedTest):
    def start(self, *words, **options):
        """Words that are run on h1; "gpurun" is ours, on emulated devices."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        ours = {"gpurun": [GPURUN, EMULATED]}
        process = subprocess.Popen([*CLUSTER.hosts.on("h1"), *[each for word in words for each in ours.get(word, [word])]],
                                   env={**self.environment(), **CLUSTER.environment}, **options)
        self.addCleanup(self.end, process)
        return process

    def lines(self, *words):
        """What ranks printed, sorted. REQUIRES: the job ends well and says nothing."""
        status, out, error = self.run_gpurun(*words)
        self.assertEqual((status, error), (0, ""))
        return sorted(out.decode().splitlines())

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertTrue(wait_until(lambda: CLUSTER.states() == ["idle"] * 2)))


WHO = ("sh", "-c", "echo $GPURUN_RANK $GPURUN_SIZE $(hostname)")
ON_BOTH = ("salloc", "--quiet", "--nodes=2")


class Nodes(SlurmTest):
    def test_a_job_runs_on_all_nodes_of_the_allocation(self):
        self.assertEqual(self.lines(*ON_BOTH, "gpurun", "-n", "4", "--ppn=2", *WHO),
                         ["0 4 h1", "1 4 h1", "2 4 h2", "3 4 h2"])

    def test_tasks_that_were_asked_for_are_the_ranks(self):
        self.assertEqual(self.lines("salloc", "--quiet", "--ntasks=3", "--nodes=2", "gpurun", *WHO),
                         ["0 3 h1", "1 3 h1", "2 3 h2"])
        both = ("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=2", "gpurun")
        self.assertEqual(self.lines(*both, "-n", "3", *WHO), ["0 3 h1", "1 3 h1", "2 3 h2"])
        self.assertEqual(self.lines(*both, "--ppn=1", *WHO), ["0 2 h1", "1 2 h2"])

    def test_one_node_that_is_not_this_machine_is_used_and_not_this_machine(self):
        self.assertEqual(self.lines("salloc", "--quiet", "--nodelist=h2", "gpurun", "--ppn=2", *WHO), ["0 2 h2", "1 2 h2"])

    def test_one_node_that_is_this_machine_is_as_without_slurm(self):
        self.assertEqual(self.lines("salloc", "--quiet", "--nodelist=h1", "--ntasks=2", "gpurun", "--hang-timeout=9", *WHO),
                         ["0 2 h1", "1 2 h1"])

    def test_hosts_that_are_named_are_used(self):
        self.assertEqual(self.lines(*ON_BOTH, "gpurun", "--hosts", "localhost:1", "--hang-timeout=9", *WHO), ["0 1 h1"])
        self.assertEqual(self.lines(*ON_BOTH, "gpurun", "--hosts", "h2:2", *WHO), ["0 2 h2", "1 2 h2"])

    def test_a_batch_script_is_as_a_shell_in_an_allocation(self):
        script = f"{CLUSTER.folder}/batch"
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nexec {GPURUN} {EMULATED} sh -c 'echo $GPURUN_RANK $GPURUN_SIZE $(hostname)'\n")
        out = f"{CLUSTER.folder}/batch.out"
        self.lines("sbatch", "--quiet", "--wait", "--nodes=2", "--ntasks=2", f"--output={out}", script)
        with open(out, encoding="ascii") as file:
            self.assertEqual(sorted(file.read().splitlines()), ["0 2 h1", "1 2 h2"])

    def test_output_and_exit_status_are_those_of_one_node(self):
        printed = f"{CLUSTER.folder}/printed"  # before the other rank ends the job
        script = f"cat; if [ $GPURUN_RANK = 0 ]; then touch {printed}; else until [ -e {printed} ]; do sleep 0.05; done; exit 7; fi"
        status, out, error = self.run_gpurun(*ON_BOTH, "--ntasks=2", "gpurun", "sh", "-c", script, input_bytes=b"in\n")
        self.assertEqual((status, out), (7, b"in\n"))
        self.assertIn("on h2", error)

    @unittest.skipUnless(JOB_TESTS, "there is no libfabric in this build, or a sanitizer, which does not see what it does")
    def test_ranks_of_both_nodes_exchange_messages(self):
        status, out, error = self.run_gpurun(*ON_BOTH, "gpurun", "-n", "4", "--ppn=2", JOB_TESTS, "--test-suite=sendrecv")
        self.assertEqual(status, 0, out.decode() + error)


class Refused(SlurmTest):
    def test_copies_that_srun_has_started(self):
        status, out, error = self.run_gpurun(*ON_BOTH, "srun", "--ntasks=2", "gpurun", "true")
        self.assertEqual((status, out), (2, b""))
        own = [line for line in error.splitlines() if line.startswith("gpurun: ")]
        self.assertEqual(len(own), 2, error)
        self.assertIn("srun has started 2 copies of gpurun: leave srun out", own[0])
        self.assertEqual(self.lines(*ON_BOTH, "srun", "--ntasks=2", "gpurun", "--hosts=localhost:1", "sh", "-c",
                                    "echo $GPURUN_RANK $GPURUN_SIZE"), ["0 1", "0 1"])

    def test_what_several_nodes_do_not_have_yet(self):
        status, _, error = self.run_gpurun(*ON_BOTH, "gpurun", "--debug=0", "true")
        self.assertEqual(status, 2)
        self.check_own_line(error, "--debug", "on several nodes")


@unittest.skipUnless(JOB_TESTS, "there is no libfabric in this build, or a sanitizer, which does not see what it does")
class Tasks(SlurmTest):
    """Ranks that srun itself has started."""
    def joins_by_itself(self):
        return ("env", "-u", "GPURUN_JOB", f"GPURUN_LAUNCHER={GPURUN}", f"XDG_RUNTIME_DIR={self.temporary_files}",
                "GPURUN_DEVICE=emulated:0/1", "GPURUN_EMULATED_MEMORY=256M")

    def srun(self, *words):
        status, out, error = self.run_gpurun(*self.joins_by_itself(), "GPURUN_REPORT=paths", "srun", *words, JOB_TESTS,
                                             "--test-suite=sendrecv")
        return status, out.decode() + error

    def kinds(self):
        listed = CLUSTER.run("srun", "--mpi=list")
        kinds = {"pmix", "pmi2"} & set((listed.stdout + listed.stderr).split())  # pmix needs a libpmix that fits
        self.assertIn("pmi2", kinds)
        return kinds

    def test_tasks_on_one_node_join_by_pmix_or_pmi2(self):
        for kind in self.kinds():
            status, out = self.srun("--nodes=1", "--ntasks=3", f"--mpi={kind}")
            self.assertEqual(status, 0, out)
            self.assertEqual(set(re.findall(r"rank (\d) to (\d)", out)),
                             {(str(one), str(other)) for one in range(3) for other in range(3)}, out)

    def test_tasks_on_several_nodes_join_too(self):
        for kind in self.kinds():
            for layout in ("block", "cyclic"):
                status, out = self.srun("--nodes=2", "--ntasks=3", f"--mpi={kind}", f"--distribution={layout}")
                self.assertEqual(status, 0, out)
                far = set(re.findall(r"rank (\d) reaches (\d) by: fabric", out))
                self.assertEqual(len(far), 4, out)  # of two ranks here and one there

    def test_tasks_that_nothing_tells_of_each_other_are_refused(self):
        status, out = self.srun("--nodes=1", "--ntasks=2")
        self.assertNotEqual(status, 0, out)
        self.assertIn("add --mpi=pmix (or pmi2) to srun, or leave srun out", out)

    def test_what_the_readme_shows_is_so(self):
        source = os.path.abspath(f"{os.path.dirname(__file__)}/../../..")
        hello, transcripts = readme_program(source, os.path.dirname(os.path.dirname(GPURUN)), self.temporary_files)
        shown = next(each for each in transcripts if each.startswith("$ salloc"))
        for part in shown.split("$ ")[1:]:
            command, *lines = part.splitlines()
            words = command.replace("./hello", hello).split()
            if words[0] == "srun":
                words = [*self.joins_by_itself(), *words]
                if words[-2] == "--mpi=pmix" and "pmix" not in self.kinds():
                    words[-2] = "--mpi=pmi2"
            self.assertEqual(self.lines(*words), lines, command)
        os.unlink(hello)


class Ends(SlurmTest):
    def sleepers(self):
        process = self.start(*ON_BOTH, "--ntasks=2", "gpurun", "sh", "-c", "echo $SLURM_JOB_ID $$; exec sleep 100")
        lines = [process.stdout.readline().split() for _ in range(2)]
        self.assertNotIn([], lines)
        return process, lines[0][0].decode(), [int(line[1]) for line in lines]

    def check_gone_soon(self):
        gone = wait_until(lambda: not marked(self.mark))
        self.assertTrue(gone, "" if gone else described(marked(self.mark)))

    def test_scancel_ends_every_rank(self):
        process, job, _ = self.sleepers()
        self.assertEqual(CLUSTER.run("scancel", job).returncode, 0)
        process.communicate(timeout=SOON_S)
        self.assertNotEqual(process.returncode, 0)
        self.check_gone_soon()

    def test_an_interrupt_ends_every_rank(self):
        process, _, _ = self.sleepers()
        head = next(pid for pid in marked(self.mark) if self.is_head(pid))
        os.kill(head, signal.SIGINT)
        _, error = process.communicate(timeout=SOON_S)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        self.assertIn(b"signal 2", error)
        self.check_gone_soon()

    def test_the_death_of_gpurun_ends_every_rank(self):
        process, _, _ = self.sleepers()
        since = time.monotonic()
        os.kill(next(pid for pid in marked(self.mark) if self.is_head(pid)), signal.SIGKILL)
        process.communicate(timeout=SOON_S)
        self.check_gone_soon()
        self.assertLess(time.monotonic() - since, 10)

    @staticmethod
    def is_head(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        return words[0] == GPURUN.encode() and words[1] != b"--node-daemon"


if __name__ == "__main__":
    if INSIDE not in os.environ:
        check_tools()
        reenter()
    main()
