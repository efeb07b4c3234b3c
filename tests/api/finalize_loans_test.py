#!/usr/bin/env python3
"""finalize_loans_test.py GPURUN FINALIZE_LOANS: loans that are open in gpurun_finalize() end, and GPURUN_REPORT=loans
lists them."""
import os
import re
import subprocess
import sys

job = subprocess.run([sys.argv[1], "-n", "3", "--device=emulated:2", "--oversubscribe", sys.argv[2]],
                     env={**os.environ, "GPURUN_REPORT": "loans"}, capture_output=True, text=True, timeout=50)
lines = job.stderr.splitlines()
assert job.returncode == 0, job


def check(loans, lender, borrower):
    for tag, is_borrowed in loans:
        # The borrower may have given back in its gpurun_finalize() by the time that the lender calls it, and what nobody
        # has borrowed may be withdrawn.
        state = "(borrowed, and not given back|given back, and its request not completed)" if is_borrowed else \
            "not borrowed"
        lent = rf"gpurun: rank {lender} has lent 100000 bytes to rank {borrower}, tag {tag}, \d+\.\d s ago: {state}"
        borrowed = rf"gpurun: rank {borrower} has borrowed 100000 bytes of rank {lender}, tag {tag}, \d+\.\d s ago: " \
            "not given back"
        assert sum(bool(re.fullmatch(lent, line)) for line in lines) == 1, job.stderr
        assert sum(bool(re.fullmatch(borrowed, line)) for line in lines) == is_borrowed, job.stderr


assert sum(bool(re.fullmatch(r"gpurun: rank 0 has lent 100000 bytes to rank 2, tag 7, \d+\.\d s ago: given back, and "
                             "its request not completed", line)) for line in lines) == 1, job.stderr
assert sum(bool(re.fullmatch(r"gpurun: rank 2 has borrowed 100000 bytes of rank 0, tag 7, \d+\.\d s ago: a copy, not given "
                             "back", line)) for line in lines) == 1, job.stderr
assert lines.count("gpurun: rank 2 has read copies of 1 loans that it could not map, 100000 bytes") == 1, job.stderr
check([(tag, tag % 2 == 0) for tag in range(6)], 0, 1)
check([(0, True), (2, False)], 1, 2)
for rank in 1, 2:
    mapped = rf"gpurun: rank {rank} has 1 allocations of rank 0 mapped, \d+ bytes"
    assert sum(bool(re.fullmatch(mapped, line)) for line in lines) == 1, job.stderr
assert len(lines) == 17, job.stderr
