"""The repository as the checks see it: its files, and a register of the checks.

A check is a function that is named as a sentence, takes a Tree and yields a Violation for each place that breaks it.
It may raise Skip where a tool that it needs is missing. self_test.py holds, for each, a sample that it must reject.
"""
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHECKS = {}


def check(function):
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


class Skip(Exception):
    pass


@dataclass(frozen=True)
class Violation:
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


class Tree:
    def __init__(self, root):
        self.root = Path(root)
        self.paths = sorted(self._from_git() or self._from_disk())
        self._texts = {}

    def _from_git(self):
        """Files that git knows, or would know; nothing where this is no work tree, or git is missing."""
        if not (self.root / ".git").exists():
            return []
        command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        try:
            listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return []
        return [path for path in listed.split("\0") if path and (self.root / path).is_file()]

    def _from_disk(self):
        found = []
        for folder, folders, files in os.walk(self.root):
            made = (".git", ".cache", "__pycache__")
            folders[:] = [name for name in folders if not name.startswith("build") and name not in made]
            found += [(Path(folder) / name).relative_to(self.root).as_posix() for name in files]
        return found

    def text(self, path):
        """What is in a file; "" if there is none, so that each check says what it misses there."""
        if path not in self._texts:
            file = self.root / path
            self._texts[path] = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        return self._texts[path]

    def lines(self, path):
        """(number, line) from 1 on."""
        return enumerate(self.text(path).splitlines(), 1)

    def under(self, *folders, ends=()):
        """Paths in any of the folders ("runtime/") that end in one of the suffixes."""
        return [path for path in self.paths
                if path.startswith(folders) and (not ends or path.endswith(tuple(ends)))]


C_SOURCES = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh")


def line_of(text, position):
    return text.count("\n", 0, position) + 1
