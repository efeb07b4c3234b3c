"""Requests: waiting, testing, asyncio, cancelling, groups of calls, and what keeps buffers alive."""
import asyncio
import gc
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import gpurun


def neighbours(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def test_started_messages_complete_by_wait_test_and_waitall(comm):
    right, left = neighbours(comm)
    buffers = [np.zeros(size) for size in (1, 1000, 300000)]
    requests = [comm.irecv(buffer, left, tag) for tag, buffer in enumerate(buffers)]
    requests += [comm.isend(np.full(buffer.shape, comm.rank + 1.0), right, tag) for tag, buffer in enumerate(buffers)]
    gpurun.waitall(requests)
    assert all((buffer == left + 1).all() for buffer in buffers)
    assert all(request.done for request in requests)
    assert requests[1].wait().count == 1000  # again: at once, with the same status
    request = comm.irecv(buffers[0], left)
    comm.send(np.zeros(1), right)
    while request.test() is None:
        pass
    assert request.test().source == left


def test_requests_can_be_awaited_together(comm):
    right, left = neighbours(comm)

    async def exchange():
        buffers = [np.zeros(50) for _ in range(40)]
        receives = [comm.irecv(buffer, left, tag) for tag, buffer in enumerate(buffers)]
        await asyncio.sleep(0)
        sends = [comm.isend(np.full(50, float(tag)), right, tag) for tag in reversed(range(40))]
        statuses = await asyncio.gather(*(wait(request) for request in receives + sends))
        assert [status.tag for status in statuses[:40]] == list(range(40))
        assert all((buffer == tag).all() for tag, buffer in enumerate(buffers))

    async def wait(request):
        return await request

    asyncio.run(exchange())


def test_a_cancelled_task_cancels_its_receive(comm):
    async def give_up():
        request = comm.irecv(bytearray(1), comm.rank, 77)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(request), 0.05)
        return await request

    async def wait(request):
        return await request

    assert asyncio.run(give_up()).cancelled


def test_waitany_returns_the_one_that_is_complete(comm):
    right, left = neighbours(comm)
    never = comm.irecv(bytearray(1), left, 5)
    soon = comm.irecv(bytearray(1), left, 6)
    comm.send(b"x", right, 6)
    assert gpurun.waitany([never, soon]) == 1
    never.cancel()
    assert never.wait().cancelled


def test_a_request_keeps_its_buffer(comm):
    right, left = neighbours(comm)
    data = np.arange(200000.0)
    before = sys.getrefcount(data)
    request = comm.isend(data, right)
    assert sys.getrefcount(data) > before
    comm.recv(np.zeros(200000), left)
    request.wait()
    assert sys.getrefcount(data) == before
    comm.isend(data, right)  # nobody waits: it goes on
    gc.collect()
    comm.recv(received := np.zeros(200000), left)
    assert (received == data).all()
    with pytest.raises(BufferError):
        held = bytearray(8)
        waiting = comm.irecv(held, comm.rank, 9)
        held.extend(b"more")  # Python refuses, because the message may still write there
    waiting.cancel()
    waiting.wait()


def test_no_reference_is_lost(comm):
    data, into = np.zeros(4), np.zeros(4)
    right, left = neighbours(comm)
    counts = sys.getrefcount(data), sys.getrefcount(into), sys.getrefcount(comm)
    for _ in range(2000):
        comm.sendrecv(data, right, recvbuf=into, source=left)
        comm.allreduce(data, into)
    assert (sys.getrefcount(data), sys.getrefcount(into), sys.getrefcount(comm)) == counts


def test_a_wait_of_another_thread_lets_python_run(comm):
    right, left = neighbours(comm)
    buffer, seen = bytearray(1), []
    thread = threading.Thread(target=lambda: seen.append(comm.recv(buffer, left, 3)))
    thread.start()
    comm.send(b"!", right, 3)
    thread.join()
    assert buffer == b"!" and seen[0].tag == 3


