"""Exceptions, by kind. Each says what happened and what to do, and which rank it is raised on."""

from __future__ import annotations


class Error(RuntimeError):
    """What a call of gpurun raises. `status` is the C API's name for it, `rank` this rank in the job."""

    status: str
    rank: int

    def __init__(self, text: str, status: str = "", rank: int = -1) -> None:
        super().__init__(text)
        self.status = status
        self.rank = rank

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, int]]:
        return type(self), (str(self), self.status, self.rank)


class ArgumentError(Error, ValueError):
    """An argument cannot be used; nothing was sent or started."""


class StateError(Error):
    """The call does not fit: before init(), after finalize(), or a request that is complete already."""


class TruncatedError(Error):
    """The message was longer than the buffer; what fits is there."""


class PeerLostError(Error, ConnectionError):
    """A rank that the operation needs has died; the text names it."""


class LoanError(Error):
    """What was borrowed, or should be, is no loan; or memory is lent, which the call cannot use then."""


class TimedOutError(Error, TimeoutError):
    """The time is over, and what was waited for has not happened; the text names who is missing."""


class CollectiveError(Error):
    """Ranks have called a collective differently; the text says which and how."""


class DeviceError(Error):
    """The device failed or does not exist."""


class OutOfMemoryError(Error, MemoryError):
    """No memory is left, on the host or the device."""


class UnsupportedError(Error, NotImplementedError):
    """This device or build does not support the call."""


class JobError(Error):
    """The job, the system or a setting is at fault, or gpurun itself."""


_KINDS: dict[str, type[Error]] = {
    "NOT_INITIALIZED": StateError,
    "ALREADY_INITIALIZED": StateError,
    "FINALIZED": StateError,
    "REQUEST": StateError,
    "TRUNCATED": TruncatedError,
    "PEER_LOST": PeerLostError,
    "LOAN": LoanError,
    "TIMEOUT": TimedOutError,
    "COLLECTIVE": CollectiveError,
    "DEVICE": DeviceError,
    "MEMORY": OutOfMemoryError,
    "UNSUPPORTED": UnsupportedError,
    "VERSION": JobError,
    "SYSTEM": JobError,
    "SETTING": JobError,
    "LAUNCHER": JobError,
    "INTERNAL": JobError,
}


def of_status(number: int, name: str, function: str, detail: str) -> Error:
    """The exception for a status of the C API."""
    from . import _core

    rank = _core.COMM_WORLD.rank if _core.initialized() and not _core.finalized() else -1
    where = f"rank {rank}: {function}" if rank >= 0 else function
    kind = _KINDS.get(name.replace("GPURUN_ERR_", ""), ArgumentError)
    return kind(f"{where}: {detail or name}", name, rank)
