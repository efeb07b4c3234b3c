"""Requests: waiting, testing, asyncio, cancelling, groups of calls, and what keeps buffers alive."""
import asyncio
import gc
import sys
import threading

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
