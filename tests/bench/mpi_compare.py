"""Host memory, next to MPI: mpi_compare.py GPURUN PROGRAM [--ranks N] [--two-hosts] [--mpi NAME:COMPILER:LAUNCHER]...

PROGRAM is host_peer (messages) or host_collectives. Its source, built for gpurun and with each MPI's compiler, runs in
turns on the same processors, so that whatever else the machine does concerns all of them. Prints the medians over the
rounds, and gpurun's quotient to each MPI (of times the smaller is the better, of rates the larger). Without --mpi: Debian's
Open MPI and MPICH, those that are installed. With --two-hosts the ranks are in two network namespaces, next to Open MPI's
ob1 over TCP.
"""
import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import in_turns

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "jobs", "launcher"))
import namespaces  # pylint: disable=wrong-import-position

LONG_S = 300  # no run takes so long, unless it hangs
KNOWN = ["Open MPI:mpicc.openmpi:mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to BIND",
         "MPICH:mpicc.mpich:mpiexec.hydra -bind-to BIND"]
# MPICH's ranks find each other in /dev/shm, which namespaces of the network share.
ON_TWO_HOSTS = [
    "Open MPI:mpicc.openmpi:mpirun.openmpi --allow-run-as-root --mca pml ob1 --mca btl tcp,self --mca plm_rsh_agent AGENT "
    "--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 --bind-to none --map-by node --host h1:RANKS,h2:RANKS"]
FIGURES = {"latency": ("median_us", "us"), "bandwidth": ("bytes_per_second", "B/s"),
           "rate": ("messages_per_second", "/s")}
FIGURES |= {name: ("median_us", "us") for name in ["barrier", "allreduce", "bcast", "allgather", "alltoall"]}


def commands(options, folder, hosts):
    """name -> command; on two hosts if there are any"""
    sizes = [str(size) for size in options.sizes]
    ranks = str(options.ranks)
    first, agent, where = [], "", []
    if hosts:
        first = list(hosts.on("h1"))
        agent = hosts.remote_shell()
        where = ["--hosts", f"h1:{(options.ranks + 1) // 2},h2:{options.ranks // 2}", "--agent", hosts.agent]
    found = {"gpurun": [*first, options.gpurun, *where, "-n", ranks, "--device=emulated", "--oversubscribe",
                        options.program, *sizes]}
    for each in options.mpi or (ON_TWO_HOSTS if hosts else KNOWN):
        name, compiler, launcher = each.split(":", 2)
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
        for word, value in (("BIND", bind), ("AGENT", agent), ("RANKS", ranks)):
            launcher = launcher.replace(word, value)
        found[name] = [*first, *launcher.split(), "-n", ranks, program, *sizes]
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
    parser.add_argument("--two-hosts", action="store_true")
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")],
                        default=[8, 4096, 65536, 1 << 20])
    parser.add_argument("gpurun")
    parser.add_argument("program")
    options = parser.parse_args()
    if options.two_hosts and namespaces.INSIDE not in os.environ:
        namespaces.reenter()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        hosts = stack.enter_context(contextlib.closing(namespaces.Hosts())) if options.two_hosts else None
        all_commands = commands(options, folder, hosts)
        if len(all_commands) == 1:
            print("mpi_compare.py: no MPI to compare with: install openmpi-bin and libopenmpi-dev, or mpich")
            return 77
        taken = in_turns.measure(all_commands, options.rounds, rows_of)
    where = ", two hosts" if options.two_hosts else ""
    print(f"# {in_turns.machine()}, {options.rounds} rounds, host memory, {options.ranks} ranks{where}")
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
