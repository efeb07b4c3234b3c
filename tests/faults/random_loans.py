#!/usr/bin/env python3
"""random_loans.py GPURUN RANDOM_LOANS ROUNDS [SEED]: in each round ranks that lend and borrow (random_loans.c) are stopped
and continued, and one is killed, at random moments. The survivors get their memory back, and have nothing mapped.

A round that fails is printed with its seed: that seed, and 1 round, repeat it as far as time allows.
"""
import os
import random
import re
import signal
import subprocess
import sys
import time

BOUND_S = 60  # for what takes less than one, on a machine that is not busy
KILLED = 128 + signal.SIGKILL
RANKS = 3


def start(gpurun, program, choice):
    variables = {"GPURUN_FENCE": choice.choice(["counter", "event"])}
    if choice.random() < 0.5:
        variables["GPURUN_EMULATED_SEED"] = str(choice.randrange(1000))
    return subprocess.Popen([gpurun, "-n", str(RANKS), "--keep-going", f"--device=emulated:{choice.choice([1, 2, 3])}",
                             "--oversubscribe", program, str(choice.getrandbits(32))], env={**os.environ, **variables},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def pids_of(job, said):
    pids = {}
    while len(pids) < RANKS:
        said.append(job.stdout.readline())
        if not said[-1]:
            return None
        if found := re.match(r"rank (\d+): lends and borrows, pid (\d+)", said[-1]):
            pids[int(found[1])] = int(found[2])
    return pids


def disturb(pids, choice):
    """Returns the rank that was killed."""
    for _ in range(choice.randrange(3)):
        stopped = pids[choice.randrange(RANKS)]
        time.sleep(choice.uniform(0, 0.03))
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(choice.uniform(0, 0.03))
        os.kill(stopped, signal.SIGCONT)
    time.sleep(choice.uniform(0, 0.05))
    victim = choice.randrange(RANKS)
    os.kill(pids[victim], signal.SIGKILL)
    return victim


def run_round(gpurun, program, seed):
    """What is wrong; empty if nothing is."""
    choice = random.Random(seed)
    said = []
    job = start(gpurun, program, choice)
    try:
        pids = pids_of(job, said)
        if pids is None:
            return said + ["the ranks did not begin"]
        victim = disturb(pids, choice)
        said.append(job.communicate(timeout=BOUND_S)[0])
    except subprocess.TimeoutExpired:
        job.send_signal(signal.SIGQUIT)
        time.sleep(5)
        job.kill()
        return said + [job.communicate()[0], "somebody is stuck"]
    wrong = [f"rank {rank} did not survive" for rank in range(RANKS)
             if rank != victim and f"rank {rank}: survived\n" not in "".join(said)]
    if job.returncode != KILLED:
        wrong.append(f"exit status {job.returncode}, expected {KILLED}")
    return said + wrong if wrong else []


def main():
    gpurun, program, rounds, *seeds = sys.argv[1:]
    first = int(seeds[0]) if seeds else random.SystemRandom().getrandbits(32)
    print(f"seed {first}", flush=True)
    for seed in range(first, first + int(rounds)):
        if wrong := run_round(gpurun, program, seed):
            print(f"in the round with seed {seed}:", *wrong, sep="\n")
            return 1
    return 0


sys.exit(main())
