"""What gpurun prints of where ranks run: tables as they were found right once, and the same as JSON.

Each file of tests/fixtures/bindings is a transcript: "$ gpurun ARGUMENTS", then what that prints. A machine is named
as it lies in tests/fixtures/topologies or, recorded:NAME, in ../shared/topologies; where that is absent, its
transcripts are skipped. "bindings.py GPURUN --write" writes what is printed now: read it before you commit it.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from launched import EMULATED, GPURUN, LaunchedTest, main

ROOT = Path(__file__).resolve().parents[3]
OWN = ROOT / "tests/fixtures/topologies"
RECORDED = ROOT.parent / "shared/topologies"
TRANSCRIPTS = sorted((ROOT / "tests/fixtures/bindings").glob("*.txt"))
CLEAN = {name: value for name, value in os.environ.items()
         if name != "CUDA_VISIBLE_DEVICES" and not name.startswith("GPURUN_")}


def machine(word):
    folder, name = (RECORDED, word[len("recorded:"):]) if word.startswith("recorded:") else (OWN, word)
    return folder / name


def run(command):
    """What a transcript's command prints, on both streams; None if its machine is not here."""
    words = shlex.split(command)[1:]
    if "--topology" in words:
        at = words.index("--topology") + 1
        words[at] = str(machine(words[at]))
        if not os.path.exists(words[at]):
            return None
    done = subprocess.run([GPURUN, *words], env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False)
    return done.stdout


def commands(text):
    """[command, what it prints], ..."""
    return re.findall(r"^\$ (gpurun .*)\n((?:(?!\$ gpurun).*\n)*)", text, re.M)


def write():
    for path in TRANSCRIPTS:
        parts = []
        for command, expected in commands(path.read_text()):
            printed = run(command)
            parts.append(f"$ {command}\n{expected.rstrip() if printed is None else printed.rstrip()}\n")
        path.write_text("\n".join(parts))


class Bindings(LaunchedTest):
    maxDiff = None

    def test_every_transcript_is_what_is_printed(self):
        self.assertGreater(len(TRANSCRIPTS), 5)
        for path in TRANSCRIPTS:
            for command, expected in commands(path.read_text()):
                with self.subTest(f"{path.name}: {command}"):
                    printed = run(command)
                    if printed is None:
                        self.skipTest(f"{RECORDED} is not here")
                    self.assertEqual(printed.rstrip(), expected.rstrip())

    def as_json(self, *arguments, **options):
        status, out, error = self.run_gpurun("--json", *arguments, **options)
        self.assertEqual((status, error), (0, ""))
        return json.loads(out)

    def test_json_has_an_object_for_each_rank_with_what_the_table_has(self):
        ranks = self.as_json("--topology", str(OWN / "5gpu-2numa.xml"), "--env", "A=\"\u00e4\n", "-n", "4",
                             extra_env={"CUDA_VISIBLE_DEVICES": "4,0,1,3", "OMP_NUM_THREADS": "7"})
        for rank, entry in enumerate(ranks):
            self.assertEqual(list(entry), ["rank", "gpu", "uuid", "pci", "numa", "cpus", "env"])
            self.assertEqual((entry["rank"], entry["gpu"]), (rank, rank))
            self.assertEqual(entry["env"]["A"], "\"\u00e4\n")
            self.assertNotIn("OMP_NUM_THREADS", entry["env"])  # the user's own stays
        self.assertEqual([entry["pci"] for entry in ranks],
                         ["0000:d8:00.0", "0000:18:00.0", "0000:3b:00.0", "0000:86:00.0"])
        self.assertEqual([entry["numa"] for entry in ranks], [1, 0, 0, 1])
        self.assertEqual([entry["cpus"] for entry in ranks], ["4-5,12-13", "0-1,8-9", "2-3,10-11", "6-7,14-15"])

    def test_json_has_null_for_what_there_is_not(self):
        ranks = self.as_json("--topology", str(OWN / "5gpu-2numa.xml"), EMULATED, "--bind-to=none")
        self.assertEqual([(entry["uuid"], entry["pci"], entry["numa"]) for entry in ranks], [(None, None, None)])
        self.assertEqual(ranks[0]["cpus"], "0-15")

    def test_a_rank_has_what_was_reported(self):
        # Of a real start, on the CPUs of this machine.
        script = ("import json, os; print(json.dumps([os.environ[\"GPURUN_RANK\"], dict(os.environ), "
                  "sorted(os.sched_getaffinity(0))]))")
        status, out, error = self.run_gpurun("-n", "2", EMULATED, "--report-bindings", "--json", "--env", "SEEN=1",
                                             "python3", "-c", script)
        self.assertEqual(status, 0, error)
        told = {entry["rank"]: entry for entry in json.loads(error)}
        for line in out.splitlines():
            rank, environment, cpus = json.loads(line)
            entry = told[int(rank)]
            for name, value in entry["env"].items():
                self.assertEqual(environment[name], value, name)
            listed = [range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
                      for part in entry["cpus"].split(",")]
            self.assertEqual(cpus, [cpu for part in listed for cpu in part])
        self.assertEqual(len(out.splitlines()), 2)

    def test_only_cpus_that_gpurun_may_use_are_given_to_ranks(self):
        mine = max(os.sched_getaffinity(0))
        status, out, _ = self.run_gpurun("-n", "1", EMULATED, "grep", "Cpus_allowed_list", "/proc/self/status",
                                         preexec_fn=lambda: os.sched_setaffinity(0, {mine}))
        self.assertEqual((status, out.split()[-1]), (0, b"%d" % mine))

    def test_memory_comes_from_where_it_must(self):
        status, out, error = self.run_gpurun("-n", "1", EMULATED, "--bind-to=numa", "--membind", "cat",
                                             "/proc/self/numa_maps")
        if status == 1 and "cannot be bound" in error:
            self.check_own_line(error, "--membind")
            self.skipTest(error)
        if not out:
            self.skipTest("this kernel has no numa_maps")
        self.assertEqual((status, error), (0, ""))
        self.assertEqual({line.split()[1].split(b":")[0] for line in out.splitlines()} - {b"default"}, {b"bind"})

    def test_a_dry_run_starts_nothing(self):
        status, out, error = self.run_gpurun("-n", "2", EMULATED, "--dry-run", "sh", "-c", "echo ran >&2")
        self.assertEqual((status, error, len(out.splitlines())), (0, "", 3))

    def test_a_record_that_cannot_be_read_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("cut.xml", "<topology"), ("other.xml", "<page></page>\n"), ("empty.xml", "")):
                (Path(folder) / name).write_text(text)
            for path in ("/nowhere/machine.xml", folder, *(f"{folder}/{name}" for name in os.listdir(folder))):
                with self.subTest(path):
                    status, out, error = self.run_gpurun("--topology", path)
                    self.assertEqual((status, out), (2, b""))
                    self.check_own_line(error, path)


if "--write" in sys.argv:
    write()
else:
    main()
