"""Messages between processes: a pickle, with what is in shared memory beside it as descriptors.

A message is a prefix (how many descriptors, how many bytes of body, what memory that is in) and the body, which is in
shared memory if it is long. A plain array or tensor of few bytes has no body: a pickle of what describes it follows. The body is a header, the pickle, and the buffers that were copied, each at a multiple of 64
bytes. Descriptors are that memory, and what the object refers to: memory that is shared already, the ends of queues. The
kernel keeps them while the message is under way, and releases them with the last process that has them. Nothing is in
the file system that could be left behind.
"""

from __future__ import annotations

import array
import errno
import io
import os
import pickle
import socket
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .._core import Segment
from ._memory import ALIGNMENT, Descriptor, memory, segment_of

INLINE = 1 << 14  # bytes of a body in the message itself
_PREFIX = struct.Struct("=QQQ")
_DESCRIBED = 1 << 63  # in place of a count of descriptors: a pickle for made_again() follows
_HEADER = struct.Struct("=QQ")  # words of the buffers, with a bit for what is described; bytes of the pickle
_MOST_FDS = 253  # of one message: SCM_MAX_FD
_ANCILLARY = socket.CMSG_SPACE(_MOST_FDS * 4)
# Whole numbers: to combine flags of Python's kind takes as long as the call.
_SEND_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_RECEIVE_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
_CUT_SHORT, _SOCKET, _RIGHTS = int(socket.MSG_CTRUNC), int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS)
# Kinds of buffers, in the lowest two bits of their first word. The second one is the name of memory that is attached.
_COPIED, _SEGMENT, _OTHER, _AGAIN = range(4)


class Parcel:
    """An object that is packed: what is sent of it, and what must live until that is done."""

    def __init__(self, obj: Any, on_start: Optional[List[Callable[[int, str], None]]] = None) -> None:
        """on_start: of arguments for a process, what is to be told which process was started; 0 if none was."""
        self.fds: List[int] = []
        self.on_start = on_start
        self._own: Optional[Descriptor] = None
        self._kept: List[Any] = []
        small = described_in_short(obj)
        if small is not None:
            pickled = pickle.dumps(small, 5)
            self.data = _PREFIX.pack(_DESCRIBED, len(pickled), 0) + pickled
            return
        self._words: List[int] = []
        self._copied: List[memoryview] = []
        self._attached: Dict[int, Tuple[int, int, int, int, Any]] = {}
        self._places: Dict[int, int] = {}
        try:
            self._pack(obj)
        except BaseException:
            self.close()
            raise

    def _pack(self, obj: Any) -> None:
        described = plain(obj, self)
        if described is not None:  # the tuple is what the object is made of again
            pickled: Any = pickle.dumps(described, 5, buffer_callback=self.add)
        else:
            stream = io.BytesIO()
            Pickler(stream, self).dump(obj)
            pickled = stream.getbuffer()
        first = len(self._words) << 1 | (described is not None)
        header = _HEADER.pack(first, len(pickled)) + struct.pack(f"={len(self._words)}Q", *self._words)
        parts = (header, pickled, *self._copied)
        size = sum(len(part) + -len(part) % ALIGNMENT for part in parts)
        if size <= INLINE:
            padded = [bytes(part).ljust(_aligned(len(part)), b"\0") for part in parts]
            self.data = _PREFIX.pack(len(self.fds), size, 0) + b"".join(padded)
        else:
            self._own = memory.filled(parts, size)
            self.fds.insert(0, self._own.fd)
            self.data = _PREFIX.pack(len(self.fds), size, self._own.name)
        self._copied.clear()

    def add(self, buffer: pickle.PickleBuffer) -> None:
        """A buffer that the pickler has found."""
        view = buffer.raw()
        attached = self._attached.get(id(view.obj)) if self._attached else None
        if attached is None:
            self._words += view.nbytes << 2 | _COPIED, 0
            self._copied.append(view)
            return
        kind, size, fd, name, thing = attached
        number = len(self._words) // 2
        first = self._places.setdefault(id(thing), number)
        if first < number:
            self._words += first << 2 | _AGAIN, 0
        else:
            self._words += size << 2 | kind, name
            self.fds.append(fd)

    def attach(self, fd: int, thing: Any, size: int = 0, name: int = 0) -> pickle.PickleBuffer:
        """For the arguments of a reducer: a Segment, or a Descriptor, where the message is received.

        thing: what the descriptor belongs to. It is sent once in a message.
        """
        stand_in = bytearray()
        self._kept += [stand_in, thing]
        kind = _SEGMENT if isinstance(thing, Segment) else _OTHER
        self._attached[id(stand_in)] = (kind, size, fd, name, thing)
        return pickle.PickleBuffer(stand_in)

    def attach_segment(self, segment: Segment) -> pickle.PickleBuffer:
        return self.attach(segment.owner.fd, segment, len(segment), segment.owner.name)

    def close(self) -> None:
        """What is packed was sent, or will not be."""
        self._own = None
        self._kept.clear()


