"""Messages of Python objects: pickled, with buffers and tensors out of band, each in one message.

A message is a header (the number of buffers, then the length of the pickle and of each buffer, as 64-bit integers), the
pickle, and the buffers, each at a multiple of 64 bytes. What is received uses the memory of the message: no buffer is
copied again.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys

from . import _core
from ._core import ANY_SOURCE, ANY_TAG, Comm, Request

TYPE_CHECKING = False  # typing's, as in _waiting
if TYPE_CHECKING:
    from typing import Any, List, Optional, Sequence, Tuple

_ALIGNMENT = 64


def _rebuild_tensor(data: Any, dtype: str, shape: Tuple[int, ...], requires_grad: bool, device: str) -> Any:
    import torch

    flat = torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
    tensor = flat.view(getattr(torch, dtype)).reshape(shape)
    return tensor.to(device).requires_grad_(requires_grad)


class _Pickler(pickle.Pickler):
    """Gives PyTorch's tensors out of band, which pickle themselves in band. Tensors of a GPU travel through the host."""

    def reducer_override(self, obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or type(obj) is not torch.Tensor or obj.layout != torch.strided or obj.is_quantized:
            return NotImplemented
        host = obj.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        device = "cuda" if obj.is_cuda else "cpu"
        dtype = str(obj.dtype).replace("torch.", "")
        return _rebuild_tensor, (pickle.PickleBuffer(host), dtype, tuple(obj.shape), obj.requires_grad, device)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def pack(obj: Any) -> bytearray:
    """`obj` as one message."""
    buffers: List[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(obj)
    parts = [stream.getbuffer()] + [buffer.raw() for buffer in buffers]
    header = struct.pack(f"<{len(parts) + 1}Q", len(buffers), *(part.nbytes for part in parts))
    places = [_aligned(len(header))]
    for part in parts:
        places.append(_aligned(places[-1] + part.nbytes))
    message = bytearray(places[-1])
    message[: len(header)] = header
    for place, part in zip(places, parts):
        message[place : place + part.nbytes] = part
    return message


def unpack(message: bytearray) -> Any:
    """The object of a message. Its buffers are those of `message`."""
    try:
        (count,) = struct.unpack_from("<Q", message)
        lengths = struct.unpack_from(f"<{count + 1}Q", message, 8)
    except struct.error as error:
        raise ValueError("the message is no object of send_object(): receive what send() has sent with recv()") from error
    view = memoryview(message)
    place = _aligned(8 * (count + 2))
    parts: List[memoryview] = []
    for length in lengths:
        parts.append(view[place : place + length])
        place = _aligned(place + length)
    return pickle.loads(parts[0], buffers=parts[1:])


def _send_object(self: Comm, obj: Any, dest: int, tag: int = 0) -> None:
    """Send any object that can be pickled, in one message. Buffers and tensors in it are not pickled, but sent as they are."""
    self.send(pack(obj), dest, tag)


def _isend_object(self: Comm, obj: Any, dest: int, tag: int = 0) -> Request:
    """Start a send_object(); `obj` may be changed at once."""
    return self.isend(pack(obj), dest, tag)


def _recv_object(self: Comm, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Any:
    """Receive an object that send_object() has sent. Unpickling runs code of the sender: receive from ranks you trust."""
    message = self.mprobe(source, tag)
    data = bytearray(message.status.bytes)
    message.recv(data)
    return unpack(data)


def _bcast_object(self: Comm, obj: Any = None, root: int = 0) -> Any:
    """Give all ranks the object of rank `root`."""
    data = pack(obj) if self.rank == root else bytearray()
    length = bytearray(struct.pack("<Q", len(data)))
    self.bcast(length, root)
    if self.rank != root:
        data = bytearray(struct.unpack("<Q", length)[0])
    self.bcast(data, root)
    return obj if self.rank == root else unpack(data)


def _blocks(lengths: bytearray) -> Tuple[Tuple[int, ...], List[int]]:
    counts = struct.unpack(f"<{len(lengths) // 8}Q", lengths)
    return counts, [sum(counts[:index]) for index in range(len(counts))]


def _gather_object(self: Comm, obj: Any, root: int = 0) -> Optional[List[Any]]:
    """The objects of all ranks, as a list on rank `root`; None on the others."""
    data = pack(obj)
    here = self.rank == root
    lengths = bytearray(8 * self.size) if here else None
    self.gather(bytearray(struct.pack("<Q", len(data))), lengths, root)
    if lengths is None:
        self.gatherv(data, None, root=root)
        return None
    counts, places = _blocks(lengths)
    together = bytearray(sum(counts))
    self.gatherv(data, together, counts, root=root)
    return [unpack(together[place : place + count]) for place, count in zip(places, counts)]


def _allgather_object(self: Comm, obj: Any) -> List[Any]:
    """The objects of all ranks, as a list, on every rank."""
    data = pack(obj)
    lengths = bytearray(8 * self.size)
    self.allgather(bytearray(struct.pack("<Q", len(data))), lengths)
    counts, places = _blocks(lengths)
    together = bytearray(sum(counts))
    self.allgatherv(data, together, counts)
    return [unpack(together[place : place + count]) for place, count in zip(places, counts)]


def _scatter_object(self: Comm, objects: Optional[Sequence[Any]] = None, root: int = 0) -> Any:
    """Give rank i the i-th of `objects`, a sequence on rank `root`."""
    length = bytearray(8)
    if self.rank != root:
        self.scatter(None, length, root)
        data = bytearray(struct.unpack("<Q", length)[0])
        self.scatterv(None, data, root=root)
        return unpack(data)
    if objects is None or len(objects) != self.size:
        raise ValueError(f"scatter_object() needs an object for each of the {self.size} ranks")
    messages = [pack(each) for each in objects]
    counts = [len(each) for each in messages]
    self.scatter(bytearray(struct.pack(f"<{self.size}Q", *counts)), length, root)
    data = bytearray(counts[root])
    self.scatterv(bytearray(b"".join(messages)), data, counts, root=root)
    return unpack(data)


for _name, _method in list(globals().items()):
    if _name.endswith("_object"):
        setattr(_core.Comm, _name[1:], _method)
