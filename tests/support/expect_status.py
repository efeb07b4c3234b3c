#!/usr/bin/env python3
"""expect_status.py STATUS[,STATUS...] [--silent] [--says WORD]... -- COMMAND: its exit status, and what it prints."""
import subprocess
import sys


def main() -> int:
    own, command = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
    allowed = [int(status) for status in own[0].split(",")]
    words = [word for flag, word in zip(own[1:], own[2:]) if flag == "--says"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(result.stdout, end="")
    missing = [word for word in words if word not in result.stdout]
    if result.returncode not in allowed:
        print(f"exit status {result.returncode}, expected {own[0]}")
    if missing:
        print(f"nothing says {missing}")
    not_silent = "--silent" in own and result.stdout != ""
    if not_silent:
        print("that should not be said")
    return 1 if missing or not_silent or result.returncode not in allowed else 0


sys.exit(main())