def unpack(body: Any, fds: List[int]) -> Any:
    """The object of a body, whose buffers are used where they are. Takes from `fds` what it uses."""
    first, length = _HEADER.unpack_from(body)
    count = first >> 1
    words = struct.unpack_from(f"={count}Q", body, _HEADER.size)
    view = memoryview(body)
    place = _aligned(_HEADER.size + 8 * count)
    data = view[place : place + length]
    place = _aligned(place + length)
    buffers: List[Any] = []
    for word, name in zip(words[::2], words[1::2]):
        kind, value = word & 3, word >> 2
        if kind == _COPIED:
            buffers.append(view[place : place + value])
            place = _aligned(place + value)
        elif kind == _AGAIN:
            buffers.append(buffers[value])
        elif kind == _SEGMENT:
            buffers.append(segment_of(Descriptor(fds.pop(0), value, name)))
        else:
            buffers.append(Descriptor(fds.pop(0), value, name))
    loaded = pickle.loads(data, buffers=buffers)
    return made_again(loaded) if first & 1 else loaded


def open_body(data: bytes, fds: List[int]) -> Any:
    """The object of a message that was received."""
    try:
        count, size, name = _PREFIX.unpack_from(data)
        if count == _DESCRIBED:
            return made_again(pickle.loads(memoryview(data)[_PREFIX.size :]))
        if len(data) > _PREFIX.size:
            return unpack(bytearray(memoryview(data)[_PREFIX.size :]), fds)
        return unpack(segment_of(Descriptor(fds.pop(0), size, name)), fds)
    finally:
        for fd in fds:
            os.close(fd)


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def try_send(sock: socket.socket, data: bytes, fds: Sequence[int]) -> bool:
    """False if the socket is full."""
    rest: Optional[socket.socket] = None
    try:
        if len(fds) > _MOST_FDS:
            fds, rest = _in_a_socket(fds)
        ancillary = [(_SOCKET, _RIGHTS, array.array("i", fds))] if fds else []
        try:
            sock.sendmsg([data], ancillary, _SEND_FLAGS)
        except ConnectionResetError:  # the other end was closed before it had received all; from now on: BrokenPipeError
            sock.sendmsg([data], ancillary, _SEND_FLAGS)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.ETOOMANYREFS:
            raise OSError(
                error.errno,
                "as many descriptors are under way in messages as a process may have open: raise `ulimit -n`, or let the "
                "messages be taken first",
            ) from None
        raise
    finally:
        if rest is not None:
            rest.close()


def _in_a_socket(fds: Sequence[int]) -> Tuple[List[int], socket.socket]:
    """More descriptors than a message can have: those that do not fit wait in a socket, which is the last one."""
    into, out = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with into:
        for first in range(_MOST_FDS - 1, len(fds), _MOST_FDS):
            some = array.array("i", fds[first : first + _MOST_FDS])
            into.sendmsg([b"x"], [(_SOCKET, _RIGHTS, some)], _SEND_FLAGS)
    return [*fds[: _MOST_FDS - 1], out.fileno()], out


def try_receive(sock: socket.socket) -> Optional[Tuple[bytes, List[int]]]:
    """A message and its descriptors; None if there is none; b"" if nobody has the other end."""
    try:
        data, fds = _receive(sock)
    except BlockingIOError:
        return None
    except ConnectionResetError:  # the other end was closed before it had received all; what it has sent is there
        data, fds = _receive(sock)
    if len(fds) == _MOST_FDS and _PREFIX.unpack_from(data)[0] > _MOST_FDS:
        with socket.socket(fileno=fds.pop()) as rest:
            while len(fds) < _PREFIX.unpack_from(data)[0]:
                fds += _receive(rest)[1]
    return data, fds


def _receive(sock: socket.socket) -> Tuple[bytes, List[int]]:
    data, ancillary, said, _ = sock.recvmsg(INLINE + _PREFIX.size, _ANCILLARY, _RECEIVE_FLAGS)
    fds = array.array("i")
    for level, kind, rights in ancillary:
        if level == _SOCKET and kind == _RIGHTS:
            fds.frombytes(rights[: len(rights) - len(rights) % fds.itemsize])
    if said & _CUT_SHORT:
        for fd in fds:
            os.close(fd)
        raise OSError(
            errno.EMFILE,
            "this process has too many open files to receive a message, which is lost: raise `ulimit -n`, or drop arrays "
            "that were received (each message of more than 16 KiB keeps two descriptors)",
        )
    return data, list(fds)


from ._reducers import Pickler, described_in_short, made_again, plain  # noqa: E402 (they use this module)
