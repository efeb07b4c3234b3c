"""What several processes have: a few descriptors, and the table of who has them.

It goes to another process as an argument of a Process, in a message, or by fork.
"""

from __future__ import annotations

import os
import select
import socket
import time
from multiprocessing import context, util
from typing import Any, List, Optional, Tuple, Type

from ._members import Members, ends_badly
from ._memory import Descriptor
from ._message import Parcel


class Shared:
    """The base of queues, connections and events. `_fds` are closed with the object, and never change."""

    _kind = "object"
    _roles = 0  # at the start

    def __init__(self, fds: List[int], members: Members, options: Tuple[Any, ...] = ()) -> None:
        self._fds = fds
        self._members = members
        self._options = options
        self._register()

    def _register(self) -> None:
        """Last at the end of the process, when it has waited for its children; before that if it ends by an exception."""
        util.Finalize(self, _leave_at_once, (self._members,), exitpriority=10)
        self._finalize = util.Finalize(self, _leave, (self._members, self._fds), exitpriority=-10)

    def _start(self) -> None:
        """In a process that it has come to."""

    def _reduce_into(self, parcel: Parcel) -> Any:
        """Into the arguments of a Process that is being started, or into a message."""
        self._check()
        row = -1
        if parcel.on_start is None:
            self._members.travels()
        else:
            row = self._members.keep_row(self._roles)
            parcel.on_start.append(lambda pid, name: self._members.expect(row, pid, name))
        table = parcel.attach(self._members.fd, self._members)
        attached = [parcel.attach(fd, _Part(fd)) for fd in self._fds]
        return _came, (type(self), attached, table, row, self._roles, self._options)

    def __reduce__(self) -> Any:
        """For multiprocessing's own processes."""
        if context.get_spawning_popen() is None:
            raise RuntimeError(
                f"a {self._kind} goes to other processes as an argument of Process, or in a message of gpurun.multiprocessing"
            )
        from multiprocessing.reduction import DupFd

        self._check()
        fds = [DupFd(fd) for fd in self._fds]
        return _inherited, (type(self), fds, DupFd(self._members.fd), self._roles, self._options)

    def _check(self) -> None:
        if not self._fds:
            raise ValueError(f"{self!r} is closed")
        if os.getpid() != self._members.pid:  # it was forked
            self._members.adopt()
            self._register()
            self._start()

    def close(self) -> None:
        """This process does not use it any more. Others can."""
        self._finalize()

    def __repr__(self) -> str:
        return f"<gpurun.multiprocessing.{type(self).__name__}{'' if self._fds else ', closed'}>"


class _Part:
    """One of an object's descriptors, in a message."""

    def __init__(self, fd: int) -> None:
        self.fd = fd


def _leave_at_once(members: Members) -> None:
    if ends_badly():
        members.leave()


def _leave(members: Members, fds: List[int]) -> None:
    if os.getpid() == members.pid:
        members.leave()
    while fds:
        os.close(fds.pop())


def _made(kind: Type[Shared], fds: List[int], table: int, row: int, roles: int, options: Tuple[Any, ...]) -> Shared:
    made: Shared = kind.__new__(kind)
    Shared.__init__(made, fds, Members(kind._kind, roles, table, row), options)
    made._start()
    return made


def _came(
    kind: Type[Shared], attached: List[Descriptor], table: Descriptor, row: int, roles: int, options: Tuple[Any, ...]
) -> Shared:
    return _made(kind, [each.take() for each in attached], table.take(), row, roles, options)


def _inherited(kind: Type[Shared], fds: List[Any], table: Any, roles: int, options: Tuple[Any, ...]) -> Shared:
    return _made(kind, [each.detach() for each in fds], table.detach(), -1, roles, options)


class Borrowed(socket.socket):
    """A socket over a descriptor that it does not close."""

    def __del__(self) -> None:
        self.detach()


def is_ready(fd: int, events: int = select.POLLIN) -> bool:
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(0))


def reset(eventfd: int) -> None:
    try:
        os.eventfd_read(eventfd)
    except BlockingIOError:
        pass


def deadline_of(block: bool, timeout: Optional[float]) -> Optional[float]:
    """Of time.monotonic(); None: for ever."""
    if not block:
        return 0.0
    return None if timeout is None else time.monotonic() + max(0.0, timeout)
