"""comm.accept() and comm.connect(): jobs that meet by a name."""
import itertools
import os

import pytest

from jobs import ended, job, started

_numbers = itertools.count()


@pytest.fixture(name="name")
def _name():
    return f"python-{os.getpid()}-{next(_numbers)}"


def all_end_well(*processes):
    for said in [ended(process) for process in processes]:
        assert said.returncode == 0, said.stderr


def test_two_jobs_meet_with_the_ranks_of_the_acceptor_first(name):
    accepts = started(2, f"""
        import gpurun, numpy
        own = gpurun.init()
        both = own.accept({name!r})
        assert (both.rank, both.size, both.name) == (own.rank, 3, {name!r})
        if both.rank == 0:
            both.send(numpy.arange(1000.0), 2)
            assert both.recv_object(2) == {{"from": 2}}
        got = bytearray(1)
        both.bcast(got, 2)
        assert got == b"x"
        both.free()
        own.barrier()
        """)
    connects = started(1, f"""
        import gpurun, numpy
        both = gpurun.init().connect({name!r}, timeout=30)
        assert (both.rank, both.size) == (2, 3)
        got = numpy.zeros(1000)
        both.recv(got, 0)
        assert (got == numpy.arange(1000.0)).all()
        both.send_object({{"from": 2}}, 0)
        both.bcast(bytearray(b"x"), 2)
        both.free()
        """)
    all_end_well(accepts, connects)


def test_device_memory_is_lent_to_another_job(name):
    accepts = started(1, f"""
        import gpurun, numpy
        both = gpurun.init().accept({name!r}, 30)
        weights = numpy.from_dlpack(gpurun.Memory(64))
        weights[:] = range(64)
        both.lend(weights, 1, kind=gpurun.SHARED).wait()
        assert weights[5] == 99
        """)
    connects = started(1, f"""
        import gpurun, numpy
        both = gpurun.init().connect({name!r}, 30)
        with both.borrow(0, library=numpy) as (weights,):
            assert weights[63] == 63
            weights[5] = 99
        """)
    all_end_well(accepts, connects)


def test_requests_of_both_jobs_are_awaited_together(name):
    accepts = started(2, f"""
        import asyncio, gpurun
        own = gpurun.init()
        both = own.accept({name!r}, 30)
        async def wait():
            got = [bytearray(1), bytearray(1)]
            requests = [own.irecv(got[0], 1 - own.rank), both.irecv(got[1], 2)]
            own.isend(b"o", 1 - own.rank)
            both.isend(b"x", 2)
            await asyncio.gather(*(asyncio.ensure_future(wait_for(each)) for each in requests))
            assert got == [b"o", b"b"]
        async def wait_for(request):
            await request
        asyncio.run(wait())
        part = both.dup()
        try:
            both.free()
        except gpurun.ArgumentError as error:
            assert "free them first" in str(error)
        got = bytearray(1)
        request = part.irecv(got, 2)
        request.add_done_callback(lambda: print("called"))
        part.send(b"y", 2)
        request.wait()
        part.free()
        both.free()
        """)
    connects = started(1, f"""
        import gpurun, time
        both = gpurun.init().connect({name!r}, 30)
        for each in 0, 1:
            both.recv(bytearray(1), each)
        time.sleep(0.1)  # longer than the main thread looks by itself
        for each in 0, 1:
            both.send(b"b", each)
        part = both.dup()
        for each in 0, 1:
            part.recv(bytearray(1), each)
        time.sleep(0.1)
        for each in 0, 1:
            part.send(b"z", each)
        part.free()
        both.free()
        """)
    all_end_well(accepts, connects)


@pytest.mark.parametrize("call", ["accept", "connect"])
def test_the_time_is_over(name, call):
    said = job(2, f"""
        import gpurun, time
        comm = gpurun.init()
        begin = time.monotonic()
        try:
            comm.{call}({name!r}, timeout=0.2)
        except gpurun.TimedOutError as error:
            assert {name!r} in str(error) and "0.2 s" in str(error)
        assert time.monotonic() - begin < 5
        comm.barrier()
        """)
    assert said.returncode == 0, said.stderr


def test_what_cannot_be_says_why(name):
    said = job(1, f"""
        import gpurun, threading
        comm = gpurun.init()
        for arguments, kind in ((("a/b", 1), gpurun.JobError), (("", 1), gpurun.JobError), (({name!r}, -1), ValueError),
                                (({name!r}, float("nan")), ValueError), ((None,), TypeError)):
            try:
                comm.accept(*arguments)
                raise AssertionError(arguments)
            except kind:
                pass
        other = threading.Thread(target=lambda: comm.accept({name!r}, 3))
        threading.excepthook = lambda _: None
        other.start()
        while True:
            try:
                comm.accept({name!r}, 0)
            except gpurun.TimedOutError:
                continue
            except gpurun.JobError as error:
                assert "another process accepts" in str(error)
                break
        other.join()
        """)
    assert said.returncode == 0, said.stderr


def test_other_threads_run_during_the_wait(name):
    said = job(1, f"""
        import gpurun, threading
        comm, seen = gpurun.init(), []
        ticks = threading.Thread(target=lambda: [seen.append(i) or threading.Event().wait(0.01) for i in range(10)])
        ticks.start()
        try:
            comm.accept({name!r}, 1)
        except gpurun.TimedOutError:
            assert len(seen) == 10
            print("all ran")
        """)
    assert said.stdout == "all ran\n", said.stderr


def test_a_job_that_meets_after_the_wait_was_interrupted_is_left_at_once(name):
    accepts = started(1, f"""
        import gpurun, os, signal, threading
        comm = gpurun.init()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            comm.accept({name!r})
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        while True:
            try:
                both = comm.accept({name!r} + "2", 30)
                break
            except gpurun.JobError:
                pass
        assert both.size == 2
        both.free()
        """)
    assert accepts.stdout.readline() == "interrupted\n"
    connects = started(1, f"""
        import gpurun
        comm = gpurun.init()
        comm.connect({name!r}, 30).free()
        comm.connect({name!r} + "2", 30).free()
        """)
    all_end_well(accepts, connects)


def test_a_death_ends_the_joint_job_and_the_next_one_is_met(name):
    accepts = started(1, f"""
        import gpurun
        comm = gpurun.init()
        both = comm.accept({name!r}, 30)
        try:
            both.send(b"x", 1)
            both.recv(bytearray(1), 1)
        except gpurun.PeerLostError:
            print("lost", flush=True)
        both.free()
        again = comm.accept({name!r}, 30)
        got = bytearray(1)
        again.recv(got, 1)
        assert got == b"y"
        """)
    dies = job(1, f"""
        import gpurun, os, signal
        both = gpurun.init().connect({name!r}, 30)
        both.recv(bytearray(1), 0)  # so accept() has returned there
        os.kill(os.getpid(), signal.SIGKILL)
        """)
    assert dies.returncode != 0
    connects = started(1, f"import gpurun; gpurun.init().connect({name!r}, 30).send(b'y', 0)")
    all_end_well(accepts, connects)
