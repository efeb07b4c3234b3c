"""Formatting is clang-format 14's: other versions differ in details, so they are not asked."""
import re
import shutil
import subprocess

from tree import C_SOURCES, Skip, Violation, check

VERSION = "14"


def clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program:
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            if re.search(rf"version {VERSION}\.", version):
                return program
    raise Skip(f"needs clang-format {VERSION} (Debian: clang-format-{VERSION})")


@check
def sources_are_formatted(tree):
    program = clang_format()
    paths = [path for path in tree.paths if path.endswith(C_SOURCES)]
    if not paths:
        return
    said = subprocess.run([program, "--dry-run", *paths], cwd=tree.root, capture_output=True, text=True, check=False)
    places = re.findall(r"^(\S+?):(\d+):\d+: (?:warning|error):", said.stderr, re.M)
    for path, line in sorted({(path, int(line)) for path, line in places}):
        yield Violation(path, line, "is not formatted; run ./dev format")
