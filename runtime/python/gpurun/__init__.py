"""gpurun: message passing between processes and their GPUs, ordered with their streams.

    import gpurun, numpy
    comm = gpurun.init()
    comm.send(numpy.arange(4.0), dest=(comm.rank + 1) % comm.size)

`gpurun -n 4 python program.py` starts the ranks. gpurun_python(7) has the model, and a table for those who port from
mpi4py.
"""

from __future__ import annotations

from . import _core
from ._core import (
    ANY_SOURCE,
    ANY_TAG,
    AVG,
    BAND,
    BOR,
    BXOR,
    COMM_SELF,
    COMM_WORLD,
    HOST,
    IN_PLACE,
    LAND,
    LOR,
    LXOR,
    MAX,
    MIN,
    PROC_NULL,
    PROD,
    SPLIT_GPU,
    SPLIT_NODE,
    SPLIT_NUMA_NODE,
    SUM,
    Comm,
    Device,
    Memory,
    Message,
    RankGroup,
    Request,
    Status,
    Stream,
    copy,
    device,
    dims_create,
    group,
    waitall,
    wtime,
)
from ._errors import (
    ArgumentError,
    CollectiveError,
    DeviceError,
    Error,
    JobError,
    OutOfMemoryError,
    PeerLostError,
    StateError,
    TruncatedError,
    UnsupportedError,
)
from ._job import abort, finalize, get_include, get_library, init, is_finalized, is_initialized
from ._waiting import waitany, waitsome
from . import _objects as _objects  # gives Comm its methods for objects

__version__ = "{}.{}.{}".format(*_core.version())
__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "AVG",
    "ArgumentError",
    "BAND",
    "BOR",
    "BXOR",
    "COMM_SELF",
    "COMM_WORLD",
    "CollectiveError",
    "Comm",
    "Device",
    "DeviceError",
    "Error",
    "HOST",
    "IN_PLACE",
    "JobError",
    "LAND",
    "LOR",
    "LXOR",
    "MAX",
    "MIN",
    "Memory",
    "Message",
    "OutOfMemoryError",
    "PROC_NULL",
    "PROD",
    "PeerLostError",
    "RankGroup",
    "Request",
    "SPLIT_GPU",
    "SPLIT_NODE",
    "SPLIT_NUMA_NODE",
    "SUM",
    "StateError",
    "Status",
    "Stream",
    "TruncatedError",
    "UnsupportedError",
    "abort",
    "copy",
    "device",
    "dims_create",
    "finalize",
    "get_include",
    "get_library",
    "group",
    "init",
    "is_finalized",
    "is_initialized",
    "waitall",
    "waitany",
    "waitsome",
    "wtime",
]