def test_a_group_starts_its_calls_together(comm):
    right, left = neighbours(comm)
    big, got = np.full(1 << 18, float(comm.rank)), np.zeros(1 << 18)
    with gpurun.group():
        comm.send(big, right)  # alone, each would wait for the other's receive
        status = comm.recv(got, left)
        comm.barrier()
    assert status.source == left and (got == left).all()


def test_a_group_receives_what_a_probe_has_reserved(comm):
    right, left = neighbours(comm)
    got = np.zeros(4)
    comm.send(np.arange(4.0), right, 5)
    message = comm.mprobe(left, 5)
    with gpurun.group():
        status = message.recv(got)
    assert status.source == left and (got == np.arange(4.0)).all()


def started_to_self(comm, **where):
    """A receive that no message has come for yet, and a reference to its buffer, which is nobody else's."""
    buffer = np.zeros(5000)
    return comm.irecv(buffer, comm.rank, 70, **where), weakref.ref(buffer)


def check_arrives(comm, request, buffer):
    gc.collect()
    assert buffer() is not None and not request.done
    comm.send(np.ones(5000), comm.rank, 70)
    assert request.wait().count == 5000 and (buffer() is None or (buffer() == 1).all())


@pytest.mark.parametrize("call", [lambda r: r.wait(), lambda r: r.test()])
def test_a_call_that_a_group_refuses_leaves_the_request_under_way(comm, call):
    with gpurun.group():
        request, buffer = started_to_self(comm)
        with pytest.raises(gpurun.UnsupportedError):
            call(request)
    check_arrives(comm, request, buffer)


def test_a_wait_in_what_is_no_stream_leaves_the_request_under_way(comm):
    request, buffer = started_to_self(comm)
    with pytest.raises(gpurun.ArgumentError):
        request.wait(stream=5)
    check_arrives(comm, request, buffer)


def test_a_request_keeps_its_stream(comm):
    request, buffer = started_to_self(comm, stream=gpurun.Stream())
    check_arrives(comm, request, buffer)
    receive = comm.recv_init(bytearray(1), comm.rank, 71, stream=gpurun.Stream())
    receive.start()
    comm.send(b"x", comm.rank, 71)
    assert receive.wait().count == 1
    receive.free()


def test_a_request_that_is_dropped_in_a_group_completes_behind_it(comm):
    with gpurun.group():
        request, buffer = started_to_self(comm)
        done = threading.Event()
        del request
        gc.collect()
        assert buffer() is not None
    finalizer = weakref.finalize(buffer(), done.set)
    comm.send(np.ones(5000), comm.rank, 70)
    assert done.wait(60) and not finalizer.alive


def test_what_is_active_cannot_be_freed(comm):
    request, buffer = started_to_self(comm)
    with pytest.raises(gpurun.StateError, match="not persistent"):
        request.free()
    check_arrives(comm, request, buffer)
    receive = comm.recv_init(bytearray(1), comm.rank, 71)
    receive.start()
    with pytest.raises(gpurun.StateError, match="active"):
        receive.free()
    comm.send(b"too long", comm.rank, 71)
    with pytest.raises(gpurun.TruncatedError):
        receive.wait()
    receive.free()


def test_a_refused_sendrecv_receives_nothing(comm):
    right, left = neighbours(comm)
    refused, got = bytearray(1), bytearray(1)
    with pytest.raises(gpurun.ArgumentError, match="destination 99"):
        comm.sendrecv(b"x", 99, recvbuf=refused, source=left)
    comm.sendrecv(b"y", right, recvbuf=got, source=left)
    assert (refused, got) == (b"\0", b"y")


def test_waitany_leaves_nothing_behind_with_what_it_has_waited_for(comm):
    never = comm.irecv(bytearray(1), comm.rank, 5)
    told = weakref.WeakSet()

    class Told(threading.Event):
        def __init__(self):
            super().__init__()
            told.add(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "Event", Told)
        for _ in range(3):
            soon = comm.irecv(bytearray(1), comm.rank, 6)
            timer = threading.Timer(0.02, lambda: comm.send(b"x", comm.rank, 6))
            timer.start()
            assert gpurun.waitany([never, soon]) == 1
            timer.join()
            del timer
    gc.collect()
    assert not told
    never.cancel()
    assert never.wait().cancelled


