"""What --trace costs: trace_cost.py GPURUN GPURUN_PERF [OPTION OF gpurun...] [-- ARGUMENT OF gpurun-perf...]

gpurun-perf runs without and with --trace, and with other builds if there are any (--beside BUILD, more than once), in
turns, so that whatever else the machine does concerns all of them. Prints the median over the rounds of each figure for
each size, and its quotient to the first.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import in_turns

NO_FIGURES = {"test", "order", "bytes", "window", "batch", "runs", "samples", "against"}  # of a row
LONG_S = 300  # no run takes so long, unless it hangs


def commands(options, launcher, perf, folder):
    """name -> command"""
    launcher = ["-n", "2", *launcher]
    with_trace = [*launcher, "--trace", os.path.join(folder, "trace.json")]
    found = {"off": [options.gpurun, *launcher, options.perf, *perf, "--json"],
             "on": [options.gpurun, *with_trace, options.perf, *perf, "--json"]}
    for build in options.beside:
        found[build] = [os.path.join(build, "launcher/gpurun"), *launcher,
                        os.path.join(build, "tests/bench/gpurun-perf"), *perf, "--json"]
    return found


def rows_of(command):
    """(test, order, bytes, which figure, by its key in the document) -> the figure"""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=LONG_S)
    return {(row["test"], row["order"], row["bytes"], key): figure for row in json.loads(done.stdout)["rows"]
            for key, figure in row.items() if key not in NO_FIGURES}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", action="append", default=[], metavar="BUILD", help="a build folder to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("gpurun")
    parser.add_argument("perf")
    # Apart, since argparse of Python 3.12 and later drops the "--" of what it does not know.
    given = sys.argv[1:]
    split = given.index("--") if "--" in given else len(given)
    options, launcher = parser.parse_known_args(given[:split])
    perf = given[split + 1:] or ["latency"]
    with tempfile.TemporaryDirectory() as folder:
        all_commands = commands(options, launcher, perf, folder)
        taken = in_turns.measure(all_commands, options.rounds, rows_of)
    print(f"# {in_turns.machine()}, {options.rounds} rounds: {' '.join([*launcher, '--', *perf])}")
    print(f"{'':50}" + "".join(f" {name[-19:]:>19}" for name in all_commands))
    for (test, order, size, key), by_name in taken.items():
        first = statistics.median(by_name["off"])
        medians = [statistics.median(by_name[name]) for name in all_commands]
        print(f"{test + ', ' + order:20} {size:9} {key:19}" +
              "".join(f" {each:13.3f} {each / first if first else float('nan'):5.3f}" for each in medians))
    return 0


sys.exit(main())
