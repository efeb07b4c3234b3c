"""torch.distributed's collectives and messages, by gpurun's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch._C._distributed_c10d import ReduceOp

import gpurun

from .group import Group
from .work import GpurunWork

Tensor = torch.Tensor
Tensors = List[torch.Tensor]

_OPS = {
    "SUM": gpurun.SUM,
    "PREMUL_SUM": gpurun.SUM,  # of what _scaled() gives
    "AVG": gpurun.AVG,
    "PRODUCT": gpurun.PROD,
    "MIN": gpurun.MIN,
    "MAX": gpurun.MAX,
    "BAND": gpurun.BAND,
    "BOR": gpurun.BOR,
    "BXOR": gpurun.BXOR,
}


def _op(wanted: Any) -> int:
    for name, number in _OPS.items():
        if wanted == getattr(ReduceOp, name):
            return number
    raise ValueError(f"the backend gpurun has no {wanted}: scale the tensor, and use ReduceOp.SUM")


def _one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise ValueError(f"give one tensor for each rank, not {len(tensors)}: a rank has one device")
    return tensors[0]


def _dense(tensor: Tensor) -> Tensor:
    if tensor.layout != torch.strided:
        raise ValueError("the backend gpurun moves dense tensors only: use tensor.to_dense()")
    return tensor.detach().contiguous()


def _scaled(tensor: Tensor, op: Any, in_place: bool = False) -> Tensor:
    """What a reduction takes of this rank's tensor: in a premultiplied sum, the tensor times the factor."""
    if op != ReduceOp.PREMUL_SUM:
        return tensor
    factor = op.__getstate__()[1]  # PyTorch has no other name for it
    return tensor.mul_(factor) if in_place else tensor * factor


