"""Runs checks of the repository: run.py ROOT [SENTENCE]. Exits 0, 1 (violations) or 77 (skipped)."""
import sys

sys.dont_write_bytecode = True

import formatting  # noqa: E402,F401  each module registers its checks
import layers  # noqa: E402,F401
import manual  # noqa: E402,F401
import packaging  # noqa: E402,F401
import shape  # noqa: E402,F401
from tree import CHECKS, Skip, Tree  # noqa: E402


def main(root, *sentences):
    tree = Tree(root)
    violations = 0
    for sentence in sentences or CHECKS:
        try:
            for violation in CHECKS[sentence](tree):
                print(violation)
                violations += 1
        except Skip as reason:
            print(f"skipped: {sentence}: {reason}")
            if sentences:
                return 77
    if violations:
        print(f"{violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
