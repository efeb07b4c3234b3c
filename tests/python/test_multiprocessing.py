"""gpurun.multiprocessing: what its page promises, with NumPy. test_multiprocessing_torch.py has tensors."""
import gc
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import gpurun
from gpurun import multiprocessing as mp

OBJECTS = [
    None, 7, "text", b"bytes", bytearray(b"x"), {"a": [1, (2, {3})]}, np.arange(5), np.zeros(0), np.array(3.0),
    np.ones((200, 300)), np.asfortranarray(np.arange(60000.0).reshape(200, 300)), np.arange(100000)[::3],
    np.array([("a", 1)], "U4, i4"), np.array([None, {"x": 1}], object), [np.full(5000, i) for i in range(300)],
    {"deep": [{"array": np.arange(9000, dtype="f4"), "other": (np.arange(3),)}]}, "x" * 100000,
]


def same(one, other):
    if isinstance(one, np.ndarray):
        return type(other) is np.ndarray and one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def echo(into, out):
    while True:
        got = into.get()
        out.put(got)
        if got is None:
            return


@pytest.fixture(name="echoing")
def _echoing():
    into, out = mp.Queue(), mp.SimpleQueue()
    process = mp.Process(target=echo, args=(into, out), daemon=True)
    process.start()
    yield into, out
    into.put(None)
    while out.get() is not None:
        pass
    process.join()
    assert process.exitcode == 0


def test_any_object_arrives_as_it_was(echoing):
    into, out = echoing
    for each in OBJECTS[1:]:
        into.put(each)
        assert same(each, out.get()), each


def test_an_array_that_was_put_may_be_overwritten_and_dropped(echoing):
    into, out = echoing
    for size in (10, 1 << 20):
        array = np.arange(size)
        into.put(array)
        array[:] = -1
        del array
        assert (out.get() == np.arange(size)).all()


def add_one(arrays, done):
    while True:
        array = arrays.get()
        if array is None:
            return
        array += 1
        done.set()


def test_shared_memory_is_not_copied_and_both_see_what_one_writes():
    arrays, done = mp.Queue(), mp.Event()
    process = mp.Process(target=add_one, args=(arrays, done))
    process.start()
    whole = mp.shared_empty((1000, 1000))
    for part in (whole, whole[::2], whole[5, 3:], whole.T, whole[::-1, 7]):
        before = part.copy()
        done.clear()
        arrays.put(part)
        assert done.wait(30)
        assert (part == before + 1).all()
    arrays.put(None)
    process.join()
    assert process.exitcode == 0


def test_the_shape_of_shared_memory_may_be_of_numpys_integers():
    assert mp.shared_empty(np.int64(3)).shape == (3,)
    assert mp.shared_empty((np.int32(2), 3), "int8").shape == (2, 3)
    with pytest.raises(TypeError):
        mp.shared_empty(2.5)


def test_what_was_received_is_passed_on_without_a_copy(echoing):
    into, out = echoing
    into.put(np.zeros(100000))
    first = out.get()
    into.put(first)
    second = out.get()
    into.put(second[10:])
    third = out.get()
    third[0] = 5
    assert first[10] == second[10] == 5
    del first, second  # its memory stays
    assert third[0] == 5 and third[-1] == 0


def test_read_only_stays_read_only(echoing):
    into, out = echoing
    for size in (10, 100000):
        array = np.zeros(size)
        array.flags.writeable = False
        into.put(array)
        assert not out.get().flags.writeable


def test_a_queue_holds_maxsize_objects_and_no_more():
    few = mp.Queue(3)
    for i in range(3):
        few.put(i)
    assert few.full() and few.qsize() == 3
    with pytest.raises(queue.Full):
        few.put_nowait(3)
    begin = time.monotonic()
    with pytest.raises(queue.Full):
        few.put(3, timeout=0.2)
    assert 0.2 <= time.monotonic() - begin < 5
    assert few.get() == 0 and not few.full()
    few.put(3)
    assert [few.get(), few.get(), few.get()] == [1, 2, 3] and few.empty()
    begin = time.monotonic()
    with pytest.raises(queue.Empty):
        few.get(timeout=0.2)
    assert 0.2 <= time.monotonic() - begin < 5
    with pytest.raises(queue.Empty):
        few.get_nowait()


