#!/usr/bin/env python3
"""death.py GPURUN RANKS OPTIONS... -- PROGRAM SCENARIO: a job whose last rank is killed, and what it leaves behind.

With --keep-going among the options every survivor must tell its tale; without, the job must end. Either way the exit
status is the victim's, and no process and nothing in /dev/shm is left.
"""
import os
import subprocess
import sys
import time
import uuid

KILLED = 128 + 9
BOUND_S = 60
LEFTOVER_BOUND_S = 5


def processes_with(token):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                if token.encode() in environ.read():
                    found.append(int(pid))
        except OSError:
            pass  # ended meanwhile, or another user's
    return [pid for pid in found if pid != os.getpid()]


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if "gpurun" in name} if os.path.isdir("/dev/shm") else set()


def wait_until_gone(what, bound_s=LEFTOVER_BOUND_S):
    """What is left of what() in the end; other jobs come and go beside this one."""
    end = time.monotonic() + bound_s
    left = what()
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left = what()
    return left


def main():
    gpurun, ranks, *rest = sys.argv[1:]
    options, program = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    token = str(uuid.uuid4())
    shm_before = shared_memory()
    job = subprocess.run([gpurun, "-n", ranks, *options, *program], env={**os.environ, "DEATH_TEST": token},
                         capture_output=True, text=True, timeout=BOUND_S, check=False)
    print(job.stdout, job.stderr, sep="\n--- stderr:\n")

    complaints = []
    victim = int(ranks) - 1
    if job.returncode != KILLED:
        complaints.append(f"exit status {job.returncode}, expected {KILLED}")
    if f"rank {victim}" not in job.stderr:
        complaints.append(f"stderr does not name rank {victim}")
    if "--keep-going" in options:
        complaints += [f"rank {rank} did not survive" for rank in range(victim)
                       if f"rank {rank}: survived\n" not in job.stdout]
    left = wait_until_gone(lambda: processes_with(token))
    if left:
        complaints.append(f"processes left: {left}")
    left = wait_until_gone(lambda: shared_memory() - shm_before)
    if left:
        complaints.append(f"left in /dev/shm: {left}")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


sys.exit(main())
