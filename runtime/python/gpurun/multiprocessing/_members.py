"""Which processes have a queue, a pipe or an event, and which of them have died.

All of them map one table. Each has a row for each object of its own: process, roles, state. A process that leaves frees
its row; one that is killed does not, and its pidfd shows that. So nobody waits for the dead, and no process is asked.

The table is changed under a lock of the file, which the kernel releases when its holder dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import struct
import sys
import threading
import time
from multiprocessing import current_process, util
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .. import _core
from .._errors import PeerLostError, StateError
from ._memory import memory

_ROWS = 1024
_HEADER, _ROW_SIZE = 64, 64
_SIZE = _HEADER + _ROWS * _ROW_SIZE
_FIELDS = struct.Struct("=IIIIQ40s")  # state, roles, process, its parent, its start, its name
_FREE, _HERE, _EXPECTED, _FAILED = range(4)
# Words of the header: how many rows were ever in use; who made it; whether others came; whether it is in a message.
_USED, _MAKER, _SHARED, _TRAVELS = range(4)
QUEUE_WORD = 4  # of queues
_SOON_S = 0.002  # what comes by then need not wait until it is found out who has died
_LOOK_AGAIN_S = 0.5  # a process that comes while another one waits is seen then

class NobodyLeft(PeerLostError):
    """No other process is left that could end a wait."""


raised = False  # this process is one of _processes.py, and ends by an exception


def ends_badly() -> bool:
    """Whether this process is about to end by an exception: those who wait for it are told."""
    return raised or (bool(util.is_exiting()) and hasattr(sys, "last_type"))


class Row(NamedTuple):
    number: int
    state: int
    roles: int
    pid: int
    parent: int
    start: int
    name: str

    @property
    def place(self) -> int:
        return _HEADER + self.number * _ROW_SIZE

    @property
    def process(self) -> Tuple[int, int, int]:
        return self.number, self.pid, self.start


def _start_of(pid: int) -> int:
    """By which a process is told from a later one with its number; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


_pidfds: Dict[Tuple[int, int], int] = {}  # of the processes that this one has watched


def _pidfd(pid: int, start: int) -> Optional[int]:
    """None if it has ended."""
    found = _pidfds.get((pid, start))
    if found is None:
        try:
            found = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if _start_of(pid) != start:
            os.close(found)
            return None
        kept = _pidfds.setdefault((pid, start), found)
        if kept != found:  # another thread was faster
            os.close(found)
            found = kept
    if _is_readable(found):
        gone = _pidfds.pop((pid, start), None)
        if gone is not None:
            os.close(gone)
        return None
    return found


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


