"""Placement on real GPUs: what gpurun tells of the machine and its bindings, next to what the system tells.

    placement.py GPURUN WHICH_GPU RING

Exits 77 where there is no GPU. Tests that need two GPUs, or torch, are skipped with the reason without them.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GPURUN, WHICH_GPU, RING = sys.argv[1:4]
os.environ.pop("CUDA_VISIBLE_DEVICES", None)


def output(*command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, **variables})
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def smi(what):
    return [line.strip() for line in output("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader").splitlines()]


def numbers(cpus):
    found = set()
    for part in filter(None, cpus.strip().split(",")):
        first, last = part.split("-")[0], part.split("-")[-1]
        found |= set(range(int(first), int(last) + 1))
    return found


if not os.path.exists("/dev/nvidiactl") or not smi("uuid"):
    sys.exit(77)

FACTS = json.loads(output(GPURUN, "--topo", "--json"))
GPUS = FACTS["gpus"]
needs_two = unittest.skipUnless(len(GPUS) > 1, "there is one GPU only")

TORCH = """
import os, torch, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
value = torch.ones(1 << 20, device="cuda") * (rank + 1)
dist.all_reduce(value)
size = dist.get_world_size()
assert value[0].item() == size * (size + 1) / 2 and value[-1].item() == value[0].item()
uuid = str(torch.cuda.get_device_properties(rank).uuid)
print(dist.get_rank(), size, uuid, torch.get_num_threads())
dist.destroy_process_group()
"""


class Placement(unittest.TestCase):
    def where(self, *arguments, **variables):
        """For each rank: how many GPUs it sees, what a ported program selects, what gpurun_init() does, its CPUs."""
        lines = output(GPURUN, "--mps=off", *arguments, WHICH_GPU, **variables).splitlines()
        return [line.split()[1:] for line in sorted(lines, key=lambda line: int(line.split()[0]))]

    # ---- the machine ------------------------------------------------------------------------------------------

    def test_gpus_are_those_of_nvidia_smi_in_the_order_of_their_addresses(self):
        wanted = sorted((pci[-12:].lower(), uuid) for pci, uuid in zip(smi("pci.bus_id"), smi("uuid")))
        self.assertEqual([(gpu["pci"][-12:], gpu["uuid"]) for gpu in GPUS], wanted)

    def test_links_are_those_of_nvidia_smi(self):
        matrix = re.findall(r"^(?:\x1b\[4m)?\s*GPU(\d+)\s+(.*)$", output("nvidia-smi", "topo", "-m"), re.M)
        rows = {int(number): re.findall(r"\bX\b|\bNV\d+\b|\bSYS\b|\bNODE\b|\bPHB\b|\bPXB\b|\bPIX\b", rest)
                for number, rest in matrix if not rest.startswith("GPU")}
        self.assertEqual(len(rows), len(GPUS), matrix)
        for pair in FACTS["pairs"]:
            a, b = pair["gpus"]
            theirs = rows[a][b]
            self.assertEqual(pair["nvlinks"], int(theirs[2:]) if theirs.startswith("NV") else 0, (a, b, theirs))

    @needs_two
    def test_the_path_that_is_foretold_is_the_one_that_is_taken(self):
        first = next(pair for pair in FACTS["pairs"] if pair["gpus"] == [0, 1])
        done = subprocess.run([GPURUN, "-n", "2", RING], env={**os.environ, "GPURUN_REPORT": "paths"},
                              capture_output=True, text=True, timeout=120, check=True)
        taken = set(re.findall(r"rank 0 to 1: (\w+)", done.stderr + done.stdout))
        self.assertTrue(taken & set(first["paths"]), (taken, first))

    # ---- bindings ---------------------------------------------------------------------------------------------

    def test_ranks_are_bound_to_the_cores_that_linux_says_are_near(self):
        allowed = os.sched_getaffinity(0)
        for rank in json.loads(output(GPURUN, "--dry-run", "--json")):
            folder = f"/sys/bus/pci/devices/{rank['pci']}"
            if not os.path.exists(folder):
                self.skipTest(f"there is no {folder} in this container")
            with open(f"{folder}/local_cpulist", encoding="ascii") as file:
                near = numbers(file.read()) & allowed
            cpus = numbers(rank["cpus"])
            self.assertTrue(cpus <= allowed)
            if len(near) >= len(GPUS):
                self.assertTrue(cpus <= near, (rank, near))
            with open(f"{folder}/numa_node", encoding="ascii") as file:
                node = int(file.read())
            if node >= 0 and rank["numa"] is not None and near:
                self.assertEqual(rank["numa"], node)

    def test_ranks_run_on_the_cpus_that_are_reported(self):
        reported = [numbers(rank["cpus"]) for rank in json.loads(output(GPURUN, "--dry-run", "--json"))]
        self.assertEqual([numbers(rank[3]) for rank in self.where()], reported)

    # ---- which GPU --------------------------------------------------------------------------------------------

    def check_same(self, ranks, wanted, visible=None):
        self.assertEqual([rank[1:3] for rank in ranks], [[uuid, uuid] for uuid in wanted])
        if visible is not None:
            self.assertEqual({rank[0] for rank in ranks}, {str(visible)})

    def test_a_ported_program_and_gpurun_init_select_the_same_gpu(self):
        self.check_same(self.where(), [gpu["uuid"] for gpu in GPUS], len(GPUS))
        self.check_same(self.where("--ranks-per-gpu=2"), [gpu["uuid"] for gpu in GPUS] * 2, len(GPUS))

    def test_every_kind_of_name_selects_a_gpu(self):
        last = GPUS[-1]
        for name in (str(last["gpu"]), last["uuid"], last["uuid"][:12], last["pci"], last["pci"].split(":", 1)[1]):
            self.check_same(self.where("--gpus", name), [last["uuid"]], 1)

    @needs_two
    def test_an_order_that_is_asked_for_is_the_order_of_cuda_too(self):
        turned = [gpu["uuid"] for gpu in reversed(GPUS)]
        self.check_same(self.where("--gpus", ",".join(turned)), turned, len(GPUS))
        self.check_same(self.where("--map-by", "list:" + ",".join(turned)), turned, len(GPUS))
        self.check_same(self.where(CUDA_VISIBLE_DEVICES=",".join(turned)), turned, len(GPUS))

    @needs_two
    def test_ranks_that_see_their_own_gpu_only_still_reach_the_others(self):
        uuids = [gpu["uuid"] for gpu in GPUS]
        ranks = self.where("--gpu-visible=own")
        self.assertEqual([rank[2] for rank in ranks], uuids)
        self.assertEqual({rank[0] for rank in ranks}, {"1"})
        done = subprocess.run([GPURUN, "--gpu-visible=own", RING], env={**os.environ, "GPURUN_REPORT": "paths"},
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        if FACTS["pairs"][0]["peer_access"]:
            self.assertNotIn("staged (no peer access)", done.stderr + done.stdout)

    @unittest.skipUnless(FACTS["mps"]["program"], "there is no nvidia-cuda-mps-control")
    def test_ranks_that_share_gpus_with_mps_and_see_their_own_only_still_reach_the_others(self):
        output(GPURUN, "--ranks-per-gpu=2", "--gpu-visible=own", "--mps=on", RING)

    def test_memory_that_must_be_near_is(self):
        done = subprocess.run([GPURUN, "-n", "1", "--membind", WHICH_GPU], capture_output=True, text=True, timeout=120,
                              check=False)
        if done.returncode != 0 and "not permitted" in done.stderr:
            self.skipTest(f"this container forbids it: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)

    # ---- others' programs -------------------------------------------------------------------------------------

    @needs_two
    def test_a_torch_distributed_script_runs_unchanged(self):
        python = shutil.which("python3")
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no torch")
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(TORCH)
            script.flush()
            lines = output(GPURUN, python, script.name).splitlines()
        self.assertEqual(sorted(line.split()[0] for line in lines), [str(gpu["gpu"]) for gpu in GPUS])
        bound = json.loads(output(GPURUN, "--dry-run", "--json"))
        for line in lines:
            rank, _, uuid, threads = line.split()
            self.assertEqual(uuid.removeprefix("GPU-"), GPUS[int(rank)]["uuid"].removeprefix("GPU-"))
            self.assertEqual(threads, bound[int(rank)]["env"].get("OMP_NUM_THREADS", threads))


unittest.main(argv=sys.argv[:1], verbosity=2)
