#!/usr/bin/env python3
"""torch_memory.py, on 2 ranks: tensors of PyTorch, whatever its allocator is, are sent and received as they are.

PYTORCH_CUDA_ALLOC_CONF chooses the allocator: expandable segments (mapped memory in pieces), cudaMallocAsync, or plain.
GPURUN_LIBRARY is the library. Exits 77 without PyTorch or a GPU.
"""
import ctypes
import os
import sys

try:
    import torch
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(77)

HOST = ctypes.c_void_p(2**64 - 1)  # GPURUN_HOST
BYTE = 1  # GPURUN_BYTE
SIZES = [8, 3001, 70_000, 5 * 2**20 + 3, 70 * 2**20]


class Comm(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("ordinal", ctypes.c_int),
                ("memory_bytes", ctypes.c_size_t), ("name", ctypes.c_char * 96), ("uuid", ctypes.c_char * 48),
                ("pci_bus_id", ctypes.c_char * 16)]


WORLD = Comm(1)


class Gpurun:
    def __init__(self):
        self.library = ctypes.CDLL(os.environ["GPURUN_LIBRARY"])
        self.library.gpurun_error_detail.restype = ctypes.c_char_p
        message = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, Comm, ctypes.c_void_p]
        self.library.gpurun_send.argtypes = message
        self.library.gpurun_recv.argtypes = [*message, ctypes.c_void_p]
        self.library.gpurun_comm_rank.argtypes = [Comm, ctypes.POINTER(ctypes.c_int)]
        self.check(self.library.gpurun_init())
        rank = ctypes.c_int()
        self.check(self.library.gpurun_comm_rank(WORLD, ctypes.byref(rank)))
        self.rank = rank.value
        info = DeviceInfo(size=ctypes.sizeof(DeviceInfo))
        self.check(self.library.gpurun_device(ctypes.byref(info)))
        self.ordinal = info.ordinal

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.gpurun_error_detail().decode())

    def send(self, tensor, stream):
        self.check(self.library.gpurun_send(tensor.data_ptr(), tensor.numel(), BYTE, 1 - self.rank, 7, WORLD, stream))

    def receive(self, tensor, stream):
        self.check(
            self.library.gpurun_recv(tensor.data_ptr(), tensor.numel(), BYTE, 1 - self.rank, 7, WORLD, stream, None))


def content(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)


def new(kind, size):
    if kind == "device":
        return torch.zeros(size, dtype=torch.uint8, device="cuda")
    return torch.zeros(size, dtype=torch.uint8, pin_memory=kind == "pinned")


def exchange(gpurun, seed, size, source, target, on_stream):
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream) if on_stream else HOST
    expected = content(size, seed)
    if seed % 2 == gpurun.rank:
        tensor = new(source, size)
        tensor.copy_(expected, non_blocking=on_stream and source == "device")
        if not on_stream:
            torch.cuda.synchronize()
        gpurun.send(tensor, stream)
        if source == "device":
            tensor.fill_(0xEE)  # PyTorch's stream is the message's: this comes after it
        else:
            torch.cuda.current_stream().synchronize()  # host memory must stay until the stream has read it
    else:
        tensor = new(target, size)
        if not on_stream:
            torch.cuda.synchronize()
        gpurun.receive(tensor, stream)
        torch.cuda.current_stream().synchronize()
        if not torch.equal(tensor.cpu(), expected):
            raise RuntimeError(f"{size} bytes from {source} to {target} memory, stream: {on_stream}: wrong bytes")


def main():
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    gpurun = Gpurun()
    torch.cuda.set_device(gpurun.ordinal)
    held = []  # so that what comes later lies elsewhere in the segments
    seed = 0
    for on_stream in (True, False):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for size in SIZES:
                for source in ("device", "pinned", "pageable"):
                    for target in ("device", "pinned", "pageable"):
                        exchange(gpurun, seed, size, source, target, on_stream)
                        seed += 1
                held.append(torch.empty(size * 3, dtype=torch.uint8, device="cuda"))
        side.synchronize()
    if gpurun.rank == 0:
        print(f"{seed} messages, {torch.cuda.memory.get_allocator_backend()} allocator, "
              f"{os.environ.get('PYTORCH_CUDA_ALLOC_CONF', 'its own settings')}")
    gpurun.check(gpurun.library.gpurun_finalize())
    return 0


sys.exit(main())
