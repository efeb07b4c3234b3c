"""Ranks on GPUs: which they get and see, and what --topo tells of the machine. The GPUs are those of fake_nvml."""
import json
import os
import shutil
import signal
import sys
import tempfile

from launched import EMULATED, LONG_S, LaunchedTest, main

FAKE_NVML = os.path.abspath(sys.argv[3])
os.environ.pop("CUDA_VISIBLE_DEVICES", None)
SHOW = ("sh", "-c", "echo $GPURUN_RANK $GPURUN_DEVICE $CUDA_VISIBLE_DEVICES")
PLAIN = ("--mps=off", "--bind-to=none")  # these have tests of their own, and machines few cores


class Gpus(LaunchedTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="gpurun-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(FAKE_NVML, os.path.join(self.folder, "libnvidia-ml.so.1"))
        self.more = {}

    def start(self, *arguments, **options):
        environment = {"LD_LIBRARY_PATH": self.folder, "FAKE_GPUS": "4", "GPURUN_MPS_CONTROL": "/nowhere",
                       **self.more, **options.pop("extra_env", {})}
        return super().start(*arguments, extra_env=environment, **options)

    def shown(self, *arguments, **more):
        """A line for each rank: its device and what it sees."""
        status, out, error = self.run_gpurun(*PLAIN, *arguments, *SHOW, extra_env=more)
        self.assertEqual((status, error), (0, ""))
        return [line.split(" ", 1)[1].strip() for line in sorted(out.decode().splitlines())]

    def refused(self, *arguments, **more):
        status, out, error = self.run_gpurun(*PLAIN, *arguments, *SHOW, extra_env=more)
        self.assertEqual((status, out), (2, b""))
        self.assertEqual(error.count("\n"), 1, error)
        return error

    def test_a_signal_reaches_gpurun_and_no_thread_of_a_library(self):
        self.more = {"FAKE_NVML_THREAD": "1"}
        process = self.start(*PLAIN, "-n", "1", "sh", "-c", "echo up; exec sleep 100")
        self.assertEqual(process.stdout.readline(), b"up\n")
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=LONG_S)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn(b"gpurun: got signal 15", error)

    # ---- which a rank gets, and sees --------------------------------------------------------------------------

    def test_gpus_are_chosen_by_every_kind_of_name_and_seen_in_the_ranks_order(self):
        for name in ("2", "GPU-c", "0000:03:00.0", "3:00.0"):
            self.assertEqual(self.shown("--gpus", f"{name},0"),
                             ["cuda:GPU-c GPU-c,GPU-a", "cuda:GPU-a GPU-c,GPU-a"], name)

    def test_all_gpus_stay_visible_where_the_numbers_agree(self):
        self.assertEqual(self.shown("-n", "2"), ["cuda:GPU-a", "cuda:GPU-b"])

    def test_gpus_are_numbered_as_those_that_are_visible(self):
        self.assertEqual(self.shown(CUDA_VISIBLE_DEVICES="3,1"), ["cuda:GPU-d 3,1", "cuda:GPU-b 3,1"])
        self.assertEqual(self.shown("--gpus", "1", CUDA_VISIBLE_DEVICES="3,1"), ["cuda:GPU-b GPU-b"])
        self.assertIn("no GPU '2' among the 2 GPUs", self.refused("--gpus", "2", CUDA_VISIBLE_DEVICES="3,1"))

    def test_a_rank_can_see_its_own_gpu_only(self):
        self.assertEqual(self.shown("-n", "2", "--gpu-visible=own"), ["cuda:GPU-a GPU-a", "cuda:GPU-b GPU-b"])
        self.assertEqual(self.shown("--gpus=3,2", "--gpu-visible=job"),
                         ["cuda:GPU-d GPU-d,GPU-c", "cuda:GPU-c GPU-d,GPU-c"])

    def test_gpus_are_shared_only_if_that_is_asked_for(self):
        self.assertEqual(self.shown("--gpus=1,0", "--ranks-per-gpu=2"),
                         [f"cuda:GPU-{letter} GPU-b,GPU-a" for letter in "baba"])
        self.assertEqual(self.shown("--map-by=list:1,1"), ["cuda:GPU-b GPU-b"] * 2)
        self.assertIn("--oversubscribe", self.refused("-n", "5"))

    def test_mig_instances_stand_for_their_gpu_and_each_rank_sees_its_own(self):
        self.more = {"FAKE_MIG": "1:2"}
        self.assertEqual(self.shown("--gpus", "1-2"), ["cuda:MIG-b1 MIG-b1", "cuda:MIG-b2 MIG-b2"])
        self.assertEqual(self.shown("--gpus", "GPU-b,GPU-d"),
                         ["cuda:MIG-b1 MIG-b1", "cuda:MIG-b2 MIG-b2", "cuda:GPU-d GPU-d"])
        self.assertEqual(self.shown(CUDA_VISIBLE_DEVICES="MIG-b2"), ["cuda:MIG-b2 MIG-b2"])
        self.more = {"FAKE_MIG": "0:0", "FAKE_GPUS": "1"}
        self.assertIn("no instances", self.refused("--device=cuda"))

    def test_ranks_of_a_job_on_gpus_that_must_share_cores_are_told_of(self):
        self.more = {"FAKE_GPUS": "26"}
        ranks = len(os.sched_getaffinity(0)) + 1
        if ranks > 26:
            self.skipTest("as many cores as there can be GPUs")
        status, _, error = self.run_gpurun("-n", str(ranks), "true")
        self.assertEqual(status, 0)
        self.check_own_line(error, f"{ranks} ranks", "share them")
        self.assertEqual(self.run_gpurun("-n", str(ranks), "--bind-to=none", "true"), (0, b"", ""))

    # ---- the machine ------------------------------------------------------------------------------------------

    def topo(self, *arguments, **more):
        status, out, error = self.run_gpurun("--topo", *arguments, extra_env=more)
        self.assertEqual((status, error), (0, ""))
        return out.decode()

    def pairs(self, **more):
        found = json.loads(self.topo("--json", **more))["pairs"]
        return {tuple(pair["gpus"]): (pair["nvlinks"], pair["peer_access"], pair["paths"]) for pair in found}

    def test_the_machine_is_told_with_its_gpus_links_and_the_paths_of_messages(self):
        text = self.topo(FAKE_LINKS="switch:18", FAKE_NO_PEERS="3", FAKE_GPUS="4")
        self.assertRegex(text, r"  2  0000:03:00\.0 .* fake  GPU-c\n")
        self.assertRegex(text, r"0 1 +NV18  yes +mailbox, direct\n")
        self.assertRegex(text, r"2 3 +NV18  no: the chipset does not support it +staged\n")
        self.assertRegex(text, r"numa  cpus that ranks may use\n +0 ")
        self.assertIn("no MPS, so ranks that share a GPU take turns: GPURUN_MPS_CONTROL=/nowhere", text)

    def test_links_are_shown_as_a_matrix_too(self):
        text = self.topo(FAKE_LINKS="pairs:4", FAKE_GPUS="3")
        self.assertIn("\n      GPU0  GPU1  GPU2\n", text)
        self.assertRegex(text, r"\nGPU0  X     NV4   (\S+) *\nGPU1  NV4   X     (\S+) *\nGPU2  \S+ +\S+ +X\n")
        self.assertIn("NV4: 4 NVLinks\n", text)
        self.assertNotIn("GPU0", self.topo(FAKE_GPUS="1"))

    def test_links_are_counted_to_a_switch_or_to_the_other_gpu(self):
        direct = (["mailbox", "direct"],)
        self.assertEqual(self.pairs(FAKE_LINKS="switch:12", FAKE_GPUS="2"), {(0, 1): (12, True, *direct)})
        self.assertEqual(self.pairs(FAKE_LINKS="pairs:4", FAKE_GPUS="3"),
                         {(0, 1): (4, True, *direct), (0, 2): (0, True, *direct), (1, 2): (0, True, *direct)})
        self.assertEqual(self.pairs(FAKE_NO_PEERS="0", FAKE_GPUS="2"), {(0, 1): (0, False, ["staged"])})

    def test_paths_are_those_that_the_settings_force(self):
        for name, value, paths in (("GPURUN_PATH", "staged", ["staged"]), ("GPURUN_PATH", "bounce", ["bounce"]),
                                   ("GPURUN_MAIL_BYTES", "0", ["direct"]), ("GPURUN_FENCE", "event", ["direct"])):
            self.assertEqual(self.pairs(FAKE_GPUS="2", **{name: value}), {(0, 1): (0, True, paths)})

    def test_mig_is_told(self):
        text = self.topo(FAKE_MIG="0:2", FAKE_GPUS="2")
        self.assertRegex(text, r"  1  0000:01:00\.0 .* instance +fake MIG 1g +MIG-a2\n")
        self.assertRegex(text, r"0 1 +same GPU +no: MIG instances reach no other +staged\n")
        self.assertIn("GPU-b is in MIG mode and has no instances", self.topo(FAKE_MIG="1:0", FAKE_GPUS="2"))

    def test_a_machine_without_gpus_says_why(self):
        self.assertIn("no GPU: the NVIDIA driver has no GPU; ranks get emulated devices", self.topo(FAKE_GPUS="0"))
        facts = json.loads(self.topo("--json", FAKE_GPUS="0"))
        self.assertEqual((facts["gpus"], facts["no_gpu_because"]), ([], "the NVIDIA driver has no GPU"))
        self.assertIn("no GPU: --device=emulated leaves them out", self.topo(EMULATED, FAKE_GPUS="2"))


main()
