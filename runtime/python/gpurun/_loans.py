"""Loans: memory that another rank uses where it is. gpurun_loans(7) has the model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping as _Mapping

from . import _core
from ._core import ANY_SOURCE, ANY_TAG, HOST, READ_ONLY, Comm, Request
from ._errors import PeerLostError

TYPE_CHECKING = False  # typing's, as in _waiting
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

    from ._core import AnyStream, BorrowedLoan, Status


def _current_stream(library: Any) -> AnyStream:
    """That of the library whose tensors a loan becomes. On emulated devices the calling thread does the work."""
    if _core.device().emulated:
        return HOST
    cuda = getattr(library, "cuda", None)
    if hasattr(cuda, "current_stream"):
        return cuda.current_stream()  # type: ignore[union-attr, no-any-return]  # PyTorch
    if hasattr(cuda, "get_current_stream"):
        return cuda.get_current_stream()  # type: ignore[union-attr, no-any-return]  # CuPy
    return 0


class Loan:
    """What this rank has borrowed. `with` gives its tensors, and gives it back at the end, in the order of its stream.

    A tensor keeps its loan. One that nobody keeps and nobody has given back is given back, with a ResourceWarning.
    """

    def __init__(self, loan: BorrowedLoan, library: Any, place: str) -> None:
        self._loan = loan
        self._library = library
        self._place = place

    @property
    def tensors(self) -> Union[Dict[str, Any], Tuple[Any, ...]]:
        """By name, if the lender gave names; else in its order. Tensors of `library`, or gpurun.Tensor, for from_dlpack()."""
        tensors = [self._loan.tensor(index, self) for index in range(self._loan.count)]
        made = tensors if self._library is None else [self._library.from_dlpack(tensor) for tensor in tensors]
        names = self._loan.names()
        return dict(zip(names, made)) if any(names) else tuple(made)

    @property
    def metadata(self) -> bytes:
        """What the lender has sent with it."""
        return self._loan.metadata()

    @property
    def kind(self) -> int:
        """gpurun.READ_ONLY, EXCLUSIVE or SHARED; COPY if it was lent READ_OR_COPY, and this rank has a copy."""
        return self._loan.kind

    @property
    def status(self) -> Status:
        """Of the message that the loan was: its source and tag."""
        return self._loan.status

    def give_back(self, stream: AnyStream = None) -> None:
        """Give it back after everything issued in `stream`; None: the stream in which it was borrowed.

        Its tensors must not be used afterwards. A loan that has been given back stays so.
        """
        if self._loan.is_open:
            self._loan.give_back(stream)

    def __enter__(self) -> Union[Dict[str, Any], Tuple[Any, ...]]:
        return self.tensors

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.give_back()

    def __del__(self) -> None:
        if not self._loan.is_open or _core.finalized():
            return
        warnings.warn(f"{self!r} was not given back", ResourceWarning, source=self)
        try:
            self._loan.give_back(None)
        except PeerLostError:
            pass  # its lender has died

    def __repr__(self) -> str:
        state = "borrowed" if self._loan.is_open else "given back, borrowed"
        return f"<gpurun.Loan of rank {self._loan.status.source}, {state} at {self._place}>"


def _lend(
    self: Comm,
    tensors: Union[Any, Sequence[Any], Mapping[str, Any]],
    dest: int,
    tag: int = 0,
    *,
    kind: int = READ_ONLY,
    metadata: bytes = b"",
    stream: AnyStream = None,
) -> Request:
    """Lend tensors of device or pinned memory to rank `dest` in place: one, several, or several by name, as one loan.

    dest: gpurun.ALL_RANKS lends to all others; the request is complete when all have given back.
    kind: gpurun.READ_ONLY (all read), EXCLUSIVE (only the borrower reads and writes), SHARED (all do, without order),
    READ_OR_COPY (all read; who cannot map a contiguous tensor, lent alone, gets a copy).
    metadata: up to 64 KiB that come with it. The borrower's stream comes after what is issued in `stream`; None is the
    current stream of the tensors' library.

    Returns a Request at once, which is complete when the loan has been given back: wait(stream=...) lets a stream wait
    for it. cancel() takes back what nobody has received. recv() of a single contiguous tensor gets a copy.
    Raises ValueError for an empty name, LoanError if some of it is lent already, UnsupportedError if other processes
    cannot map the memory.
    """
    if isinstance(tensors, _Mapping):
        if "" in tensors:
            raise ValueError("tensors: the name of one is empty: give it a name, or lend a list without names")
        return self.lend_tensors(list(tensors.values()), list(tensors), metadata, kind, dest, tag, stream)
    several: List[Any] = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    return self.lend_tensors(several, None, metadata, kind, dest, tag, stream)


def _borrow(
    self: Comm, source: int = ANY_SOURCE, tag: int = ANY_TAG, *, library: Any = None, stream: AnyStream = None
) -> Loan:
    """Borrow what the next message that fits lends: `with comm.borrow(0, library=torch) as tensors`.

    Waits until a message fits. library: a module whose from_dlpack() makes its tensors: numpy, torch, cupy, jax.dlpack.
    stream: what works on the tensors; None is the library's current stream. Raises LoanError if the message is no loan:
    it is left to be received.
    """
    caller = sys._getframe(1)
    place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
    order = _current_stream(library) if stream is None else stream
    return Loan(self.borrow_loan(source, tag, order), library, place)


setattr(_core.Comm, "lend", _lend)
setattr(_core.Comm, "borrow", _borrow)
