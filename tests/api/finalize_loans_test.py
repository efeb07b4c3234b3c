#!/usr/bin/env python3
"""finalize_loans_test.py GPURUN FINALIZE_LOANS: loans that are open in gpurun_finalize() end, and GPURUN_REPORT=loans
lists them."""
import os
import re
import subprocess
import sys

job = subprocess.run([sys.argv[1], "-n", "2", "--device=emulated:2", "--oversubscribe", sys.argv[2]],
                     env={**os.environ, "GPURUN_REPORT": "loans"}, capture_output=True, text=True, timeout=50)
lines = job.stderr.splitlines()
assert job.returncode == 0, job
for tag in range(6):
    # Rank 1 may have given back in its gpurun_finalize() by the time that rank 0 calls it.
    state = "(borrowed, and not given back|given back, and its request not completed)" if tag % 2 == 0 else "not borrowed"
    lent = rf"gpurun: rank 0 has lent 100000 bytes to rank 1, tag {tag}, \d+\.\d s ago: {state}"
    borrowed = rf"gpurun: rank 1 has borrowed 100000 bytes of rank 0, tag {tag}, \d+\.\d s ago: not given back"
    assert sum(bool(re.fullmatch(lent, line)) for line in lines) == 1, job.stderr
    assert sum(bool(re.fullmatch(borrowed, line)) for line in lines) == (1 if tag % 2 == 0 else 0), job.stderr
mapped = r"gpurun: rank 1 has 1 allocations of rank 0 mapped, \d+ bytes"
assert sum(bool(re.fullmatch(mapped, line)) for line in lines) == 1, job.stderr
assert len(lines) == 10, job.stderr
