"""How objects are packed for another process: arrays and tensors by what their memory is.

Memory that is shared already, and contiguous or not, is referred to. Other memory is copied once, into the message.
"""

from __future__ import annotations

import copyreg
import math
import operator
import pickle
import sys
import weakref
from collections import ChainMap
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from .. import _core
from .._core import Segment
from ._memory import memory, new_segment

if TYPE_CHECKING:
    from ._message import Parcel

_SHORT = 1 << 12  # bytes of an array that is pickled, too
_segments_of_tensors: Dict[int, List[weakref.ref[Segment]]] = {}  # by the address of PyTorch's storage


class Pickler(pickle.Pickler):
    """Of a Parcel. What it does not know is reduced as multiprocessing and PyTorch reduce it."""

    dispatch_table: Any = ChainMap(ForkingPickler._extra_reducers, copyreg.dispatch_table)  # type: ignore[attr-defined]

    def __init__(self, stream: Any, parcel: Parcel) -> None:
        super().__init__(stream, 5, buffer_callback=parcel.add)
        self._parcel = parcel

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        module = kind.__module__
        if module == "numpy" and kind.__name__ == "ndarray":
            return _reduce_array(obj, self._parcel)
        if module.startswith("torch") and kind in _tensor_types():
            return _reduce_tensor(obj, self._parcel)
        if kind is _core.Memory:
            return _reduce_memory(obj)
        reduce = getattr(kind, "_reduce_into", None)
        return NotImplemented if reduce is None else reduce(obj, self._parcel)


def shared_empty(shape: Any, dtype: Any = "float64") -> Any:
    """A NumPy array of zeros that goes to other processes without a copy: all of them see what one writes."""
    import numpy

    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"elements of type {kind} refer to objects of this process: put them into a queue")
    try:
        extents: Tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        extents = tuple(map(operator.index, shape))
    size = math.prod(extents) * kind.itemsize
    return numpy.ndarray(extents, kind, memoryview(new_segment(max(1, size))))


def described_in_short(obj: Any) -> Any:
    """What describes a plain array or tensor of few bytes, for made_again(). Many messages are no more."""
    kind = type(obj)
    torch: Any = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        dense = obj.is_cpu and obj.layout is torch.strided
        if dense and obj.nbytes <= _SHORT and not _is_shared(obj) and _is_plain(obj):
            return 0, pickle.PickleBuffer(_bytes_of(obj)), tuple(obj.shape), None, _name_of(obj.dtype), False, False
    elif kind.__name__ == "ndarray" and obj.nbytes <= _SHORT and _is_plain_array(obj) and _segment_under(obj) is None:
        return 1, pickle.PickleBuffer(obj), obj.shape, obj.dtype.str
    return None


def _is_plain_array(array: Any) -> bool:
    flags = array.flags
    return array.dtype.kind in "biufc" and flags.c_contiguous and flags.writeable and type(array).__module__ == "numpy"


def _is_plain(tensor: Any) -> bool:
    return not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)


def _is_shared(tensor: Any) -> bool:
    storage = tensor.untyped_storage()
    return storage.is_shared() or storage.data_ptr() in _segments_of_tensors


def plain(obj: Any, parcel: Parcel) -> Any:
    """What describes a plain array or tensor, for made_again(): most messages are no more. None: another object."""
    kind = type(obj)
    torch: Any = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return _described(obj, parcel)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        shared = _reduce_array(obj, parcel)
        if shared is not NotImplemented:
            return 3, *shared[1]
        if _is_plain_array(obj):
            return 1, pickle.PickleBuffer(obj), obj.shape, obj.dtype.str
    return None


def made_again(described: Any) -> Any:
    return _MAKERS[described[0]](*described[1:])


def _described(tensor: Any, parcel: Parcel) -> Any:
    reduced = _reduce_tensor(tensor, parcel)
    return None if reduced is NotImplemented else (_MAKERS.index(reduced[0]), *reduced[1])


