"""How fast messages are from Python: gpurun -n 2 python -m gpurun.bench

With --mpi4py, and started by mpiexec, it measures the same of mpi4py. Where PyTorch is installed, it measures
torch.distributed over gpurun and over Gloo as well, and on GPUs with CUDA tensors over NCCL, which needs a GPU for each
rank. With --queues, and started without gpurun, it measures gpurun.multiprocessing beside torch.multiprocessing. Times are
medians of 5 series, in microseconds; of messages, one way.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable, List, Optional, Tuple

SERIES = 5
shortened = 1  # by how much each series is, with --quick
Row = Tuple[str, float]


class Gpurun:
    """What the rows need, by gpurun."""

    def __init__(self) -> None:
        import gpurun

        comm = gpurun.init()
        self.name, self.rank, self.size = "gpurun", comm.rank, comm.size
        self.barrier = comm.barrier
        self.send: Callable[..., Any] = comm.send
        self.recv: Callable[..., Any] = comm.recv
        self.send_object: Callable[..., Any] = comm.send_object
        self.recv_object: Callable[..., Any] = comm.recv_object
        self.allreduce: Callable[..., Any] = comm.allreduce
        self.nobody = gpurun.PROC_NULL


class Mpi4py:
    """The same by mpi4py; objects by its pkl5, which sends buffers out of band."""

    def __init__(self) -> None:
        MPI: Any = import_module("mpi4py.MPI")
        pkl5: Any = import_module("mpi4py.util.pkl5")
        comm, objects = MPI.COMM_WORLD, pkl5.Intracomm(MPI.COMM_WORLD)
        self.name, self.rank, self.size = "mpi4py, " + MPI.Get_library_version().split("\n")[0][:40], comm.rank, comm.size
        self.barrier = comm.Barrier
        self.send, self.recv = comm.Send, comm.Recv
        self.send_object, self.recv_object = objects.send, lambda source: objects.recv(source=source)
        self.allreduce = comm.Allreduce
        self.nobody = MPI.PROC_NULL


def timed(once: Callable[[], Any], barrier: Callable[[], Any], calls: int) -> float:
    """The median time of a call, in microseconds."""
    calls = max(1, calls // shortened)
    times: List[float] = []
    for _ in range(SERIES + 1):
        barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            once()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times[1:])


def ping_pong(library: Any, send: Callable[[int], Any], recv: Callable[[int], Any], calls: int) -> float:
    def first() -> None:
        send(1)
        recv(1)

    def second() -> None:
        recv(0)
        send(0)

    def nothing() -> None:
        pass

    once = {0: first, 1: second}.get(library.rank, nothing)
    return timed(once, library.barrier, calls) / 2


def messages(library: Any) -> List[Row]:
    import numpy

    rows: List[Row] = []
    for name, size, calls in (("8 B", 8, 20000), ("64 KiB", 1 << 16, 2000), ("1 MiB", 1 << 20, 200)):
        data = numpy.zeros(size, "u1")
        one_way = ping_pong(library, lambda peer: library.send(data, peer), lambda peer: library.recv(data, peer), calls)
        rows.append((f"message of {name}", one_way))
    empty = numpy.zeros(1)
    rows.append(("a send to nobody: what a call costs", timed(lambda: library.send(empty, library.nobody), library.barrier, 20000)))
    objects = {"object of 1 KiB": b"x" * 1024, "object with 100 arrays": [numpy.zeros(1000) for _ in range(100)]}
    for name, obj in objects.items():
        rows.append((name, ping_pong(library, lambda peer: library.send_object(obj, peer), library.recv_object, 500)))
    for name, count, calls in (("8 B", 1, 5000), ("64 KiB", 1 << 13, 1000), ("1 MiB", 1 << 17, 100)):
        source, into = numpy.zeros(count), numpy.zeros(count)
        rows.append((f"all-reduce of {name}", timed(lambda: library.allreduce(source, into), library.barrier, calls)))
    return rows


def torch_rows(group: Any, device: str) -> List[Row]:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def per_call(once: Callable[[], Any], calls: int) -> float:
        """Of CUDA tensors, the time in which the device has done them, too."""
        def series() -> None:
            for _ in range(max(1, calls // shortened)):
                once()
            if device == "cuda":
                torch.cuda.synchronize()

        return timed(series, dist.barrier, 1) / max(1, calls // shortened)

    rows: List[Row] = []
    for name, count, calls in (("8 B", 2, 2000), ("64 KiB", 1 << 14, 500), ("1 MiB", 1 << 18, 100)):
        tensor = torch.zeros(count, device=device)
        rows.append((f"torch all_reduce of {name}", per_call(lambda: dist.all_reduce(tensor, group=group), calls)))
    torch.manual_seed(0)
    layers = [torch.nn.Linear(1024, 1024) for _ in range(6)]  # 25 MB of gradients
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device), process_group=group)
    inputs = torch.randn(4, 1024, device=device)

    def step() -> None:
        model(inputs).sum().backward()

    rows.append(("DDP step, 25 MB of gradients", per_call(step, 5)))
    return rows


def of_torch() -> None:
    import torch
    import torch.distributed as dist

    import gpurun

    from . import torch_backend

    torch_backend.register()
    torch.set_num_threads(1)
    dist.init_process_group("gpurun")
    ranks = dist.get_world_size()
    ours, theirs = torch_rows(None, "cpu"), torch_rows(dist.new_group(backend="gloo"), "cpu")
    if dist.get_rank() == 0:
        show(f"torch.distributed, CPU tensors, {ranks} ranks", ours, ("Gloo", theirs))
    if not gpurun.device().emulated and torch.cuda.is_available():
        torch.cuda.set_device(gpurun.device().ordinal)
        each_has_one = len(set(gpurun.COMM_WORLD.allgather_object(gpurun.device().uuid))) == ranks
        ours = torch_rows(None, "cuda")
        nccl = ("NCCL", torch_rows(dist.new_group(backend="nccl"), "cuda")) if each_has_one else None
        if dist.get_rank() == 0:
            show(f"torch.distributed, CUDA tensors, {ranks} ranks", ours, nccl)
    dist.destroy_process_group()


def of_queues() -> int:
    if find_spec("torch") is None:
        print("gpurun.bench --queues compares with PyTorch, which is not installed: pip install torch", file=sys.stderr)
        return 2
    from . import _queue_bench

    rows = _queue_bench.measure(shortened)
    show("CPU tensors through a SimpleQueue", [row[:2] for row in rows], ("torch", [(row[0], row[2]) for row in rows]))
    return 0


def show(title: str, rows: List[Row], beside: Optional[Tuple[str, List[Row]]] = None) -> None:
    print(f"{title:45} {'us':>10}" + (f" {beside[0]:>10} {'ratio':>6}" if beside else ""))
    for index, (name, value) in enumerate(rows):
        line = f"  {name:43} {value:10.2f}"
        if beside:
            other = beside[1][index][1]
            line += f" {other:10.2f} {value / other:6.2f}"
        print(line)


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpurun.bench", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--mpi4py", action="store_true", help="measure mpi4py; start it by mpiexec")
    parser.add_argument("--queues", action="store_true", help="measure queues beside PyTorch's; start it without gpurun")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the calls, to see that it works")
    chosen = parser.parse_args(arguments)
    global shortened
    shortened = 100 if chosen.quick else 1
    if chosen.queues:
        return of_queues()
    library: Any = Mpi4py() if chosen.mpi4py else Gpurun()
    if library.size < 2:
        print("gpurun.bench needs two ranks: gpurun -n 2 python -m gpurun.bench", file=sys.stderr)
        return 2
    rows = messages(library)
    if library.rank == 0:
        show(f"{library.name}, {library.size} ranks", rows)
    if not chosen.mpi4py and find_spec("torch") is not None:
        of_torch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
