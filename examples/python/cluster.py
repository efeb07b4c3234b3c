"""Ranks that a program, or a notebook, commands from outside (notebook.ipynb):

    ranks = Cluster(4)
    ranks.run("x = comm.rank")          # a piece of program, in all ranks; what it defines stays there
    ranks.call(function, arguments)     # a list of what it has returned, by rank
    ranks.close()

A notebook's functions are in no file that a new process could import, so they go to the ranks as text. What they use must
be defined there by run(), or imported by themselves. An exception in a rank ends the cluster: others may wait for it.
"""
import inspect
import multiprocessing.connection
import textwrap
import traceback

import gpurun
from gpurun.multiprocessing import Pipe, spawn


def serve(rank, ends):
    """What a rank does until the cluster is closed, or the program that has started it ends."""
    for other in ends[:rank] + ends[rank + 1 :]:
        other.close()
    names = {"comm": gpurun.init(), "gpurun": gpurun}
    while True:
        try:
            task = ends[rank].recv()
        except (EOFError, gpurun.PeerLostError):
            return
        if task is None:
            return
        source, function, arguments = task
        try:
            exec(compile(source, "<cluster>", "exec"), names)
            answer = names[function](*arguments) if function else None
        except Exception:
            ends[rank].send((False, traceback.format_exc().rstrip()))
        else:
            ends[rank].send((True, answer))


class Cluster:
    """Processes that are the ranks of one job, each with a pipe to this process."""

    def __init__(self, size):
        pairs = [Pipe() for _ in range(size)]
        self._ends = [here for here, _ in pairs]
        self._started = spawn(serve, ([there for _, there in pairs],), nprocs=size, join=False, daemon=True)
        for _, there in pairs:
            there.close()

    def run(self, source):
        """Run a piece of program in all ranks. `comm` is their communicator."""
        self._all(textwrap.dedent(source), None, ())

    def call(self, function, *arguments):
        """What the function returns in each rank."""
        return self._all(textwrap.dedent(inspect.getsource(function)), function.__name__, arguments)

    def _all(self, *task):
        for end in self._ends:
            end.send(task)
        answers, waiting = [None] * len(self._ends), list(self._ends)
        while waiting:
            for end in multiprocessing.connection.wait(waiting):
                waiting.remove(end)
                rank = self._ends.index(end)
                try:
                    well, answers[rank] = end.recv()
                except (EOFError, gpurun.PeerLostError):
                    self._started.join()  # ends the others, and raises what has ended this one
                    raise
                if not well:
                    self._end()
                    raise RuntimeError(f"rank {rank} has raised:\n{answers[rank]}\nThe cluster has ended: make another one.")
        return answers

    def _end(self):
        for process in self._started.processes:
            process.kill()
        self.close()

    def close(self):
        """End the ranks."""
        for end in self._ends:
            try:
                end.send(None)
            except (BrokenPipeError, ValueError, gpurun.PeerLostError):
                pass  # it has ended
            end.close()
        for process in self._started.processes:
            process.join()
