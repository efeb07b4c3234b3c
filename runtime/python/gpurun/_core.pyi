"""The extension: types and constants of gpurun. What each does is in its docstring."""

from typing import Any, Callable, Generator, List, Mapping, Optional, Protocol, Sequence, Tuple, TypeVar, Union, overload
from ._loans import Loan
from typing_extensions import Buffer as _BufferProtocol

class _Dlpack(Protocol):
    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

class _CudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...

class _CudaStream(Protocol):
    def __cuda_stream__(self) -> Tuple[int, int]: ...

class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...

AnyTensor = _Dlpack
AnyBuffer = Union[_BufferProtocol, _Dlpack, _CudaArray]
AnyStream = Union[None, int, "Host", "Stream", _CudaStream, _TorchStream, _CupyStream]
Part = Union[AnyBuffer, "InPlace"]
_Self = TypeVar("_Self")

SUM: int
PROD: int
MIN: int
MAX: int
LAND: int
LOR: int
LXOR: int
BAND: int
BOR: int
BXOR: int
AVG: int
ANY_SOURCE: int
ANY_TAG: int
ALL_RANKS: int
PROC_NULL: int
SPLIT_NODE: int
SPLIT_GPU: int
SPLIT_NUMA_NODE: int
READ_ONLY: int
EXCLUSIVE: int
SHARED: int
READ_OR_COPY: int
COPY: int
IN_PLACE: InPlace
HOST: Host
COMM_WORLD: Comm
COMM_SELF: Comm

class InPlace: ...
class Host: ...

class Stream:
    def __init__(self) -> None: ...
    def synchronize(self) -> None: ...
    def query(self) -> bool: ...
    @property
    def ptr(self) -> int: ...
    def __cuda_stream__(self) -> Tuple[int, int]: ...

class Memory:
    def __init__(self, size: int, pinned: bool = False) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def ptr(self) -> int: ...
    def __len__(self) -> int: ...
    def __dlpack__(self, **arguments: Any) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

class Device:
    @property
    def emulated(self) -> bool: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def uuid(self) -> str: ...

