"""Processes that hand objects to each other: multiprocessing's names, safe when a process dies.

    from gpurun.multiprocessing import Process, Queue

    def square(into, out):
        out.put(into.get() ** 2)          # arrays and tensors go through shared memory

    if __name__ == "__main__":
        into, out = Queue(), Queue()
        Process(target=square, args=(into, out)).start()
        into.put(numpy.arange(1 << 20))
        print(out.get())

gpurun_multiprocessing(7) says what is promised, and compares it with torch.multiprocessing. The process needs no job;
gpurun.init() need not be called.
"""

from __future__ import annotations

from multiprocessing import active_children, cpu_count, current_process, parent_process

from ._pipes import Connection, Event, Pipe
from ._processes import (
    Process,
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
)
from ._queues import Empty, Full, Queue, SimpleQueue
from ._reducers import shared_empty

__all__ = [
    "Connection",
    "Empty",
    "Event",
    "Full",
    "Pipe",
    "Process",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "Queue",
    "SimpleQueue",
    "active_children",
    "cpu_count",
    "current_process",
    "parent_process",
    "shared_empty",
    "spawn",
]
