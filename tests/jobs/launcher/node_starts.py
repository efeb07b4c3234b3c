"""Jobs on several nodes whose start fails, or takes its time. Arguments: gpurun, wire_rank, fake_nvml, the
sanitizers that they are built with."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from launched import SOON_S, main, wait_until
from namespaces import INSIDE, reenter
import nodes
from nodes import NodesTest, setUpModule, tearDownModule  # noqa: F401  unittest calls the last two

FAKE_NVML = os.path.abspath(sys.argv[3])
SANITIZERS = sys.argv[4]
FAKE_CONTROL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_mps_control.py")


class Starts(NodesTest):
    def test_files_for_output_that_cannot_be_made_are_said(self):
        status, out, error = self.run_gpurun("--output-dir", "/proc/none", "echo", "ran")
        self.assertEqual((status, out), (1, b""))
        self.check_own_line(error, "--output-dir=/proc/none: No such file or directory")

    def test_a_gpurun_that_runs_out_of_descriptors_is_no_wrong_command_line(self):
        status, out, error = self.run_gpurun("echo", "ran", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                                                  (8, 8)))
        self.assertEqual((status, out), (1, b""))
        self.check_own_line(error, "Too many open files")

    def test_each_line_of_an_agent_has_its_host_also_the_last_ones_before_it_ends(self):
        wordy = nodes.HOSTS_HERE.script("wordy", "seq 20000; printf 'no end'; exit 3")
        status, _, error = self.run_gpurun("true", agent=wordy)
        self.assertEqual(status, 1)
        *lines, last = error.splitlines()
        self.assertEqual(lines, [f"gpurun: h2: {each}" for each in [*range(1, 20001), "no end"]])
        self.assertIn("h2 ended with status 3 before gpurun had called from there", last)

    @unittest.skipUnless(SANITIZERS == "none", "the sanitizers need descriptors of their own")
    def test_a_host_that_runs_out_of_descriptors_says_so(self):
        said = 0
        for limit in range(10, 40, 2):
            script = f'ulimit -n {limit}; exec nsenter -t "$(cat $here/$1)" --net --uts sh -c "$2"'
            status, _, error = self.run_gpurun("true", hosts="h1:1,h2:1", agent=nodes.HOSTS_HERE.script("poor", script))
            if status != 0:
                self.check_own_line(error, "on h2: ")
                said += 1
        self.assertGreater(said, 3)


class SlowStarts(NodesTest):
    """The GPUs are those of fake_nvml."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="gpurun-test-", dir="/tmp")  # sockets need short paths
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(FAKE_NVML, f"{self.folder}/libnvidia-ml.so.1")
        with open(f"{self.folder}/control", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE_CONTROL}" "$@"\n')
        os.chmod(file.name, 0o700)

    def start_slowly(self, *arguments, **options):
        """Once each host's MPS daemon has been asked whether it is there, which it will not have answered in 10 s."""
        record = f"{self.folder}/record"
        mps = {"LD_LIBRARY_PATH": self.folder, "FAKE_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0", "TMPDIR": self.folder,
               "CUDA_MPS_PIPE_DIRECTORY": f"{self.folder}/nothing", "GPURUN_MPS_CONTROL": f"{self.folder}/control",
               "FAKE_MPS": "mute", "FAKE_MPS_RECORD": record}
        process = self.start("--oversubscribe", *arguments, device="--device=cuda", extra_env=mps, **options)

        def asked():
            if not os.path.exists(record):
                return False
            with open(record, encoding="utf-8") as file:
                return file.read().count("get_server_list") == 2

        self.assertTrue(wait_until(asked), process.poll())
        return process

    def test_a_host_whose_driver_hangs_is_named(self):
        hangs = {"LD_LIBRARY_PATH": self.folder, "FAKE_NVML_HANGS": "1"}
        process = self.start("true", hosts="h2:1", device="--device=cuda", extra_env=hangs)
        _, error = process.communicate(timeout=60 + SOON_S)
        self.assertEqual(process.returncode, 1)
        first, *_ = error.decode().splitlines()
        self.assertEqual(first, "gpurun: h2: gpurun there has not counted its GPUs within 60 s: check that nvidia-smi and "
                                "the file systems of the job answer there")

    def test_a_host_with_too_few_cores_says_so(self):
        gpu = {"LD_LIBRARY_PATH": self.folder, "FAKE_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}
        narrow = nodes.HOSTS_HERE.script("narrow", "core=$(taskset -cp $$ | sed 's/.*: \\([0-9]*\\).*/\\1/')\n"
                                         'exec taskset -c $core nsenter -t "$(cat $here/$1)" --net --uts sh -c "$2"')
        for accepts, lines in ((), 1), (("--oversubscribe",), 0):
            status, _, error = self.run_gpurun("--mps=off", "--ranks-per-gpu=2", *accepts, "true", hosts="h2:2",
                                               device="--device=cuda", agent=narrow, extra_env=gpu)
            self.assertEqual((status, error.count("\n")), (0, lines), error)
            self.assertEqual(error.count("gpurun: on h2: 2 ranks, but gpurun may use 1 core only"), lines)

    def test_input_that_comes_in_small_pieces_before_ranks_start_is_kept(self):
        process = self.start_slowly("wc", "-c", stdin=subprocess.PIPE)
        for _ in range(3000):
            os.write(process.stdin.fileno(), b"x")
            time.sleep(0.0005)
        out, error = process.communicate(timeout=10 + SOON_S)
        self.assertEqual((process.returncode, sorted(out.split())), (0, [b"0"] * 3 + [b"3000"]), error)

    def test_a_job_that_is_ended_before_its_ranks_start_starts_none(self):
        for signals in (1, 2):
            process = self.start_slowly("sh", "-c", "echo started; sleep 100")
            for _ in range(signals):
                process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=SOON_S)
            self.assertEqual((process.returncode, out), (130, b""))
            self.check_own_line(error.decode(), "got signal 2")
            os.remove(f"{self.folder}/record")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