class Members:
    """One process's view of the table, and a row of its own. `kind` is what messages call the object."""

    def __init__(self, kind: str, roles: int, fd: int = -1, row: int = -1) -> None:
        """fd: of the table; less than 0 makes one. row: that was kept for this process; less than 0 takes one."""
        made = fd < 0
        if made:
            fd = os.memfd_create("gpurun-members", os.MFD_CLOEXEC)
            os.truncate(fd, _SIZE)
        self.fd = fd
        self.kind = kind
        self._roles = roles
        self._map = mmap.mmap(fd, _SIZE)
        self.words = memoryview(self._map).cast("Q")
        self._numbers = memoryview(self._map).cast("I")
        if made:
            self.words[_MAKER] = os.getpid()
        self._come(row)

    def _come(self, row: int) -> None:
        self.pid = os.getpid()
        self._start = _start_of(self.pid)
        self._thread_lock = threading.RLock()  # since one knows its owner
        # A lock belongs to an open file description, so each process needs one of its own.
        self._lock_fd = os.open(f"/proc/self/fd/{self.fd}", os.O_RDWR | os.O_CLOEXEC)
        with self:
            rows = self._rows()
            # Deaths that it is not told: those before it came, and by thread and roles, those that it was told.
            self._before = {each.process for each in rows if each.pid and self._has_ended(each)}
            self._told: Set[Tuple[int, int, Tuple[int, int, int]]] = set()
            self._row = self._take(_HERE, self._roles, self.pid, os.getppid(), self._start, current_process().name, row)

    def _rows(self) -> List[Row]:
        """Those in use."""
        found: List[Row] = []
        for number in range(self.words[_USED]):
            state, roles, pid, parent, start, name = _FIELDS.unpack_from(self._map, _HEADER + number * _ROW_SIZE)
            if state != _FREE:
                found.append(Row(number, state, roles, pid, parent, start, name.rstrip(b"\0").decode(errors="replace")))
        return found

    def _has_ended(self, row: Row) -> bool:
        return row.state == _FAILED or _start_of(row.pid) != row.start

    def _take(self, state: int, roles: int, pid: int, parent: int, start: int, name: str, number: int = -1) -> int:
        """Under the lock."""
        if number < 0:
            rows = self._rows()
            taken = {each.number for each in rows}
            number = next((n for n in range(_ROWS) if n not in taken), -1)
            if number < 0:
                number = next((each.number for each in rows if self._has_ended(each)), -1)
        if number < 0:
            raise StateError(f"{_ROWS} processes have this {self.kind}: close() it where it is no longer used")
        self._write(number, state, roles, pid, parent, start, name)
        self.words[_USED] = max(self.words[_USED], number + 1)
        if pid != self.words[_MAKER]:
            self.words[_SHARED] = 1
        return number

    def _write(self, number: int, state: int, roles: int, pid: int, parent: int, start: int, name: str) -> None:
        """The state last: others read rows without the lock."""
        place = _HEADER + number * _ROW_SIZE
        self._map[place + 24 : place + 64] = name.encode()[:40].ljust(40, b"\0")
        self.words[place // 8 + 2] = start
        self._numbers[place // 4 + 3] = parent
        self._numbers[place // 4 + 2] = pid
        self._numbers[place // 4 + 1] = roles
        self._numbers[place // 4] = state

    def __enter__(self) -> None:
        """Takes the lock. An exception of a signal handler, after any step, leaves it free."""
        try:
            self._thread_lock.acquire()
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        except BaseException:
            if self._thread_lock._is_owned():  # type: ignore[attr-defined]
                self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        finally:
            self._thread_lock.release()

    def keep_row(self, roles: int) -> int:
        """For a process that is about to be started."""
        with self:
            return self._take(_EXPECTED, roles, 0, self.pid, 0, "")

    def expect(self, number: int, pid: int, name: str) -> None:
        """The process for which the row was kept is this one; 0: it could not be started."""
        with self:
            row = next((each for each in self._rows() if each.number == number), None)
            if row is None or row.state != _EXPECTED or row.pid != 0:
                return  # it has come already
            state, start = (_EXPECTED, _start_of(pid)) if pid else (_FREE, 0)
            self._write(number, state, row.roles, pid, self.pid, start, name)

    def travels(self) -> None:
        """It is put into a message, and nobody knows who will take it."""
        self.words[_TRAVELS] = 1

    def has_role(self, role: int) -> None:
        if not self._roles & role:
            self._roles |= role
            self._numbers[(_HEADER + self._row * _ROW_SIZE) // 4 + 1] = self._roles

    def adopt(self) -> None:
        """This process was forked from the one that has the row, and takes one of its own."""
        if _core.initialized():
            raise StateError(
                f"this process was forked after gpurun.init(), and cannot use the {self.kind}: start it with "
                "gpurun.multiprocessing.Process, or fork before gpurun.init()"
            )
        os.close(self._lock_fd)
        self._come(-1)

    def leave(self) -> None:
        if self._row < 0 or os.getpid() != self.pid:
            return
        number, self._row = self._row, -1
        self._numbers[(_HEADER + number * _ROW_SIZE) // 4] = _FAILED if ends_badly() else _FREE
        os.close(self._lock_fd)
        os.close(self.fd)

    def wait(
        self, ready: Sequence[Tuple[int, int]], roles: int, deadline: Optional[float], one_is_enough: bool = False
    ) -> bool:
        """Waits for one of the descriptors, with events of poll(). False: the deadline, of time.monotonic(), has passed.

        Raises PeerLostError, in each thread once for each process that has died and had one of `roles`, or none yet; and
        NobodyLeft. one_is_enough: any process can end the wait, so deaths do not matter while one is known that can.
        """
        poll = select.poll()
        for fd, events in ready:
            poll.register(fd, events)
        soon = _SOON_S if deadline is None else min(_SOON_S, deadline - time.monotonic())
        if poll.poll(max(0.0, soon) * 1e3):
            return True
        while True:
            poll = select.poll()
            for fd, events in ready:
                poll.register(fd, events)
            pidfds, lost, alone = self._look(roles, one_is_enough)
            if lost is not None or alone:
                if poll.poll(0):  # it had done its part before
                    return True
                if lost is None:
                    raise NobodyLeft(f"all other processes that had this {self.kind} have ended", "GPURUN_ERR_PEER_LOST")
                self._told.add((threading.get_ident(), roles, lost.process))
                raise PeerLostError(
                    f"process {lost.pid} ({lost.name}), which had this {self.kind}, has died", "GPURUN_ERR_PEER_LOST"
                )
            for pidfd in pidfds:
                poll.register(pidfd, select.POLLIN)
            left = _LOOK_AGAIN_S if deadline is None else min(_LOOK_AGAIN_S, deadline - time.monotonic())
            found = poll.poll(max(0.0, left) * 1e3)
            if any(fd not in pidfds for fd, _ in found):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def _look(self, roles: int, one_is_enough: bool) -> Tuple[Set[int], Optional[Row], bool]:
        """What shows deaths; one that has died and was not told yet; whether nobody is left.

        Of a process that had not used it yet, nobody knows what it would have done. Its parent is told of its death, and
        whoever waits while no living process is known to have one of `roles`.
        """
        pidfds: Set[int] = set()
        lost: Optional[Row] = None
        unknown: Optional[Row] = None
        known = False
        others = bool(self.words[_TRAVELS]) or not self.words[_SHARED]
        for row in self._rows():
            if (row.pid, row.start) == (self.pid, self._start):
                others = others or (bool(row.roles & roles) and threading.active_count() > 1 + memory.threads())  # one can end the wait
                continue
            if row.pid == 0:  # is being started
                others = True
                continue
            pidfd = None if row.state == _FAILED else _pidfd(row.pid, row.start)
            if pidfd is not None:
                pidfds.add(pidfd)
                others = True  # whatever it did until now
                known = known or bool(row.roles & roles)
            elif (not row.roles or row.roles & roles) and self._is_news(row, roles):
                lost, unknown = (row, unknown) if row.roles else (lost, row)
        if lost is None and unknown is not None and (unknown.parent == self.pid or not known):
            lost = unknown
        if one_is_enough and known:
            lost = None
        return pidfds, lost, not others

    def _is_news(self, row: Row, roles: int) -> bool:
        """Whether a process that has ended had not left before, and this thread was not told."""
        state, _, pid, _, start, _ = _FIELDS.unpack_from(self._map, row.place)
        return (
            state != _FREE
            and (pid, start) == (row.pid, row.start)
            and row.process not in self._before
            and (threading.get_ident(), roles, row.process) not in self._told
        )
