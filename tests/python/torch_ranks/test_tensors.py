"""Tensors as buffers of messages, and in objects."""
import asyncio

import pytest
import torch

import gpurun

COMM = gpurun.COMM_WORLD
RIGHT, LEFT = (COMM.rank + 1) % COMM.size, (COMM.rank - 1) % COMM.size
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.uint8, torch.bool,
          torch.complex64, torch.float8_e4m3fn]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_any_type_are_sent(dtype):
    sent = (torch.arange(24).reshape(2, 3, 4) % 2 + COMM.rank % 2).to(dtype)
    got = torch.zeros(2, 3, 4).to(dtype)
    assert COMM.sendrecv(sent, RIGHT, recvbuf=got, source=LEFT).count == 24
    assert torch.equal(got.view(torch.uint8), (torch.arange(24).reshape(2, 3, 4) % 2 + LEFT % 2).to(dtype).view(torch.uint8))


def test_sums_of_bfloat16():
    tensor = torch.full((5,), 1.5, dtype=torch.bfloat16)
    COMM.allreduce(gpurun.IN_PLACE, tensor)
    assert (tensor == 1.5 * COMM.size).all()


def test_strided_tensors_are_refused_with_the_remedy():
    with pytest.raises(BufferError, match=r"x\.contiguous\(\)"):
        COMM.send(torch.zeros(3, 4).t(), RIGHT)


def test_tensors_can_be_awaited():
    async def exchange():
        got = torch.zeros(1000)
        receive = COMM.irecv(got, LEFT)
        send = COMM.isend(torch.full((1000,), float(COMM.rank)), RIGHT)
        await receive
        await send
        return got

    assert (asyncio.run(exchange()) == LEFT).all()


@pytest.mark.skipif(not gpurun.device().emulated, reason="test_cuda.py has that of a GPU")
@pytest.mark.parametrize("kind", [gpurun.EXCLUSIVE, gpurun.SHARED])
def test_borrowed_tensors_are_those_of_torch(kind):
    weight = torch.from_dlpack(gpurun.Memory(24)).view(torch.float32).reshape(2, 3)
    weight.fill_(COMM.rank)
    lent = COMM.lend({"w": weight}, RIGHT, kind=kind)
    with COMM.borrow(LEFT, library=torch) as tensors:
        assert isinstance(tensors["w"], torch.Tensor) and (tensors["w"] == LEFT).all() and tensors["w"].shape == (2, 3)
        tensors["w"] += 1
    lent.wait()
    assert (weight == COMM.rank + 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_tensors_in_objects_are_not_pickled(dtype):
    weight = torch.ones(100, 3).to(dtype)
    obj = {"layers": [{"w": weight, "scalar": torch.tensor(3)}, torch.empty(0)]}
    request = COMM.isend_object(obj, RIGHT)
    got = COMM.recv_object(LEFT)
    request.wait()
    assert torch.equal(got["layers"][0]["w"], weight) and got["layers"][0]["scalar"].item() == 3
    assert got["layers"][1].numel() == 0
    got["layers"][0]["w"][:] = 0  # it is the memory of the message, and can be written


def test_a_tensor_that_needs_gradients_stays_one():
    got = COMM.bcast_object(torch.ones(2, requires_grad=True) if COMM.rank == 0 else None)
    assert got.requires_grad
