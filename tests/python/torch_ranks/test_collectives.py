"""Each collective gives what Gloo's does."""
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import gpurun


def mine(*shape, dtype=torch.float32):
    torch.manual_seed(dist.get_rank())
    return (torch.rand(*shape) * 100).to(dtype)


def on_both(gloo, run):
    """What `run(group)` gives with gpurun, and with Gloo."""
    ours, theirs = run(None), run(gloo)
    assert torch.equal(ours, theirs), (ours, theirs)


OPS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8])
def test_all_reduce(gloo, op, dtype):
    if dist.get_world_size() > 2 and op == dist.ReduceOp.PRODUCT:
        return  # the order of the factors is Gloo's own

    def run(group):
        tensor = mine(3, 5, dtype=dtype)
        dist.all_reduce(tensor, op, group)
        return tensor

    if dtype.is_floating_point and dist.get_world_size() > 2 and op == dist.ReduceOp.SUM:
        torch.testing.assert_close(run(None), run(gloo))
    else:
        on_both(gloo, run)


@pytest.mark.parametrize("factor", [0.5, torch.tensor([3.0])])
def test_premultiplied_sums(factor):
    rank, size = dist.get_rank(), dist.get_world_size()
    scaled = dist._make_nccl_premul_sum(factor)
    expected = float(factor) * size * (size + 1) / 2

    def filled(count):
        return torch.full((count,), rank + 1.0)

    tensor, strided, reduced = filled(4), torch.ones(3, 2).t() * (rank + 1), filled(3)
    dist.all_reduce(tensor, scaled)
    dist.all_reduce(strided, scaled)
    dist.reduce(reduced, 0, scaled)
    assert (tensor == expected).all() and (strided == expected).all()
    assert (reduced == (expected if rank == 0 else rank + 1)).all()
    source, part = filled(2 * size), torch.zeros(2)
    dist.reduce_scatter(part, list(source.chunk(size)), scaled)
    assert (part == expected).all() and (source == rank + 1).all()


def test_averages_and_bits():
    tensor = torch.full((4,), float(dist.get_rank()))
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    assert (tensor == (dist.get_world_size() - 1) / 2).all()
    bits = torch.tensor([1 << dist.get_rank()])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    assert bits[0] == (1 << dist.get_world_size()) - 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.complex64])
def test_other_types_move(dtype):
    tensor = torch.ones(7, dtype=dtype) if dist.get_rank() == 0 else torch.zeros(7, dtype=dtype)
    dist.broadcast(tensor, 0)
    assert torch.equal(tensor, torch.ones(7, dtype=dtype))


def test_tensors_that_are_not_contiguous():
    size, rank = dist.get_world_size(), dist.get_rank()
    base = torch.full((4, 6), float(rank))
    dist.all_reduce(base.t()[1:3])
    assert (base[:, 1:3] == sum(range(size))).all() and (base[:, 0] == rank).all()
    with pytest.raises(ValueError, match="to_dense"):
        dist.all_reduce(torch.eye(3).to_sparse())


def test_rooted_collectives(gloo):
    size, rank, root = dist.get_world_size(), dist.get_rank(), dist.get_world_size() - 1

    def run(group):
        tensor = mine(4)
        dist.broadcast(tensor, root, group)
        parts = [torch.zeros(4) for _ in range(size)] if rank == root else None
        dist.gather(mine(4), parts, root, group)
        got = torch.zeros(4)
        dist.scatter(got, [mine(4) + i for i in range(size)] if rank == root else None, root, group)
        total = mine(4)
        dist.reduce(total, root, dist.ReduceOp.MAX, group)
        return torch.cat([tensor, got] + ([total] + parts if rank == root else []))

    on_both(gloo, run)


def test_gathers_scatters_and_all_to_all(gloo):
    size, rank = dist.get_world_size(), dist.get_rank()

    def run(group):
        parts = [torch.zeros(2, 3) for _ in range(size)]
        dist.all_gather(parts, mine(2, 3), group)
        whole = torch.zeros(2 * size, 3)
        dist.all_gather_into_tensor(whole, mine(2, 3), group)
        part = torch.zeros(3)
        dist.reduce_scatter_tensor(part, torch.arange(3.0 * size) * (rank + 1), group=group)
        return torch.cat([whole.flatten(), part] + [each.flatten() for each in parts])

    on_both(gloo, run)
    out = torch.zeros(size)
    dist.all_to_all_single(out, torch.full((size,), float(rank)))
    assert torch.equal(out, torch.arange(float(size)))
    uneven = torch.zeros(sum(range(1, size + 1)), 2)
    dist.all_to_all_single(uneven, torch.full((size * (rank + 1), 2), float(rank)), list(range(1, size + 1)),
                           [rank + 1] * size)
    assert torch.equal(uneven[:, 1], torch.cat([torch.full((i + 1,), float(i)) for i in range(size)]))
    got = [torch.zeros(1) for _ in range(size)]
    dist.all_to_all(got, [torch.tensor([10.0 * rank + to]) for to in range(size)])
    assert [int(each) for each in got] == [10 * source + rank for source in range(size)]
    part = torch.zeros(1)
    dist.reduce_scatter(part, [torch.tensor([float(to)]) for to in range(size)])
    assert part[0] == rank * size