def test_put_waits_until_there_is_room():
    few, done = mp.Queue(1), []
    few.put(0)
    other = threading.Thread(target=lambda: [few.put(i) or done.append(i) for i in range(1, 50)])
    other.start()
    time.sleep(0.1)
    assert not done
    assert [few.get() for _ in range(50)] == list(range(50))
    other.join()


@pytest.mark.parametrize("size", [1, 3000])
def test_a_queue_without_a_limit_takes_everything_before_anybody_comes(size):
    many = mp.Queue()
    for i in range(3000):
        many.put(np.full(size, i, "i4"))
    assert many.qsize() == 3000
    assert all((many.get() == i).all() for i in range(3000))
    assert many.empty()


@pytest.mark.parametrize("make", [lambda: mp.Queue(1000), mp.Queue, mp.SimpleQueue])
def test_a_small_buffer_of_the_system_makes_put_wait_and_changes_nothing_else(make, monkeypatch):
    monkeypatch.setattr(mp._queues, "_BUFFER_BYTES", 1)  # the least that the system allows
    many = make()
    other = threading.Thread(target=put_all, args=(many, 500))
    other.start()
    time.sleep(0.1)
    assert [many.get() for _ in range(500)] == list(range(500))
    other.join()


def test_too_many_open_files_are_an_error_with_the_remedy():
    said = run("""
        import resource
        many = mp.SimpleQueue()
        many.put(np.zeros(100000))
        many.put("next")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, most))
        try:
            many.get()
        except OSError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        print(many.get())
        """)
    assert "ulimit -n" in said.stdout and said.stdout.endswith("next\n"), said


def put_all(many, count):
    for i in range(count):
        many.put(i)


def test_a_process_ends_when_all_that_it_has_put_is_sent():
    many = mp.Queue()
    process = mp.Process(target=put_all, args=(many, 5000))
    process.start()
    time.sleep(0.5)
    assert [many.get() for _ in range(5000)] == list(range(5000))
    process.join(10)
    assert process.exitcode == 0


def test_a_process_ends_although_nobody_is_left_to_take_what_it_has_put():
    said = run("""
        many = mp.Queue()
        process = mp.Process(target=leave, args=(many,))
        process.start()
        process.join()
        for i in range(5000):
            many.put(i)
        """, "def leave(many): pass")
    assert said.returncode == 0 and "are lost" in said.stderr, said


def run(main, functions="", timeout=60, **keywords):
    """A program of its own; what it starts needs its functions in a file."""
    program = "import gpurun, numpy as np, os, signal, sys, threading, time\nfrom gpurun import multiprocessing as mp\n"
    program += textwrap.dedent(functions) + "\nif __name__ == '__main__':\n" + textwrap.indent(textwrap.dedent(main), "    ")
    path = f"/tmp/gpurun-test-{os.getpid()}.py"
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    try:
        return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=timeout, check=False, **keywords)
    finally:
        os.unlink(path)


def test_close_still_sends_and_then_refuses():
    many = mp.Queue()
    for i in range(3000):
        many.put(i)
    with pytest.raises(ValueError):
        many.join_thread()
    few = mp.SimpleQueue()
    few.close()
    few.close()
    for call in (lambda: few.put(1), few.get, few.empty, few.fileno):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert "closed" in repr(few)
    assert [many.get() for _ in range(3000)] == list(range(3000))
    many.close()
    many.join_thread()
    with pytest.raises(ValueError, match="closed"):
        many.put(1)


