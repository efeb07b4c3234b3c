"""What can be sent and received, and what is refused, with what to do."""
import array
import sys

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import gpurun

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class OverDlpack:
    """An array that has nothing but DLPack."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **arguments):
        return self.inner.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


class BeforeDlpack1(OverDlpack):
    def __dlpack__(self, stream=None):
        return self.inner.__dlpack__()


def pass_on(comm, sent, received):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    return comm.sendrecv(sent, right, recvbuf=received, source=left)


@given(st.data(), st.sampled_from(DTYPES), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9))
def test_arrays_of_any_type_and_shape_arrive(comm, data, dtype, shape):
    sent = data.draw(arrays.arrays(np.dtype(dtype), shape))
    received = np.zeros(shape, dtype)
    status = pass_on(comm, sent, received)
    assert received.tobytes() == sent.tobytes()
    assert status.count == sent.size and status.bytes == sent.nbytes


@pytest.mark.parametrize("wrap", [lambda a: a, memoryview, OverDlpack, BeforeDlpack1])
def test_every_protocol_describes_the_same_memory(comm, wrap):
    sent, received = np.arange(12.0) + comm.rank, np.zeros(12)
    pass_on(comm, wrap(sent), wrap(received))
    assert (received == np.arange(12.0) + (comm.rank - 1) % comm.size).all()


def test_bytes_and_arrays_of_the_standard_library(comm):
    received = bytearray(5)
    pass_on(comm, b"bytes", received)
    assert received == b"bytes"
    numbers = array.array("i", [0] * 3)
    pass_on(comm, array.array("i", [1, 2, 3]), numbers)
    assert numbers.tolist() == [1, 2, 3]


@pytest.mark.parametrize("wrap", [lambda a: a, OverDlpack])
def test_read_only_memory_is_sent_and_not_received_into(comm, wrap):
    fixed = np.arange(3)
    fixed.flags.writeable = False
    if wrap is not OverDlpack:  # NumPy exports no read-only array to a consumer that may write
        pass_on(comm, wrap(fixed), np.zeros(3, fixed.dtype))
    with pytest.raises(BufferError, match="read-?only"):
        comm.recv(wrap(fixed), comm.rank)
    with pytest.raises(BufferError, match="read-only.*numpy.array"):
        comm.allreduce(fixed, b"x" * 24)


@given(st.integers(2, 5), st.integers(2, 5))
def test_strided_memory_is_refused_with_the_remedy(comm, rows, columns):
    table = np.zeros((rows, columns))
    for part in (table[:, :1] if columns > 1 else table, table.T, table[::-1]):
        with pytest.raises(BufferError, match="ascontiguousarray"):
            comm.send(part, comm.rank)
        with pytest.raises(BufferError, match="contiguous"):
            comm.send(OverDlpack(part), comm.rank)


@pytest.mark.parametrize("bad", [np.zeros(2, ">f8"), np.zeros(2, "f4,i4"), np.array([None]), np.zeros(2, "M8[s]")])
def test_elements_without_a_datatype_are_refused_with_the_remedy(comm, bad):
    with pytest.raises((TypeError, BufferError), match="view"):
        comm.send(bad, comm.rank)


@pytest.mark.parametrize("bad", [3, "text", None, [1, 2], object()])
def test_what_is_no_buffer_is_refused(comm, bad):
    with pytest.raises(TypeError):
        comm.send(bad, comm.rank)


def test_what_is_refused_is_released(comm):
    for bad, role in ((np.zeros((4, 4)).T, "buffer"), (memoryview(bytearray(8))[::2], "buffer")):
        references = sys.getrefcount(bad)
        with pytest.raises(BufferError, match=role):
            comm.isend(bad, comm.rank)
        assert sys.getrefcount(bad) == references
    data = bytearray(8)
    with pytest.raises(BufferError):
        comm.isend(memoryview(data)[::2], comm.rank)
    data.append(1)  # which it cannot while somebody has its memory


def test_an_argument_of_another_type_is_a_type_error(comm):
    for call in (lambda: comm.split("red"), lambda: comm.cart_create(["a"]), lambda: comm.barrier(stream=1.5)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        comm.isend(b"x", comm.rank, stream=2**70)


def test_memory_of_the_device(comm):
    memory, got = gpurun.Memory(1000), gpurun.Memory(1000)
    gpurun.copy(memory, np.full(1000, comm.rank, "u1"))
    pass_on(comm, memory, got)
    if gpurun.device().emulated:  # NumPy cannot read the memory of a GPU
        assert (np.from_dlpack(got) == (comm.rank - 1) % comm.size).all()
    host = np.zeros(1000, "u1")
    gpurun.copy(host, got)
    assert (host == (comm.rank - 1) % comm.size).all()


def test_messages_in_the_order_of_a_stream(comm):
    stream = gpurun.Stream()
    one, other, host = gpurun.Memory(1 << 20), gpurun.Memory(1 << 20), np.zeros(1 << 20, "u1")
    gpurun.copy(one, np.full(1 << 20, comm.rank, "u1"), stream=stream)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.sendrecv(one, right, recvbuf=other, source=left, stream=stream)
    gpurun.copy(host, other, stream=stream.ptr)
    request = comm.isend(other, right, stream=stream)
    comm.recv(one, left, stream=stream)
    request.wait()
    stream.synchronize()
    assert (host == left).all()
    gpurun.copy(host, one)
    assert (host == (comm.rank - 2) % comm.size).all()


def test_what_is_no_stream_is_refused(comm):
    with pytest.raises(TypeError, match="gpurun.HOST"):
        comm.send(b"x", comm.rank, stream="default")


class OnCuda:
    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}


def test_cuda_memory_is_refused_on_emulated_devices(comm):
    if not gpurun.device().emulated:
        pytest.skip("the device is a GPU")
    with pytest.raises(BufferError, match="emulated"):
        comm.send(OnCuda(), comm.rank)