@pytest.mark.parametrize("call", [lambda r: r.wait(), lambda r: r.wait(timeout=1), lambda r: gpurun.waitany([r]),
                                  lambda r: gpurun.finalize()])
def test_a_callback_cannot_wait_for_the_thread_that_calls_it(comm, call):
    never, soon = (comm.irecv(bytearray(1), comm.rank, tag) for tag in (5, 6))
    raised, called = [], threading.Event()

    def callback():
        try:
            call(never)
        except gpurun.StateError as error:
            raised.append(str(error))
        called.set()

    never.add_done_callback(lambda: None)  # now the thread waits for it
    soon.add_done_callback(callback)
    comm.send(b"x", comm.rank, 6)
    assert called.wait(60) and "callback" in raised[0] and "thread" in raised[0]
    never.cancel()
    assert never.wait().cancelled


class Late(Exception):
    """Raised by a signal handler."""


def check_ends_late(call):
    def raise_late(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, raise_late)
    try:
        with pytest.raises(Late):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            call()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("wait", [gpurun.waitall, gpurun.waitany, gpurun.waitsome, lambda all: all[0].wait()])
def test_a_wait_that_a_signal_ends_cancels_what_is_not_matched(comm, wait):
    receives = [comm.irecv(bytearray(1), comm.rank, 9) for _ in range(2)]
    check_ends_late(lambda: wait(receives))
    if wait.__name__ == "<lambda>":
        receives.pop().cancel()
    assert all(receive.wait().cancelled for receive in receives)


def test_a_probe_that_a_signal_ends_takes_no_message(comm):
    def threads():
        return len(os.listdir("/proc/self/task"))

    idle = threads()
    check_ends_late(lambda: comm.mprobe(comm.rank, 9))
    comm.send(b"1", comm.rank, 9)
    comm.send(b"2", comm.rank, 9)
    got = bytearray(1)
    comm.mprobe(comm.rank, 9).recv(got)
    assert got == b"1"
    comm.recv(got, comm.rank, 9)
    assert got == b"2"
    comm.send(b"3", comm.rank, 9)  # the thread that has gone on waiting ends by it
    while threads() > idle:
        time.sleep(0.001)
    comm.recv(got, comm.rank, 9)


def test_with_waits_at_its_end(comm):
    right, left = neighbours(comm)
    got = bytearray(2)
    with comm.irecv(got, left) as request:
        comm.send(b"ok", right)
    assert got == b"ok" and request.done


def test_persistent_messages(comm):
    right, left = neighbours(comm)
    out, into = np.zeros(3), np.zeros(3)
    send, receive = comm.send_init(out, right), comm.recv_init(into, left)
    for turn in range(5):
        out[:] = turn
        receive.start()
        send.start()
        gpurun.waitall([send, receive])
        assert (into == turn).all()
    send.free()
    receive.free()


def test_a_truncated_message_is_an_error_of_its_kind(comm):
    right, left = neighbours(comm)
    request = comm.isend(np.arange(5.0), right)
    with pytest.raises(gpurun.TruncatedError) as caught:
        comm.recv(np.zeros(2), left)
    request.wait()
    assert caught.value.status == "GPURUN_ERR_TRUNCATED" and caught.value.rank == comm.rank


def test_probes(comm):
    right, left = neighbours(comm)
    assert comm.iprobe(comm.rank, 1234) is None and comm.improbe(comm.rank, 1234) is None
    comm.send(b"12345", right, 8)
    assert comm.probe(left, 8).bytes == 5
    message = comm.mprobe(left, 8)
    data = bytearray(message.status.bytes)
    assert message.recv(data).source == left and data == b"12345"
    with pytest.raises(gpurun.StateError):
        message.recv(data)
