"""Buckets of device memory through which many tensors are lent."""

from __future__ import annotations

import sys

from ._core import READ_ONLY, Comm, Memory, Request

TYPE_CHECKING = False  # typing's, as in _waiting
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Sequence, Union

_ALIGNMENT = 256


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class Pool:
    """Buckets that are filled with tensors and lent in turn: while one is at its borrowers, the next one is filled.

    All are one allocation, which a borrower maps once. So tensors of any memory can be lent, and the originals may be
    changed at once.
    """

    def __init__(self, bucket_bytes: int, buckets: int = 2) -> None:
        self._size = _aligned(bucket_bytes)
        self._memory = Memory(self._size * buckets)
        self._lent: List[List[Request]] = [[] for _ in range(buckets)]
        self._turn = 0

    def lend(
        self, comm: Comm, tensors: Mapping[str, Any], dest: Union[int, Sequence[int]], tag: int = 0, *, metadata: bytes = b""
    ) -> int:
        """Copy tensors into buckets, and lend each bucket that is full, read-only, by the tensors' names.

        tensors: of PyTorch, NumPy or CuPy, all of one library, in whose current stream they are copied. dest: a rank, or
        several, which borrow until they have the names that they want. The copies into a bucket come after the borrowers
        have given it back; the host waits only until they have called that. Returns how many loans each `dest` gets.
        Raises ValueError if a tensor is larger than a bucket.
        """
        ranks = [dest] if isinstance(dest, int) else list(dest)
        for name, tensor in tensors.items():
            if tensor.nbytes > self._size:
                raise ValueError(f"{name} has {tensor.nbytes} bytes, and a bucket {self._size}: make the buckets larger")
        bucket: Dict[str, Any] = {}
        used = loans = 0
        for name, tensor in tensors.items():
            if bucket and used + tensor.nbytes > self._size:
                self._lend_bucket(comm, bucket, ranks, tag, metadata)
                bucket, used, loans = {}, 0, loans + 1
            if not bucket:
                self._take_back()
            bucket[name] = self._place(tensor, used)
            bucket[name][...] = tensor
            used += _aligned(tensor.nbytes)
        if bucket:
            self._lend_bucket(comm, bucket, ranks, tag, metadata)
        return loans + bool(bucket)

    def wait(self) -> None:
        """Complete all loans, each in the order of the stream in which it was lent."""
        for _ in self._lent:
            self._take_back()
            self._turn = (self._turn + 1) % len(self._lent)

    def _take_back(self) -> None:
        for request in self._lent[self._turn]:
            request.wait()
        self._lent[self._turn] = []

    def _place(self, tensor: Any, used: int) -> Any:
        """As `tensor`, but in the bucket whose turn it is."""
        library = sys.modules[type(tensor).__module__.partition(".")[0]]
        first = self._turn * self._size + used
        everything: Any = library.from_dlpack(self._memory)
        return everything[first : first + tensor.nbytes].view(tensor.dtype).reshape(tensor.shape)

    def _lend_bucket(self, comm: Comm, bucket: Dict[str, Any], ranks: Sequence[int], tag: int, metadata: bytes) -> None:
        for rank in ranks:  # if one cannot be lent, the bucket stays with those that have it
            self._lent[self._turn].append(comm.lend(bucket, rank, tag, kind=READ_ONLY, metadata=metadata))
        self._turn = (self._turn + 1) % len(self._lent)

    def __repr__(self) -> str:
        return f"<gpurun.Pool of {len(self._lent)} buckets of {self._size} bytes>"
