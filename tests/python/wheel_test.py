"""Builds the wheel, installs it into an empty environment, and uses what it has there: wheel_test.py SOURCE.

Where Python 3.12 or later is on the PATH, it does the same with the wheel of the stable ABI.

It builds without CUDA, because that takes minutes less; what it tests does not depend on it.
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

NEEDED_FILES = ["gpurun/lib/libgpurun.so.0", "gpurun/include/gpurun/gpurun.h", "gpurun/__init__.py", "gpurun/py.typed",
                "gpurun/_core.pyi", "gpurun/torch_backend/__init__.py", "gpurun/multiprocessing/_memory.py", "gpurun-0.1.0.data/scripts/gpurun"]

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


def copied(source, folder):
    """The files that git knows, or would know."""
    copy = folder / "source"
    copy.mkdir()
    known = subprocess.run(["git", "-C", source, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                           capture_output=True).stdout
    archive = subprocess.run(["tar", "-C", source, "-c", "-T", "-"], input=known, check=True, capture_output=True)
    subprocess.run(["tar", "-C", copy, "-x"], input=archive.stdout, check=True)
    return copy


def built(python, copy, folder, *options):
    folder.mkdir()
    run(python, "-m", "pip", "wheel", "--no-deps", "-w", folder, "-Csetup-args=-Dcuda=disabled",
        *(f"-Csetup-args={option}" for option in options), "-Ccompile-args=-j2", copy)
    return next(folder.glob("gpurun-*.whl"))


def interpreters_of_the_stable_abi():
    """Python 3.12 and later on this machine, the oldest first."""
    program = "import sys, sysconfig, venv; sys.exit(bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
    names = filter(None, (shutil.which(f"python3.{minor}") for minor in range(12, 20)))
    return [name for name in names if subprocess.run([name, "-c", program], check=False, capture_output=True).returncode == 0]


def one_for_all(copy, folder):
    """The wheel of the stable ABI, built by the oldest interpreter and used by each."""
    pythons = interpreters_of_the_stable_abi()
    if not pythons:
        print("no Python 3.12 or later here: the wheel of the stable ABI is not tested")
        return
    builder = folder / "builder"
    run(pythons[0], "-m", "venv", builder)
    wheel = built(builder / "bin/python", copy, folder / "stable", "-Dpython.allow_limited_api=true")
    if "-abi3-" not in wheel.name:
        sys.exit(f"{wheel.name} is not of the stable ABI")
    for number, python in enumerate(pythons):
        used(python, wheel, folder / f"stable-{number}")


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


def used(interpreter, wheel, folder):
    """In an environment that has nothing else."""
    folder.mkdir()
    home = folder / "empty"
    run(interpreter, "-m", "venv", home)
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
    if importlib.util.find_spec("auditwheel") is None:
        print("skipped: auditwheel is not installed; ./dev test --all installs it")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = copied(source, folder)
        wheel = built(sys.executable, copy, folder / "own")
        checked(wheel)
        used(sys.executable, wheel, folder / "used")
        one_for_all(copy, folder)


if __name__ == "__main__":
    main(sys.argv[1])
