"""What gpurun is to reach on GPUs, and what it reaches: goals.py GPURUN GPURUN_PERF [OPTION...]

Runs gpurun-perf for each case, on two GPUs and on one, and prints a table in Markdown: what is to be reached, what is
aimed at, and what came out, figures of references being those of the same run. With --rounds all of it is done again,
and each figure is the median. --out keeps what gpurun-perf has said. Exits 0 whatever comes out, since machines are
noisy, 1 if something cannot be measured, 77 if there are no two GPUs. Host memory has a program of its own
(mpi_compare.py), as has the start of a job (start_up.py).
"""
import argparse
import dataclasses
import json
import os
import re
import statistics
import subprocess
import sys
from typing import Callable

import in_turns

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LONG_S = 300  # no run takes so long, unless it hangs
NO_GPUS = 77
PLACES = {
    "cuda": {"two": ["--device=cuda"], "one": ["--device=cuda", "--gpus=0", "--oversubscribe"]},
    "emulated": {"two": ["--device=emulated:2", "--oversubscribe"], "one": ["--device=emulated:1", "--oversubscribe"]},
}


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of gpurun-perf."""
    perf: str
    place: str = "two"
    launcher: str = ""
    path: str = ""


@dataclasses.dataclass(frozen=True)
class Goal:
    """What one row of a job's document is to say."""
    case: str
    job: str
    row: tuple  # test, order, bytes
    figure: Callable
    unit: str
    reach: float
    aim: float | None = None
    less: bool = True  # is better


def against(name):
    """How much better than a reference: more is better, whatever is measured."""
    return lambda row: next((each["ratio"] for each in row["against"] if each["name"] == name), None)


def share_of(name):
    """Of its time."""
    ratio = against(name)
    return lambda row: 1 / ratio(row) if ratio(row) else None


def median_us(row):
    return row["median_us"]


JOBS = {
    "stream": Job("latency --order stream --sizes 8,8K,64K,1M,4M --against copy,nccl"),
    "graph": Job("latency --order graph --sizes 8,8K --against nccl"),
    "host": Job("latency --order host --sizes 8 --against copy"),
    "window": Job("bandwidth --order stream --sizes 64M,256M --against copy,nccl"),
    "both ways": Job("bidirectional --order stream --sizes 256M --against copy"),
    "shared": Job("latency --order stream --sizes 8", "one", "--mps=on"),
    "shared window": Job("bandwidth --order stream --sizes 256M --against copy", "one", "--mps=on"),
    "taking turns": Job("latency --order host --sizes 8 --against copy", "one", "--mps=off"),
    "staged": Job("bandwidth --order stream --sizes 256M --against copy", path="staged"),
    "first": Job("first --order stream --sizes 1G"),
    "rate": Job("rate --order both --sizes 8 --window 64"),
    "call": Job("call --sizes 8"),
}

GOALS = [
    Goal("8 B, stream order", "stream", ("latency", "stream", 8), median_us, "us", 5.0, 4.2),
    Goal("8 KiB, stream order", "stream", ("latency", "stream", 8 * KIB), median_us, "us", 5.0, 4.2),
    Goal("8 B, of NCCL's time", "stream", ("latency", "stream", 8), share_of("nccl"), "", 0.6),
    Goal("8 KiB, of NCCL's time", "stream", ("latency", "stream", 8 * KIB), share_of("nccl"), "", 0.6),
    Goal("64 KiB, stream order", "stream", ("latency", "stream", 64 * KIB), median_us, "us", 7.0, 5.5),
    Goal("1 MiB, stream order", "stream", ("latency", "stream", MIB), median_us, "us", 11.0, 10.0),
    Goal("4 MiB, stream order", "stream", ("latency", "stream", 4 * MIB), median_us, "us", 19.5, 18.5),
    Goal("64 KiB, of NCCL's time", "stream", ("latency", "stream", 64 * KIB), share_of("nccl"), "", 1.0),
    Goal("1 MiB, of NCCL's time", "stream", ("latency", "stream", MIB), share_of("nccl"), "", 1.0),
    Goal("4 MiB, of NCCL's time", "stream", ("latency", "stream", 4 * MIB), share_of("nccl"), "", 1.0),
    Goal("8 B, in a CUDA graph", "graph", ("latency", "graph", 8), median_us, "us", 2.2, 1.7),
    Goal("8 KiB, in a CUDA graph", "graph", ("latency", "graph", 8 * KIB), median_us, "us", 2.2, 1.7),
    Goal("8 B, host order, of a raw pull's time", "host", ("latency", "host", 8), share_of("copy"), "", 1.15, 1.0),
    Goal("64 MiB, of the copy engine", "window", ("bandwidth", "stream", 64 * MIB),
         against("copy"), "", 0.97, 0.99, False),
    Goal("256 MiB, of the copy engine", "window", ("bandwidth", "stream", 256 * MIB),
         against("copy"), "", 0.97, 0.99, False),
    Goal("64 MiB, of NCCL's bandwidth", "window", ("bandwidth", "stream", 64 * MIB),
         against("nccl"), "", 1.08, None, False),
    Goal("256 MiB, of NCCL's bandwidth", "window", ("bandwidth", "stream", 256 * MIB),
         against("nccl"), "", 1.08, None, False),
    Goal("256 MiB both ways at once, of raw", "both ways", ("bidirectional", "stream", 256 * MIB),
         against("copy"), "", 0.95, 0.98, False),
    Goal("one GPU, MPS, 8 B", "shared", ("latency", "stream", 8), median_us, "us", 4.6, 4.0),
    Goal("one GPU, MPS, 256 MiB, of raw", "shared window", ("bandwidth", "stream", 256 * MIB),
         against("copy"), "", 0.95, 0.98, False),
    # A pull of each rank in turn is a switch between the contexts of two processes.
    Goal("one GPU, no MPS, 8 B, of a raw pull's time", "taking turns", ("latency", "host", 8),
         share_of("copy"), "", 1.1, 1.0),
    Goal("staged, 256 MiB, of its slower half", "staged", ("bandwidth", "stream", 256 * MIB),
         against("copy"), "", 0.9, 0.95, False),
    Goal("first message of a fresh GiB", "first", ("first", "stream", GIB),
         lambda row: row["median_us"] / 1e3, "ms", 9),
    *[Goal(f"8 B, windows of 64, {order} order", "rate", ("rate", order, 8),
           lambda row: row["messages_per_second"] / 1e6, "M/s", 0.5, 1.5, False) for order in ("host", "stream")],
    Goal("a send on a stream", "call", ("call", "stream", 8), lambda row: row["send_median_us"], "us", 4, 3),
    Goal("a receive on a stream", "call", ("call", "stream", 8), lambda row: row["recv_median_us"], "us", 4, 3),
]


