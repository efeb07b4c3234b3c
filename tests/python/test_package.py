"""The package outside of jobs: what it imports, how jobs end. Programs are run by gpurun."""
import subprocess
import sys

import pytest

from jobs import GPURUN, job


def test_import_loads_none_of_the_array_libraries():
    program = "import gpurun, sys; print({'numpy', 'torch', 'cupy', 'jax', 'asyncio'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_import_takes_at_most_50_ms():
    """Of the processor, which other programs do not delay."""
    program = "import time; t = time.process_time(); import gpurun; print(time.process_time() - t)"
    times = [float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
             for _ in range(7)]
    assert min(times) < 0.050


def test_a_subinterpreter_is_refused_with_the_remedy():
    pytest.importorskip("_xxsubinterpreters")  # of Python 3.8 to 3.12
    program = """if True:
        import _xxsubinterpreters as interpreters
        try:
            interpreters.run_string(interpreters.create(), "import gpurun")
        except interpreters.RunFailedError as error:
            print(error)
        """
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "main interpreter only" in said.stdout and "import it there" in said.stdout


def test_the_demo_runs():
    said = subprocess.run([GPURUN, "-n", "3", "--device=emulated", sys.executable, "-m", "gpurun.demo"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 0, said.stderr
    assert "sum up to 6" in said.stdout


def test_calls_before_init_say_what_to_do():
    program = "import gpurun; gpurun.COMM_WORLD.send(b'x', 0)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "StateError" in said.stderr and "init" in said.stderr


def test_a_program_that_does_not_finalize_leaves_by_itself():
    said = job(3, "import gpurun; gpurun.init()")
    assert (said.returncode, said.stderr) == (0, "")


def test_requests_that_nobody_waits_for_do_not_keep_a_program():
    said = job(2, """
        import gpurun
        comm = gpurun.init()
        kept = comm.irecv(bytearray(8), 1 - comm.rank, 5)
        kept.add_done_callback(lambda: None)
        comm.barrier()
        kept.cancel()
        """)
    assert said.returncode == 0, said.stderr


def test_what_is_not_complete_when_the_rank_leaves_fails():
    """Also for threads that wait for it meanwhile."""
    said = job(1, """
        import asyncio, gpurun, threading
        comm = gpurun.init()
        never = [comm.irecv(bytearray(8), 0, tag) for tag in range(4)]
        failed, begun = [], threading.Semaphore(0)

        def expect_failure(wait, request):
            try:
                begun.release()
                wait(request)
            except gpurun.StateError as error:
                failed.append(str(error))

        async def await_it(request):
            await request

        ways = [lambda r: r.wait(), lambda r: gpurun.waitany([r]) or r.wait(), lambda r: asyncio.run(await_it(r))]
        never[0].add_done_callback(lambda: print("called"))
        threads = [threading.Thread(target=expect_failure, args=pair) for pair in zip(ways, never)]
        for thread in threads:
            thread.start()
        for thread in threads:
            begun.acquire()
        gpurun.finalize()
        for thread in threads:
            thread.join()
        for way in ways:
            expect_failure(way, never[0])
            expect_failure(way, never[3])
        print(len(failed))
        """)
    assert (said.returncode, said.stdout, said.stderr) == (0, "called\n9\n", "")


def test_threads_that_start_to_wait_while_the_rank_leaves_fail():
    for _ in range(6):
        said = job(1, """
            import gpurun, threading
            comm = gpurun.init()
            never = [comm.irecv(bytearray(8), 0, tag) for tag in range(200)]
            begun = threading.Event()

            def wait():
                for request in never:
                    begun.set()
                    try:
                        request.add_done_callback(lambda: None)
                    except gpurun.StateError:
                        pass

            thread = threading.Thread(target=wait)
            thread.start()
            begun.wait()
            gpurun.finalize()
            thread.join()
            """)
        assert (said.returncode, said.stderr) == (0, "")


def test_an_exception_ends_a_program_in_order_though_a_loan_goes_on():
    said = job(1, """
        import gpurun
        comm = gpurun.init()
        memory = gpurun.Memory(64)
        lent = [comm.lend(memory, 0)]
        tensors = comm.borrow(0).tensors
        raise ValueError("the reason")
        """)
    assert said.returncode == 1 and "terminate" not in said.stderr and "ValueError: the reason" in said.stderr


def test_an_exception_of_one_rank_ends_the_job():
    said = job(3, """
        import gpurun
        comm = gpurun.init()
        if comm.rank == 1:
            raise ValueError("of rank 1")
        comm.recv(bytearray(1), 1)
        """)
    assert said.returncode != 0 and "of rank 1" in said.stderr


def test_a_death_is_an_exception_that_names_the_rank():
    said = job(3, """
        import gpurun, os, signal
        comm = gpurun.init()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            comm.recv(bytearray(1), 1)
        except gpurun.PeerLostError as error:
            assert isinstance(error, ConnectionError) and error.rank == comm.rank
            print("told:", error)
        """, "--keep-going")
    assert said.stdout.count("told:") == 2 and said.stdout.count("1") >= 2, said.stderr


WAITS = {
    "recv": "comm.recv(bytearray(1), 1)",
    "send": "comm.send(bytes(1 << 24), 1)",
    "sendrecv": "comm.sendrecv(b'x', 1, recvbuf=bytearray(1), source=1)",
    "barrier": "comm.barrier()",
    "wait": "comm.irecv(bytearray(1), 1).wait()",
    "waitany": "gpurun.waitany([comm.irecv(bytearray(1), 1)])",
    "borrow": "comm.borrow(1)",
    "accept": "comm.accept(f'python-{os.getpid()}')",
    "connect": "comm.connect(f'python-{os.getpid()}')",
    "recv_object": "comm.recv_object(1)",
    "await": "asyncio.run(wait(comm.irecv(bytearray(1), 1)))",
}


@pytest.mark.parametrize("what", WAITS)
def test_control_c_ends_a_wait(what):
    said = job(2, f"""
        import asyncio, gpurun, os, signal, threading
        async def wait(request): await request
        comm = gpurun.init()
        if comm.rank == 0:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                {WAITS[what]}
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            os._exit(3)
        comm.recv(bytearray(1), 0, 99)
        """)
    assert said.stdout == "interrupted\n", said.stderr
    assert said.returncode == 3


def test_a_receive_that_was_interrupted_takes_no_later_message():
    said = job(1, """
        import gpurun, os, signal, threading
        comm = gpurun.init()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            comm.recv(bytearray(1), 0)
        except KeyboardInterrupt:
            pass
        comm.send(b"x", 0)
        got = bytearray(1)
        comm.recv(got, 0)
        assert got == b"x"
        """)
    assert said.returncode == 0, said.stderr


def test_a_forked_child_is_no_rank():
    said = job(1, """
        import gpurun, os
        comm = gpurun.init()
        under_way = comm.irecv(bytearray(1), 0)
        under_way.add_done_callback(lambda: None)  # a thread waits for it, which the child does not have
        if os.fork() == 0:
            for call in (lambda: comm.send(b"x", 0), under_way.wait, lambda: gpurun.waitany([under_way]),
                         gpurun.finalize):
                try:
                    call()
                except gpurun.StateError as error:
                    print("refused", error, flush=True)
            os._exit(0)
        os.wait()
        comm.send(b"x", 0)
        under_way.wait()
        """)
    assert said.returncode == 0 and said.stdout.count("refused") == 4, (said.stdout, said.stderr)
    assert said.stdout.count("forked from a rank") == 4, said.stdout


def test_waiting_uses_no_time():
    said = job(2, """
        import gpurun, time
        comm = gpurun.init()
        if comm.rank == 0:
            used = time.process_time()
            comm.recv(bytearray(1), 1)
            print(time.process_time() - used)
        else:
            time.sleep(1)
            comm.send(b"x", 0)
        """)
    assert float(said.stdout) < 0.2, said.stderr
