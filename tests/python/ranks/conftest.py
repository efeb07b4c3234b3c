"""Tests that every rank of a job runs, in step: gpurun -n N python -m pytest tests/python/ranks.

All ranks draw the same examples, because hypothesis derives them from the test alone. A rank whose test fails exits, and
gpurun ends the others.
"""
import sys

import hypothesis
import pytest

import gpurun

hypothesis.settings.register_profile(
    "ranks", derandomize=True, database=None, deadline=None, max_examples=25, phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("ranks")
gpurun.init()


@pytest.fixture(name="comm", scope="session")
def _comm():
    return gpurun.COMM_WORLD


def pytest_runtest_makereport(item, call):
    item.failed = call.when == "call" and call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception)


@pytest.fixture(autouse=True)
def _together(comm, request):
    yield
    if not request.node.failed:
        comm.barrier()


def pytest_sessionfinish(session, exitstatus):
    if exitstatus != 0:
        sys.last_type = SystemExit  # as after an exception: this rank does not wait for the others