def test_an_object_that_cannot_be_pickled_raises_where_it_is_put_and_leaves_nothing():
    many = mp.Queue()
    before = descriptors()
    for _ in range(20):
        with pytest.raises(Exception, match="pickle|local"):
            many.put([np.zeros(100000), lambda: None])
    assert descriptors() == before and many.empty()


def settle():
    kept = mp._memory.memory
    deadline = time.monotonic() + 60
    while kept._pieces or kept._received:
        assert time.monotonic() < deadline, "memory of messages is kept"
        time.sleep(0.05)


def descriptors():
    """How many this process has, but for the pipes by which multiprocessing watches processes, and when it has let go of
    the memory that it keeps for later messages."""
    settle()
    gc.collect()
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
    return sum(not link.startswith("pipe:") for link in links)


def shared_files():
    """But for those that other programs with multiprocessing or torch make meanwhile."""
    return sorted(name for name in os.listdir("/dev/shm") if not name.startswith(("sem.", "psm_", "torch_")))


def test_descriptors_and_shared_memory_stay_flat_over_10000_messages(echoing):
    into, out = echoing
    small, large, shared = np.zeros(3), np.zeros(5000), mp.shared_empty(5000)

    def exchange(count):
        for i in range(count):
            into.put([i, small, large, shared])
            assert out.get()[0] == i

    exchange(10)
    before, files = descriptors(), shared_files()
    exchange(10000)
    assert descriptors() == before and shared_files() == files


def test_more_arrays_of_shared_memory_than_a_message_has_descriptors(echoing):
    into, out = echoing
    arrays = [mp.shared_empty(10) for _ in range(600)]
    into.put(arrays)
    got = out.get()
    for i, array in enumerate(arrays):
        array[0] = i
    assert [array[0] for array in got] == list(range(600))


def use_parts(parts):
    parts.get().put("through a queue in a queue")
    end = parts.get()
    end.send(end.recv() + 1)
    parts.get().set()


def test_queues_pipes_and_events_go_through_queues():
    parts, answers, event = mp.Queue(), mp.SimpleQueue(), mp.Event()
    process = mp.Process(target=use_parts, args=(parts,))
    process.start()
    parts.put(answers)
    assert answers.get() == "through a queue in a queue"
    here, there = mp.Pipe()
    parts.put(there)
    here.send(np.zeros(10000))
    assert here.recv()[9999] == 1
    parts.put(event)
    assert event.wait(30)
    process.join()


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def fail(*_):
    sys.stderr = open(os.devnull, "w", encoding="utf-8")
    raise ValueError("of the test")


def nothing(*_):
    pass


def converse(end):
    while True:
        got = end.recv()
        if isinstance(got, str) and got == "bye":
            return
        end.send(got)


def test_pipes():
    here, there = mp.Pipe()
    process = mp.Process(target=converse, args=(there,))
    process.start()
    for each in OBJECTS:
        here.send(each)
        assert here.poll(30) and same(each, here.recv())
    assert not here.poll() and not here.poll(0.05)
    here.send_bytes(b"abcdef", 1, 3)
    assert here.recv_bytes() == b"bcd"
    assert multiprocessing.connection.wait([here], 0) == []
    here.send("bye")
    with pytest.raises(EOFError):
        here.recv()
    with pytest.raises(EOFError):
        here.poll(None)
    process.join()


def test_a_pipe_of_one_direction():
    reader, writer = mp.Pipe(duplex=False)
    writer.send(1)
    assert reader.recv() == 1
    with pytest.raises(OSError, match="only sends"):
        writer.recv()
    with pytest.raises(OSError, match="only receives"):
        reader.send(1)
    writer.send(2)
    writer.close()
    assert reader.recv() == 2
    with pytest.raises(EOFError):
        reader.recv()
    assert writer.closed and not reader.closed


def of_rank(index, out):
    comm = gpurun.init()
    total = np.zeros(1)
    comm.allreduce(np.full(1, comm.rank + 1.0), total)
    out.put((index, comm.rank, comm.size, total[0]))


