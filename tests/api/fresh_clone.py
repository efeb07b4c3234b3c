"""The README in a fresh clone: ./dev demo, then all of its commands on what that has built, word for word.

fresh_clone.py SOURCE: what changed there since the last commit is put into the clone. The compiler's cache is off, so
that the time of the demo is that of a stranger. Where the README means a machine with GPUs, emulated devices stand for
them: a gpurun before the built one in PATH asks for four. What is not run says why.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import readme_commands as readme

SOURCE = Path(sys.argv[1]).resolve()
DEMO_LIMIT_S = 3000
TOUR_LIMIT_S = 600
NOT_RUN = {
    "./dev demo": "has been run",
    "./dev test": "this test is a part of it",
    "./dev package": "the test of tests/package does it",
    "./dev tarball": "the test of tests/package does it",
    "meson setup build-release && meson install -C build-release && sudo ldconfig":
        "installs: plain_build_test.py and install_test.py do it",
    "meson setup build-release --prefix ~/.local": "installs: plain_build_test.py and install_test.py do it",
    "pip install .": "installs: tests/python/wheel_test.py does it",
    "gpurun -n 2 --device=emulated python -m gpurun.demo": "needs the wheel: tests/python/wheel_test.py does it",
    "gpurun --hosts a:4,b:4 ./hello": "there are no hosts a and b: tests/jobs/launcher/nodes.py has hosts",
    "gpurun --hosts a:4,b:4 ./app": "there are no hosts a and b: tests/jobs/launcher/nodes.py has hosts",
    "gpurun -n 4 --debug 2 ./app": "needs somebody who types: tests/jobs/launcher/debuggers.py does",
}
STAND_IN = """#!/bin/sh
# Emulated devices in place of the four GPUs of a machine.
exec {gpurun} --device=emulated:4 "$@"
"""


def git(*words):
    return subprocess.run(["git", "-C", SOURCE, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def clone(folder):
    git("clone", "--quiet", "--no-hardlinks", SOURCE, folder)
    changed = git("diff", "--name-only", "-z", "HEAD") + git("ls-files", "--others", "--exclude-standard", "-z")
    for name in filter(None, changed.split("\0")):
        (folder / name).unlink(missing_ok=True)
        if (SOURCE / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, folder / name, follow_symlinks=False)


def run_demo(folder, shown):
    """Returns whether it does what the README shows; ends this test where it cannot run."""
    start = time.monotonic()
    done = subprocess.run(["./dev", "demo"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=DEMO_LIMIT_S, check=False,
                          env={**os.environ, "CCACHE_DISABLE": "1", "GPURUN_DEV_UNDER_TEST": "yes"})
    if done.returncode == 77:
        print(done.stdout)
        sys.exit(77)
    well = done.returncode == 0 and readme.is_shown(shown, done.stdout)
    print(f"{'ok  ' if well else 'FAIL'} $ ./dev demo: {time.monotonic() - start:.0f} s on {os.cpu_count()} CPUs, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)
    if not well:
        print(done.stdout)
    return well


def prepare(folder, text):
    """What the sentences of the README take for granted: programs, pages that man finds, and GPUs."""
    for source in ("hello.c", "app.c"):
        (folder / source).write_text(readme.program(text), encoding="utf-8")
    readme.as_if_installed(folder / "pkgconfig", "build")
    for page in (folder / "man").glob("gpurun*.[1-8]"):
        section = folder / f"installed/man/man{page.suffix[1:]}"
        section.mkdir(parents=True, exist_ok=True)
        (section / page.name).symlink_to(page)
    stand_in = folder / "installed/bin/gpurun"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(gpurun=folder / "build/launcher/gpurun"), encoding="ascii")
    stand_in.chmod(0o755)


def run_sentences(folder, todo):
    """Behind the tour, whose programs they use."""
    (folder / "there").mkdir()
    for place in ("there/a", "a", "b"):
        shutil.copy(folder / "hello", folder / place)
    path = f"{folder}/installed/bin:{folder}/build/tests/bench:{os.environ['PATH']}"
    results = readme.run(folder, todo, TOUR_LIMIT_S, PATH=path, MANPATH=str(folder / "installed/man"),
                         LD_LIBRARY_PATH=str(folder / "build/runtime/api"))
    return readme.wrong_ones(todo, results)


def main():
    if os.path.exists("/proc/driver/nvidia/gpus"):
        print("skipped: the README shows a machine without a GPU")
        return 77
    if not shutil.which("git") or not (SOURCE / ".git").exists():
        print("skipped: there is nothing to clone")
        return 77
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    shown, tour = readme.behind_the_demo(readme.commands(text))
    others = [(command, []) for command in readme.other_commands(text) if command not in NOT_RUN]
    for command in NOT_RUN:
        assert command in readme.other_commands(text), f"the README does not have: {command}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "gpurun"
        clone(folder)
        if not run_demo(folder, shown):
            return 1
        prepare(folder, text)
        wrong = readme.wrong_ones(tour, readme.run(folder, tour, TOUR_LIMIT_S))
        wrong += run_sentences(folder, others)
    for command, why in NOT_RUN.items():
        print(f"not run $ {command}: {why}")
    print(f"{len(tour) + len(others)} commands, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
