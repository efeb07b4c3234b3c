"""How fast tensors go through a queue, beside torch.multiprocessing: python -m gpurun.bench --queues

Each time is from put() until the other process has touched every page of the tensor and said so through a pipe, which is
the same for both. Medians of series that take turns.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

PAGE_BYTES = 4096
SIZES = (("1 B", 1), ("1 KiB", 1 << 10), ("64 KiB", 1 << 16), ("1 MiB", 1 << 20), ("16 MiB", 1 << 24), ("64 MiB", 1 << 26))
SERIES = 5


def consume(queue: Any, done: Any) -> None:
    import torch

    torch.set_num_threads(1)
    while True:
        tensor = queue.get()
        if tensor is None:
            return
        int(tensor[::PAGE_BYTES].sum())
        del tensor
        done.send_bytes(b"x")


class Peer:
    """A queue, and a process that takes from it."""

    def __init__(self, library: Any) -> None:
        import multiprocessing

        self.done, done = multiprocessing.Pipe()
        self.queue = library.SimpleQueue()
        self.process = library.Process(target=consume, args=(self.queue, done), daemon=True)
        self.process.start()
        done.close()

    def times(self, make: Callable[[], Any], calls: int) -> List[float]:
        """In microseconds."""
        found: List[float] = []
        for _ in range(calls):
            tensor = make()
            begin = time.perf_counter()
            self.queue.put(tensor)
            self.done.recv_bytes()
            found.append((time.perf_counter() - begin) * 1e6)
        return found

    def end(self) -> None:
        self.queue.put(None)
        self.process.join()


def measure(shortened: int) -> List[Tuple[str, float, float]]:
    """Rows of a name, and the medians of both in microseconds."""
    import torch.multiprocessing

    import gpurun.multiprocessing

    torch.set_num_threads(1)
    ours, theirs = Peer(gpurun.multiprocessing), Peer(torch.multiprocessing.get_context("spawn"))
    rows: List[Tuple[str, float, float]] = []
    for name, size in SIZES:
        source: Any = torch.ones(size, dtype=torch.uint8)
        shared = source.clone().share_memory_()
        for kind, make in {"fresh": source.clone, "already shared": lambda: shared}.items():
            calls = max(1, min(200, (1 << 30) // size) // shortened)
            times: Dict[Peer, List[float]] = {ours: [], theirs: []}
            for series in range(SERIES + 1):
                for peer, found in times.items():
                    one = peer.times(make, calls)
                    found += one if series else []
            rows.append((f"tensor of {name}, {kind}", statistics.median(times[ours]), statistics.median(times[theirs])))
    ours.end()
    theirs.end()
    return rows
