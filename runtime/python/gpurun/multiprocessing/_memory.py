"""Shared memory of messages, which is used again.

Allocating pages, and mapping them, takes longer than copying into them. So who sends keeps the memory of its messages
for later ones, once nobody has it any more. A descriptor that is sent holds a lock of its file, which the kernel
releases with the last copy: also if a process is killed, or a message is never taken. Who receives keeps mappings, made
by descriptors without a lock, and knows them again by a name that is sent along. What was not used for a second is let
go: an idle process holds nothing of others.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .. import _core
from .._core import Segment

_KEEP_S = 1.0
_KEPT_PIECES, _KEPT_BYTES = 16, 1 << 28  # of this process's messages; what is longer is not kept
_KEPT_MAPPINGS = 64
_LEAST = 1 << 16
ALIGNMENT = 64  # of the parts of a message
_MOST_PARTS = 1024  # of one pwritev(): IOV_MAX


class Descriptor:
    """A descriptor that came with a message, or goes with one. It is closed with this, unless it is taken."""

    def __init__(self, fd: int, size: int, name: int) -> None:
        self.fd = fd
        self.size = size
        self.name = name
        self.made: Any = None  # of it, for those who meet it again in the message

    def take(self) -> int:
        fd, self.fd = self.fd, -1
        return fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class Piece:
    """Memory of one message after the other. Whoever keeps it has its descriptor."""

    def __init__(self, size: int, name: int) -> None:
        self.memory = new_memory(size, name)
        self.since = 0.0
        self._written = 0  # so far there are pages
        self._mapping: Optional[mmap.mmap] = None

    def lend(self) -> Optional[Descriptor]:
        """For a message; None while anyone has an earlier one."""
        fd = self.memory.fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        fcntl.flock(fd, fcntl.LOCK_UN)
        lent = Descriptor(_opened_again(fd), self.memory.size, self.memory.name)
        fcntl.flock(lent.fd, fcntl.LOCK_SH)
        self.since = time.monotonic()
        return lent

    def write(self, parts: Sequence[Any], size: int) -> None:
        """New pages come by a system call, which does not clear them first, and can fail. Later, the memory is mapped."""
        if size > self._written:
            _write_pages(self.memory.fd, parts)
            self._written = size
            return
        if self._mapping is None:  # all pages at once: in a fifth of the time of faults
            self._mapping = mapped(self.memory, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        _core.write_parts(self._mapping, parts)


class _Kept(NamedTuple):
    thing: Any
    since: float


class Memory:
    """What this process keeps. A thread lets go of it, while there is something."""

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)  # what is there belongs to the parent

    def forget(self) -> None:
        """Let go of everything. After a fork, nobody can have the lock."""
        self._lock = threading.RLock()  # a signal handler may send, too
        self._pieces: List[Piece] = []  # in the order of their use, the latest last
        self._bytes = 0
        self._received: Dict[int, _Kept] = {}
        self._thread: Optional[threading.Thread] = None
        self._random = int.from_bytes(os.urandom(8), "little")

    def new_name(self) -> int:
        """By which other processes know memory again."""
        with self._lock:
            self._random = (self._random + 1) % (1 << 64) or 1
            return self._random

    def filled(self, parts: Sequence[Any], size: int) -> Descriptor:
        """Memory that has the parts of a message."""
        with self._lock:
            piece, lent = self._free_piece(size)
            self._pieces.append(piece)
            while len(self._pieces) > _KEPT_PIECES or self._bytes > _KEPT_BYTES:
                self._drop()
            self._watch()
        piece.write(parts, size)
        return lent

    def _free_piece(self, size: int) -> Tuple[Piece, Descriptor]:
        for piece in reversed(self._pieces):
            if size <= piece.memory.size <= max(2 * size, _LEAST):
                lent = piece.lend()
                if lent is not None:
                    self._pieces.remove(piece)
                    return piece, lent
        piece = Piece(max(_LEAST, 1 << (size - 1).bit_length()), self.new_name())
        lent = piece.lend()
        assert lent is not None  # nobody else has it
        self._bytes += piece.memory.size
        return piece, lent

    def _drop(self) -> None:
        self._bytes -= self._pieces.pop(0).memory.size

    def known(self, name: int, make: Callable[[], Any]) -> Any:
        """What was made of memory with this name the last time, or is made now."""
        if not name:
            return make()
        with self._lock:
            kept = self._received.pop(name, None)
            thing = make() if kept is None else kept.thing
            self._received[name] = _Kept(thing, time.monotonic())
            if len(self._received) > _KEPT_MAPPINGS:
                del self._received[next(iter(self._received))]
            self._watch()
        return thing

    def _watch(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._let_go, name="gpurun-memory", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process is about to end
            return
        self._thread = thread

    def _let_go(self) -> None:
        while True:
            time.sleep(_KEEP_S / 2)
            with self._lock:
                before = time.monotonic() - _KEEP_S
                while self._pieces and self._pieces[0].since < before:
                    self._drop()
                gone = [self._received.pop(name) for name, kept in list(self._received.items()) if kept.since < before]
                if not self._pieces and not self._received:
                    self._thread = None
                    return
            del gone

    def threads(self) -> int:
        """How many of this process's threads are these."""
        return int(self._thread is not None)


memory = Memory()


def new_memory(size: int, name: int) -> Descriptor:
    """Of zeros."""
    made = Descriptor(os.memfd_create("gpurun", os.MFD_CLOEXEC), size, name)
    os.truncate(made.fd, size)
    return made


def _opened_again(fd: int) -> int:
    """Another open file description, which has locks of its own."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)


def mapped(descriptor: Descriptor, flags: int = mmap.MAP_SHARED) -> mmap.mmap:
    """Its memory, without its lock."""
    fd = _opened_again(descriptor.fd)
    try:
        return mmap.mmap(fd, 0, flags)
    finally:
        os.close(fd)


def _write_pages(fd: int, parts: Sequence[Any]) -> None:
    """As write_parts(), by system calls."""
    placed: List[memoryview] = []
    for part in parts:
        view = memoryview(part)
        placed.append(view)
        if view.nbytes % ALIGNMENT:
            placed.append(memoryview(bytes(-view.nbytes % ALIGNMENT)))
    position = 0
    for first in range(0, len(placed), _MOST_PARTS):
        views = [view.cast("B") for view in placed[first : first + _MOST_PARTS] if view.nbytes]
        while views:
            done = os.pwritev(fd, views, position)
            position += done
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if done:
                views[0] = views[0][done:]


def new_segment(size: int) -> Segment:
    """Shared memory that every process sees which has it."""
    made = new_memory(size, memory.new_name())
    return Segment(mapped(made), size, made)


def segment_of(received: Descriptor) -> Segment:
    return Segment(memory.known(received.name, lambda: mapped(received)), received.size, received)
