"""A compiler warns where a result is ignored, unless it is cast to void, in every language that the header is for.

ignored_results_test.py BUILD-ROOT C-COMPILER C++-COMPILER: tries these, and clang where there is one.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

build, cc, cxx = sys.argv[1:]
SOURCE = Path(__file__).with_name("ignored_results.c")
ROOT = SOURCE.parents[2]
INCLUDES = [f"-I{ROOT}/include", f"-I{build}/include"]
LANGUAGES = {
    "c": ["c99", "gnu11", "gnu17", "c2x"],
    "c++": ["c++11", "c++14", "c++17", "c++20"],
}


def warned_of(compiler, language, standard):
    """The lines of which the compiler warns; it may say nothing else."""
    command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic-errors", *INCLUDES,
               "-c", str(SOURCE), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                          env=os.environ | {"LC_ALL": "C"})
    said = re.findall(r"^\S+?:(\d+):\d+: (?:warning|error|fatal error): (.*)$", done.stderr, re.M)
    others = [text for _, text in said if "-Wunused-result" not in text]
    if others or done.returncode != 0:
        return f"{' '.join(command)}: {done.stderr}"
    return sorted({int(line) for line, _ in said})


def main():
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    marks = {"c": r"/\* warned of \*/", "c++": r"/\* warned of"}
    failed = 0
    for language, own, clang in ("c", cc, "clang"), ("c++", cxx, "clang++"):
        wanted = [number for number, line in enumerate(lines, 1) if re.search(marks[language], line)]
        for compiler in [own] + ([clang] if shutil.which(clang) else []):
            for standard in LANGUAGES[language]:
                got = warned_of(compiler, language, standard)
                if got != wanted:
                    failed += 1
                    print(f"{compiler} -std={standard} warns of lines {got}, not {wanted}")
    return 1 if failed else 0


sys.exit(main())
