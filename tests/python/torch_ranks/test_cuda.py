"""CUDA tensors, in the order of their streams: gpurun -n 2 python -m pytest tests/python/torch_ranks, on GPUs."""
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gpurun

if gpurun.device().emulated or not torch.cuda.is_available():
    pytest.skip("the rank's device is not a GPU, or PyTorch has no CUDA", allow_module_level=True)

COMM = gpurun.COMM_WORLD
RIGHT, LEFT = (COMM.rank + 1) % COMM.size, (COMM.rank - 1) % COMM.size
torch.cuda.set_device(gpurun.device().ordinal)
SLOW = 50_000_000  # cycles


@pytest.mark.parametrize("count", [2, 1 << 14, 1 << 20, 1 << 24])
def test_messages_need_no_synchronization(count):
    for turn in range(5):
        torch.cuda._sleep(SLOW)
        sent = torch.full((count,), float(COMM.rank + turn), device="cuda")
        got = torch.zeros(count, device="cuda")
        COMM.sendrecv(sent, RIGHT, recvbuf=got, source=LEFT)
        sent.fill_(-1)  # at once: it comes after the message in the stream
        assert (got == LEFT + turn).all().item()


def test_another_stream_is_ordered_with_the_current_one():
    side = torch.cuda.Stream()
    torch.cuda._sleep(SLOW)
    sent, got = torch.full((1000,), float(COMM.rank), device="cuda"), torch.zeros(1000, device="cuda")
    COMM.sendrecv(sent, RIGHT, recvbuf=got, source=LEFT, stream=side)
    side.synchronize()
    assert (got == LEFT).all().item()


def test_requests_complete_into_streams():
    got = torch.zeros(1 << 20, device="cuda")
    receive = COMM.irecv(got, LEFT)
    torch.cuda._sleep(SLOW)
    send = COMM.isend(torch.full((1 << 20,), float(COMM.rank), device="cuda"), RIGHT)
    receive.wait()
    send.wait()
    assert (got == LEFT).all().item()


@pytest.mark.parametrize("count", [2, 1 << 12, 1 << 18, 1 << 22])
def test_collectives_of_torch(count):
    for _ in range(5):
        torch.cuda._sleep(SLOW)
        tensor = torch.full((count,), float(COMM.rank + 1), device="cuda")
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        assert (tensor == COMM.size * (COMM.size + 1) / 2).all().item()
    gathered = [torch.zeros(count, device="cuda") for _ in range(COMM.size)]
    dist.all_gather(gathered, torch.full((count,), float(COMM.rank), device="cuda"))
    assert all((part == rank).all().item() for rank, part in enumerate(gathered))


def slow_ones():
    """A tensor that is filled late, in the order of the current stream."""
    tensor = torch.zeros(1000, device="cuda")
    torch.cuda._sleep(SLOW)
    return tensor.fill_(1)


@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
def test_collectives_that_are_waited_for_at_once_stay_in_the_current_stream(side):
    with torch.cuda.stream(torch.cuda.Stream() if side else torch.cuda.default_stream()):
        tensor, strided = slow_ones(), slow_ones().view(40, 25).t()
        dist.all_reduce(tensor)
        tensor += 1
        dist.broadcast(tensor, 0)
        dist.all_reduce(strided)
        gathered, parts = torch.zeros(COMM.size * 1000, device="cuda"), [slow_ones() for _ in range(COMM.size)]
        dist.all_gather_into_tensor(gathered, tensor)
        dist.all_gather(parts, tensor)
        assert (gathered == COMM.size + 1).all().item() and (strided == COMM.size).all().item()
        assert all((part == COMM.size + 1).all().item() for part in parts)


