"""mypy and pyright, both strict, read the package and a typed program: types_test.py PACKAGE PROGRAM."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def main(package, program):
    if importlib.util.find_spec("mypy") is None or importlib.util.find_spec("pyright") is None:
        print("skipped: mypy and pyright are not installed; ./dev test --all installs them")
        return 77
    root = str(pathlib.Path(package).parent)
    config = pathlib.Path(tempfile.mkdtemp()) / "pyrightconfig.json"
    config.write_text(json.dumps({"include": [program], "extraPaths": [root], "typeCheckingMode": "strict"}))
    environment = dict(os.environ, MYPYPATH=root)
    commands = [
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "-p", "gpurun"],
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", program],
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(config)],
    ]
    for command in commands:
        print("$", *command, flush=True)
        done = subprocess.run(command, env=environment, check=False, cwd=root)
        if done.returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