def _reduce_array(array: Any, parcel: Parcel) -> Any:
    segment = _segment_under(array)
    if segment is None or array.dtype.hasobject:
        return NotImplemented  # NumPy gives a buffer that is copied
    start = array.__array_interface__["data"][0] - segment.address
    return _array_in, (parcel.attach_segment(segment), start, array.dtype, array.shape, array.strides, array.flags.writeable)


def _segment_under(array: Any) -> Optional[Segment]:
    kind = type(array)
    while isinstance(array, kind):
        array = array.base
    if isinstance(array, memoryview):
        array = array.obj
    return array if isinstance(array, Segment) else None


def _array_of(data: Any, shape: Any, dtype: str) -> Any:
    """An array that was copied into the message."""
    import numpy

    return numpy.ndarray(shape, dtype, data)


def _array_in(segment: Segment, start: int, dtype: Any, shape: Any, strides: Any, writeable: bool) -> Any:
    import numpy

    array = numpy.ndarray(shape, dtype, memoryview(segment), start, strides)
    array.flags.writeable = writeable
    return array


def _tensor_types() -> Tuple[type, ...]:
    torch: Any = sys.modules["torch"]
    return torch.Tensor, torch.nn.Parameter


def _reduce_tensor(tensor: Any, parcel: Parcel) -> Any:
    torch: Any = sys.modules["torch"]
    on_cpu = tensor.is_cpu
    if tensor.layout != torch.strided or tensor.is_quantized or not (on_cpu or tensor.is_cuda):
        return NotImplemented
    wants_grad = tensor.requires_grad
    if wants_grad:
        if not tensor.is_leaf:
            raise RuntimeError(
                "a tensor that is a result of autograd cannot go to another process, since its graph cannot: send "
                "tensor.detach(), or a leaf"
            )
    # What PyTorch keeps beside the memory of a tensor.
    beside = (_name_of(tensor.dtype), wants_grad, type(tensor) is torch.nn.Parameter)
    if wants_grad or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    shared = _shared_storage(tensor, parcel) if on_cpu else None
    if shared is not None:
        start = shared[1] + tensor.storage_offset() * tensor.element_size()
        return _tensor_in, (shared[0], start, tuple(tensor.shape), tensor.stride(), *beside)
    device = None if on_cpu else _uuid_of(tensor.device)
    return _tensor_of, (pickle.PickleBuffer(_bytes_of(tensor)), tuple(tensor.shape), device, *beside)


_dtypes: Dict[Any, str] = {}


def _name_of(dtype: Any) -> str:
    name = _dtypes.get(dtype)
    if name is None:
        name = _dtypes[dtype] = str(dtype).replace("torch.", "")
    return name


def _bytes_of(tensor: Any) -> Any:
    """A NumPy array of its elements, or of their bytes if NumPy has no such type."""
    torch: Any = sys.modules["torch"]
    host = tensor.cpu().contiguous() if tensor.is_cuda or not tensor.is_contiguous() else tensor
    try:
        return host.numpy()
    except TypeError:
        return host.reshape(-1).view(torch.uint8).numpy()


_shared_names: Dict[int, Tuple[Any, int, int, int]] = {}  # of PyTorch's shared storages, which are known by a weak reference
_MOST_NAMES = 256


def _shared_storage(tensor: Any, parcel: Parcel) -> Optional[Tuple[Any, int]]:
    """What is attached for its memory, and where its storage begins there; None if no other process can map it."""
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    for reference in _segments_of_tensors.get(address, ()):
        segment = reference()
        if segment is not None:
            return parcel.attach_segment(segment), address - segment.address
    if not storage.is_shared() or storage.nbytes() == 0:
        return None
    key = storage._cdata  # of no other storage while there is a weak reference
    known = _shared_names.get(key)
    if known is None:
        known = _shared_names[key] = _share(storage)
        if len(_shared_names) > _MOST_NAMES:
            del _shared_names[next(iter(_shared_names))]
    _, fd, size, name = known
    return parcel.attach(fd, _keeper(storage), size, name), 0


