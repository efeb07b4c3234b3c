"""How long a launcher takes to start programs that do nothing, and to end: start_up.py GPURUN [-n RANKS] [--rounds N]

gpurun, and what is installed of Debian's mpiexec.hydra (MPICH) and mpirun (Open MPI), take turns, so that whatever else
the machine does concerns all of them. Prints a table of milliseconds; `true` alone is what a process costs here.
"""
import argparse
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

import in_turns

LONG_S = 20  # nothing here takes so long, unless it hangs


def launchers(gpurun, ranks):
    """name -> command; None where it is not installed"""
    count = ["-n", str(ranks)]
    # Open MPI starts neither as root nor more ranks than cores unless it is told to.
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    peers = {"mpiexec.hydra": [], "mpirun": [*as_root, "--oversubscribe"]}
    commands = {"true": ["true"], "gpurun": [gpurun, *count, "--device=emulated", "true"]}
    for name, options in peers.items():
        commands[name] = [name, *options, *count, "true"] if shutil.which(name) else None
    if commands["mpirun"] and "Open MPI" not in version(["mpirun", "--version"]):
        commands["mpirun"] = None
    return commands


def version(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    numbers = [line for line in lines if "Version" in line or "(Open MPI)" in line] or lines[:1]
    return " ".join(numbers[0].split()) if numbers else "?"


def seconds_of(command):
    """Or why there are none. (subprocess looks for a program's end from time to time, when it has a timeout.)"""
    nowhere = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(3)]
    before = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=nowhere)
    ended = select.poll()
    descriptor = os.pidfd_open(pid)
    ended.register(descriptor, select.POLLIN)
    in_time = bool(ended.poll(1000 * LONG_S))
    seconds = time.perf_counter() - before
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(descriptor)
    if not in_time:
        return f"did not end within {LONG_S} s"
    return seconds if status == 0 else f"failed with status {status}"


def measure(commands, rounds):
    """name -> milliseconds, sorted; a first round does not count"""
    taken = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name in list(taken):
            seconds = seconds_of(commands[name])
            if isinstance(seconds, str):
                print(f"# given up: {' '.join(commands[name])} {seconds}")
                del taken[name]
            else:
                taken[name].append(1e3 * seconds)
    return {name: sorted(all_ms[1:]) for name, all_ms in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpurun")
    parser.add_argument("-n", "--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    commands = launchers(options.gpurun, options.ranks)
    for name in [name for name, command in commands.items() if command is None]:
        print(f"# skipped: {name} is not installed")
        del commands[name]
    print(f"# {in_turns.machine()}, {options.ranks} ranks, {options.rounds} rounds")
    for name in commands:
        if name != "true":
            print(f"# {name}: {version([commands[name][0], '--version'])}")
    taken = measure(commands, options.rounds)
    if not taken.get("gpurun"):
        return 1
    own = statistics.median(taken["gpurun"])
    print(f"{'':14} {'min ms':>8} {'median':>8} {'p90':>8} {'of gpurun':>10}")
    for name, all_ms in taken.items():
        print(f"{name:14} {all_ms[0]:8.2f} {statistics.median(all_ms):8.2f} {all_ms[len(all_ms) * 9 // 10]:8.2f} "
              f"{statistics.median(all_ms) / own:10.2f}")
    return 0


sys.exit(main())
