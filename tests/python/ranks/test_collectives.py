"""Every collective, in its three forms, against NumPy."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpurun
from gpurun import IN_PLACE

FORMS = ["now", "started", "prepared"]


def call(comm, form, name, *arguments, **keywords):
    """Makes a collective in one of its forms."""
    if form == "now":
        assert getattr(comm, name)(*arguments, **keywords) is None
    elif form == "started":
        getattr(comm, "i" + name)(*arguments, **keywords).wait()
    else:
        request = getattr(comm, name + "_init")(*arguments, **keywords)
        request.start()
        request.wait()
        request.free()


def block(rank, length=3):
    return np.arange(length, dtype="i8") + 100 * rank


@pytest.mark.parametrize("form", FORMS)
def test_blocks_of_one_length(comm, form):
    size, root = comm.size, comm.size - 1
    everything = np.concatenate([block(rank) for rank in range(size)])
    mine = block(comm.rank)

    buffer = everything.copy() if comm.rank == root else np.zeros_like(everything)
    call(comm, form, "bcast", buffer, root)
    assert (buffer == everything).all()

    got = np.zeros_like(everything)
    call(comm, form, "gather", mine, got if comm.rank == root else None, root)
    assert comm.rank != root or (got == everything).all()

    part = np.zeros_like(mine)
    call(comm, form, "scatter", everything if comm.rank == root else None, part, root)
    assert (part == mine).all()

    got[:] = 0
    call(comm, form, "allgather", mine, got)
    assert (got == everything).all()

    out = np.concatenate([block(size * comm.rank + to) for to in range(size)])
    call(comm, form, "alltoall", out, got)
    assert (got == np.concatenate([block(size * source + comm.rank) for source in range(size)])).all()
    call(comm, form, "barrier")


@pytest.mark.parametrize("form", FORMS)
def test_blocks_of_several_lengths(comm, form):
    size, root = comm.size, 0
    counts = [rank + 1 for rank in range(size)]
    everything = np.concatenate([block(rank, rank + 1) for rank in range(size)])
    mine = block(comm.rank, comm.rank + 1)
    got = np.zeros_like(everything)
    here = comm.rank == root

    call(comm, form, "gatherv", mine, got if here else None, counts if here else None, root=root)
    assert not here or (got == everything).all()
    part = np.zeros_like(mine)
    call(comm, form, "scatterv", everything if here else None, part, counts if here else None, root=root)
    assert (part == mine).all()
    call(comm, form, "allgatherv", mine, got, counts)
    assert (got == everything).all()

    spread = np.zeros(2 * len(everything), "i8")
    places = [2 * sum(counts[:rank]) for rank in range(size)]
    call(comm, form, "allgatherv", mine, spread, counts, places)
    assert all((spread[place : place + count] == block(rank, count)).all()
               for rank, (place, count) in enumerate(zip(places, counts)))

    out = np.full(size * (comm.rank + 1), comm.rank)
    taken = np.zeros(sum(counts), out.dtype)
    call(comm, form, "alltoallv", out, taken, [comm.rank + 1] * size, counts)
    assert (taken == np.repeat(np.arange(size), counts)).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op, combine", [
    ("SUM", np.add), ("PROD", np.multiply), ("MIN", np.minimum), ("MAX", np.maximum), ("BAND", np.bitwise_and),
    ("BOR", np.bitwise_or), ("BXOR", np.bitwise_xor)])
def test_reductions(comm, form, op, combine):
    size, number = comm.size, getattr(gpurun, op)
    operands = [(np.arange(2 * size, dtype="i8") + 1) * (rank + 2) for rank in range(size)]
    total, before = operands[0].copy(), [None, operands[0].copy()]
    for operand in operands[1:]:
        total = combine(total, operand)
        before.append(total.copy())
    mine, got = operands[comm.rank], np.zeros(2 * size, "i8")

    call(comm, form, "allreduce", mine, got, number)
    assert (got == total).all()
    got = mine.copy()
    call(comm, form, "allreduce", IN_PLACE, got, number)
    assert (got == total).all()
    call(comm, form, "reduce", mine, got if comm.rank == 0 else None, number)
    assert comm.rank != 0 or (got == total).all()
    call(comm, form, "scan", mine, got, number)
    assert (got == before[comm.rank + 1]).all()
    call(comm, form, "exscan", mine, got, number)
    assert comm.rank == 0 or (got == before[comm.rank]).all()
    part = np.zeros(2, "i8")
    call(comm, form, "reduce_scatter_block", mine, part, number)
    assert (part == total[2 * comm.rank : 2 * comm.rank + 2]).all()
    counts = [2] * size
    call(comm, form, "reduce_scatter", mine, part, counts, number)
    assert (part == total[2 * comm.rank : 2 * comm.rank + 2]).all()


@given(st.integers(0, 5000), st.sampled_from(["f2", "f4", "f8", "c16"]), st.integers(0, 2**32 - 1))
def test_all_ranks_get_the_same_bits(comm, count, dtype, seed):
    numbers = np.random.default_rng([seed, comm.rank]).normal(size=count).astype(dtype)
    result = np.zeros_like(numbers)
    comm.allreduce(numbers, result)
    assert len(set(comm.allgather_object(result.tobytes()))) == 1
    everything = np.zeros((comm.size, count), dtype)
    comm.allgather(numbers, everything)
    assert np.allclose(result, everything.sum(0), rtol=1e-2, atol=1e-2)


def test_what_does_not_fit_is_refused(comm):
    with pytest.raises(gpurun.ArgumentError, match="types"):
        comm.allreduce(np.zeros(3), np.zeros(3, "i8"))
    with pytest.raises(gpurun.ArgumentError, match="elements"):
        comm.allreduce(np.zeros(3), np.zeros(4))
    if comm.size > 1:
        with pytest.raises(gpurun.ArgumentError, match="equal parts"):
            comm.alltoall(np.zeros(comm.size + 1), np.zeros(comm.size))
    with pytest.raises(gpurun.ArgumentError, match="blocks end"):
        comm.allgatherv(np.zeros(9), np.zeros(1), [9] * comm.size)
    with pytest.raises(gpurun.ArgumentError):
        comm.allreduce(np.zeros(3), np.zeros(3), gpurun.BAND)
    with pytest.raises(gpurun.ArgumentError):
        comm.bcast(np.zeros(3), comm.size)


def test_ranks_that_differ_are_told(comm):
    if comm.size == 1:
        pytest.skip("one rank cannot differ")
    other = comm.dup()
    with pytest.raises(gpurun.CollectiveError) as caught:
        other.allreduce(IN_PLACE, np.zeros(3 + comm.rank))
    assert caught.value.rank == comm.rank
    other.free()
