"""Communicators, groups of ranks, grids."""
import numpy as np
import pytest

import gpurun


def test_split_dup_and_free(comm):
    half = comm.split(comm.rank % 2, -comm.rank)
    assert half.size == len(range(comm.rank % 2, comm.size, 2))
    total = np.zeros(1, "i8")
    half.allreduce(np.full(1, comm.rank), total)
    assert total[0] == sum(range(comm.rank % 2, comm.size, 2))
    assert comm.split(None if comm.rank == 0 else 1) is None or comm.rank > 0
    copy = half.dup()
    copy.name = "copy"
    assert copy.name == "copy" and "copy" in repr(copy) and copy != half and copy == copy
    copy.free()
    with pytest.raises(gpurun.ArgumentError):
        copy.barrier()
    half.free()
    assert comm.split_type(gpurun.SPLIT_NODE).size == comm.size


def test_groups_of_ranks(comm):
    everyone = comm.get_group()
    first = everyone.include([0])
    rest = everyone - first
    assert len(rest) == comm.size - 1 and (first | rest).size == comm.size and len(first & rest) == 0
    assert first.rank == (0 if comm.rank == 0 else None)
    assert everyone.translate([0], rest) == [None] and everyone.exclude([0]).size == rest.size
    alone = comm.create(first)
    assert (alone is None) == (comm.rank != 0)
    if comm.rank == 0:
        assert comm.create_group(first, 3).size == 1


def test_algorithms(comm):
    copy = comm.dup()
    copy.set_algorithm("allreduce", "doubling:4K,pieces")
    for count in (1, 5000):
        got = np.zeros(count)
        copy.allreduce(np.full(count, comm.rank + 1.0), got)
        assert (got == comm.size * (comm.size + 1) / 2).all()
    with pytest.raises(ValueError, match="allreduce, reduce, bcast"):
        copy.set_algorithm("gather", "direct")
    with pytest.raises(ValueError, match="auto, direct, pieces, tree"):
        copy.set_algorithm("bcast", "doubling")


def test_grids(comm):
    grid = comm.cart_create(gpurun.dims_create(comm.size, [0, 0]), [True, True])
    dims, periods, coords = grid.cart_get()
    assert dims[0] * dims[1] == comm.size and periods == (1, 1)
    assert grid.cart_rank(coords) == grid.rank and grid.cart_coords(grid.rank) == coords
    source, dest = grid.cart_shift(0)
    got = bytearray(1)
    grid.sendrecv(bytes([grid.rank]), dest, recvbuf=got, source=source)
    assert got[0] == source
    assert grid.cart_sub([True, False]).size == dims[0]


def test_exchanges_with_neighbours(comm):
    ring = comm.dist_graph_create_adjacent([(comm.rank - 1) % comm.size], [(comm.rank + 1) % comm.size])
    got = np.zeros(3)
    ring.neighbor_allgather(np.full(3, float(comm.rank)), got)
    assert (got == (comm.rank - 1) % comm.size).all()
    ring.ineighbor_alltoall(np.full(3, 10.0 + comm.rank), got).wait()
    assert (got == 10 + (comm.rank - 1) % comm.size).all()
    ring.neighbor_allgatherv(np.full(2, 1.0), got, [2])
    ring.ineighbor_alltoallv(np.full(2, 2.0), got, [2], [2], [0], [1]).wait()
    assert got.tolist() == [1, 2, 2]
    line = comm.cart_create([comm.size])
    edges = np.full(2, -1)
    line.neighbor_alltoall(np.array([comm.rank, comm.rank]), edges)
    assert edges.tolist() == [comm.rank - 1, comm.rank + 1 if comm.rank + 1 < comm.size else -1]
    with pytest.raises(gpurun.ArgumentError):
        comm.neighbor_alltoall(edges, np.zeros(2))
