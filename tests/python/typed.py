"""What a typed program makes of the package; types_test.py lets mypy and pyright read it."""
from typing import Optional

import gpurun


async def exchange(comm: gpurun.Comm, data: bytearray) -> int:
    request: gpurun.Request = comm.irecv(data, source=0, tag=gpurun.ANY_TAG)
    comm.send(b"hello", dest=0, stream=gpurun.HOST)
    status = await request
    with gpurun.group():
        comm.allreduce(gpurun.IN_PLACE, data, gpurun.MAX, stream=gpurun.Stream())
    found: Optional[gpurun.Status] = comm.iprobe()
    return status.count if found is None else found.bytes


def main() -> None:
    comm = gpurun.init()
    half = comm.split(comm.rank % 2)
    if half is not None:
        objects: list[object] = half.allgather_object({"rank": half.rank})
        print(len(objects), gpurun.device().name)
    try:
        comm.recv(bytearray(1), timeout_does_not_exist=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    except gpurun.PeerLostError as error:
        print(error.status, error.rank)
