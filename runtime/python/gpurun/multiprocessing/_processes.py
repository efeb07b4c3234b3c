"""Processes: multiprocessing's, started anew (spawn), with arguments that are packed as messages are.

A process that is started is no rank of its parent's job. gpurun.init() makes it the only rank of a job of its own, and
what spawn() has started ranks of one job.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import DupFd
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _members
from ._message import Parcel, open_body

_GRACE_S = 5.0
# By which a process knows what job it is in. What starts it anew is in none.
_OF_THE_JOB = ("GPURUN_CONTROL_FD", "GPURUN_JOB", "GPURUN_RANK", "GPURUN_SIZE", "GPURUN_LOCAL_RANK", "GPURUN_LOCAL_SIZE")


class Process(SpawnProcess):
    """multiprocessing.Process that is started by spawn.

    Arguments and attributes may be queues, pipes and events of this module, and what can be put into a queue.
    """

    _environment: Dict[str, str] = {"GPURUN_SIZE": "1"}

    def start(self) -> None:
        """Start it. A program that calls this is imported by the new process: it needs `if __name__ == "__main__":`."""
        self._told_on_start: List[Callable[[int, str], None]] = []
        pid = 0
        try:
            super().start()
            pid = self.pid or 0
        finally:
            for tell in self.__dict__.pop("_told_on_start"):
                tell(pid, self.name)
            parcel = self.__dict__.pop("_parcel", None)
            if parcel is not None:
                parcel.close()

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        told = state.pop("_told_on_start")
        self._parcel = parcel = Parcel(state, told)  # until the process has its descriptors
        return {"environment": self._environment, "data": parcel.data, "fds": [DupFd(fd) for fd in parcel.fds]}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        for name in _OF_THE_JOB:
            os.environ.pop(name, None)
        os.environ.update(state["environment"])
        fds = [each.detach() for each in state["fds"]]
        for fd in fds:
            os.set_inheritable(fd, False)
        self.__dict__.update(open_body(state["data"], fds))

    def _bootstrap(self, *arguments: Any, **options: Any) -> int:
        run = self.run

        def watched() -> None:
            try:
                run()
            except BaseException as error:
                _members.raised = not (isinstance(error, SystemExit) and not error.code)
                raise

        self.run = watched  # type: ignore[method-assign]
        return super()._bootstrap(*arguments, **options)  # type: ignore[misc, no-any-return]


class ProcessException(Exception):
    """What ProcessContext.join() raises: a process has failed."""

    def __init__(self, text: str, error_index: int, error_pid: int) -> None:
        super().__init__(text)
        self.msg = text
        self.error_index = error_index
        self.error_pid = error_pid


class ProcessRaisedException(ProcessException):
    """By an exception, which the text has."""


class ProcessExitedException(ProcessException):
    """By its exit status, or a signal."""

    def __init__(self, text: str, error_index: int, error_pid: int, exit_code: int, signal_name: Optional[str]) -> None:
        super().__init__(text, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


class ProcessContext:
    """What spawn() has started."""

    def __init__(self, processes: Sequence[Process], errors: Sequence[Any]) -> None:
        self.processes = list(processes)
        self._errors = errors
        self._left: Dict[Any, int] = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> List[Optional[int]]:
        """Of the processes, by index."""
        return [process.pid for process in self.processes]

    def join(self, timeout: Optional[float] = None, grace_period: Optional[float] = None) -> bool:
        """Wait until a process ends, or for `timeout` seconds. True once all have ended: call it until then.

        If one has failed, ends the others: by SIGTERM, and after `grace_period` seconds (None: 5) by SIGKILL. Then raises
        ProcessRaisedException or ProcessExitedException.
        """
        for sentinel in connection.wait(list(self._left), timeout) if self._left else []:
            index = self._left.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._end(_GRACE_S if grace_period is None else grace_period)
                self._left.clear()
                raise self._error_of(index)
        return not self._left

    def _end(self, grace_s: float) -> None:
        for process in self.processes:
            process.terminate()
        end = time.monotonic() + grace_s
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        for process in self.processes:
            process.kill()
            process.join()

    def _error_of(self, index: int) -> ProcessException:
        process = self.processes[index]
        pid, code = process.pid or 0, process.exitcode or 0
        if self._errors[index].poll():
            try:
                return ProcessRaisedException(f"process {index} has raised:\n{self._errors[index].recv()}", index, pid)
            except EOFError:
                pass
        if code >= 0:
            return ProcessExitedException(f"process {index} has ended with status {code}", index, pid, code, None)
        name = signal.Signals(-code).name
        return ProcessExitedException(f"process {index} was ended by {name}", index, pid, code, name)


def _call(fn: Callable[..., Any], index: int, args: Tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # all get it, and who has started this says it
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


def spawn(
    fn: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Optional[ProcessContext]:
    """Start `nprocs` processes that call fn(index, *args). In them, gpurun.init() makes them the ranks of one job.

    join: wait for them, and raise as ProcessContext.join(); else return the ProcessContext.
    """
    if start_method != "spawn":
        raise ValueError(f"start_method={start_method!r}: only 'spawn' is safe once a process uses a GPU, or has threads")
    job = f"spawn-{os.getpid()}-{time.monotonic_ns()}"
    processes: List[Process] = []
    errors: List[Any] = []
    for index in range(nprocs):
        reader, writer = connection.Pipe(duplex=False)
        process = Process(target=_call, args=(fn, index, args, writer), daemon=daemon)
        process._environment = {"GPURUN_JOB": job, "GPURUN_RANK": str(index), "GPURUN_SIZE": str(nprocs)}
        process.start()
        writer.close()
        processes.append(process)
        errors.append(reader)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None
