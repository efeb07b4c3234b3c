#!/usr/bin/env python3
"""shared_kernels_test.py GPURUN SHARED_KERNELS: small messages that are started back to back share kernels.

In the host's order, and in that of a stream in which nothing stands before them. What stands behind other work in its
stream goes alone.
"""
import os
import re
import subprocess
import sys

WINDOWS, MANY = 10, 64
ALL = WINDOWS * MANY
SOME = range(MANY, ALL)  # a row ends after 30 us, in which a busy machine may do little; its first sends go alone
NONE = 0
# In a stream, the first of a window are left until it is completed, and taken there by one kernel, which does not count.
LATER = ALL - 16 * WINDOWS
# Where they are started, settings, how many of those sent and of those received share kernels.
JOBS = [
    ("host", {}, ALL, ALL),
    ("idle", {}, SOME, LATER),
    ("busy", {}, NONE, NONE),
    ("idle", {"GPURUN_PROGRESS": "calls"}, NONE, LATER),
    ("idle", {"GPURUN_MAIL_BYTES": "0"}, NONE, NONE),
    ("idle", {"GPURUN_FENCE": "event"}, NONE, NONE),
    ("idle", {"GPURUN_PATH": "staged"}, NONE, NONE),
]
LINE = re.compile(r"small messages that shared kernels: (\d+) sent by (\d+), (\d+) received by (\d+)")


def is_right(mails, launches, expected):
    if isinstance(expected, range):
        return mails in expected and launches < mails
    return mails == expected and (launches < mails or mails == 0)


def main():
    gpurun, program = sys.argv[1:]
    wrong = 0
    for domain, settings, sent, received in JOBS:
        job = subprocess.run([gpurun, "-n", "2", "--device=emulated:2", program, domain],
                             env={**os.environ, **settings, "GPURUN_REPORT": "paths"}, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        totals = [sum(column) for column in zip(*[[int(word) for word in found] for found in LINE.findall(job.stdout)])]
        totals = totals or [0] * 4
        if job.returncode != 0 or not is_right(*totals[:2], sent) or not is_right(*totals[2:], received):
            wrong += 1
            print(f"{domain} {settings}: exit status {job.returncode}, expected {sent} sent, {received} received:",
                  job.stdout, sep="\n")
    return 1 if wrong else 0


sys.exit(main())