def _share(storage: Any) -> Tuple[Any, int, int, int]:
    library: Any = sys.modules["torch.multiprocessing"]
    if library.get_sharing_strategy() != "file_descriptor":
        raise ValueError(
            "a tensor in memory that PyTorch shares by names of files cannot be passed on: call "
            "torch.multiprocessing.set_sharing_strategy('file_descriptor') before tensors are shared"
        )
    fd, size = storage._share_fd_cpu_()
    return library.reductions.StorageWeakRef(storage), fd, size, memory.new_name()


_keepers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class _Keeper:
    """Of a storage of PyTorch, of which each call gives another object."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage


def _keeper(storage: Any) -> _Keeper:
    keeper = _keepers.get(storage.data_ptr())
    if keeper is None:
        keeper = _keepers[storage.data_ptr()] = _Keeper(storage)
    return keeper


def _finish(tensor: Any, requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def _tensor_in(attached: Any, start: int, shape: Any, strides: Any, dtype: str, requires_grad: bool, is_parameter: bool) -> Any:
    """A tensor in shared memory: a Segment, or the Descriptor of PyTorch's."""
    import torch

    kind = getattr(torch, dtype)
    if isinstance(attached, Segment):
        storage = _bytes_in(attached, memoryview(attached)).untyped_storage()
    else:
        if attached.made is None:
            storage_type: Any = torch.UntypedStorage
            attached.made = memory.known(
                attached.name, lambda: storage_type._new_shared_fd_cpu(attached.fd, attached.size)
            )
        storage = attached.made
    tensor = torch.empty(0, dtype=kind).set_(storage, start // kind.itemsize, shape, strides)
    return _finish(tensor, requires_grad, is_parameter)


def _tensor_of(data: Any, shape: Any, device: Optional[str], dtype: str, requires_grad: bool, is_parameter: bool) -> Any:
    """A tensor that was copied into the message."""
    import torch

    kind = getattr(torch, dtype)
    if len(data) == 0:
        flat = torch.empty(0, dtype=kind)
    else:
        view = memoryview(data)
        flat = torch.frombuffer(view, dtype=kind)
        if isinstance(view.obj, Segment):
            _remember(flat, view.obj)
    tensor = flat if len(shape) == 1 else flat.view(shape)
    if device is not None:
        tensor = tensor.to(_device_of(device))
    return _finish(tensor, requires_grad, is_parameter)


def _bytes_in(segment: Segment, view: memoryview) -> Any:
    import torch

    flat = torch.frombuffer(view, dtype=torch.uint8)
    _remember(flat, segment)
    return flat


def _remember(tensor: Any, segment: Segment) -> None:
    """That its memory is in the segment, for when it is passed on."""
    address = tensor.data_ptr()

    def forget(reference: weakref.ref[Segment]) -> None:
        known = _segments_of_tensors.get(address, [])
        if reference in known:
            known.remove(reference)
        if not known:
            _segments_of_tensors.pop(address, None)

    _segments_of_tensors.setdefault(address, []).append(weakref.ref(segment, forget))


def _uuid_of(device: Any) -> str:
    import torch

    return str(torch.cuda.get_device_properties(device).uuid)


def _device_of(uuid: str) -> Any:
    import torch

    for ordinal in range(torch.cuda.device_count()):
        if _uuid_of(ordinal) == uuid:
            return torch.device("cuda", ordinal)
    raise RuntimeError(f"a tensor is on the GPU {uuid}, which this process does not see: change its CUDA_VISIBLE_DEVICES")


def _reduce_memory(memory: Any) -> Any:

    host = bytearray(len(memory))
    _core.copy(host, memory)
    return _memory_of, (pickle.PickleBuffer(host),)


def _memory_of(data: Any) -> Any:
    memory = _core.Memory(len(data))
    _core.copy(memory, data)
    return memory


_MAKERS: Tuple[Callable[..., Any], ...] = (_tensor_of, _array_of, _tensor_in, _array_in)
