"""Functional collectives, by themselves and in what torch.compile has compiled, and DDP of a compiled model."""
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

from test_training import train


def together(tensor):
    """What most programs use of them, with results by which the ranks are told apart."""
    group = dist.group.WORLD
    total = functional.all_reduce(tensor, "sum", group)
    mean = functional.all_reduce(tensor, "avg", group)
    everything = functional.all_gather_tensor(tensor, 0, group)
    part = functional.reduce_scatter_tensor(everything, "sum", 0, group)
    turned = functional.all_to_all_single(everything, None, None, group)
    first = functional.broadcast(tensor, 0, group)
    return total + 1, mean * 2, everything, part, turned, first


def expected(rank, size):
    rows = [torch.arange(4.0) + other for other in range(size)]
    total = sum(rows)
    return total + 1, total / size * 2, torch.cat(rows), rows[rank] * size, torch.cat([rows[rank]] * size), rows[0]


def run(function):
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(3):
        for got, wanted in zip(function(torch.arange(4.0) + rank), expected(rank, size), strict=True):
            assert torch.equal(got, wanted)


def compiler_is_worth_its_time(backend):
    """Inductor's C++ takes half a minute, and is the same for any number of ranks."""
    torch._dynamo.reset()
    if backend == "inductor" and dist.get_world_size() != 2:
        pytest.skip("the compiler runs with two ranks only")


def test_functional_collectives():
    run(together)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_functional_collectives_in_a_compiled_function(backend):
    compiler_is_worth_its_time(backend)
    run(torch.compile(together, backend=backend, fullgraph=True))


def test_functional_collectives_in_a_group_of_some_ranks():
    size = dist.get_world_size()
    group = dist.new_group(list(range(size))[: max(1, size - 1)])
    if dist.get_rank() < max(1, size - 1):
        total = functional.all_reduce(torch.ones(3), "sum", group)
        assert torch.equal(total, torch.full((3,), float(max(1, size - 1))))


def wide_model():
    """Of several buckets of 1 MiB."""
    torch.manual_seed(0)
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(16, 512), torch.nn.ReLU(), linear(512, 512), torch.nn.ReLU(), linear(512, 512), linear(512, 8))


@pytest.mark.parametrize("compile_outside, backend", [(False, "aot_eager"), (True, "aot_eager"), (True, "inductor")])
def test_ddp_of_a_compiled_model_trains_as_one_that_is_not(compile_outside, backend):
    compiler_is_worth_its_time(backend)
    if compile_outside:  # the graph is broken where buckets of gradients are full
        compiled = torch.compile(DistributedDataParallel(wide_model(), bucket_cap_mb=1), backend=backend)
    else:
        compiled = DistributedDataParallel(torch.compile(wide_model(), backend=backend), bucket_cap_mb=1)
    ours = train(compiled, steps=5)
    theirs = train(DistributedDataParallel(wide_model(), bucket_cap_mb=1), steps=5)
    assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), rtol=1e-5, atol=1e-6)
