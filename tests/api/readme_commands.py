"""The commands of README.md, their transcripts, and a shell that runs them in the order in which they stand there."""
import os
import re
import subprocess

MARK = "@@@ the next command"
INLINE = r"(\./dev|meson|cc|pkg-config|gpurun|gpurun-perf|man) "


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
    """Those without a transcript: in blocks for the shell, and in sentences. Each once."""
    lines = [line.split("  #")[0].strip() for language, block in blocks(text) if language == "sh"
             for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return list(dict.fromkeys([line for line in lines if line] + [code for code in inline if re.match(INLINE, code)]))


def program(text):
    """The one that the README has its reader compile."""
    programs = [block for language, block in blocks(text) if language == "c" and "int main" in block]
    assert len(programs) == 1, "hello.c"
    return programs[0]


def behind_the_demo(todo):
    """What ./dev demo shows, which are commands of the demo's own, and the commands that follow it."""
    demo = [index for index, (command, _) in enumerate(todo) if command == "./dev demo"]
    assert demo == [0], "the tour begins with ./dev demo"
    shown = next(index for index, (command, _) in enumerate(todo) if command.startswith("export PATH="))
    return [line for command, lines in todo[:shown] for line in [f"$ {command}", *lines]][1:], todo[shown:]


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


def as_if_installed(folder, build):
    """A gpurun.pc in `folder` that tells of the build."""
    folder.mkdir()
    (folder / "gpurun.pc").write_text(
        f"Name: gpurun\nDescription: as if it were installed\nVersion: 0\nLibs: -L{build}/runtime/api -lgpurun\n"
        f"Cflags: -Iinclude -I{build}/include\n", encoding="ascii")


def run(folder, todo, limit_s, **settings):
    """(status, output) of each, in one shell, as one who reads on would have it."""
    script = "".join(f"{command}\nstatus=$?\necho; echo '{MARK}' $status; (exit $status)\n" for command, _ in todo)
    done = subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=limit_s, check=False,
                          env={**os.environ, "TERM": "dumb", "PKG_CONFIG_PATH": "pkgconfig", **settings})
    parts = re.split(rf"\n?^{MARK} (\d+)\n", done.stdout, flags=re.M)
    return [(int(status), output) for output, status in zip(parts[::2], parts[1::2])]


def wrong_ones(todo, results):
    """Prints how each went, and returns how many do not do what the README shows."""
    wrong = 0
    for index, (command, lines) in enumerate(todo):
        status, output = results[index] if index < len(results) else (-1, "did not run")
        well = is_shown(lines, output) if lines else status == 0
        print(f"{'ok  ' if well else 'FAIL'} $ {command}")
        if not well:
            print(f"     status {status}; printed:\n{output}     the README shows:\n" + "\n".join(lines))
            wrong += 1
    return wrong