def test_messages_and_batches():
    size, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(1000)
    operations = [dist.P2POp(dist.isend, torch.full((1000,), float(rank)), right), dist.P2POp(dist.irecv, got, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert (got == left).all()
    work = dist.isend(torch.tensor([rank]), right, tag=7)
    anything = torch.zeros(1, dtype=torch.int64)
    assert dist.recv(anything, left, tag=7) == left and anything[0] == left
    work.wait()


def test_coalesced_collectives():
    with dist._coalescing_manager(async_ops=True) as manager:
        tensors = [torch.ones(3), torch.ones(5)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert all((tensor == dist.get_world_size()).all() for tensor in tensors)


def test_works_do_not_block_and_futures_complete():
    tensor = torch.ones(1 << 16)
    works = [dist.all_reduce(tensor.clone(), async_op=True) for _ in range(20)]
    futures = [work.get_future().then(lambda future: future.value()[0].sum().item()) for work in works]
    assert [future.wait() for future in futures] == [tensor.sum().item() * dist.get_world_size()] * 20
    assert all(future.done() for future in futures)


def test_sub_groups_and_objects():
    size, rank = dist.get_world_size(), dist.get_rank()
    groups = [dist.new_group([member]) for member in range(size)] + [dist.new_group(list(range(size)))]
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=groups[rank])
    assert (tensor == 1).all()
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank}, group=groups[-1])
    assert everything == [{"rank": member} for member in range(size)]
    objects = ["from 0", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects)
    assert objects == ["from 0", 0]


OLDER = not hasattr(dist.distributed_c10d.ProcessGroup, "all_gather_single")


@pytest.mark.skipif(OLDER, reason="this PyTorch has it for Gloo only")
def test_monitored_barrier_names_who_is_missing():
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    if dist.get_world_size() == 1:
        return
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match="rank 1"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=100), wait_all_ranks=True)


def test_functional_collectives():
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    total = functional.all_reduce(torch.ones(3), "sum", group)
    assert (functional.wait_tensor(total) == dist.get_world_size()).all()
    gather = getattr(functional, "all_gather_single", None) or functional.all_gather_tensor  # before PyTorch 2.13
    gathered = gather(torch.full((2,), float(dist.get_rank())), 0, group)
    assert torch.equal(functional.wait_tensor(gathered), torch.arange(float(dist.get_world_size())).repeat_interleave(2))


def test_a_timeout_is_an_error():
    if dist.get_rank() == 0 and dist.get_world_size() > 1:
        tensor = torch.zeros(1)
        work = dist.irecv(tensor, 1, tag=99)
        with pytest.raises(TimeoutError):
            work.wait(timedelta(milliseconds=50))
    dist.barrier()
    if dist.get_rank() == 1:
        dist.send(torch.ones(1), 0, tag=99)


def test_what_is_waited_for_at_once_is_complete_when_the_call_returns():
    tensor, total, options = torch.ones(5), float(dist.get_world_size()), dist.AllreduceOptions()
    options.asyncOp = False  # as PyTorch says that it waits at once
    work = dist.group.WORLD.allreduce([tensor], options)
    assert (tensor == total).all()
    future = work.get_future()
    assert future.done() and (future.value()[0] == total).all()
    assert work.wait()
    strided = torch.ones(4, 2).t()
    assert dist.group.WORLD.allreduce([strided], options).wait()
    assert (strided == total).all()


def test_collectives_between_those_that_are_started_keep_their_order():
    tensors = [torch.full((3,), float(turn)) for turn in range(6)]
    works = [dist.all_reduce(tensor, async_op=turn % 2 == 0) for turn, tensor in enumerate(tensors)]
    for work in works[::2]:
        work.wait()
    assert all((tensor == turn * dist.get_world_size()).all() for turn, tensor in enumerate(tensors))


@pytest.mark.parametrize("async_op", [False, True])
def test_errors_have_their_class(async_op):
    with pytest.raises(gpurun.ArgumentError):
        dist.all_reduce(torch.ones(2), dist.ReduceOp.BOR, async_op=async_op)


@pytest.mark.parametrize("tensor", [torch.full((4,), 2.0), torch.full((3, 2), 2.0).t()])
def test_tensors_that_need_gradients(tensor):
    tensor.requires_grad_()
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    assert (tensor == 2 * dist.get_world_size()).all() and tensor.is_leaf and tensor.grad_fn is None


def test_a_collective_that_is_not_complete_in_time_is_an_error():
    group = dist.new_group(timeout=timedelta(milliseconds=50))
    tensor = torch.ones(2)
    if dist.get_rank() == 0 and dist.get_world_size() > 1:
        with pytest.raises(TimeoutError):
            dist.all_reduce(tensor, group=group)
    dist.barrier()
    if dist.get_rank() != 0:
        dist.all_reduce(tensor, group=group)
