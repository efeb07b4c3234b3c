"""The example weights: a trainer's job, an engine's that is killed, and one that comes after it.

weights_test.py GPURUN WEIGHTS [DEVICE]
"""
import os
import subprocess
import sys
import tempfile

SECONDS = 100
GPURUN, WEIGHTS = map(os.path.abspath, sys.argv[1:3])
DEVICE = sys.argv[3] if len(sys.argv) > 3 else "emulated"


def start(ranks, *arguments):
    return subprocess.Popen([GPURUN, "-n", str(ranks), f"--device={DEVICE}", "--oversubscribe", WEIGHTS, *arguments],
                            env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def expect(job, status, text):
    out, error = job.communicate(timeout=SECONDS)
    if job.returncode != status or text not in out:
        TRAINER.kill()
        sys.exit(f"{job.args}: status {job.returncode}, {out!r}\n{error}")


with tempfile.TemporaryDirectory(prefix="gpurun-weights-") as folder:
    ENVIRONMENT = os.environ | {"XDG_RUNTIME_DIR": folder}
    for name in [name for name in ENVIRONMENT if name.startswith("GPURUN_")]:
        del ENVIRONMENT[name]
    ENVIRONMENT["GPURUN_LAUNCHER"] = GPURUN  # which is not beside the library yet
    TRAINER = start(2, "trainer", "12")
    expect(start(1, "engine", "5"), 128 + 9, "")
    expect(start(2, "engine", "9"), 128 + 9, "")
    expect(start(1, "engine"), 0, "engine: the weights of 3 steps")
    expect(TRAINER, 0, "trainer: 12 steps, and 2 engines were lost")
