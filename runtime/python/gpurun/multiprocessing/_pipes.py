"""Pipes and events: a socket pair, one end each; a descriptor that is readable while the event is set."""

from __future__ import annotations

import os
import select
import socket
from typing import Any, List, Optional, Tuple

from ._members import Members, NobodyLeft
from ._message import Parcel, open_body, try_receive, try_send
from ._shared import Borrowed, Shared, deadline_of, is_ready, reset

_FIRST, _SECOND = 1, 2  # roles of connections
_SETS, _WAITS = 1, 2  # of events


class Connection(Shared):
    """One end of a Pipe(), as multiprocessing.connection.Connection."""

    _kind = "pipe"

    def _start(self) -> None:
        self._socket = Borrowed(fileno=self._fds[0])
        self._roles, self.readable, self.writable = self._options
        self._other = _FIRST + _SECOND - self._roles
        self._next: Optional[Tuple[bytes, List[int]]] = None

    def send(self, obj: Any) -> None:
        """Send an object, which may be changed when the call returns, but for memory that is shared.

        Waits while the pipe is full. Raises BrokenPipeError if nobody has the other end any more, and PeerLostError if a
        process that had it has died.
        """
        self._send(Parcel(obj))

    def send_bytes(self, data: Any, offset: int = 0, size: Optional[int] = None) -> None:
        """Send bytes as one message, for recv_bytes()."""
        view = memoryview(data).cast("B")
        end = len(view) if size is None else offset + size
        if not 0 <= offset <= end <= len(view):
            raise ValueError(f"from {offset} to {end} is no part of {len(view)} bytes")
        self._send(Parcel(bytes(view[offset:end])))

    def _send(self, parcel: Parcel) -> None:
        try:
            self._check()
            if not self.writable:
                raise OSError("this end of the pipe only receives")
            while not try_send(self._socket, parcel.data, parcel.fds):
                try:
                    self._members.wait([(self._fds[0], select.POLLOUT)], self._other, None)
                except NobodyLeft as error:
                    raise BrokenPipeError(str(error)) from None
        finally:
            parcel.close()

    def recv(self) -> Any:
        """The next object; waits for it.

        Raises EOFError if nobody has the other end any more, and PeerLostError if a process that had it has died.
        """
        self._check()
        if not self.readable:
            raise OSError("this end of the pipe only sends")
        while True:
            received = try_receive(self._socket)
            if received is not None and received[0] == b"":
                raise EOFError("the other end of the pipe is closed")
            if received is not None:
                return open_body(*received)
            self._wait(None)

    def recv_bytes(self, maxlength: Optional[int] = None) -> bytes:
        """What send_bytes() has sent. Raises OSError if that is longer than `maxlength`; it is lost then."""
        found = self.recv()
        if not isinstance(found, bytes):
            raise TypeError(f"an object of type {type(found).__name__} was sent, not bytes: receive it by recv()")
        if maxlength is not None and len(found) > maxlength:
            raise OSError(f"the message has {len(found)} bytes, more than {maxlength}")
        return found

    def _wait(self, deadline: Optional[float]) -> bool:
        try:
            return self._members.wait([(self._fds[0], select.POLLIN)], self._other, deadline)
        except NobodyLeft as error:
            raise EOFError(str(error)) from None

    def poll(self, timeout: Optional[float] = 0.0) -> bool:
        """Whether recv() would not wait: an object is there, or the other end is closed. timeout: seconds; None: for ever."""
        self._check()
        if is_ready(self._fds[0]):
            return True
        return timeout != 0 and self._wait(deadline_of(True, timeout))

    def fileno(self) -> int:
        """Readable while an object is there: for multiprocessing.connection.wait() and selectors."""
        self._check()
        return self._fds[0]

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return not self._fds

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def Pipe(duplex: bool = True) -> Tuple[Connection, Connection]:
    """Two connections; without `duplex`, the first one only receives, and the second one only sends."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    table = Members("pipe", _FIRST)
    first = Connection([one.detach()], table, (_FIRST, True, duplex))
    second = Connection([other.detach()], Members("pipe", _SECOND, os.dup(table.fd)), (_SECOND, duplex, True))
    for each in (first, second):
        each._start()
    return first, second


class Event(Shared):
    """A flag that all processes see, as multiprocessing.Event. No process can be killed in the midst of a change."""

    _kind = "event"

    def __init__(self) -> None:
        fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        super().__init__([fd], Members(self._kind, self._roles))

    def is_set(self) -> bool:
        """Whether it is set."""
        self._check()
        return is_ready(self._fds[0])

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self._check()
        self._members.has_role(_SETS)
        if not is_ready(self._fds[0]):
            os.eventfd_write(self._fds[0], 1)

    def clear(self) -> None:
        """Clear it."""
        self._check()
        reset(self._fds[0])

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until it is set; False if it is not after `timeout` seconds.

        Raises PeerLostError if a process that has set it before, or not used it yet, dies meanwhile; once for each.
        """
        self._check()
        if is_ready(self._fds[0]):
            return True
        self._members.has_role(_WAITS)
        return self._members.wait([(self._fds[0], select.POLLIN)], _SETS, deadline_of(True, timeout))
