"""Hogwild: ranks train one model whose weights they all read and write, without any order between them (Niu, Recht, Re,
Wright, 2011): gpurun -n 4 python hogwild.py

Rank 0 lends the weights to all ranks, itself included, as a shared loan. Each steps against the gradient over its own
samples, in place, while the others do the same. Steps are lost now and then; the model is found all the same.
"""
import sys

import numpy

import gpurun

FEATURES, SAMPLES, RATE = 10, 1000, 0.05
MODEL = numpy.arange(FEATURES) - 5.0  # what all are to find


def library():
    """NumPy reads the memory of emulated devices; that of a GPU needs a library for GPUs."""
    if gpurun.device().emulated:
        return numpy
    import torch

    torch.cuda.set_device(gpurun.device().ordinal)
    return torch


def train(arrays, weights, rank, steps):
    samples = numpy.random.default_rng(rank).uniform(-1, 1, (SAMPLES, FEATURES))
    inputs, results = samples, samples @ MODEL
    if arrays is not numpy:
        inputs, results = (arrays.as_tensor(array, device="cuda") for array in (inputs, results))
    for _ in range(steps):
        error = inputs @ weights - results
        weights -= RATE * 2 / SAMPLES * (inputs.T @ error)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    comm, arrays = gpurun.init(), library()
    loans = []
    if comm.rank == 0:
        weights = arrays.from_dlpack(gpurun.Memory(FEATURES * 8)).view(arrays.float64)
        weights[:] = 0
        loans = [comm.lend(weights, rank, kind=gpurun.SHARED) for rank in range(comm.size)]
    with comm.borrow(0, library=arrays) as (shared,):
        train(arrays, shared, comm.rank, steps)
    gpurun.waitall(loans)
    if comm.rank == 0:
        worst = max(abs(float(weights[i]) - MODEL[i]) for i in range(FEATURES))
        assert worst < 0.01, f"a weight is wrong by {worst}"
        print(f"{comm.size} ranks have found the model, to {worst:.6f}")


if __name__ == "__main__":
    main()