class Status:
    @property
    def source(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def cancelled(self) -> bool: ...

class Request:
    def wait(self, stream: AnyStream = None, timeout: Optional[float] = None) -> Status: ...
    def test(self, stream: AnyStream = None) -> Optional[Status]: ...
    def cancel(self) -> None: ...
    def start(self) -> None: ...
    def free(self) -> None: ...
    def add_done_callback(self, callback: Callable[[], object]) -> None: ...
    def remove_done_callback(self, callback: Callable[[], object]) -> None: ...
    @property
    def done(self) -> bool: ...
    def __await__(self) -> Generator[Any, None, Status]: ...
    def __enter__(self: _Self) -> _Self: ...
    def __exit__(self, *error: object) -> None: ...

class Tensor:
    @property
    def shape(self) -> Tuple[int, ...]: ...
    def __dlpack__(self, **arguments: Any) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

class BorrowedLoan:
    @property
    def is_open(self) -> bool: ...
    @property
    def status(self) -> Status: ...
    @property
    def kind(self) -> int: ...
    @property
    def count(self) -> int: ...
    def names(self) -> List[str]: ...
    def metadata(self) -> bytes: ...
    def tensor(self, index: int, owner: object) -> Tensor: ...
    def give_back(self, stream: AnyStream) -> None: ...

class Message:
    @property
    def status(self) -> Status: ...
    def recv(self, buffer: AnyBuffer, *, stream: AnyStream = None) -> Status: ...
    def irecv(self, buffer: AnyBuffer, *, stream: AnyStream = None) -> Request: ...

class RankGroup:
    @property
    def size(self) -> int: ...
    @property
    def rank(self) -> Optional[int]: ...
    def include(self, ranks: Sequence[int]) -> RankGroup: ...
    def exclude(self, ranks: Sequence[int]) -> RankGroup: ...
    def translate(self, ranks: Sequence[int], other: RankGroup) -> List[Optional[int]]: ...
    def __or__(self, other: RankGroup) -> RankGroup: ...
    def __and__(self, other: RankGroup) -> RankGroup: ...
    def __sub__(self, other: RankGroup) -> RankGroup: ...
    def __len__(self) -> int: ...

class group:
    def __init__(self) -> None: ...
    def __enter__(self: _Self) -> _Self: ...
    def __exit__(self, *error: object) -> None: ...

class Comm:
    name: str
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def split(self, colour: Optional[int], key: int = 0) -> Optional[Comm]: ...
    def split_type(self, type: int = ..., key: int = 0) -> Optional[Comm]: ...
    def dup(self) -> Comm: ...
    def create(self, group: RankGroup) -> Optional[Comm]: ...
    def create_group(self, group: RankGroup, tag: int = 0) -> Optional[Comm]: ...
    def set_algorithm(self, collective: str, algorithms: str) -> None: ...
    def accept(self, name: str, timeout: Optional[float] = None) -> Comm: ...
    def connect(self, name: str, timeout: Optional[float] = None) -> Comm: ...
    def get_group(self) -> RankGroup: ...
    def free(self) -> None: ...
    def cart_create(self, dims: Sequence[int], periods: Optional[Sequence[bool]] = None) -> Optional[Comm]: ...
    def cart_get(self) -> Tuple[Tuple[int, ...], Tuple[int, ...], Tuple[int, ...]]: ...
    def cart_coords(self, rank: int) -> Tuple[int, ...]: ...
    def cart_rank(self, coords: Sequence[int]) -> int: ...
    def cart_shift(self, direction: int, displacement: int = 1) -> Tuple[int, int]: ...
    def cart_sub(self, remain_dims: Sequence[bool]) -> Optional[Comm]: ...
    def dist_graph_create_adjacent(self, sources: Sequence[int], destinations: Sequence[int]) -> Comm: ...

    def send(self, buffer: AnyBuffer, dest: int, tag: int = 0, *, stream: AnyStream = None) -> None: ...
    def ssend(self, buffer: AnyBuffer, dest: int, tag: int = 0, *, stream: AnyStream = None) -> None: ...
    def isend(self, buffer: AnyBuffer, dest: int, tag: int = 0, *, stream: AnyStream = None) -> Request: ...
    def issend(self, buffer: AnyBuffer, dest: int, tag: int = 0, *, stream: AnyStream = None) -> Request: ...
    def send_init(self, buffer: AnyBuffer, dest: int, tag: int = 0, *, stream: AnyStream = None) -> Request: ...
    def recv(self, buffer: AnyBuffer, source: int = -1, tag: int = -1, *, stream: AnyStream = None) -> Status: ...
    def irecv(self, buffer: AnyBuffer, source: int = -1, tag: int = -1, *, stream: AnyStream = None) -> Request: ...
    def recv_init(self, buffer: AnyBuffer, source: int = -1, tag: int = -1, *, stream: AnyStream = None) -> Request: ...
    @overload
    def sendrecv(
        self,
        sendbuf: AnyBuffer,
        dest: int,
        sendtag: int,
        recvbuf: AnyBuffer,
        source: int = -1,
        recvtag: int = -1,
        *,
        stream: AnyStream = None,
    ) -> Status: ...
    @overload
    def sendrecv(
        self,
        sendbuf: AnyBuffer,
        dest: int,
        sendtag: int = 0,
        *,
        recvbuf: AnyBuffer,
        source: int = -1,
        recvtag: int = -1,
        stream: AnyStream = None,
    ) -> Status: ...
    def probe(self, source: int = -1, tag: int = -1) -> Status: ...
    def mprobe(self, source: int = -1, tag: int = -1) -> Message: ...
    def iprobe(self, source: int = -1, tag: int = -1) -> Optional[Status]: ...
    def improbe(self, source: int = -1, tag: int = -1) -> Optional[Message]: ...

    def lend(
        self,
        tensors: Union[AnyTensor, Sequence[AnyTensor], Mapping[str, Any]],
        dest: int,
        tag: int = 0,
        *,
        kind: int = 1,
        metadata: bytes = b"",
        stream: AnyStream = None,
    ) -> Request: ...
    def borrow(self, source: int = -1, tag: int = -1, *, library: Any = None, stream: AnyStream = None) -> Loan: ...
    def lend_tensors(
        self, tensors: Sequence[AnyTensor], names: Optional[Sequence[str]], metadata: bytes, kind: int, dest: int,
        tag: int, stream: AnyStream,
    ) -> Request: ...
    def borrow_loan(self, source: int, tag: int, stream: AnyStream) -> BorrowedLoan: ...

    def send_object(self, obj: Any, dest: int, tag: int = 0) -> None: ...
    def isend_object(self, obj: Any, dest: int, tag: int = 0) -> Request: ...
    def recv_object(self, source: int = -1, tag: int = -1) -> Any: ...
    def bcast_object(self, obj: Any = None, root: int = 0) -> Any: ...
    def gather_object(self, obj: Any, root: int = 0) -> Optional[List[Any]]: ...
    def allgather_object(self, obj: Any) -> List[Any]: ...
    def scatter_object(self, objects: Optional[Sequence[Any]] = None, root: int = 0) -> Any: ...

    def barrier(self, stream: AnyStream = None) -> None: ...
    def ibarrier(self, stream: AnyStream = None) -> Request: ...
    def barrier_init(self, stream: AnyStream = None) -> Request: ...
    def bcast(self, buffer: AnyBuffer, root: int = 0, *, stream: AnyStream = None) -> None: ...
    def ibcast(self, buffer: AnyBuffer, root: int = 0, *, stream: AnyStream = None) -> Request: ...
    def bcast_init(self, buffer: AnyBuffer, root: int = 0, *, stream: AnyStream = None) -> Request: ...
    def gather(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def igather(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def gather_init(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def scatter(
        self,
        sendbuf: Optional[AnyBuffer],
        recvbuf: Part,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def iscatter(
        self,
        sendbuf: Optional[AnyBuffer],
        recvbuf: Part,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def scatter_init(
        self,
        sendbuf: Optional[AnyBuffer],
        recvbuf: Part,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def allgather(self, sendbuf: Part, recvbuf: AnyBuffer, *, stream: AnyStream = None) -> None: ...
    def iallgather(self, sendbuf: Part, recvbuf: AnyBuffer, *, stream: AnyStream = None) -> Request: ...
    def allgather_init(self, sendbuf: Part, recvbuf: AnyBuffer, *, stream: AnyStream = None) -> Request: ...
    def alltoall(self, sendbuf: Part, recvbuf: AnyBuffer, *, stream: AnyStream = None) -> None: ...
    def ialltoall(self, sendbuf: Part, recvbuf: AnyBuffer, *, stream: AnyStream = None) -> Request: ...
    def alltoall_init(self, sendbuf: Part, recvbuf: AnyBuffer, *, stream: AnyStream = None) -> Request: ...
    def gatherv(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        recvcounts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def igatherv(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        recvcounts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def gatherv_init(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        recvcounts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def scatterv(
        self,
        sendbuf: Optional[AnyBuffer],
        recvbuf: Part,
        sendcounts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def iscatterv(
        self,
        sendbuf: Optional[AnyBuffer],
        recvbuf: Part,
        sendcounts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def scatterv_init(
        self,
        sendbuf: Optional[AnyBuffer],
        recvbuf: Part,
        sendcounts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def allgatherv(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        displacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def iallgatherv(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        displacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def allgatherv_init(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        displacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def alltoallv(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddisplacements: Optional[Sequence[int]] = None,
        recvdisplacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ialltoallv(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddisplacements: Optional[Sequence[int]] = None,
        recvdisplacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def alltoallv_init(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddisplacements: Optional[Sequence[int]] = None,
        recvdisplacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def allreduce(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> None: ...
    def iallreduce(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> Request: ...
    def allreduce_init(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def scan(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> None: ...
    def iscan(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> Request: ...
    def scan_init(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> Request: ...
    def exscan(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> None: ...
    def iexscan(self, sendbuf: Part, recvbuf: AnyBuffer, op: int = ..., *, stream: AnyStream = None) -> Request: ...
    def exscan_init(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def reduce(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        op: int = ...,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ireduce(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        op: int = ...,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def reduce_init(
        self,
        sendbuf: Part,
        recvbuf: Optional[AnyBuffer] = None,
        op: int = ...,
        root: int = 0,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def reduce_scatter_block(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ireduce_scatter_block(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def reduce_scatter_block_init(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def reduce_scatter(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ireduce_scatter(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def reduce_scatter_init(
        self,
        sendbuf: Part,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        op: int = ...,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def neighbor_allgather(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ineighbor_allgather(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def neighbor_alltoall(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ineighbor_alltoall(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def neighbor_allgatherv(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        displacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ineighbor_allgatherv(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        recvcounts: Sequence[int],
        displacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> Request: ...
    def neighbor_alltoallv(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddisplacements: Optional[Sequence[int]] = None,
        recvdisplacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> None: ...
    def ineighbor_alltoallv(
        self,
        sendbuf: AnyBuffer,
        recvbuf: AnyBuffer,
        sendcounts: Sequence[int],
        recvcounts: Sequence[int],
        senddisplacements: Optional[Sequence[int]] = None,
        recvdisplacements: Optional[Sequence[int]] = None,
        *,
        stream: AnyStream = None,
    ) -> Request: ...

class Segment(_BufferProtocol):
    def __init__(self, mapping: _BufferProtocol, size: int, owner: Any) -> None: ...
    def __len__(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def owner(self) -> Any: ...

def write_parts(mapping: _BufferProtocol, parts: Sequence[AnyBuffer]) -> None: ...
def waitall(requests: Sequence[Request], stream: AnyStream = None) -> None: ...
def dims_create(ranks: int, dims: Sequence[int]) -> Tuple[int, ...]: ...
def copy(into: AnyBuffer, source: AnyBuffer, *, stream: AnyStream = None) -> None: ...
def unregister(buffer: AnyBuffer, timeout: Optional[float] = None) -> None: ...
def device() -> Device: ...
def init() -> None: ...
def finalize() -> None: ...
def stop_waiting() -> None: ...
def refuse_in_callback(function: str) -> None: ...
def initialized() -> bool: ...
def finalized() -> bool: ...
def abort(code: int = 1) -> None: ...
def wtime() -> float: ...
def errors_return() -> None: ...
def version() -> Tuple[int, int, int]: ...
