"""The README's commands, word for word, in the order in which they stand there: each does what the README shows.

readme.py SOURCE BUILD: the commands run in a folder that looks like a clone after "./dev demo", whose build is BUILD.
What ./dev does is looked at, and not run: this test may be a part of it. Neither is what installs: it has tests of its
own. Calls of gpurun and man in sentences are run at night only (fresh_clone.py). Commands that use what is installed run
against the build, of which a gpurun.pc tells pkg-config.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import readme_commands as readme

SOURCE, BUILD = (Path(path).resolve() for path in sys.argv[1:3])
LIMIT_S = 170
INSTALLS = ("meson setup build-release && meson install -C build-release && sudo ldconfig",
            "meson setup build-release --prefix ~/.local",  # install_test.py and plain_build_test.py
            "pip install .", "gpurun -n 2 --device=emulated python -m gpurun.demo")  # tests/python/wheel_test.py


def check_words_of_dev(todo):
    """Returns the commands that are left."""
    known = re.findall(r"^  (\w+)", subprocess.run([SOURCE / "dev", "help"], capture_output=True, text=True,
                                                   check=True).stdout, re.M)
    for command in todo:
        if command.startswith("./dev "):
            assert command.split()[1] in known, f"dev help does not list: {command}"
    return [command for command in todo
            if not re.match(r"(\./dev|gpurun|gpurun-perf|man) ", command) and command not in INSTALLS]


def clone(folder):
    """The tracked files, and the build, as links."""
    for path in SOURCE.iterdir():
        if not path.name.startswith((".", "build")):
            (folder / path.name).symlink_to(path)
    (folder / "build").symlink_to(BUILD)
    readme.as_if_installed(folder / "pkgconfig", "build")


def check_demo(lines):
    """The transcript of ./dev demo shows examples that it runs, and how many they are."""
    said = (SOURCE / "dev").read_text(encoding="utf-8")
    examples = re.search(r"^examples=\((.*)\)$", said, re.M)[1].split()
    for line in lines:
        if line.startswith("$ build/examples"):
            assert line.split("/")[-1] in examples, line
    assert f"==> all {len(examples)} examples ran. Next: README.md, examples/, ./dev test" in lines, lines
    for name in examples:
        assert (BUILD / "examples" / name).exists(), f"{name} is not built"


def main():
    if os.path.exists("/proc/driver/nvidia/gpus"):
        print("skipped: the README shows a machine without a GPU")
        return 77
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    shown, todo = readme.behind_the_demo(readme.commands(text))
    check_demo(shown)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone(folder)
        for source in ("hello.c", "app.c"):
            (folder / source).write_text(readme.program(text), encoding="utf-8")
        todo += [(command, []) for command in check_words_of_dev(readme.other_commands(text))]
        wrong = readme.wrong_ones(todo, readme.run(folder, todo, LIMIT_S))
    print(f"{len(todo)} commands, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
