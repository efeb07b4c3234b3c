"""Queues: a socket pair whose ends all processes have. The kernel keeps the messages, in order, and gives each to one.

There is no lock around a SimpleQueue, and no process in between, so a process that is killed takes nothing with it but
what it had received. A Queue counts, under a lock that the kernel releases: one word says how many messages there are
and how many bytes the socket has. If the socket says otherwise, a process has died between the two, and what it had done
follows from that.
"""

from __future__ import annotations

import array
import collections
import errno
import fcntl
import os
import queue
import select
import socket
import termios
import threading
import time
import traceback
import warnings
from multiprocessing import util
from typing import Any, Deque, List, Optional, Tuple

from .._errors import PeerLostError
from ._members import QUEUE_WORD, Members, NobodyLeft
from ._message import Parcel, open_body, try_receive, try_send
from ._shared import Borrowed, Shared, deadline_of, is_ready, reset

Empty, Full = queue.Empty, queue.Full

_PUTS, _GETS = 1, 2  # roles
_BUFFER_BYTES = 1 << 20  # of a socket, if the system allows as much
_ROOM_S = 0.01  # until it is tried again to send what no event tells the time for
_MOST = (1 << 31) - 1  # of a queue, as in multiprocessing


def _new_sockets() -> List[int]:
    """The end to receive from, and the end to send to."""
    out, into = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    into.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    return [out.detach(), into.detach()]


class SimpleQueue(Shared):
    """A queue of any number of processes, as multiprocessing.SimpleQueue. put() waits while the system's buffer is full."""

    _kind = "queue"

    def __init__(self) -> None:
        super().__init__(_new_sockets(), Members(self._kind, self._roles))
        self._start()

    def _start(self) -> None:
        # They do not own their descriptors: _fds does.
        self._out, self._into = (Borrowed(fileno=fd) for fd in self._fds[:2])

    def put(self, obj: Any) -> None:
        """Put `obj`, which may be changed when the call returns, but for memory that is shared.

        Waits while the queue is full. Raises PeerLostError if a process that could take from it has died, and no other is
        known that does; and if no other process is left.
        """
        self._begin(_PUTS)
        parcel = Parcel(obj)
        try:
            while not try_send(self._into, parcel.data, parcel.fds):
                self._members.wait([(self._fds[1], select.POLLOUT)], _GETS, None, True)
        finally:
            parcel.close()

    def get(self) -> Any:
        """The next object; waits for it.

        Raises PeerLostError if a process that has put objects dies, or has not used the queue yet, and no object is
        there; once for each. And if no other process is left.
        """
        self._begin(_GETS)
        while True:
            received = try_receive(self._out)
            if received is not None:
                return open_body(*received)
            self._members.wait([(self._fds[0], select.POLLIN)], _PUTS, None)

    def empty(self) -> bool:
        """Whether there is no object to get now."""
        self._check()
        return not is_ready(self._fds[0])

    def fileno(self) -> int:
        """Readable while an object is there: for multiprocessing.connection.wait() and selectors."""
        self._check()
        return self._fds[0]

    def _begin(self, role: int) -> None:
        self._check()
        self._members.has_role(role)


