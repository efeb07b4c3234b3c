"""A pipeline: each rank is a stage, and batches go from rank to rank: gpurun -n 3 python pipeline.py

While a stage computes one batch, the next one is on its way: two receives are always started. The last rank checks what
comes out.
"""
import asyncio

import numpy

import gpurun

BATCHES, LENGTH = 20, 10_000


def stage(rank, batch):
    return batch * 2 + rank


async def batches(comm):
    """What comes in from the stage before, or the data itself."""
    if comm.rank == 0:
        for number in range(BATCHES):
            yield numpy.full(LENGTH, float(number))
        return
    buffers = [numpy.empty(LENGTH) for _ in range(2)]
    started = [comm.irecv(buffer, comm.rank - 1) for buffer in buffers]
    for number in range(BATCHES):
        slot = number % 2
        await started[slot]
        yield buffers[slot].copy()
        if number + 2 < BATCHES:
            started[slot] = comm.irecv(buffers[slot], comm.rank - 1)


async def run(comm):
    sent = []
    number = 0
    async for batch in batches(comm):
        result = stage(comm.rank, batch)
        if comm.rank + 1 < comm.size:
            sent.append(comm.isend(result, comm.rank + 1))  # the request keeps the array
        else:
            expected = float(number)
            for rank in range(comm.size):
                expected = stage(rank, expected)
            assert (result == expected).all(), f"batch {number}: {result[0]} in place of {expected}"
        number += 1
    for request in sent:
        await request


def main():
    comm = gpurun.init()
    asyncio.run(run(comm))
    comm.barrier()
    if comm.rank == 0:
        print(f"{BATCHES} batches went through {comm.size} stages")


if __name__ == "__main__":
    main()
