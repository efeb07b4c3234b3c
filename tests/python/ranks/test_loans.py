"""Loans: tensors that other ranks use where they are. Each rank lends to its right neighbour."""
import gc
import threading
import types
import warnings

import numpy as np
import pytest

import gpurun

DEVICE_IS_READ = gpurun.device().emulated  # by NumPy
pytestmark = pytest.mark.skipif(not DEVICE_IS_READ, reason="NumPy cannot read the memory of a GPU")


def neighbours(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def on_device(*shape, dtype=np.float64, value=0.0):
    memory = gpurun.Memory(int(np.prod(shape)) * np.dtype(dtype).itemsize)
    array = np.from_dlpack(memory).view(dtype).reshape(shape)
    array[...] = value
    return array


def test_named_tensors_are_used_in_place(comm):
    right, left = neighbours(comm)
    weights = {"w": on_device(3, 4, value=comm.rank), "b": on_device(5, dtype=np.int32, value=comm.rank)}
    lent = comm.lend(weights, right, 7, kind=gpurun.EXCLUSIVE, metadata=b"step 3")
    loan = comm.borrow(left, 7, library=np)
    with loan as tensors:
        assert list(tensors) == ["w", "b"]
        assert tensors["w"].shape == (3, 4) and tensors["b"].dtype == np.int32
        assert (tensors["w"] == left).all() and (tensors["b"] == left).all()
        assert (loan.metadata, loan.kind, loan.status.source) == (b"step 3", gpurun.EXCLUSIVE, left)
        tensors["w"] += 100
    lent.wait()
    assert (weights["w"] == comm.rank + 100).all()


def test_pinned_memory_is_used_in_place_by_the_cpu(comm):
    right, left = neighbours(comm)
    pinned = np.from_dlpack(gpurun.Memory(80, pinned=True)).view(np.float64)
    pinned[...] = comm.rank
    lent = comm.lend({"host": pinned[2:], "device": on_device(4, value=5)}, right, kind=gpurun.SHARED)
    with comm.borrow(left, library=np) as tensors:
        assert (tensors["host"] == left).all() and (tensors["device"] == 5).all()
        tensors["host"][3] = 100 + comm.rank
    lent.wait()
    assert pinned.tolist() == [comm.rank] * 5 + [100 + right] + [comm.rank] * 4


def test_a_tensor_and_a_list_come_as_tuples(comm):
    right, left = neighbours(comm)
    columns = on_device(4, 6)
    columns[...] = np.arange(24.0).reshape(4, 6) + comm.rank
    requests = [comm.lend(columns, right), comm.lend([columns[:, 1], columns[2:, ::2]], right)]
    with comm.borrow(left, library=np) as (whole,):
        assert (whole == np.arange(24.0).reshape(4, 6) + left).all()
    named = comm.lend(types.MappingProxyType({"w": columns}), right, 1)
    with comm.borrow(left, 1) as tensors:
        assert list(tensors) == ["w"]
    named.wait()
    with comm.borrow(left, library=np) as (column, part):
        assert column.tolist() == [1 + left, 7 + left, 13 + left, 19 + left] and part.shape == (2, 3)
    gpurun.waitall(requests)


def test_what_is_lent_to_be_read_cannot_be_written(comm):
    right, left = neighbours(comm)
    request = comm.lend(on_device(4), right)
    with comm.borrow(left, library=np) as (array,):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    request.wait()


def test_a_receive_gets_a_copy_of_a_tensor(comm):
    right, left = neighbours(comm)
    request = comm.lend(on_device(10, value=comm.rank), right)
    got = np.zeros(10)
    assert comm.recv(got, left).count == 10
    assert (got == left).all()
    request.wait()


def test_a_loan_that_nobody_has_received_is_taken_back(comm):
    request = comm.lend(on_device(10), neighbours(comm)[0], 9)
    request.cancel()
    assert request.wait().cancelled
    comm.barrier()
    assert comm.iprobe(neighbours(comm)[1], 9) is None


def test_a_loan_can_be_borrowed_by_several_ranks(comm):
    array = on_device(comm.size)
    requests = [comm.lend(array, rank, kind=gpurun.SHARED) for rank in range(comm.size)] if comm.rank == 0 else []
    with comm.borrow(0, library=np) as (shared,):
        shared[comm.rank] = comm.rank + 1
    gpurun.waitall(requests)
    if comm.rank == 0:
        assert array.tolist() == list(range(1, comm.size + 1))


def test_a_forgotten_loan_is_given_back_with_a_warning_that_names_the_place(comm):
    right, left = neighbours(comm)
    request = comm.lend({"w": on_device(3)}, right)
    tensors = comm.borrow(left, library=np).tensors
    gc.collect()
    comm.barrier()
    assert request.test() is None  # a tensor keeps its loan
    comm.barrier()
    with pytest.warns(ResourceWarning, match=r"test_loans\.py:\d+> was not given back"):
        del tensors
        gc.collect()
    request.wait()


def test_a_loan_that_was_given_back_stays_so(comm):
    right, left = neighbours(comm)
    request = comm.lend(on_device(3), right)
    loan = comm.borrow(left)
    loan.give_back()
    loan.give_back()
    assert "given back" in repr(loan)
    with pytest.raises(gpurun.Error, match="given back"):
        loan.tensors
    request.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del loan


def test_what_cannot_be_lent_is_refused_with_the_reason(comm):
    right, left = neighbours(comm)
    if comm.size > 1:
        with pytest.raises(gpurun.UnsupportedError, match="host memory"):
            comm.lend(np.zeros(3), right)
    with pytest.raises(TypeError, match="__dlpack__"):
        comm.lend(b"bytes", right)
    request = comm.isend(b"x", right, 3)
    with pytest.raises(gpurun.Error, match="no loan"):
        comm.borrow(left, 3)
    assert comm.recv(bytearray(1), left, 3).count == 1
    request.wait()


def test_names_that_would_lose_a_tensor_are_refused(comm):
    for names, error in ((["w"], "as many"), (["w", "w\0x"], "NUL"), (["w", 1], "str")):
        with pytest.raises((TypeError, ValueError), match=error):
            comm.lend_tensors([on_device(1), on_device(1)], names, b"", gpurun.SHARED, comm.rank, 0, None)
    with pytest.raises(ValueError, match="empty"):
        comm.lend({"": on_device(1)}, comm.rank)


def test_dlpack_exports_what_the_other_library_knows(comm):
    memory = gpurun.Memory(8)
    request = comm.lend(on_device(2), comm.rank, 4, kind=gpurun.READ_ONLY)
    with comm.borrow(comm.rank, 4) as (tensor,):
        for made in (memory, tensor):
            assert '"dltensor_versioned"' in repr(made.__dlpack__(max_version=(1, 0)))
            with pytest.raises(BufferError, match="does not copy"):
                made.__dlpack__(copy=True)
        with pytest.raises(BufferError, match="read-only"):
            tensor.__dlpack__()
    request.wait()
    for old in ({}, {"max_version": None}, {"max_version": (0, 8)}):
        assert '"dltensor"' in repr(memory.__dlpack__(**old))


def test_a_pool_keeps_a_bucket_that_only_some_have_got(comm):
    pool = gpurun.Pool(64, buckets=1)
    with pytest.raises(gpurun.ArgumentError, match="destination 99"):
        pool.lend(comm, {"w": np.ones(1)}, [comm.rank, 99])
    loan = comm.borrow(comm.rank, library=np)
    threading.Timer(0.05, loan.give_back).start()
    assert loan.tensors["w"] == 1
    assert pool.lend(comm, {"w": np.zeros(1)}, comm.rank) == 1  # waits for that
    with comm.borrow(comm.rank, library=np) as tensors:
        assert tensors["w"] == 0 and "given back" in repr(loan)
    pool.wait()


def test_a_loan_keeps_the_stream_in_which_it_was_borrowed(comm):
    request = comm.lend(on_device(1), comm.rank, 4)
    loan = comm.borrow(comm.rank, 4, stream=gpurun.Stream())
    gc.collect()
    loan.give_back()
    request.wait()


def test_a_pool_lends_more_than_its_buckets_hold(comm):
    right, left = neighbours(comm)
    pool = gpurun.Pool(1000)
    sizes = {"scalar": (), "empty": (0,), "a": (3, 40), "b": (125,), "c": (5,), "d": (100,), "e": (2, 2)}
    loans = []
    for step in range(4):
        tensors = {name: np.full(size, comm.rank + step, "i4" if name == "c" else "f8") for name, size in sizes.items()}
        lending = threading.Thread(target=lambda: loans.append(pool.lend(comm, tensors, [right])))
        lending.start()  # it waits for buckets, which the neighbour gives back
        got = {}
        while len(got) < len(sizes):
            with comm.borrow(left, library=np) as bucket:
                assert sum(array.nbytes for array in bucket.values()) <= 1024
                got.update({name: array.copy() for name, array in bucket.items()})
        lending.join()
        for name, size in sizes.items():
            assert got[name].shape == size and (got[name] == left + step).all() and got[name].dtype == tensors[name].dtype
    assert loans == [6] * 4
    pool.wait()
    with pytest.raises(ValueError, match="make the buckets larger"):
        pool.lend(comm, {"w": np.zeros(1000)}, right)


def test_a_request_keeps_what_is_lent(comm):
    right, left = neighbours(comm)
    request = comm.lend(on_device(1000, value=comm.rank), right)
    gc.collect()
    with comm.borrow(left, library=np) as (array,):
        assert (array == left).all()
    request.wait()


def test_one_call_lends_to_all(comm):
    array = on_device(6, value=3.0)
    if comm.rank == 0:
        request = comm.lend(array, gpurun.ALL_RANKS, 21)
        request.wait()
        array[...] = 0
    else:
        with comm.borrow(0, 21, library=np) as (lent,):
            assert (lent == 3.0).all()
    comm.barrier()


def test_what_is_borrowed_is_lent_on(comm):
    right, left = neighbours(comm)
    if comm.size < 2:
        return
    array = on_device(6, value=1.0)
    if comm.rank == 0:
        comm.lend(array, right, 22, kind=gpurun.EXCLUSIVE).wait()
        assert (array == comm.size).all()
        return
    loan = comm.borrow(left, 22, library=np)
    (lent,) = loan.tensors
    lent += 1
    if comm.rank + 1 < comm.size:
        request = comm.lend(lent, right, 22, kind=gpurun.EXCLUSIVE)
        with pytest.raises(gpurun.LoanError, match="complete its request"):
            loan.give_back()
        request.wait()
    del lent
    loan.give_back()


def test_memory_that_cannot_be_mapped_is_copied_if_that_is_allowed(comm):
    right, left = neighbours(comm)
    array = np.arange(12, dtype=np.int16).reshape(3, 4) + comm.rank
    request = comm.lend(array, right, kind=gpurun.READ_OR_COPY)
    loan = comm.borrow(left, library=np)
    assert loan.kind == (gpurun.COPY if comm.size > 1 else gpurun.READ_ONLY)
    with loan as (lent,):
        assert (lent == np.arange(12).reshape(3, 4) + left).all()
        with pytest.raises(ValueError, match="read-only"):
            lent[0] = 1
    request.wait()


def test_unregister_waits_for_who_has_it_mapped(comm):
    right, left = neighbours(comm)
    array = on_device(64)
    gpurun.unregister(array)
    request = comm.lend(array, right)
    with comm.borrow(left, library=np):
        with pytest.raises(gpurun.LoanError, match="lent"):
            gpurun.unregister(array, 0)
    request.wait()
    if comm.size > 1:
        comm.barrier()
        with pytest.raises((gpurun.TimedOutError, TimeoutError), match="still mapped by rank"):
            gpurun.unregister(array, 0)
    gpurun.unregister(array, timeout=60)
    gpurun.unregister(array)
    comm.barrier()


def test_a_message_that_is_no_loan_is_left(comm):
    right, left = neighbours(comm)
    request = comm.isend(np.zeros(3), right)
    with pytest.raises(gpurun.LoanError, match="is no loan"):
        comm.borrow(left)
    comm.recv(np.zeros(3), left)
    request.wait()