@pytest.fixture(name="emulated")
def _emulated(monkeypatch):
    monkeypatch.setenv("GPURUN_DEVICE", "emulated:0/1")


def test_what_spawn_has_started_are_the_ranks_of_a_job(emulated):
    out = mp.Queue()
    assert mp.spawn(of_rank, (out,), nprocs=3) is None
    assert sorted(out.get() for _ in range(3)) == [(i, i, 3, 6.0) for i in range(3)]


def fail_second(index):
    if index == 1:
        fail()
    signal.pause()


def kill_second(index):
    if index == 1:
        die()
    signal.pause()


def test_spawn_raises_what_a_process_has_raised_and_ends_the_others():
    started = mp.spawn(fail_second, nprocs=3, join=False)
    assert len(started.pids()) == 3
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: of the test") as raised:
        while not started.join():
            pass
    assert raised.value.error_index == 1 and not any(process.is_alive() for process in started.processes)
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL") as raised:
        mp.spawn(kill_second, nprocs=2)
    assert raised.value.signal_name == "SIGKILL" and raised.value.exit_code == -9
    with pytest.raises(ValueError, match="spawn"):
        mp.spawn(nothing, start_method="fork")


def test_a_process_of_a_rank_is_in_a_job_of_its_own(emulated):
    said = run("""
        comm = gpurun.init()
        out = mp.Queue()
        process = mp.Process(target=size, args=(out,))
        process.start()
        print(out.get(), comm.size)
        process.join()
        """, "def size(out): out.put((gpurun.init().size, 'GPURUN_CONTROL_FD' in os.environ))")
    assert said.stdout == "(1, False) 1\n", said.stderr


def test_fork_after_init_is_refused_with_the_remedy(emulated):
    said = run("""
        many, after = mp.Queue(), mp.Queue()
        if os.fork() == 0:
            many.put("before")
            os._exit(0)
        print(many.get())
        gpurun.init()
        if os.fork() == 0:
            try:
                after.put(1)
            except gpurun.StateError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        os.wait()
        """)
    assert said.returncode == 0 and said.stdout.startswith("before\n"), said.stderr
    assert "start it with gpurun.multiprocessing.Process" in said.stdout


def put_name(out):
    out.put(multiprocessing.current_process().name)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_have_them_as_arguments(method):
    context, out = multiprocessing.get_context(method), mp.Queue()
    process = context.Process(target=put_name, args=(out,), name="theirs")
    if method == "forkserver":
        with pytest.raises(Exception):
            process.start()
            process.join()
            raise RuntimeError("it has no descriptors")
        return
    process.start()
    assert out.get() == "theirs"
    process.join()
    assert process.exitcode == 0


def test_control_c_ends_the_waits():
    for wait in ("mp.Queue().get()", "ends[0].recv()", "mp.Event().wait()", "[full.put(bytes(9999)) for _ in range(9999)]"):
        said = run(f"""
            full, ends = mp.SimpleQueue(), mp.Pipe()
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                {wait}
            except KeyboardInterrupt:
                print("interrupted")
            """)
        assert said.stdout == "interrupted\n", said.stderr


def test_waiting_uses_no_time():
    used = time.process_time()
    with pytest.raises(queue.Empty):
        mp.Queue().get(timeout=1)
    assert time.process_time() - used < 0.2


def test_a_process_that_cannot_be_started_leaves_nothing():
    many = mp.Queue()
    before = descriptors()
    for _ in range(3):
        with pytest.raises(Exception, match="pickle|local"):
            mp.Process(target=nothing, args=(many, lambda: None)).start()
    assert descriptors() == before
    many.put(1)
    assert many.get() == 1


def test_threads_share_a_queue():
    many, out = mp.Queue(5), mp.Queue()

    def work():
        while (got := many.get()) is not None:
            out.put(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(500):
        many.put(i)
    for _ in threads:
        many.put(None)
    for thread in threads:
        thread.join()
    assert sorted(out.get() for _ in range(500)) == list(range(500))
