"""A test with a runtime folder of its own, whose processes are ended with it. The script's first argument is gpurun."""
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

SETTINGS = ("GPURUN_", "RANK", "WORLD_SIZE", "OMPI_", "SLURM_", "PMI_", "PMIX_", "TORCHELASTIC_")  # of launchers, this test's own among them


class OwnFolderTest(unittest.TestCase):
    seconds = 60  # nothing takes longer, even on a busy machine
    variables = {}  # of every process

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix=f"gpurun-{type(self).__name__.lower()}-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.place = Path(self.folder) / "gpurun"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        self.environment |= {"XDG_RUNTIME_DIR": self.folder, "GPURUN_LAUNCHER": os.path.abspath(sys.argv[1]),
                             **self.variables}
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                self.kill(process)
            process.communicate()
        self.check_nothing_left()

    def kill(self, process):
        process.kill()

    def check_nothing_left(self):
        self.until(lambda: not os.listdir(self.folder), lambda: f"left: {list(Path(self.folder).rglob('*'))}")

    def until(self, condition, what):
        deadline = time.monotonic() + self.seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(what() if callable(what) else what)
            time.sleep(0.01)

    def supervisors(self):
        """Processes of gpurun --supervise whose folder is ours."""
        mine = f"XDG_RUNTIME_DIR={self.folder}".encode()
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if b"--supervise" in (each / "cmdline").read_bytes() and mine in (each / "environ").read_bytes():
                    found.append(int(each.name))
            except OSError:
                pass
        return sorted(found)
