"""What a started operation is to torch.distributed."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work

import gpurun


class GpurunWork(Work):
    """One or more requests, and what remains to be done when they are complete: `finish`, which is called once.

    On CPU tensors wait() waits for the bytes. On CUDA tensors it makes the current stream wait for them, and the host
    only for the match. Futures are completed by gpurun's thread, once the bytes are there. PyTorch passes on
    wait() and get_future() alone of a work of a Python backend: only these can be used through torch.distributed.
    """

    def __init__(
        self,
        requests: Sequence[gpurun.Request],
        tensors: List[torch.Tensor],
        finish: Optional[Callable[[], None]] = None,
        timeout: Optional[timedelta] = None,
    ) -> None:
        super().__init__()
        self._requests = list(requests)
        self._tensors = tensors
        self._finish = finish
        self._timeout = timeout
        self._lock = threading.Lock()
        self._error: Optional[BaseException] = None
        self._device = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
        self._finished: Any = None  # on CUDA: an event behind what `finish` has enqueued
        self._future: Any = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        limit = timeout if timeout > timedelta(0) else self._timeout
        try:
            for request in self._requests:
                if self._device is None and limit is not None:
                    request.wait(timeout=limit.total_seconds())
                elif self._device is None:
                    request.wait()
                else:
                    request.wait(stream=torch.cuda.current_stream(self._device))
        except TimeoutError as error:
            self._error = error
            raise
        except gpurun.Error as error:
            self._error = error
            raise
        self._finish_once()
        if self._finished is not None:
            torch.cuda.current_stream(self._device).wait_event(self._finished)
        return True

    def _finish_once(self) -> None:
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is None:
                return
            finish()
            if self._device is not None:
                self._finished = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._finished.record(torch.cuda.current_stream(self._device))

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        try:
            if any(not request.done and request.test(stream=gpurun.HOST) is None for request in self._requests):
                return False
        except gpurun.Error as error:
            self._error = error
            return True
        self._finish_once()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def source_rank(self) -> int:
        source: int = self._requests[0].wait().source
        return source

    _source_rank = source_rank

    def get_future(self) -> Any:
        if self._future is None:
            self._future = torch.futures.Future(devices=[] if self._device is None else [self._device])
            self._left = len(self._requests)
            if not self._requests:
                self._settle()
            for request in self._requests:
                request.add_done_callback(self._one_is_done)
        return self._future

    def _one_is_done(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._settle()

    def _settle(self) -> None:
        try:
            for request in self._requests:
                request.wait(stream=gpurun.HOST)
            self._finish_once()
        except Exception as error:  # the future raises it where it is waited for
            self._error = error
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)
