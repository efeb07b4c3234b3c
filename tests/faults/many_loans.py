#!/usr/bin/env python3
"""many_loans.py GPURUN MANY_LOANS NUMBER: many loans, some of fresh memory. What is counted in the ranks is in
many_loans.c; here, that the borrower has none of the memory mapped in the end."""
import os
import re
import subprocess
import sys

MOST_MAPPED = 2  # what was freed last may not have been unmapped yet

gpurun, many_loans, number = sys.argv[1:]
job = subprocess.run([gpurun, "-n", "2", "--device=emulated:2", "--oversubscribe", many_loans, number],
                     env={**os.environ, "GPURUN_REPORT": "loans"}, capture_output=True, text=True, timeout=880)
print(job.stdout, job.stderr)
mapped = re.findall(r"has (\d+) allocations of rank \d+ mapped", job.stderr)
if job.returncode != 0 or any(int(each) > MOST_MAPPED for each in mapped):
    sys.exit(1)
