"""The README's commands, word for word, in the order in which they stand there: each does what the README shows.

readme.py SOURCE BUILD: the commands run in a folder that looks like a clone after "./dev demo", whose build is BUILD.
What ./dev does is looked at, and not run: this test may be a part of it. Neither is what installs: it has tests of its
own. Commands that use what is installed run against the build, of which a gpurun.pc tells pkg-config.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, BUILD = (Path(path).resolve() for path in sys.argv[1:3])
LIMIT_S = 170
INSTALLS = ("meson setup build-release && meson install -C build-release && sudo ldconfig",
            "meson setup build-release --prefix ~/.local",  # install_test.py and plain_build_test.py
            "pip install .", "gpurun -n 2 --device=emulated python -m gpurun.demo")  # tests/python/wheel_test.py
MARK = "@@@ the next command"


def blocks(text):
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)


def commands(text):
    """(command, lines that it prints) of each."""
    found = []
    for language, block in blocks(text):
        if language != "console":
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
    return [(command, lines) for command, lines in found]


def other_commands(text):
    """Those without a transcript: in blocks for the shell, and in sentences."""
    lines = [line.split("  #")[0].strip() for language, block in blocks(text) if language == "sh"
             for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    inline = [code for code in re.findall(r"`([^`]+)`", prose) if re.match(r"(\./dev|meson|cc|pkg-config) ", code)]
    return [line for line in lines if line] + inline


def check_words_of_dev(todo):
    """Returns the commands that are left."""
    known = re.findall(r"^  (\w+)", subprocess.run([SOURCE / "dev", "help"], capture_output=True, text=True,
                                                   check=True).stdout, re.M)
    for command in todo:
        if command.startswith("./dev "):
            assert command.split()[1] in known, f"dev help does not list: {command}"
    return [command for command in todo if not command.startswith("./dev ") and command not in INSTALLS]


def pattern(lines):
    """What differs from run to run: process IDs, seconds that were waited, and what "..." stands for."""
    def of_line(line):
        if line == "...":
            return r"(?:.*\n)*?"
        text = re.sub(r"(?<=pid\\ )\d+", r"\\d+", re.escape(line))
        return re.sub(r"\d+\\\.\d\\ s(\\ )+", r" *\\d+\\.\\d s +", text) + r"\n"

    return re.compile("".join(map(of_line, lines)))


def is_shown(lines, output):
    """Whether the README shows this output. Ranks may print in another order than there."""
    printed = output.splitlines()
    if pattern(lines).fullmatch(output):
        return True
    if "..." in lines or len(printed) != len(lines):
        return False
    for line in lines:
        same = next((each for each in printed if pattern([line]).fullmatch(each + "\n")), None)
        if same is None:
            return False
        printed.remove(same)
    return True


def clone(folder):
    """The tracked files, and the build, as links."""
    for path in SOURCE.iterdir():
        if not path.name.startswith((".", "build")):
            (folder / path.name).symlink_to(path)
    (folder / "build").symlink_to(BUILD)
    (folder / "pkgconfig").mkdir()
    (folder / "pkgconfig/gpurun.pc").write_text(
        "Name: gpurun\nDescription: as if it were installed\nVersion: 0\nLibs: -Lbuild/runtime/api -lgpurun\n"
        "Cflags: -Iinclude -Ibuild/include\n", encoding="ascii")


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


def run(folder, todo):
    """(status, output) of each, in one shell, as one who reads on would have it."""
    script = "".join(f"{command}\nstatus=$?\necho; echo '{MARK}' $status; (exit $status)\n" for command, _ in todo)
    done = subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
                          env={**os.environ, "TERM": "dumb", "PKG_CONFIG_PATH": "pkgconfig"})
    parts = re.split(rf"\n?^{MARK} (\d+)\n", done.stdout, flags=re.M)
    return [(int(status), output) for output, status in zip(parts[::2], parts[1::2])]


def main():
    if os.path.exists("/proc/driver/nvidia/gpus"):
        print("skipped: the README shows a machine without a GPU")
        return 77
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    todo = commands(text)
    demo = [index for index, (command, _) in enumerate(todo) if command == "./dev demo"]
    assert demo == [0], "the tour begins with ./dev demo"
    # What it shows of the demo are commands of the demo's own.
    shown = next(index for index, (command, _) in enumerate(todo) if command.startswith("export PATH="))
    check_demo([line for command, lines in todo[:shown] for line in [f"$ {command}", *lines]])
    programs = [block for language, block in blocks(text) if language == "c" and "int main" in block]
    assert len(programs) == 1, "hello.c"
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone(folder)
        (folder / "hello.c").write_text(programs[0], encoding="utf-8")
        (folder / "app.c").write_text(programs[0], encoding="utf-8")
        todo = todo[shown:] + [(command, []) for command in check_words_of_dev(other_commands(text))]
        results = run(folder, todo)
        for index, (command, lines) in enumerate(todo):
            status, output = results[index] if index < len(results) else (-1, "did not run")
            well = is_shown(lines, output) if lines else status == 0
            print(f"{'ok  ' if well else 'FAIL'} $ {command}")
            if not well:
                print(f"     status {status}; printed:\n{output}     the README shows:\n" + "\n".join(lines))
                wrong += 1
    print(f"{len(todo)} commands, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
