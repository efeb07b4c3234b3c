"""The trace that overlap writes is one that viewers can read, and holds every piece of every step of every rank.

trace_test.py GPURUN OVERLAP
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS, STEPS = 3, 4
PIECES = {"inside": 0, "halos": 1, "rim": 0}  # by stream, as the trace numbers them

gpurun, overlap = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "trace.json"
    subprocess.run([gpurun, "-n", str(RANKS), "--device=emulated", overlap, "--size", "100", "--steps", str(STEPS),
                    "--output", path], check=True, timeout=60)
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]

pieces = {(event["pid"], event["args"]["step"], event["name"]): event for event in events if event["ph"] == "X"}
assert pieces.keys() == {(rank, step, name) for rank in range(RANKS) for step in range(1, STEPS + 1)
                         for name in PIECES}, sorted(pieces)
for (_, _, name), event in pieces.items():
    assert event["tid"] == PIECES[name] and event["ts"] >= 0 and event["dur"] >= 0, event
named = {(event["pid"], event["args"]["name"]) for event in events if event["ph"] == "M"}
assert named == {(rank, name) for rank in range(RANKS) for name in (f"rank {rank}", "compute", "halos")}, named
for rank in range(RANKS):
    for step in range(1, STEPS + 1):
        rim = pieces[rank, step, "rim"]
        for before in (pieces[rank, step, "halos"], pieces[rank, step, "inside"]):
            assert before["ts"] + before["dur"] <= rim["ts"] + 0.002, (before, rim)  # both are rounded
