"""Weights: a trainer hands its weights to engines after each step: gpurun -n 2 python weights.py [STEPS]

Rank 0 trains, and copies its weights into two buckets, which it lends in turn. The other ranks borrow bucket by bucket
until they have all weights, and copy each into their own. While they copy one, the trainer fills the next.
"""
import sys

import numpy

import gpurun

LAYERS, WIDTH, BUCKET = 6, 256, 1 << 20


def library():
    """NumPy reads the memory of emulated devices; that of a GPU needs a library for GPUs."""
    if gpurun.device().emulated:
        return numpy
    import torch

    torch.cuda.set_device(gpurun.device().ordinal)
    torch.set_default_device("cuda")
    return torch


def new_weights(arrays):
    return {f"layer{i}.weight": arrays.zeros((WIDTH, WIDTH), dtype=arrays.float32) for i in range(LAYERS)}


def answer(arrays, weights):
    """What the model makes of an input of ones."""
    vector = arrays.ones(WIDTH, dtype=arrays.float32)
    for weight in weights.values():
        vector = weight @ vector
    return float(vector.sum())


def train(comm, arrays, steps):
    weights, pool = new_weights(arrays), gpurun.Pool(BUCKET)
    engines = range(1, comm.size)
    for step in range(1, steps + 1):
        for weight in weights.values():
            weight[...] = (1 + 0.1 * step) / WIDTH  # in place of an optimizer
        loans = pool.lend(comm, weights, engines)
        comm.bcast_object(answer(arrays, weights))
    pool.wait()
    print(f"{steps} steps: {LAYERS} weights in {loans} loans to each of {comm.size - 1} engines")


def serve(comm, arrays, steps):
    weights = new_weights(arrays)
    for step in range(steps):
        missing = set(weights)
        while missing:
            with comm.borrow(0, library=arrays) as bucket:
                for name, weight in bucket.items():
                    weights[name][...] = weight
                    missing.remove(name)
        expected = comm.bcast_object()
        found = answer(arrays, weights)
        assert abs(found - expected) <= 1e-6 * abs(expected), f"step {step}: {found} in place of {expected}"


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    comm, arrays = gpurun.init(), library()
    (train if comm.rank == 0 else serve)(comm, arrays, steps)


if __name__ == "__main__":
    main()
