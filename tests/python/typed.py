"""What a typed program makes of the package; types_test.py lets mypy and pyright read it."""
from typing import Optional

import gpurun
from gpurun.multiprocessing import Event, Pipe, Process, Queue, spawn


async def exchange(comm: gpurun.Comm, data: bytearray) -> int:
    request: gpurun.Request = comm.irecv(data, source=0, tag=gpurun.ANY_TAG)
    comm.send(b"hello", dest=0, stream=gpurun.HOST)
    status = await request
    with gpurun.group():
        comm.allreduce(gpurun.IN_PLACE, data, gpurun.MAX, stream=gpurun.Stream())
    comm.sendrecv(b"1", 0, 5, data, 0)
    comm.sendrecv(b"1", 0, recvbuf=data)
    found: Optional[gpurun.Status] = comm.iprobe()
    return status.count if found is None else found.bytes


def started(index: int, queue: Queue, done: Event) -> None:
    queue.put({"index": index}, timeout=1.5)
    done.set()


def processes() -> None:
    queue, done = Queue(maxsize=3), Event()
    process = Process(target=started, args=(0, queue, done))
    process.start()
    spawn(started, (queue, done), nprocs=2)
    reader, writer = Pipe(duplex=False)
    writer.send(queue.get(timeout=1))
    print(reader.recv(), done.wait(0.5), process.exitcode)


def main() -> None:
    comm = gpurun.init()
    half = comm.split(comm.rank % 2)
    if half is not None:
        objects: list[object] = half.allgather_object({"rank": half.rank})
        print(len(objects), gpurun.device().name)
    request = comm.lend({"w": gpurun.Memory(8)}, dest=0, kind=gpurun.SHARED, metadata=b"")
    with comm.borrow(0) as tensors:
        print(len(tensors))
    request.wait()
    gpurun.Pool(1 << 20).lend(comm, {"w": comm}, dest=[0])
    both: gpurun.Comm = comm.accept("name", timeout=1.5)
    comm.connect("name").free()
    both.free()
    try:
        comm.recv(bytearray(1), timeout_does_not_exist=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    except gpurun.PeerLostError as error:
        print(error.status, error.rank)
