"""mypy and pyright, both strict, read the package and a typed program: types_test.py PACKAGE PROGRAM."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def main(package, program):
    missing = [each for each in ("mypy", "pyright", "torch") if importlib.util.find_spec(each) is None]
    if missing:  # of the package, a part is written for torch
        print("skipped: not installed:", ", ".join(missing) + "; ./dev test --all installs them")
        return 77
    root = str(pathlib.Path(package).parent)
    environment = dict(os.environ, MYPYPATH=root)
    with tempfile.TemporaryDirectory() as folder:
        name = pathlib.Path(shutil.copy(program, folder)).name
        config = {"include": [name], "extraPaths": [root], "typeCheckingMode": "strict"}
        pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(config))
        commands = [
            ["mypy", "--strict", "--no-incremental", "-p", "gpurun"],
            ["mypy", "--strict", "--no-incremental", name],
            ["pyright", "--pythonpath", sys.executable],
        ]
        for command in commands:
            print("$", *command, flush=True)
            done = subprocess.run([sys.executable, "-m", *command], env=environment, check=False, cwd=folder)
            if done.returncode != 0:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
