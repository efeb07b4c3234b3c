"""Runs the code of the notebook as its kernel would, without Jupyter: what each cell prints is what the page shows.

As a program, this puts it there.
"""
import json
import pathlib
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "examples/python/notebook.ipynb"

# In a process whose main program is in no file, as a kernel. Cells can be read by inspect, as IPython's can.
KERNEL = """
import contextlib, io, json, linecache, sys
names = sys.modules["__main__"].__dict__
printed = []
for number, source in enumerate(json.load(sys.stdin)):
    place = f"<cell {number}>"
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, place, "exec"), names)
    printed.append(out.getvalue())
print(json.dumps(printed))
"""

KILLED = """
from cluster import Cluster
ranks = Cluster(2)
ranks.run("import os, signal")
ranks.run("if comm.rank == 1: os.kill(os.getpid(), signal.SIGKILL)")
"""


def cells_of(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed_by(notebook):
    """What each cell prints."""
    sources = ["".join(cell["source"]) for cell in cells_of(notebook)]
    done = subprocess.run([sys.executable, "-c", KERNEL], cwd=PAGE.parent, stdout=subprocess.PIPE, input=json.dumps(sources),
                          text=True, check=True, timeout=100)
    return json.loads(done.stdout)


def test_the_notebook_prints_what_it_shows():
    notebook = json.loads(PAGE.read_text())
    for cell, printed in zip(cells_of(notebook), printed_by(notebook), strict=True):
        assert "".join("".join(output["text"]) for output in cell["outputs"]) == printed


def test_a_rank_that_is_killed_ends_its_cluster():
    with pytest.raises(subprocess.CalledProcessError) as raised:
        subprocess.run([sys.executable, "-c", KILLED], cwd=PAGE.parent, capture_output=True, text=True, check=True, timeout=100)
    assert "process 1 was ended by SIGKILL" in raised.value.stderr


def write():
    notebook = json.loads(PAGE.read_text())
    for number, (cell, printed) in enumerate(zip(cells_of(notebook), printed_by(notebook), strict=True), 1):
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": printed.splitlines(True)}] if printed else []
    PAGE.write_text(json.dumps(notebook, indent=1) + "\n")


if __name__ == "__main__":
    write()
