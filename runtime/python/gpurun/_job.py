"""Joining the job and leaving it."""

from __future__ import annotations

import atexit
import os
import sys

from . import _core
from ._core import Comm

_HERE = os.path.dirname(os.path.realpath(__file__))


def init() -> Comm:
    """Join the job, and return the communicator of all its ranks. Later calls return it, too.

    Returns once all ranks have called it. A process that gpurun did not start becomes the only rank of its own job. At
    the end of the program the rank leaves by itself, unless an exception ends it.
    """
    if not _core.initialized():
        if "GPURUN_ERRORS" not in os.environ:
            _core.errors_return()  # exceptions say it
        _core.init()
        atexit.register(_leave)
    return _core.COMM_WORLD


def finalize() -> None:
    """Leave the job. Waits until all ranks have, and until this rank's messages have moved."""
    _core.finalize()


def _leave() -> None:
    if _core.finalized() or os.getpid() != _pid:
        return
    if hasattr(sys, "last_type"):  # an exception ends the program: gpurun tells those who wait for this rank
        _core.stop_waiting()
    else:
        _core.finalize()


_pid = os.getpid()


def abort(code: int = 1) -> None:
    """End the whole job with exit status `code`. Does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    _core.abort(code)


def is_initialized() -> bool:
    """Whether init() was called, also after finalize()."""
    return _core.initialized()


def is_finalized() -> bool:
    """Whether this rank has left."""
    return _core.finalized()


def get_include() -> str:
    """The folder with gpurun/gpurun.h that belongs to this package."""
    return os.path.join(_HERE, "include")


def get_library() -> str:
    """The C library that this package uses, for programs that link it."""
    return os.path.join(_HERE, "lib", "libgpurun.so.0")
