"""gpurun.multiprocessing when processes die: killed, by an exception, at random moments of a seed."""
import os
import random
import signal
import time

import numpy as np
import pytest

import gpurun
from gpurun import multiprocessing as mp
from test_multiprocessing import descriptors, die, fail, nothing, run, shared_files

SEED = int(os.environ.get("GPURUN_TEST_SEED", "1"))


def put_and_die(out):
    out.put("last words")
    die()


@pytest.mark.parametrize("kind", [mp.Queue, mp.SimpleQueue])
@pytest.mark.parametrize("end", [die, fail])
def test_who_waits_for_a_process_that_dies_is_told_once(kind, end):
    out = kind()
    process = mp.Process(target=end, args=(out,), name="producer")
    process.start()
    with pytest.raises(gpurun.PeerLostError, match=rf"process {process.pid} \(producer\).* has died"):
        out.get()
    process.join()
    with pytest.raises(gpurun.PeerLostError, match="all other processes"):
        out.get()
    out.put(5)
    assert out.get() == 5


def test_what_a_process_has_put_before_it_died_comes_first():
    out = mp.Queue()
    process = mp.Process(target=put_and_die, args=(out,))
    process.start()
    assert out.get() == "last words"
    with pytest.raises(gpurun.PeerLostError, match="has died"):
        out.get()
    process.join()


def test_who_waits_when_all_others_have_ended_is_told():
    out = mp.Queue()
    process = mp.Process(target=nothing, args=(out,))
    process.start()
    with pytest.raises(gpurun.PeerLostError, match="all other processes"):
        out.get()
    process.join()


def test_a_death_before_the_process_has_begun_is_told():
    out = mp.Queue()
    process = mp.Process(target=nothing, args=(out, Unloadable()))
    process.start()
    with pytest.raises(gpurun.PeerLostError, match="has died"):
        out.get()
    process.join()


class Unloadable:
    def __reduce__(self):
        return os._exit, (3,)


def take_one(many):
    many.get()
    die()


@pytest.mark.parametrize("make", [lambda: mp.Queue(2), mp.SimpleQueue])
def test_put_does_not_wait_for_a_dead_consumer(make):
    many = make()
    process = mp.Process(target=take_one, args=(many,))
    process.start()
    with pytest.raises(gpurun.PeerLostError, match="has died|all other"):
        for _ in range(100000):
            many.put(bytes(10000))
    process.join()


def take_one_and_die(many):
    def receive(sock, really=mp._queues.try_receive):
        really(sock)
        die()

    mp._queues.try_receive = receive
    many.get()


def test_put_goes_on_when_a_consumer_dies_with_what_it_has_taken():
    many, out = mp.Queue(1), mp.SimpleQueue()
    other = mp.Process(target=hold, args=(many, out), daemon=True)  # lives, and could take
    other.start()
    many.put(b"held")
    assert out.get() == 4
    many.put("taken")
    process = mp.Process(target=take_one_and_die, args=(many,))
    process.start()
    many.put("next", timeout=30)  # waits for room before the process has begun
    assert many.get() == "next"
    process.join()
    other.kill()
    other.join()


def start_one():
    """After which there is all that multiprocessing makes once."""
    process = mp.Process(target=nothing)
    process.start()
    process.join()


def take(many, out):
    while True:
        try:
            got = many.get()
        except gpurun.PeerLostError:
            continue
        if got is None:
            return
        out.put((got[0], float(got[1].sum())))


def produce(many, first, count, size):
    for i in range(first, first + count):
        put(many, (i, np.full(size, 1.0)))