def run(name, options):
    """The document of a job; None if there is none."""
    job = JOBS[name]
    launcher = job.launcher.split() if options.device == "cuda" else []
    command = [options.gpurun, "-n", "2", *PLACES[options.device][job.place], *launcher, options.perf,
               *job.perf.split(), *(["--iterations", str(options.iterations)] if options.iterations else []), "--json"]
    environment = os.environ | ({"GPURUN_PATH": job.path} if job.path else {})
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=LONG_S,
                              env=environment)
    except subprocess.TimeoutExpired:
        print(f"goals.py: hangs: {' '.join(command)}", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"goals.py: status {done.returncode}: {' '.join(command)}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def judged(goal, figure):
    """In a word, and by how much."""
    def met(bound):
        return figure <= bound if goal.less else figure >= bound
    if goal.aim is not None and met(goal.aim):
        return "aim"
    if met(goal.reach):
        return "reached"
    return f"missed by {abs(figure / goal.reach - 1):.1%}"


def rows_of(goal, documents):
    return [row for document in documents for row in document["rows"]
            if (row["test"], row["order"], row["bytes"]) == goal.row]


def line_of(goal, rows):
    """Of the table; there is a row for each round."""
    found = [figure for figure in map(goal.figure, rows) if figure is not None]
    sign = "at most" if goal.less else "at least"
    unit = f" {goal.unit}" if goal.unit else ""
    aim = "" if goal.aim is None else f"{goal.aim:g}"
    measured, verdict = "", "not measured"
    if found:
        figure = statistics.median(found)
        measured, verdict = f"{figure:.3g}{unit}", judged(goal, figure)
        if len(found) > 1:
            measured += f" ({min(found):.3g} to {max(found):.3g})"
    return f"| {goal.case} | {sign} {goal.reach:g}{unit} | {aim} | {measured} | {verdict} |"


def keep(folder, name, round_number, document):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name.replace(' ', '-')}-{round_number}.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)


def gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return 0
    return listed.stdout.count(b"GPU ")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=PLACES, default="cuda", help="emulated: figures that say nothing")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases with this in their name")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="gpurun-perf's, instead of its own choice")
    parser.add_argument("--out", metavar="FOLDER", help="for the documents of gpurun-perf")
    parser.add_argument("gpurun")
    parser.add_argument("perf")
    return parser.parse_args()


def main():
    options = parse()
    goals = [goal for goal in GOALS if re.search(options.only, goal.case)]
    if not goals:
        print(f"goals.py: no case has {options.only!r} in its name:\n  " + "\n  ".join(goal.case for goal in GOALS),
              file=sys.stderr)
        return 1
    if options.device == "cuda" and gpus() < 2:
        print("goals.py: there are no two GPUs here")
        return NO_GPUS
    documents = {goal.job: [] for goal in goals}
    for round_number in range(options.rounds):
        for name, taken in documents.items():
            document = run(name, options)
            if document is None:
                continue
            taken.append(document)
            if options.out:
                keep(options.out, name, round_number, document)
    first = next((document for taken in documents.values() for document in taken), None)
    if first is not None:
        devices = ", ".join(rank["name"] for rank in first["machine"]["ranks"])
        print(f"# {in_turns.machine()}, {devices}, driver {first['machine']['driver'] or 'none'}, "
              f"rounds: {options.rounds}\n")
    print("| case | to reach | aim | measured | |\n|---|---|---|---|---|")
    whole = True
    for goal in goals:
        rows = rows_of(goal, documents[goal.job])
        whole = whole and len(rows) == options.rounds
        print(line_of(goal, rows))
    return 0 if whole else 1


sys.exit(main())
