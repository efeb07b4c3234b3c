"""Running gpurun under test: its exit status, what it prints, and that nothing stays behind.

A script's arguments are the paths of gpurun and, if it needs it, of wire_rank.
"""
import faulthandler
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import uuid

# Absolute, as some tests run them in other folders.
GPURUN, WIRE_RANK = ([os.path.abspath(path) for path in sys.argv[1:3]] + ["", ""])[:2]
LIMIT_S = 170  # a test that hangs says where, before Meson ends it
LONG_S = 60  # nothing here takes so long, unless it hangs
SOON_S = 20  # what is killed is gone by then, on a busy machine too

MARK = "GPURUN_TEST_MARK"
EMULATED = "--device=emulated"


def marked(mark):
    """The processes that were started with this mark in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass  # it ended meanwhile, or is not ours
    return found


def on_rank(rank, script, others="exec sleep 100"):
    """A program that is `script` on one rank."""
    return ("sh", "-c", f"if [ $GPURUN_RANK = {rank} ]; then {script}; else {others}; fi")


def readme_program(source, build, folder):
    """The program that README.md has its reader compile, compiled; and the transcripts there."""
    with open(f"{source}/README.md", encoding="utf-8") as file:
        blocks = re.findall(r"^```\w*\n(.*?)^```$", file.read(), re.S | re.M)
    program = f"{folder}/hello"
    libraries = f"{build}/runtime/api"
    subprocess.run(["cc", "-x", "c", "-", "-o", program, f"-I{source}/include", f"-I{build}/include", f"-L{libraries}",
                    f"-Wl,-rpath,{libraries}", "-lgpurun"], check=True, text=True,
                   input=next(block for block in blocks if "int main" in block))
    return program, [block for block in blocks if block.startswith("$ ")]


def described(pids):
    """What they are and what they wait in, for the text of a failure."""
    columns = "pid,ppid,stat,wchan:24,etimes,args"
    return subprocess.run(["ps", "-o", columns, "-p", ",".join(map(str, pids)) or "0"], capture_output=True, text=True,
                          check=False).stdout


def wait_until(condition, seconds=SOON_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def state_of(pid):
    """As /proc has it: S sleeps, R runs, T is stopped, Z has ended; "" if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def command_of(pid):
    """The name of its program, "" if it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def on_terminal(command, environment):
    """The command as the leader of a terminal's session. Returns its pid and the terminal's other end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment)
    # ^C and its like drop what is on its way, but after the signal: on a busy machine what that has caused, too.
    attributes = termios.tcgetattr(terminal)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    return pid, terminal


def own_cgroup():
    """The folder of this process's cgroup, if there is version 2."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split()[4] for line in file if " - cgroup2 " in line]
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        paths = [line[3:].strip() for line in file if line.startswith("0::/")]
    return mounts[0] + paths[0].rstrip("/") if mounts and paths else None


def cgroups_of(mark):
    """Of jobs that were started inside a job of this name."""
    folder = own_cgroup()
    names = os.listdir(folder) if folder and os.path.isdir(folder) else []
    return [name for name in names if name.startswith(f"gpurun-{mark}")]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shared_files():
    """In shared memory, but for those of Python's multiprocessing, which other tests use meanwhile."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("sem.", "psm_", "torch_"))}


class LaunchedTest(unittest.TestCase):
    """Each test ends with the check that nothing of it is left."""

    def setUp(self):
        self.mark = uuid.uuid4().hex
        self.temporary_files = tempfile.mkdtemp(prefix="gpurun-test-")
        self.shared_before = shared_files()
        self.addCleanup(self.check_nothing_left)

    def check_nothing_left(self):
        """No process, no temporary file, no shared memory, no cgroup."""
        processes_gone = wait_until(lambda: not marked(self.mark))
        left = marked(self.mark)
        what_is_left = described(left)
        for pid in left:
            os.kill(pid, 9)
        # TSan leaves such a file where a program is killed while it starts.
        files = [name for name in os.listdir(self.temporary_files) if not name.startswith("tsan.rodata.")]
        shutil.rmtree(self.temporary_files)
        self.assertTrue(processes_gone, f"left behind:\n{what_is_left}")
        self.assertEqual(files, [])
        self.assertTrue(wait_until(lambda: shared_files() <= self.shared_before), shared_files())
        self.assertTrue(wait_until(lambda: not cgroups_of(self.mark)), cgroups_of(self.mark))

    def environment(self):
        """By which what is started is known as this test's."""
        return {**os.environ, "TMPDIR": self.temporary_files, "GPURUN_JOB": self.mark, MARK: self.mark}

    def start(self, *arguments, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        environment = {**self.environment(), **options.pop("extra_env", {})}
        process = subprocess.Popen([GPURUN, *arguments], env=environment, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        for stream in (process.stdout, process.stderr, process.stdin):
            if stream and not stream.closed:
                stream.close()
        process.wait()

    def run_gpurun(self, *arguments, input_bytes=None, **options):
        """Exit status, stdout and stderr."""
        if input_bytes is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        try:
            out, error = process.communicate(input_bytes, timeout=LONG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"hangs: gpurun {arguments}")
        return process.returncode, out, (error or b"").decode()

    def check_own_line(self, text, *parts):
        """gpurun says one line, and these are in it."""
        self.assertEqual(text.count("\n"), 1, text)
        self.assertTrue(text.startswith("gpurun: "), text)
        for part in parts:
            self.assertIn(part, text)


def main():
    # Where tests run in the background these may be ignored, and gpurun leaves them so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    faulthandler.dump_traceback_later(LIMIT_S, repeat=True)  # with sanitizers Meson is more patient
    unittest.main(argv=sys.argv[:1])
