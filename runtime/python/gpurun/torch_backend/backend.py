"""torch.distributed's collectives and messages, by gpurun's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch._C._distributed_c10d import ReduceOp, Work

import gpurun

from .group import Group
from .work import CompleteWork, StartedWork, device_of

Tensor = torch.Tensor
Tensors = List[torch.Tensor]
Arguments = Tuple[Any, ...]
_STRIDED = torch.strided

_OPS = (
    (ReduceOp.SUM, gpurun.SUM),
    (ReduceOp.AVG, gpurun.AVG),
    (ReduceOp.MAX, gpurun.MAX),
    (ReduceOp.MIN, gpurun.MIN),
    (ReduceOp.PRODUCT, gpurun.PROD),
    (ReduceOp.BAND, gpurun.BAND),
    (ReduceOp.BOR, gpurun.BOR),
    (ReduceOp.BXOR, gpurun.BXOR),
)


def _op(wanted: Any) -> Tuple[int, Any]:
    """The operation, and of a premultiplied sum the factor."""
    for theirs, ours in _OPS:
        if wanted == theirs:
            return ours, None
    if wanted == ReduceOp.PREMUL_SUM:
        return gpurun.SUM, wanted.__getstate__()[1]  # PyTorch has no other name for it
    raise ValueError(f"the backend gpurun has no {wanted}: scale the tensor, and use ReduceOp.SUM")


def _one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise ValueError(f"give one tensor for each rank, not {len(tensors)}: a rank has one device")
    return tensors[0]


def _dense(tensor: Tensor) -> Tensor:
    if tensor.layout is not _STRIDED:
        raise ValueError("the backend gpurun moves dense tensors only: use tensor.to_dense()")
    if tensor.requires_grad or not tensor.is_contiguous():
        return tensor.detach().contiguous()
    return tensor


def _scaled(tensor: Tensor, factor: Any, in_place: bool = False) -> Tensor:
    """What a reduction takes of this rank's tensor: in a premultiplied sum, the tensor times the factor."""
    if factor is None:
        return tensor
    return tensor.mul_(factor) if in_place else tensor * factor


class _Outputs(List[Tuple[Tensor, Tensor]]):
    """Tensors that receive but are not contiguous, each with a stand-in that is."""

    def of(self, tensor: Tensor) -> Tensor:
        dense = _dense(tensor)
        if dense is not tensor and dense.data_ptr() != tensor.data_ptr():
            self.append((tensor, dense))
        return dense

    def parts_of(self, tensors: Tensors) -> Tensor:
        """One tensor with a part for each of `tensors`, behind each other."""
        total = sum(tensor.numel() for tensor in tensors)
        flat = torch.empty(total, dtype=tensors[0].dtype, device=tensors[0].device)
        begin = 0
        for tensor in tensors:
            self.append((tensor, flat[begin : begin + tensor.numel()].view(tensor.shape)))
            begin += tensor.numel()
        return flat

    def finish(self) -> None:
        with torch.no_grad():
            for tensor, dense in self:
                tensor.detach().copy_(dense)


def _joined(tensors: Tensors) -> Tensor:
    return torch.cat([_dense(tensor).reshape(-1) for tensor in tensors])


