"""Data-parallel training: gpurun -n 2 python ddp.py

Every rank trains the same model on its own part of the data, and the gradients are averaged over the backend gpurun. It
checks itself: the parameters are the same on all ranks, and the loss falls.
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gpurun


def main():
    dist.init_process_group("gpurun")
    rank = dist.get_rank()
    own = gpurun.device()
    device = torch.device("cpu") if own.emulated else torch.device("cuda", own.ordinal)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(0)  # the same model everywhere
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    torch.manual_seed(1 + rank)  # other data on each
    inputs = torch.randn(256, 8, device=device)
    wanted = inputs.sum(1, keepdim=True)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()  # sums the gradients of all ranks up, while it computes
        optimizer.step()
        losses.append(loss.item())

    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everywhere = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, weights)
    assert all(torch.equal(each, weights) for each in everywhere), "the ranks have different parameters"
    assert losses[-1] < losses[0] / 10, f"the loss went from {losses[0]} to {losses[-1]} only"
    if rank == 0:
        print(f"{dist.get_world_size()} ranks: the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
