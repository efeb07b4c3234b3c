#!/usr/bin/env python3
"""collective_report_test.py GPURUN REPORT_COLLECTIVES: GPURUN_REPORT=collectives says which collectives a rank has made.

And by which algorithm, which GPURUN_ALLREDUCE, GPURUN_REDUCE, GPURUN_BCAST and gpurun_comm_set_algorithm() choose.
"""
import os
import re
import subprocess
import sys

RANKS = 4
SMALL, LARGE = 4, 1 << 20
# What report_collectives.c makes, with the algorithm that the settings lead to.
JOBS = [
    ({}, [("direct", 3, SMALL), ("pieces", 4, LARGE)], "pieces", "tree"),
    ({"GPURUN_ALLREDUCE": "direct", "GPURUN_REDUCE": "direct", "GPURUN_BCAST": "direct"},
     [("direct", 3, SMALL, 4, LARGE)], "direct", "direct"),
    ({"GPURUN_ALLREDUCE": "pieces", "GPURUN_BCAST": "pieces"}, [("pieces", 3, SMALL, 4, LARGE)], "pieces", "pieces"),
    # Not of half precision, which every round would round.
    ({"GPURUN_ALLREDUCE": "doubling", "GPURUN_REDUCE": "pieces"},
     [("doubling", 3, SMALL, 3, LARGE), ("pieces", 1, LARGE)], "pieces", "tree"),
    ({"GPURUN_ALLREDUCE": "doubling:3,pieces:4K,direct", "GPURUN_REDUCE": "auto:64K,direct",
      "GPURUN_BCAST": "tree:3,direct:4"}, [("pieces", 3, SMALL), ("direct", 4, LARGE)], "direct", "direct"),
]
# Of 10 sizes from 4 bytes to 1 MiB, each four times the one before; and of 1 MiB by GPURUN_ALLREDUCE=direct.
CHOSEN = {
    "doubling:64,direct:256,pieces:4K": {"doubling": 3, "direct": 1 + 1, "pieces": 2 + 4},
    "auto": {"direct": 6 + 1, "pieces": 4},
    "pieces": {"pieces": 10, "direct": 1},
}


def lines_of(rank, allreduces, reduce, bcast):
    def line(name, ranks, calls, size, algorithm=None):
        by = f" ({algorithm})" if algorithm else ""
        return f"gpurun: rank {rank}: {name} among {ranks} ranks{by}: {calls} calls, {size} bytes"

    made = [(algorithm, sum(parts[::2]), sum(calls * size for calls, size in zip(parts[::2], parts[1::2])))
            for algorithm, *parts in allreduces]
    return [*(line("allreduce", RANKS, calls, size, algorithm) for algorithm, calls, size in made),
            line("reduce", RANKS, 1, LARGE, reduce), line("bcast", RANKS, 1, SMALL, bcast),
            line("barrier", RANKS, 1, 0), line("barrier", 1, 1, 0)]


def run(gpurun, program, settings, *arguments):
    job = subprocess.run([gpurun, "-n", str(RANKS), "--device=emulated:2", "--oversubscribe", program, *arguments],
                         env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=60, check=False)
    return job.returncode, sorted(job.stdout.splitlines())


def main():
    gpurun, program = sys.argv[1:]
    wrong = 0
    for settings, *algorithms in JOBS:
        expected = sorted(line for rank in range(RANKS) for line in lines_of(rank, *algorithms))
        status, got = run(gpurun, program, {**settings, "GPURUN_REPORT": "collectives"})
        if status != 0 or got != expected:
            wrong += 1
            print(f"{settings}: exit status {status}", "expected:", *expected, "got:", *got, sep="\n  ")
    for settings, words in (({}, []), ({"GPURUN_REDUCE": "doubling"}, ["GPURUN_REDUCE", "auto, direct, pieces"])):
        status, got = run(gpurun, program, settings)
        if (status == 0) != (not words) or not all(word in "\n".join(got) for word in words) or (not words and got):
            wrong += 1
            print(f"{settings}: exit status {status}, not as it should be:", *got, sep="\n  ")
    for algorithms, expected in CHOSEN.items():
        status, got = run(gpurun, program, {"GPURUN_REPORT": "collectives", "GPURUN_ALLREDUCE": "direct"}, algorithms)
        calls = [re.match(r"gpurun: rank 2: allreduce among 4 ranks \((\w+)\): (\d+) calls", line) for line in got]
        if status != 0 or {call[1]: int(call[2]) for call in calls if call} != expected:
            wrong += 1
            print(f"{algorithms}: exit status {status}", f"expected: {expected}", "got:", *got, sep="\n  ")
    return 1 if wrong else 0


sys.exit(main())