@pytest.mark.parametrize("waits_at_once", [False, True])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
def test_a_work_that_is_waited_for_in_two_streams_is_before_both(waits_at_once, strided, side):
    options = dist.AllreduceOptions()
    options.asyncOp = not waits_at_once
    first = torch.cuda.Stream() if side else torch.cuda.default_stream()
    with torch.cuda.stream(first):
        tensor = slow_ones().view(40, 25).t() if strided else slow_ones()
        work = dist.group.WORLD.allreduce([tensor], options)
        work.wait()
    with torch.cuda.stream(torch.cuda.Stream()):
        work.wait()
        assert (tensor == COMM.size).all().item()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert (work.get_future().wait()[0] == COMM.size).all().item()


def test_captured_collectives_of_torch():
    tensor, total = torch.ones(1 << 12, device="cuda"), torch.zeros(1 << 12, device="cuda")
    dist.all_reduce(total)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        total.copy_(tensor)
        dist.all_reduce(total)
    for turn in range(1, 6):
        tensor.fill_(turn)
        graph.replay()
        assert (total == turn * COMM.size).all().item()
    torch.cuda.synchronize()
    del graph


def test_futures_of_cuda_tensors():
    tensor = torch.ones(1 << 20, device="cuda")
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert (future.wait() == 2 * COMM.size).all().item()


def test_host_and_device_tensors_in_one_group():
    host, device = torch.ones(3), torch.ones(3, device="cuda")
    dist.all_reduce(host)
    dist.all_reduce(device)
    assert torch.equal(host, device.cpu())


def test_captured_messages():
    source, into = torch.ones(1 << 12, device="cuda"), torch.zeros(1 << 12, device="cuda")
    COMM.allreduce(source, into)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        COMM.allreduce(source, into)
    for turn in range(1, 6):
        source.fill_(turn)
        graph.replay()
        assert (into == turn * COMM.size).all().item()
    torch.cuda.synchronize()
    del graph


def test_loans_are_ordered_there_and_back():
    weights = {"w": torch.zeros(1 << 20, device="cuda"), "b": torch.zeros(3, 5, dtype=torch.bfloat16, device="cuda")}
    for turn in range(5):
        torch.cuda._sleep(SLOW)
        for weight in weights.values():
            weight.fill_(COMM.rank + turn)
        lent = COMM.lend(weights, RIGHT, kind=gpurun.EXCLUSIVE)
        with COMM.borrow(LEFT, library=torch) as tensors:
            assert tensors["b"].dtype == torch.bfloat16 and tensors["b"].shape == (3, 5)
            torch.cuda._sleep(SLOW)
            total = tensors["w"] + 1
            for tensor in tensors.values():
                tensor += 100
        lent.wait()  # the current stream waits, not the host
        results = [weight.clone() for weight in weights.values()]
        assert (total == LEFT + turn + 1).all().item()
        assert all((result == COMM.rank + turn + 100).all().item() for result in results)


def test_a_receive_gets_a_copy_of_a_lent_tensor():
    lent = COMM.lend(torch.full((1000,), float(COMM.rank), device="cuda"), RIGHT)
    got = torch.zeros(1000, device="cuda")
    COMM.recv(got, LEFT)
    lent.wait()
    assert (got == LEFT).all().item()


def test_tensors_of_a_gpu_in_objects():
    request = COMM.isend_object({"w": torch.full((10,), float(COMM.rank), device="cuda")}, RIGHT)
    got = COMM.recv_object(LEFT)["w"]
    request.wait()
    assert got.is_cuda and (got == LEFT).all().item()


def test_ddp_trains_as_on_the_cpu():
    def train(device):
        torch.manual_seed(0)
        net = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(),
                                                          torch.nn.Linear(64, 1)).double().to(device))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        torch.manual_seed(1 + COMM.rank)
        for _ in range(20):
            inputs = torch.randn(64, 16, dtype=torch.float64).to(device)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(inputs), inputs.sum(1, keepdim=True)).backward()
            optimizer.step()
        return torch.cat([parameter.detach().cpu().flatten() for parameter in net.parameters()])

    torch.testing.assert_close(train("cuda"), train("cpu"))
