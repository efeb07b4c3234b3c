"""gpurun -n 2 --device=emulated python -m gpurun.demo: what a first program does."""

from __future__ import annotations

import array
import sys

import gpurun


def main() -> int:
    comm = gpurun.init()
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size

    greeting = comm.sendrecv(bytes([comm.rank]), right, recvbuf=(got := bytearray(1)), source=left)
    if got[0] != left or greeting.source != left:
        raise RuntimeError(f"rank {comm.rank}: expected {left} from its left neighbour, and got {got[0]}")

    numbers = array.array("d", [comm.rank + 1.0] * 1000)
    comm.allreduce(gpurun.IN_PLACE, numbers)
    expected = comm.size * (comm.size + 1) / 2
    if any(number != expected for number in numbers):
        raise RuntimeError(f"rank {comm.rank}: the sum of all ranks is {numbers[0]}, and should be {expected}")

    devices = comm.gather_object(gpurun.device().name)
    if devices is not None:
        for rank, name in enumerate(devices):
            print(f"rank {rank} of {comm.size} has {name}")
        print(f"a message went around the ring, and the ranks agree that their numbers sum up to {expected:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
