"""DDP and FSDP2 train to the same bits as over Gloo."""
import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))


def train(net, steps=20):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for _ in range(steps):
        inputs = torch.randn(32, 16)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(inputs), inputs[:, :8])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("options", [{}, {"static_graph": True}, {"gradient_as_bucket_view": True},
                                     {"bucket_cap_mb": 0.01}])
def test_ddp(gloo, options):
    if dist.get_world_size() > 2:
        pytest.skip("Gloo sums up in another order")
    ours = train(DistributedDataParallel(model(), **options))
    assert ours == train(DistributedDataParallel(model(), process_group=gloo, **options))
    assert ours[-1] < ours[0]


def test_fsdp2(gloo):
    if dist.get_world_size() > 2:
        pytest.skip("Gloo sums up in another order")

    def sharded(group):
        net = model()
        mesh = dist.device_mesh.DeviceMesh.from_group(group, "cpu")
        for layer in (net[0], net[2], net):
            fully_shard(layer, mesh=mesh)
        return net

    assert train(sharded(dist.group.WORLD)) == train(sharded(gloo))


def test_ddp_with_a_hook():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    net = DistributedDataParallel(model())
    net.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
    losses = train(net)
    assert losses[-1] < losses[0]
