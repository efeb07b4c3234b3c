"""Objects: pickled, with their buffers beside the pickle, in one message."""
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpurun import _objects

OBJECTS = st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
                       lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(OBJECTS)
def test_objects_arrive(comm, obj):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    request = comm.isend_object([comm.rank, obj], right)
    assert comm.recv_object(left) == [left, obj]
    request.wait()
    assert comm.bcast_object(obj if comm.rank == 0 else None) == obj
    assert comm.allgather_object((comm.rank, obj)) == [(rank, obj) for rank in range(comm.size)]
    gathered = comm.gather_object(obj, comm.size - 1)
    assert gathered == ([obj] * comm.size if comm.rank == comm.size - 1 else None)
    assert comm.scatter_object([[rank, obj] for rank in range(comm.size)] if comm.rank == 0 else None) == [comm.rank, obj]


def test_arrays_in_objects_are_not_pickled_and_can_be_written(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    obj = {"deep": [{"w": np.arange(100000.0)}, pickle.PickleBuffer(bytearray(b"raw"))]}
    assert len(pickle.dumps(obj["deep"][0], protocol=5, buffer_callback=lambda _: False)) < 1000
    request = comm.isend_object(obj, right)
    got = comm.recv_object(left)
    request.wait()
    assert (got["deep"][0]["w"] == obj["deep"][0]["w"]).all() and bytes(got["deep"][1]) == b"raw"
    got["deep"][0]["w"][:] = 1  # it is the memory of the message
    assert got["deep"][0]["w"].ctypes.data % 16 == 0


def test_a_message_is_its_pickle_and_its_buffers():
    array = np.arange(1000.0)
    assert len(_objects.pack(array)) < array.nbytes + 1000


@pytest.mark.parametrize("message", [b"", b"no object, but long enough"])
def test_a_message_that_is_no_object_is_an_error_that_says_so(comm, message):
    comm.send(message, comm.rank, 3)
    with pytest.raises(ValueError, match="no object"):
        comm.recv_object(comm.rank, 3)