class Queue(SimpleQueue):
    """A queue of any number of processes, as multiprocessing.Queue.

    maxsize: so many objects at most; 0: put() never waits. What the system's buffer does not take stays in the process
    then, and a thread sends it; the process ends when it has, or nobody is left to take it. With a maxsize, put() waits
    also while the system's buffer is full, which takes some hundred objects at least.
    """

    def __init__(self, maxsize: int = 0) -> None:
        if maxsize > _MOST:
            raise ValueError(f"maxsize is at most {_MOST}; 0 is without a limit")
        room = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        Shared.__init__(self, [*_new_sockets(), room], Members(self._kind, self._roles), (max(0, maxsize),))
        self._start()

    def _start(self) -> None:
        super()._start()
        self._maxsize: int = self._options[0]
        self._closed = False
        self._late: Deque[Parcel] = collections.deque()  # put, and not sent
        self._late_lock = threading.Lock()
        self._sender: Optional[threading.Thread] = None
        self._settled = threading.Event()  # nothing is late, or nobody is left to take it
        self._settled.set()
        self._at_end = util.Finalize(self, _send_rest, (self._late, self._settled), exitpriority=-5)

    def put(self, obj: Any, block: bool = True, timeout: Optional[float] = None) -> None:
        """Put `obj`, which may be changed when the call returns, but for memory that is shared.

        timeout: seconds. Raises queue.Full if the queue is, for so long, or at all without `block`; PeerLostError as
        SimpleQueue.put().
        """
        self._begin(_PUTS)
        deadline = deadline_of(block, timeout)
        parcel = Parcel(obj)
        if not self._maxsize:
            return self._put_or_keep(parcel)
        try:
            while not self._try_put(parcel):
                by_bytes = self._count() < self._maxsize
                ready = (self._fds[1], select.POLLOUT) if by_bytes else (self._fds[2], select.POLLIN)
                if not block or not self._members.wait([ready], _GETS, deadline, True):
                    raise Full
        finally:
            parcel.close()

    def get(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        """The next object. timeout: seconds.

        Raises queue.Empty if there is none, for so long, or at all without `block`; PeerLostError as SimpleQueue.get().
        """
        self._begin(_GETS)
        deadline = deadline_of(block, timeout)
        while True:
            received = self._try_get()
            if received is not None:
                return open_body(*received)
            if not block or not self._members.wait([(self._fds[0], select.POLLIN)], _PUTS, deadline):
                raise Empty

    def put_nowait(self, obj: Any) -> None:
        """put() that does not wait."""
        self.put(obj, False)

    def get_nowait(self) -> Any:
        """get() that does not wait."""
        return self.get(False)

    def qsize(self) -> int:
        """How many objects there are now; of those that wait in a process, this one's."""
        self._check()
        with self._members:
            return self._settle()[0] + len(self._late)

    def full(self) -> bool:
        """Whether there are `maxsize` objects now."""
        return bool(self._maxsize) and self.qsize() >= self._maxsize

    def _settle(self) -> Tuple[int, int]:
        """Messages and bytes in the socket, under the lock. One at most is not counted yet, or still."""
        word = self._members.words[QUEUE_WORD]
        count, size = word >> 40, word & ((1 << 40) - 1)
        now = _bytes_in(self._fds[0])
        if now != size:
            count += 1 if now > size else -1
            self._members.words[QUEUE_WORD] = count << 40 | now
        return count, now

    def _count(self) -> int:
        with self._members:
            return self._settle()[0]

    def _try_put(self, parcel: Parcel) -> bool:
        with self._members:
            count, size = self._settle()
            if self._maxsize and count >= self._maxsize:
                reset(self._fds[2])  # what wakes those who wait for room comes after this
                return False
            if not try_send(self._into, parcel.data, parcel.fds):
                return False
            self._settle()
            return True

    def _try_get(self) -> Optional[Tuple[bytes, Any]]:
        with self._members:
            count, _ = self._settle()
            if self._maxsize and count >= self._maxsize:  # first: this process may be killed once it has the message
                os.eventfd_write(self._fds[2], 1)
            received = try_receive(self._out)
            if received is not None:
                self._settle()
            return received

    def empty(self) -> bool:
        """Whether there is no object to get now."""
        return super().empty() and not self._late

    def close(self) -> None:
        """This process does not use it any more. What it has put is still sent."""
        self._closed = True
        with self._late_lock:
            if self._sender is None:
                super().close()

    def join_thread(self) -> None:
        """After close(): wait until all that this process has put is sent."""
        if not self._closed:
            raise ValueError(f"{self!r} is not closed: join_thread() comes after close()")
        sender = self._sender
        if sender is not None:
            sender.join()

    def cancel_join_thread(self) -> None:
        """Let the process end although objects that it has put are not sent; they are lost."""
        self._at_end.cancel()

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        super()._check()

    def _put_or_keep(self, parcel: Parcel) -> None:
        with self._late_lock:
            if not self._late and self._is_done(parcel):
                return
            self._late.append(parcel)
            self._settled.clear()
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_late, name="gpurun-queue", daemon=True)
                self._sender.start()

    def _is_done(self, parcel: Parcel) -> bool:
        """Whether it is sent. If it never can be, this raises."""
        try:
            if not self._try_put(parcel):
                return False
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:  # for now
                return False
            parcel.close()
            raise
        parcel.close()
        return True

    def _send_late(self) -> None:
        """What is late, in order. A thread runs this while there is some."""
        while True:
            try:
                done = self._is_done(self._late[0])
            except OSError:
                traceback.print_exc()
                done = True
            with self._late_lock:
                if done:
                    self._late.popleft()
                if not self._late:
                    self._sender = None
                    self._settled.set()
                    if self._closed:
                        super().close()
                    return
            if not done:
                self._wait_for_room()

    def _wait_for_room(self) -> None:
        try:
            self._members.wait([(self._fds[1], select.POLLOUT)], _GETS, None, True)
            self._settled.clear()
            if _bytes_in(self._fds[0]):
                time.sleep(_ROOM_S)
        except NobodyLeft:  # but this process itself may still get, and another one may come
            self._settled.set()
            time.sleep(_ROOM_S)
        except PeerLostError:
            pass  # others can take it


def _send_rest(late: Deque[Parcel], settled: threading.Event) -> None:
    """At the end of the process. A queue to which nothing refers has nothing to send, since its thread refers to it."""
    settled.wait()
    if late:
        warnings.warn(f"{len(late)} objects that were put into a queue are lost: all that could take them have ended")


def _bytes_in(fd: int) -> int:
    found = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, found, True)
    return found[0]