def _counts(tensor: Tensor, splits: Sequence[int], size: int) -> List[int]:
    """Elements for each rank: `splits` are rows of the tensor, and none at all means equal parts."""
    if not splits:
        if tensor.shape[0] % size != 0:
            raise ValueError(f"{tensor.shape[0]} rows are not equal parts for {size} ranks; give the split sizes")
        return [tensor.numel() // size] * size
    rows = tensor.shape[0]
    return [split * (tensor.numel() // rows if rows else 0) for split in splits]


class GpurunBackend(Group):
    """A group of torch.distributed, over a communicator of its ranks.

    CUDA tensors are ordered with their current stream; CPU tensors with the calling thread. A collective that PyTorch
    waits for at once is made at once; all else is started, and returns at once.
    """

    def __init__(self, comm: gpurun.Comm, timeout: Optional[timedelta] = None) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm = comm
        self._watch = comm.dup()  # for monitored_barrier(), whose messages meet no others
        self._limit = timeout
        self._seconds = None if timeout is None else timeout.total_seconds()
        self._is_over = False
        self._coalesced: Optional[List[StartedWork]] = None

    def name(self) -> str:
        return "gpurun"

    getBackendName = _get_backend_name = name

    @property
    def supports_coalescing(self) -> bool:
        return True

    def _started(self, requests: List[gpurun.Request], tensors: Tensors, outputs: Optional[_Outputs] = None) -> Work:
        work = StartedWork(tensors, requests, outputs.finish if outputs else None, self._seconds)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _made(
        self, name: str, calls: List[Arguments], tensors: Tensors, opts: Any, outputs: Optional[_Outputs] = None
    ) -> Work:
        """The work of a collective: comm.NAME of each of `calls`, whose results are in `tensors` when it is complete.

        On CUDA tensors, a call that is made at once costs one kernel in the current stream, and one that is started
        costs events, too. On CPU tensors all are started: only requests have a timeout.
        """
        at_once = self._coalesced is None and not getattr(opts, "asyncOp", True)
        device = device_of(tensors) if at_once else None
        if device is not None:
            call = getattr(self._comm, name)
            for each in calls:
                call(*each)
        else:
            start = getattr(self._comm, "i" + name)
            requests = [start(*each) for each in calls]
            if not at_once:
                return self._started(requests, tensors, outputs)
            for request in requests:
                request.wait(timeout=self._seconds)
        if outputs:
            outputs.finish()
        return CompleteWork(tensors, device)

    # ---- coalescing: what is started in between is one work

    def start_coalescing(self) -> None:
        self._coalesced = []

    def end_coalescing(self) -> Work:
        works, self._coalesced = self._coalesced or [], None
        rests = [work for work in works if work._finish is not None]

        def finish() -> None:
            for work in rests:
                work._finish_once()

        return StartedWork(
            [tensor for work in works for tensor in work.result()],
            [request for work in works for request in work._requests],
            finish if rests else None,
            self._seconds,
        )

    # ---- messages

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Work:
        tensor = _dense(_one(tensors))
        return self._started([self._comm.isend(tensor, dst, tag)], tensors)

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Work:
        outputs = _Outputs()
        return self._started([self._comm.irecv(outputs.of(_one(tensors)), source, tag)], tensors, outputs)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self.recv(tensors, gpurun.ANY_SOURCE, tag)

    # ---- from one to all, and back

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        here = _Outputs()
        return self._made("bcast", [(here.of(_one(tensors)), opts.rootRank)], tensors, opts, here)

    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> Work:
        here, root, into = _Outputs(), opts.rootRank, None
        if self._comm.rank == root:
            into = here.parts_of(outputs[0])
        call = (_dense(_one(inputs)), into, root)
        return self._made("gather", [call], outputs[0] if outputs else inputs, opts, here)

    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Work:
        here, root = _Outputs(), opts.rootRank
        source = _joined(inputs[0]) if self._comm.rank == root else None
        return self._made("scatter", [(source, here.of(_one(outputs)), root)], outputs, opts, here)

    def barrier(self, opts: Any = None) -> Work:
        return self._made("barrier", [()], [], opts)

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any) -> Work:
        here, (op, factor) = _Outputs(), _op(opts.reduceOp)
        call = (gpurun.IN_PLACE, _scaled(here.of(_one(tensors)), factor, in_place=True), op)
        return self._made("allreduce", [call], tensors, opts, here)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        here, (op, factor) = _Outputs(), _op(opts.reduceOp)
        calls = [(gpurun.IN_PLACE, _scaled(here.of(tensor), factor, in_place=True), op) for tensor in tensors]
        return self._made("allreduce", calls, tensors, opts, here)

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        here, root, (op, factor) = _Outputs(), opts.rootRank, _op(opts.reduceOp)
        call: Arguments
        if self._comm.rank == root:
            call = (gpurun.IN_PLACE, _scaled(here.of(_one(tensors)), factor, in_place=True), op, root)
        else:
            call = (_scaled(_dense(_one(tensors)), factor), None, op, root)
        return self._made("reduce", [call], tensors, opts, here)

    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Work:
        here, (op, factor) = _Outputs(), _op(opts.reduceOp)
        counts = [tensor.numel() for tensor in inputs[0]]
        call = (_scaled(_joined(inputs[0]), factor), here.of(_one(outputs)), counts, op)
        return self._made("reduce_scatter", [call], outputs, opts, here)

    def reduce_scatter_single(self, output: Tensor, source: Tensor, opts: Any) -> Work:
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        here, (op, factor) = _Outputs(), _op(opts.reduceOp)
        calls = [(_scaled(_dense(source), factor), here.of(output), op) for output, source in zip(outputs, inputs)]
        return self._made("reduce_scatter_block", calls, outputs, opts, here)

    # ---- from all to all

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        return self.allgather_coalesced([_one(outputs)], [_one(inputs)], opts)

    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        here, tensors = _Outputs(), [tensor for parts in outputs for tensor in parts]
        counts = [[part.numel() for part in parts] for parts in outputs]
        if all(len(set(each)) == 1 for each in counts):
            calls: List[Arguments] = [(_dense(source), here.parts_of(parts)) for source, parts in zip(inputs, outputs)]
            return self._made("allgather", calls, tensors, opts, here)
        calls = [(_dense(source), here.parts_of(parts), each) for source, parts, each in zip(inputs, outputs, counts)]
        return self._made("allgatherv", calls, tensors, opts, here)

    def all_gather_single(self, output: Tensor, source: Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [source], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        here = _Outputs()
        calls = [self._in_place(_dense(source), here.of(output)) for output, source in zip(outputs, inputs)]
        return self._made("allgather", calls, outputs, opts, here)

    def _in_place(self, source: Tensor, output: Tensor) -> Arguments:
        """FSDP gathers a part of the output into the whole of it."""
        own = output.data_ptr() + self._comm.rank * source.numel() * source.element_size()
        return (gpurun.IN_PLACE if source.data_ptr() == own else source, output)

    def all_to_all_single(
        self, output: Tensor, source: Tensor, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any = None
    ) -> Work:
        here, size = _Outputs(), self._comm.size
        counts = _counts(source, input_splits, size), _counts(output, output_splits, size)
        return self._made("alltoallv", [(_dense(source), here.of(output), *counts)], [output], opts, here)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        here = _Outputs()
        counts = [tensor.numel() for tensor in inputs], [tensor.numel() for tensor in outputs]
        return self._made("alltoallv", [(_joined(inputs), here.parts_of(outputs), *counts)], outputs, opts, here)

    # The names of these before PyTorch 2.13.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- the group

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """A barrier that says which ranks are not there in time."""
        limit = opts.timeout if opts.timeout > timedelta(0) else self._limit
        seconds = None if limit is None else limit.total_seconds()
        if self._comm.rank != 0:
            self._watch.isend(b"", 0)
            passed = self._watch.irecv(bytearray(), 0)
            try:
                passed.wait(timeout=seconds)
            except TimeoutError:
                passed.cancel()
                raise RuntimeError("monitored_barrier: rank 0 has not passed it in time") from None
            return
        missing = []
        arrivals = [self._watch.irecv(bytearray(), rank) for rank in range(1, self._comm.size)]
        for rank, arrival in enumerate(arrivals, 1):
            try:
                arrival.wait(timeout=seconds)
            except TimeoutError:
                arrival.cancel()
                missing.append(rank)
                if not wait_all_ranks:
                    break
                seconds = 0.0
        if missing:
            raise RuntimeError(f"monitored_barrier: not there in time: {', '.join(f'rank {rank}' for rank in missing)}")
        for rank in range(1, self._comm.size):
            self._watch.isend(b"", rank)

    def shutdown(self) -> None:
        """Free the group's communicators. What is under way completes."""
        if not self._is_over and not gpurun.is_finalized():
            self._is_over = True
            self._watch.free()
            self._comm.free()

    abort = shutdown

