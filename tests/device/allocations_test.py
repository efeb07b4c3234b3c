#!/usr/bin/env python3
"""allocations_test.py GPURUN ALLOCATIONS [OPTION...]: runs the job, and compares the paths that it says its messages must
have taken with those that GPURUN_REPORT=paths says they took. Exits 77 where the job does.
"""
import collections
import os
import re
import subprocess
import sys

# What the report says, and what the program calls it.
REASONS = [
    ("(small: does not wait for its match)", "small"),
    ("host (", "host"),
    ("staged (one buffer is host memory)", "host and device"),
    ("staged (memory of another device than the rank's)", "elsewhere"),
    ("direct (", "direct"),
    ("bounce (memory cannot be exported)", "bounce"),
    ("bounce (memory that the receiver's device refuses to map)", "bounce"),
    ("staged (no peer access)", "unreachable"),
    ("staged (a test copy between the devices failed)", "unreachable"),
]
REPORTED = re.compile(r"gpurun: rank (\d to \d): (.*): (\d+) messages, \d+ bytes")
EXPECTED = re.compile(r"expected: rank (\d to \d): (.*): (\d+)")


def path_of(text):
    found = [path for start, path in REASONS if start in text]
    return found[0] if found else text  # a path that no message should have taken


def main():
    gpurun, program, *options = sys.argv[1:]
    job = subprocess.run([gpurun, "-n", "2", "--device=cuda", "--oversubscribe", program, *options],
                         env={**os.environ, "GPURUN_REPORT": "paths"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=170, check=False)
    sys.stdout.write(job.stdout)
    if job.returncode != 0:
        return job.returncode
    took = collections.Counter()
    expected = collections.Counter()
    for line in job.stdout.splitlines():
        if match := REPORTED.search(line):
            took[match[1], path_of(match[2])] += int(match[3])
        elif match := EXPECTED.search(line):
            expected[match[1], match[2]] += int(match[3])
    if any(path == "unreachable" for _, path in took):  # then no device's memory is read by the other's
        for ends in {ends for ends, _ in expected}:
            expected[ends, "unreachable"] = expected.pop((ends, "direct"), 0) + expected.pop((ends, "bounce"), 0)
    wrong = [(key, expected[key], took[key]) for key in sorted(expected | took) if expected[key] != took[key]]
    for (ends, path), right, got in wrong:
        print(f"rank {ends}: {path}: expected {right} messages, reported {got}")
    return 1 if wrong or not expected else 0


sys.exit(main())
