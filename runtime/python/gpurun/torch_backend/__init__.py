"""The backend "gpurun" of torch.distributed: init_process_group("gpurun"), in a program that gpurun has started.

PyTorch finds it by itself where the package is installed. See gpurun_python(7).
"""

from __future__ import annotations

import zlib
from typing import Any

import torch.distributed as dist

import gpurun

from .backend import GpurunBackend


def create(options: Any, _: Any = None) -> GpurunBackend:
    """The backend of a group; what torch.distributed calls in every rank of it."""
    world = gpurun.init()
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    if max(ranks) >= world.size or ranks[options.group_rank] != world.rank:
        raise RuntimeError(
            f"the backend gpurun has rank {world.rank} of a job of {world.size} ranks, and torch.distributed rank "
            f"{ranks[options.group_rank]} of {max(ranks) + 1} or more: start the program with `gpurun -n RANKS python ...`, "
            "or, under torchrun, set GPURUN_JOB to a name that all ranks share, and under mp.spawn GPURUN_RANK and "
            "GPURUN_SIZE, too"
        )
    # Only the members call this, and several groups can be made at the same time: each has its own tag.
    tag = zlib.crc32(str(options.group_id).encode()) & 0xFFFF
    comm = world.create_group(world.get_group().include(ranks), tag)
    if comm is None:
        raise RuntimeError(f"rank {world.rank} is not in the group of {ranks}")
    comm.name = str(options.group_id)[:63]
    return GpurunBackend(comm, options.timeout)


def register() -> None:
    """Make the backend known to torch.distributed."""
    if "GPURUN" not in dist.Backend._plugins:
        dist.Backend.register_backend("gpurun", create, extended_api=True, devices=["cpu", "cuda"])
