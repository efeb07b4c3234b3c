#!/usr/bin/env python3
"""many_loans.py GPURUN MANY_LOANS MOST_MAPPED ARGUMENTS: many loans, some of fresh memory. What is counted in the ranks
is in many_loans.c; here, that the borrower has at most so many of the allocations mapped in the end."""
import os
import re
import subprocess
import sys

gpurun, many_loans, most_mapped = sys.argv[1:4]
job = subprocess.run([gpurun, "-n", "2", "--device=emulated:2", "--oversubscribe", many_loans, *sys.argv[4:]],
                     env={**os.environ, "GPURUN_REPORT": "loans"}, capture_output=True, text=True, timeout=880)
print(job.stdout, job.stderr)
mapped = re.findall(r"has (\d+) allocations of rank \d+ mapped", job.stderr)
if job.returncode != 0 or any(int(each) > int(most_mapped) for each in mapped):
    sys.exit(1)
