"""Builds the wheel, installs it into an empty environment, and uses what it has there: wheel_test.py SOURCE.

It builds without CUDA, because that takes minutes less; what it tests does not depend on it.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import venv
import zipfile

NEEDED_FILES = ["gpurun/lib/libgpurun.so.0", "gpurun/include/gpurun/gpurun.h", "gpurun/__init__.py", "gpurun/py.typed",
                "gpurun/_core.pyi", "gpurun/torch_backend/__init__.py", "gpurun-0.1.0.data/scripts/gpurun"]

PROGRAM = r"""
#include <gpurun/gpurun.h>
int main(void) {
    return gpurun_init() != GPURUN_OK || gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST) != GPURUN_OK ||
           gpurun_finalize() != GPURUN_OK;
}
"""


def run(*command, **keywords):
    print("$", *command, flush=True)
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **keywords)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        sys.exit(f"failed with {done.returncode}")
    return done.stdout


def built(source, folder):
    """The wheel, of the files that git knows, or would know."""
    copy = folder / "source"
    copy.mkdir()
    known = subprocess.run(["git", "-C", source, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                           capture_output=True).stdout
    archive = subprocess.run(["tar", "-C", source, "-c", "-T", "-"], input=known, check=True, capture_output=True)
    subprocess.run(["tar", "-C", copy, "-x"], input=archive.stdout, check=True)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, "-Csetup-args=-Dcuda=disabled",
        "-Ccompile-args=-j2", copy)
    return next(folder.glob("gpurun-*.whl"))


def checked(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    missing = [name for name in NEEDED_FILES if name not in names]
    if missing:
        sys.exit(f"the wheel lacks {missing}; it has {names}")
    said = run(sys.executable, "-m", "auditwheel", "show", wheel)
    unwanted = [library for library in ("libcuda", "libcudart", "libtorch", "libnccl") if library in said]
    if unwanted:
        sys.exit(f"the wheel links {unwanted}")


def used(wheel, folder):
    """In an environment that has nothing else."""
    home = folder / "empty"
    venv.create(home, with_pip=True)
    python, gpurun = home / "bin/python", home / "bin/gpurun"
    run(python, "-m", "pip", "install", "--no-index", wheel)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_LIBRARY"))}
    said = run(gpurun, "-n", "2", "--device=emulated", python, "-m", "gpurun.demo", env=clean, cwd=folder)
    if "sum up to 3" not in said:
        sys.exit("the demo did not say what it computes")
    entry = "from importlib.metadata import entry_points as e; print(*e(group='torch.distributed.backends'))"
    if "gpurun.torch_backend:register" not in run(python, "-c", entry, env=clean, cwd=folder):
        sys.exit("PyTorch will not find the backend")

    (folder / "program.c").write_text(PROGRAM)
    include, library = run(python, "-c", "import gpurun; print(gpurun.get_include(), gpurun.get_library())", env=clean,
                           cwd=folder).split()
    run("cc", "-I", include, "program.c", library, f"-Wl,-rpath,{os.path.dirname(library)}", "-o", "program",
        cwd=folder)
    run(gpurun, "-n", "2", "--device=emulated", "./program", env=clean, cwd=folder)


def main(source):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = built(source, folder)
        checked(wheel)
        used(wheel, folder)


if __name__ == "__main__":
    main(sys.argv[1])
