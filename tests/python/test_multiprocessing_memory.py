"""gpurun.multiprocessing: the memory of messages is used again, and never while anyone has it."""
import gc
import os
import random
import signal

import numpy as np
import pytest

from gpurun import multiprocessing as mp
from test_multiprocessing import _echoing, settle  # noqa: F401 (a fixture)

SEED = int(os.environ.get("GPURUN_TEST_SEED", "1"))
SIZE = 1 << 17  # of float64: 1 MiB
kept = mp._memory.memory


def names():
    return {piece.memory.name for piece in kept._pieces}


def test_the_memory_of_a_message_is_used_again_when_it_was_dropped(echoing):
    into, out = echoing
    settle()
    seen = set()
    for i in range(100):
        into.put(np.full(SIZE, i))
        assert (out.get() == i).all()
        seen |= names()
    assert len(seen) <= 3  # the other process may drop the last one later than the next is sent


def test_memory_that_anyone_has_is_not_used_again(echoing):
    into, out = echoing
    got, parts = [], []
    for i in range(40):
        into.put(np.full(SIZE, i))
        got.append(out.get())
        parts.append(got[-1][i::7])
    assert all((array == i).all() for i, array in enumerate(got))
    del got
    for i in range(20):
        into.put(np.full(SIZE, -1))
        out.get()
    assert all((part == i).all() for i, part in enumerate(parts))


def test_messages_of_growing_and_shrinking_sizes_are_whole(echoing):
    into, out = echoing
    chance = random.Random(SEED)
    for _ in range(200):
        size = chance.choice([2048, 2049, 5000, 9000, 30000, 100000])
        array = np.arange(size) * chance.random()
        into.put([array, array[:100]])
        one, other = out.get()
        assert (one == array).all() and (other == array[:100]).all()


def hold(many, out):
    array = many.get()
    out.put(float(array[-1]))
    signal.pause()


def test_memory_that_a_killed_process_had_is_used_again():
    many, out = mp.SimpleQueue(), mp.SimpleQueue()
    settle()
    many.put(np.full(SIZE, 5.0))
    kept._pieces[0].since += 3600  # however long it takes
    process = mp.Process(target=hold, args=(many, out))
    process.start()
    assert out.get() == 5
    many.put(np.full(SIZE, 6.0))
    kept._pieces[-1].since += 3600
    before = names()
    assert len(before) == 2  # the first one is in use
    second = many.get()
    process.kill()
    process.join()
    many.put(np.full(SIZE, 7.0))
    assert names() == before and many.get()[-1] == 7 and second[0] == 6
    for piece in kept._pieces:
        piece.since = 0.0


def take_forked(many, count):
    for _ in range(count):
        many.put(np.full(SIZE, os.getpid()))


def test_a_process_that_was_forked_uses_memory_of_its_own():
    many = mp.Queue()
    many.put(np.zeros(SIZE))
    many.get()  # its memory is free, and kept
    child = os.fork()
    if child == 0:
        take_forked(many, 30)
        many.close()
        many.join_thread()
        os._exit(0)
    take_forked(many, 30)
    seen = []
    for _ in range(60):
        array = many.get()
        assert (array == array[0]).all()
        seen.append(int(array[0]))
    assert seen.count(child) == 30 and seen.count(os.getpid()) == 30
    os.waitpid(child, 0)


def test_what_was_received_twice_is_passed_on_without_a_copy(echoing):
    into, out = echoing
    whole = mp.shared_empty(SIZE)
    into.put(whole)
    first = out.get()
    into.put(whole)
    second = out.get()
    for drop_first in (True, False):
        into.put(second if drop_first else first)
        third = out.get()
        third[0] += 1
        assert whole[0] == first[0] == second[0] == third[0]


def shared_memory():
    """How many descriptors of it this process has, and is not about to let go of."""
    gc.collect()
    settle()
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
    return sum("memfd:gpurun " in link for link in links)


def kept_there(into, out):
    while (got := into.get()) is not None:
        count = isinstance(got, str)
        del got
        if count:
            out.put(shared_memory())


def test_an_idle_process_lets_go_of_what_it_kept():
    into, out = mp.Queue(), mp.SimpleQueue()
    process = mp.Process(target=kept_there, args=(into, out))
    process.start()
    before = shared_memory()
    for size in (SIZE, 2 * SIZE, 4 * SIZE):
        into.put(np.zeros(size))
    into.put("count")
    assert out.get() == 0 and shared_memory() <= before  # what earlier tests had may go meanwhile
    into.put(None)
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_nothing_is_torn_when_processes_are_killed_while_they_have_messages(seed):
    chance = random.Random(seed)
    many, out = mp.Queue(), mp.SimpleQueue()
    for round_ in range(4):
        workers = [mp.Process(target=check, args=(many, out), daemon=True) for _ in range(2)]
        for worker in workers:
            worker.start()
        for i in range(60):
            many.put(np.full(SIZE // chance.choice([1, 2, 3]), i + 100 * round_))
            if i == 30:
                os.kill(workers[0].pid, signal.SIGKILL)
                workers[0].join()
        many.put(None)
        workers[1].join()
        assert workers[1].exitcode == 0
        while not out.empty():
            assert out.get() == "whole"
        while not many.empty():
            many.get()


def check(many, out):
    held = []
    while (array := many.get()) is not None:
        held = [*held[-3:], (array, array[0])]
        out.put("whole" if all((each == first).all() for each, first in held) else "torn")
