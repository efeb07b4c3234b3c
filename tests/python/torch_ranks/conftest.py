"""torch.distributed over gpurun, beside Gloo: every rank of a job runs these tests, in step."""
import os
import sys

import pytest
import torch
import torch.distributed as dist

import gpurun.torch_backend

gpurun.torch_backend.register()  # where the package is installed, PyTorch finds it by itself
torch.set_num_threads(1)
dist.init_process_group("gpurun")


@pytest.fixture(name="gloo", scope="session")
def _gloo():
    return dist.new_group(backend="gloo")


def pytest_runtest_makereport(item, call):
    item.failed = call.when == "call" and call.excinfo is not None


@pytest.fixture(autouse=True)
def _together(request):
    yield
    if not request.node.failed:
        dist.barrier()


def pytest_sessionfinish(session, exitstatus):
    session.config.failed = exitstatus
    if exitstatus == 0:
        dist.destroy_process_group()


def pytest_unconfigure(config):
    if config.failed:
        sys.stdout.flush()
        os._exit(config.failed)  # without waiting for the others