def put(many, message):
    while True:
        try:
            return many.put(message)
        except gpurun.PeerLostError:
            pass  # those that come in place of the dead will take it


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_consumers_that_are_killed_lose_no_more_than_they_had_taken(seed):
    chance = random.Random(seed)
    size, count, kills = chance.choice([1, 5000]), 400, 5
    many, out = mp.Queue(chance.choice([0, 1, 3, 50])), mp.SimpleQueue()
    start_one()
    before, files = descriptors(), shared_files()
    workers = [mp.Process(target=take, args=(many, out), daemon=True) for _ in range(3)]
    producer = mp.Process(target=produce, args=(many, 0, count, size))
    for process in [*workers, producer]:
        process.start()
    got, left = set(), kills
    while len(got) < count - kills:
        try:
            number, total = out.get()
        except gpurun.PeerLostError:
            continue
        assert total == size and number not in got
        got.add(number)
        if left and chance.random() < 0.05:
            index, left = chance.randrange(3), left - 1
            os.kill(workers[index].pid, signal.SIGKILL)
            workers[index].join()
            workers[index] = mp.Process(target=take, args=(many, out), daemon=True)
            workers[index].start()
    producer.join()
    for _ in workers:
        put(many, None)
    for process in workers:
        while process.is_alive():
            if not out.empty():
                got.add(out.get()[0])
            process.join(0.01)
        assert process.exitcode == 0
    while not out.empty():
        number, _ = out.get()
        got.add(number)
    assert len(got) >= count - kills and many.empty() and many.qsize() == 0
    del workers, producer, process
    for pidfd in list(mp._members._pidfds):
        mp._members._pidfd(*pidfd)
    assert descriptors() <= before and shared_files() == files


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_producers_that_are_killed_leave_whole_messages_and_a_queue_that_works(seed):
    chance = random.Random(seed)
    many = mp.Queue(chance.choice([0, 1, 5]))
    producers = [mp.Process(target=produce, args=(many, i * 100000, 100000, 3000), daemon=True) for i in range(2)]
    for process in producers:
        process.start()
    last, told = [-1, 99999], 0
    kill_at = [chance.randrange(1, 200), chance.randrange(200, 400)]
    received = 0
    while told < 2:
        try:
            number, array = many.get()
        except gpurun.PeerLostError:
            told += 1
            continue
        assert array.sum() == 3000
        assert number == last[number // 100000] + 1  # in order, and none is missing
        last[number // 100000] = number
        received += 1
        for index, at in enumerate(kill_at):
            if received == at:
                os.kill(producers[index].pid, signal.SIGKILL)
    for process in producers:
        process.join()
    many.put("still works")
    assert many.get() == "still works" and many.qsize() == 0


def test_a_queue_works_after_any_number_of_interruptions():
    said = run("""
        class Interrupted(Exception): pass
        def interrupt(*_): raise Interrupted
        signal.signal(signal.SIGALRM, interrupt)
        many, interruptions = mp.Queue(5), 0
        for i in range(4000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-6 * (10 + i % 97))
                while True:
                    if many.full():  # of what interruptions have left
                        many.get_nowait()
                    many.put_nowait(i)
                    if not many.empty():
                        many.get_nowait()
            except Interrupted:
                interruptions += 1
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        assert interruptions > 2000
        while many.qsize():
            many.get()
        process = mp.Process(target=many_times, args=(many,))
        process.start()
        for i in range(100):
            assert many.get() == i
        process.join()
        print("works")
        """, """
        def many_times(many):
            for i in range(100):
                many.put(i)
        """)
    assert said.stdout == "works\n", said.stderr


def test_the_memory_of_a_killed_consumer_comes_back():
    def free():
        with open("/proc/meminfo", encoding="utf-8") as file:
            return {line.split(":")[0]: int(line.split()[1]) for line in file}["Shmem"]

    many, out = mp.Queue(), mp.SimpleQueue()
    process = mp.Process(target=hold, args=(many, out))
    process.start()
    many.put(np.zeros(1 << 25))  # 256 MiB
    out.get()
    during = free()
    process.kill()
    process.join()
    deadline = time.monotonic() + 10
    while during - free() < 200 << 10 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert during - free() >= 200 << 10


def hold(many, out):
    kept = many.get()
    out.put(len(kept))
    signal.pause()


def test_what_a_process_has_sent_can_be_received_after_it_has_closed_the_pipe_and_send_says_that_it_is_broken():
    here, there = mp.Pipe()
    there.send("sent")
    here.send("never received")
    there.close()
    with pytest.raises(BrokenPipeError):
        here.send("too late")
    assert here.recv() == "sent"
    with pytest.raises(EOFError):
        here.recv()


def test_a_program_that_ends_by_an_exception_does_not_wait_for_processes_that_wait_for_it():
    said = run("""
        here, there = mp.Pipe()
        mp.Process(target=receive, args=(there,)).start()
        here.recv()
        raise ValueError("of the program")
        """, """
        def receive(end):
            end.send("begun")
            try:
                end.recv()
            except gpurun.PeerLostError:
                print("told")
        """)
    assert said.returncode == 1 and said.stdout == "told\n" and "of the program" in said.stderr, said


@pytest.mark.parametrize("end", [die, fail])
def test_the_death_of_the_other_end_of_a_pipe_is_told(end):
    here, there = mp.Pipe()
    process = mp.Process(target=end, args=(there,))
    process.start()
    with pytest.raises(gpurun.PeerLostError, match=f"process {process.pid}"):
        here.recv()
    process.join()
    there.close()
    with pytest.raises(EOFError):
        here.recv()
    with pytest.raises(BrokenPipeError):
        here.send(1)


def wait_for(event, seen):
    event.wait(0)  # the death of a process that has not used the event yet would be told to those who wait
    seen.put("waits")
    seen.put(event.wait())


def test_an_event_wakes_all_that_wait_and_survives_a_kill():
    event, seen = mp.Event(), mp.SimpleQueue()
    assert not event.is_set() and not event.wait(0.05)
    processes = [mp.Process(target=wait_for, args=(event, seen)) for _ in range(3)]
    for process in processes:
        process.start()
    assert [seen.get() for _ in processes] == ["waits"] * 3
    processes[0].kill()
    with pytest.raises(gpurun.PeerLostError):
        seen.get()
    event.set()
    event.set()
    assert event.is_set() and event.wait()
    assert [seen.get(), seen.get()] == [True, True]
    event.clear()
    assert not event.is_set()
    for process in processes:
        process.join()


def test_the_death_of_who_would_set_an_event_is_told():
    event = mp.Event()
    process = mp.Process(target=die, args=(event,))
    process.start()
    with pytest.raises(gpurun.PeerLostError, match="this event, has died"):
        event.wait()
    process.join()