class _Outputs:
    """Contiguous stand-ins for tensors that receive, and how they get into these in the end."""

    def __init__(self) -> None:
        self._copies: List[Tuple[Tensor, Tensor]] = []

    def of(self, tensor: Tensor) -> Tensor:
        dense = _dense(tensor)
        if dense.data_ptr() != tensor.data_ptr():
            self._copies.append((tensor, dense))
        return dense

    def parts_of(self, tensors: Tensors) -> Tensor:
        """One tensor with a part for each of `tensors`, behind each other."""
        total = sum(tensor.numel() for tensor in tensors)
        flat = torch.empty(total, dtype=tensors[0].dtype, device=tensors[0].device)
        begin = 0
        for tensor in tensors:
            self._copies.append((tensor, flat[begin : begin + tensor.numel()].view(tensor.shape)))
            begin += tensor.numel()
        return flat

    def finish(self) -> None:
        with torch.no_grad():
            for tensor, dense in self._copies:
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

    Starts return at once. CUDA tensors are ordered with their current stream; CPU tensors with the calling thread.
    """

    def __init__(self, comm: gpurun.Comm, timeout: Optional[timedelta] = None) -> None:
        super().__init__(comm.rank, comm.size)
        self._comm = comm
        self._watch = comm.dup()  # for monitored_barrier(), whose messages meet no others
        self._limit = timeout
        self._is_over = False
        self._coalesced: Optional[List[GpurunWork]] = None

    def name(self) -> str:
        return "gpurun"

    getBackendName = _get_backend_name = name

    @property
    def supports_coalescing(self) -> bool:
        return True

    def _started(self, requests: List[gpurun.Request], tensors: Tensors, outputs: Optional[_Outputs] = None) -> GpurunWork:
        work = GpurunWork(requests, tensors, None if outputs is None else outputs.finish, self._limit)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # ---- coalescing: what is started in between is one work

    def start_coalescing(self) -> None:
        self._coalesced = []

    def end_coalescing(self) -> GpurunWork:
        works, self._coalesced = self._coalesced or [], None
        tensors = [tensor for work in works for tensor in work.result()]

        def finish() -> None:
            for work in works:
                work._finish_once()

        return GpurunWork([request for work in works for request in work._requests], tensors, finish, self._limit)

    # ---- messages

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> GpurunWork:
        tensor = _dense(_one(tensors))
        return self._started([self._comm.isend(tensor, dst, tag)], tensors)

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> GpurunWork:
        outputs = _Outputs()
        return self._started([self._comm.irecv(outputs.of(_one(tensors)), source, tag)], tensors, outputs)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> GpurunWork:
        return self.recv(tensors, gpurun.ANY_SOURCE, tag)

    # ---- from one to all, and back

    def broadcast(self, tensors: Tensors, opts: Any) -> GpurunWork:
        outputs = _Outputs()
        return self._started([self._comm.ibcast(outputs.of(_one(tensors)), opts.rootRank)], tensors, outputs)

    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> GpurunWork:
        here, root, into = _Outputs(), opts.rootRank, None
        if self._comm.rank == root:
            into = here.parts_of(outputs[0])
        return self._started([self._comm.igather(_dense(_one(inputs)), into, root)], outputs[0] if outputs else [], here)

    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> GpurunWork:
        here, root = _Outputs(), opts.rootRank
        source = _joined(inputs[0]) if self._comm.rank == root else None
        return self._started([self._comm.iscatter(source, here.of(_one(outputs)), root)], outputs, here)

    def barrier(self, opts: Any = None) -> GpurunWork:
        return self._started([self._comm.ibarrier()], [])

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any) -> GpurunWork:
        return self.allreduce_coalesced([_one(tensors)], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> GpurunWork:
        outputs, op = _Outputs(), _op(opts.reduceOp)
        requests = [
            self._comm.iallreduce(gpurun.IN_PLACE, _scaled(outputs.of(tensor), opts.reduceOp, in_place=True), op)
            for tensor in tensors
        ]
        return self._started(requests, tensors, outputs)

    def reduce(self, tensors: Tensors, opts: Any) -> GpurunWork:
        outputs, root, op = _Outputs(), opts.rootRank, _op(opts.reduceOp)
        if self._comm.rank == root:
            result = _scaled(outputs.of(_one(tensors)), opts.reduceOp, in_place=True)
            request = self._comm.ireduce(gpurun.IN_PLACE, result, op, root)
        else:
            request = self._comm.ireduce(_scaled(_dense(_one(tensors)), opts.reduceOp), None, op, root)
        return self._started([request], tensors, outputs)

    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> GpurunWork:
        here, output = _Outputs(), _one(outputs)
        counts = [tensor.numel() for tensor in inputs[0]]
        source = _scaled(_joined(inputs[0]), opts.reduceOp)
        request = self._comm.ireduce_scatter(source, here.of(output), counts, _op(opts.reduceOp))
        return self._started([request], outputs, here)

    def reduce_scatter_single(self, output: Tensor, source: Tensor, opts: Any) -> GpurunWork:
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> GpurunWork:
        here, op = _Outputs(), _op(opts.reduceOp)
        requests = [
            self._comm.ireduce_scatter_block(_scaled(_dense(source), opts.reduceOp), here.of(output), op)
            for output, source in zip(outputs, inputs)
        ]
        return self._started(requests, outputs, here)

    # ---- from all to all

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> GpurunWork:
        return self._allgather_lists([_one(outputs)], [_one(inputs)])

    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> GpurunWork:
        return self._allgather_lists(outputs, inputs)

    def _allgather_lists(self, outputs: List[Tensors], inputs: Tensors) -> GpurunWork:
        here = _Outputs()
        requests = [self._allgather_one(source, parts, here) for source, parts in zip(inputs, outputs)]
        return self._started(requests, [tensor for parts in outputs for tensor in parts], here)

    def _allgather_one(self, source: Tensor, parts: Tensors, here: _Outputs) -> gpurun.Request:
        counts = [part.numel() for part in parts]
        if len(set(counts)) == 1:
            return self._comm.iallgather(_dense(source), here.parts_of(parts))
        return self._comm.iallgatherv(_dense(source), here.parts_of(parts), counts)

    def all_gather_single(self, output: Tensor, source: Tensor, opts: Any = None) -> GpurunWork:
        return self.all_gather_single_coalesced([output], [source])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> GpurunWork:
        here = _Outputs()
        requests = [self._gather_in_place(here.of(output), source) for output, source in zip(outputs, inputs)]
        return self._started(requests, outputs, here)

    def _gather_in_place(self, output: Tensor, source: Tensor) -> gpurun.Request:
        """FSDP gathers a part of the output into the whole of it."""
        dense = _dense(source)
        own = output.data_ptr() + self._comm.rank * dense.numel() * dense.element_size()
        return self._comm.iallgather(gpurun.IN_PLACE if dense.data_ptr() == own else dense, output)

    def all_to_all_single(
        self, output: Tensor, source: Tensor, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any = None
    ) -> GpurunWork:
        here, size = _Outputs(), self._comm.size
        request = self._comm.ialltoallv(
            _dense(source), here.of(output), _counts(source, input_splits, size), _counts(output, output_splits, size)
        )
        return self._started([request], [output], here)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> GpurunWork:
        here = _Outputs()
        request = self._comm.ialltoallv(
            _joined(inputs), here.parts_of(outputs), [t.numel() for t in inputs], [t.numel() for t in outputs]
        )
        return self._started([request], outputs, here)

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

