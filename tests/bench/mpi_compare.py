"""Host memory, next to MPI: mpi_compare.py GPURUN PROGRAM [--ranks N] [--mpi NAME:COMPILER:LAUNCHER]...

PROGRAM is host_peer (messages) or host_collectives. Its source, built for gpurun and with each MPI's compiler, runs in
turns on the same processors, so that whatever else the machine does concerns all of them. Prints the medians over the rounds, and gpurun's quotient to each MPI (of times
the smaller is the better, of rates the larger). Without --mpi: Debian's Open MPI and MPICH, those that are installed.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import in_turns

LONG_S = 300  # no run takes so long, unless it hangs
KNOWN = ["Open MPI:mpicc.openmpi:mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to BIND",
         "MPICH:mpicc.mpich:mpiexec.hydra -bind-to BIND"]
FIGURES = {"latency": ("median_us", "us"), "bandwidth": ("bytes_per_second", "B/s"),
           "rate": ("messages_per_second", "/s")}
FIGURES |= {name: ("median_us", "us") for name in ["barrier", "allreduce", "bcast", "allgather", "alltoall"]}


def commands(options, folder):
    """name -> command"""
    sizes = [str(size) for size in options.sizes]
    ranks = str(options.ranks)
    found = {"gpurun": [options.gpurun, "-n", ranks, "--device=emulated", "--oversubscribe", options.program, *sizes]}
    for each in options.mpi or KNOWN:
        name, compiler, launcher = each.split(":")
        if not options.mpi and not (shutil.which(compiler) and shutil.which(launcher.split()[0])):
            print(f"# {name} is not installed", file=sys.stderr)
            continue
        program = os.path.join(folder, name.replace(" ", ""))
        source = os.path.join(os.path.dirname(__file__), os.path.basename(options.program) + ".c")
        # MPICH's MPI_STATUSES_IGNORE looks to the compiler like an array of nothing.
        compiled = subprocess.run([*compiler.split(), "-O2", "-DWITH_MPI", "-Wno-stringop-overflow", source, "-o", program],
                                  stderr=subprocess.PIPE, text=True, check=False)
        if compiled.returncode != 0 and "mpi.h" in compiled.stderr and not options.mpi:
            print(f"# {name} is installed without its headers", file=sys.stderr)
            continue
        if compiled.returncode != 0:
            raise SystemExit(f"mpi_compare.py: {compiler}: {compiled.stderr}")
        bind = "core" if options.ranks <= len(os.sched_getaffinity(0)) else "none"
        found[name] = [*launcher.replace("BIND", bind).split(), "-n", ranks, program, *sizes]
    return found


def rows_of(command):
    """(test, bytes) -> figure"""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=LONG_S)
    if done.returncode != 0:
        raise SystemExit(f"mpi_compare.py: {' '.join(command)}: status {done.returncode}\n{done.stderr.decode()}")
    return {(row["test"], row["bytes"]): row[FIGURES[row["test"]][0]] for row in json.loads(done.stdout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpi", action="append", metavar="NAME:COMPILER:LAUNCHER")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")],
                        default=[8, 4096, 65536, 1 << 20])
    parser.add_argument("gpurun")
    parser.add_argument("program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        all_commands = commands(options, folder)
        if len(all_commands) == 1:
            print("mpi_compare.py: no MPI to compare with: install openmpi-bin and libopenmpi-dev, or mpich")
            return 77
        taken = in_turns.measure(all_commands, options.rounds, rows_of)
    print(f"# {in_turns.machine()}, {options.rounds} rounds, host memory, {options.ranks} ranks")
    print(f"{'':22}" + "".join(f" {name:>20}" for name in all_commands))
    for (test, size), by_name in sorted(taken.items(), key=lambda each: (list(FIGURES).index(each[0][0]), each[0][1])):
        own, unit = statistics.median(by_name["gpurun"]), FIGURES[test][1]
        line = f"{test:10} {size:11} {own:17.4g} {unit:>3}"
        for name in list(all_commands)[1:]:
            other = statistics.median(by_name[name])
            line += f" {other:10.4g} {own / other:9.2f}"
        print(line)
    return 0


sys.exit(main())
