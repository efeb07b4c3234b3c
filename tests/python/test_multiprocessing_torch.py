"""gpurun.multiprocessing with PyTorch's tensors."""
import pytest
import torch

from gpurun import multiprocessing as mp


def echo(into, out):
    torch.set_num_threads(1)
    while True:
        got = into.get()
        out.put(got)
        if got is None:
            return


@pytest.fixture(name="echoing", scope="module")
def _echoing():
    into, out = mp.Queue(), mp.SimpleQueue()
    process = mp.Process(target=echo, args=(into, out), daemon=True)
    process.start()
    yield into, out
    into.put(None)
    assert out.get() is None
    process.join()


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_all_types_and_layouts_arrive_as_they_were(echoing, dtype):
    into, out = echoing
    whole = torch.arange(60000).reshape(200, 300).to(dtype)
    for tensor in (whole, whole[:3, :2], whole.t(), whole[::7], torch.zeros(0, 3, dtype=dtype), whole[0, 0]):
        for shared in (False, True):
            tensor = tensor.clone(memory_format=torch.preserve_format).share_memory_() if shared else tensor
            into.put(tensor)
            got = out.get()
            assert got.dtype == dtype and got.shape == tensor.shape and torch.equal(got, tensor)


def test_nested_objects_modules_and_parameters(echoing):
    into, out = echoing
    model = torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.BatchNorm1d(100))
    into.put({"model": model, "more": [(torch.ones(3), {"x": torch.zeros(9000)})]})
    got = out.get()
    assert all(torch.equal(one, other) for one, other in zip(model.state_dict().values(), got["model"].state_dict().values()))
    weight = got["model"][0].weight
    assert isinstance(weight, torch.nn.Parameter) and weight.requires_grad and torch.equal(got["more"][0][0], torch.ones(3))
    leaf = torch.ones(5, requires_grad=True)
    into.put(leaf)
    assert out.get().requires_grad
    into.put(torch.view_as_complex(torch.ones(4, 2)).conj())
    assert torch.equal(out.get(), torch.view_as_complex(torch.ones(4, 2)).conj())
    into.put(torch.eye(3).to_sparse())
    assert torch.equal(out.get().to_dense(), torch.eye(3))


def test_a_shared_tensor_is_the_same_memory_on_both_sides(echoing):
    into, out = echoing
    tensor = torch.zeros(1000, 10).share_memory_()
    into.put([tensor, tensor[5:, 3], tensor.t()])
    one, part, turned = out.get()
    one[5, 3] = 7
    assert tensor[5, 3] == part[0] == turned[3, 5] == 7 and one.is_shared()


def test_a_tensor_that_was_put_may_be_overwritten_and_dropped(echoing):
    into, out = echoing
    for size in (10, 100000):
        tensor = torch.arange(size)
        into.put(tensor)
        tensor.fill_(-1)
        assert not tensor.is_shared()
        del tensor
        assert torch.equal(out.get(), torch.arange(size))


def test_a_tensor_that_was_received_is_passed_on(echoing):
    into, out = echoing
    into.put([torch.zeros(100000), torch.zeros(50000)])
    _, first = out.get()
    into.put(first[10:].reshape(-1, 10))
    second = out.get()
    into.put(second)
    third = out.get()
    third[0, 0] = 5
    assert first[10] == second[0, 0] == 5
    del _, first, second
    assert third[0, 0] == 5


def test_a_result_of_autograd_is_refused_with_the_remedy(echoing):
    into, _ = echoing
    with pytest.raises(RuntimeError, match="detach"):
        into.put(torch.ones(3, requires_grad=True) * 2)


def test_what_is_shared_by_names_of_files_is_refused_with_the_remedy(echoing):
    into, _ = echoing
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        tensor = torch.zeros(100).share_memory_()
        with pytest.raises(ValueError, match="file_descriptor"):
            into.put(tensor)
    finally:
        torch.multiprocessing.set_sharing_strategy("file_descriptor")


def step(index, model, done):
    torch.set_num_threads(1)
    with torch.no_grad():
        model.weight[index] += index + 1
    done.put(index)


def test_processes_train_one_model_that_is_shared():
    model, done = torch.nn.Linear(4, 3, bias=False), mp.Queue()
    torch.nn.init.zeros_(model.weight)
    model.share_memory()
    mp.spawn(step, (model, done), nprocs=3)
    assert sorted(done.get() for _ in range(3)) == [0, 1, 2]
    assert model.weight.sum(1).tolist() == [4, 8, 12]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_CUDA_tensor_arrives_on_its_GPU(echoing):
    into, out = echoing
    tensor = torch.arange(100000, device="cuda")
    into.put(tensor)
    tensor.fill_(0)
    got = out.get()
    assert got.device == tensor.device and torch.equal(got.cpu(), torch.arange(100000))
