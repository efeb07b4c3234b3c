"""Sharded training: gpurun -n 2 python fsdp.py

Every rank holds a part of each parameter (FSDP2). The whole is gathered when a layer needs it, and gradients are summed
up and scattered, over the backend gpurun. It checks itself: the parts are parts, and the loss falls.
"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import gpurun


def main():
    dist.init_process_group("gpurun")
    rank, size = dist.get_rank(), dist.get_world_size()
    own = gpurun.device()
    kind = "cpu" if own.emulated else "cuda"
    if kind == "cuda":
        torch.cuda.set_device(own.ordinal)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(kind)
    whole = sum(parameter.numel() for parameter in model.parameters())
    mesh = dist.device_mesh.init_device_mesh(kind, (size,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    part = sum(parameter.to_local().numel() for parameter in model.parameters())
    assert size == 1 or part < whole, "the parameters are not sharded"

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    inputs = torch.randn(256, 8, device=kind)
    wanted = inputs.sum(1, keepdim=True)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10, f"the loss went from {losses[0]} to {losses[-1]} only"
    if rank == 0:
        print(f"{size} ranks, {part} of {whole} parameters on this one: {losses[0]:.3f} to {losses[-1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
