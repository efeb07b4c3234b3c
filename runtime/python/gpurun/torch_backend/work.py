"""What a call is to torch.distributed once it was made.

PyTorch passes on wait() and get_future() alone of a work of a Python backend: only these can be used through
torch.distributed.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work

import gpurun


def device_of(tensors: Sequence[torch.Tensor]) -> Optional[int]:
    """The CUDA device that all tensors are on; a rank has no second one."""
    for tensor in tensors:
        if not tensor.is_cuda:
            return None
    return tensors[0].get_device() if tensors else None


def _current_stream(device: int) -> int:
    """Its handle, which torch.cuda.current_stream() makes an object of."""
    return torch._C._cuda_getCurrentRawStream(device)


class CompleteWork(Work):
    """Of a call that has returned: on CPU tensors all is done, on CUDA tensors in the order of the current stream."""

    _event: Any = None  # behind the work in its stream, once one was needed
    _future: Any = None

    def __init__(self, tensors: List[torch.Tensor], device: Optional[int]) -> None:
        super().__init__()
        self._tensors = tensors
        self._device = device
        self._stream = None if device is None else _current_stream(device)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self._order_stream()
        return True

    def _order_stream(self) -> None:
        """Let the current stream wait for the one in which the work is complete, if that is another."""
        if self._device is not None and self._stream not in (None, _current_stream(self._device)):
            torch.cuda.current_stream(self._device).wait_event(self._behind())

    def _behind(self) -> Any:
        """An event behind the work in its stream. It is recorded once it is asked for, so it may be behind more."""
        if self._event is None:
            stream: Any = torch.cuda.default_stream(self._device)
            if self._stream:  # ExternalStream takes 0 for none
                stream = torch.cuda.ExternalStream(self._stream, self._device)  # type: ignore[no-untyped-call]
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(stream)
            self._event = event
        return self._event

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._stream is None or bool(self._behind().query())

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[BaseException]:
        return None

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def get_future(self) -> Any:
        if self._future is None:
            devices: List[Any] = [] if self._device is None else [torch.device("cuda", self._device)]
            self._future = torch.futures.Future(devices=devices)
            self._complete_future()
        return self._future

    def _complete_future(self) -> None:
        self.wait()  # it is complete in the order of the current stream
        self._future.set_result(self._tensors)


class StartedWork(CompleteWork):
    """One or more requests, and what remains to be done when they are complete: `finish`, which is called once.

    On CPU tensors wait() waits for the bytes. On CUDA tensors it makes the current stream wait for them, and the host
    only for the match. Futures are completed by gpurun's thread, once the bytes are there.
    """

    _error: Optional[BaseException] = None

    def __init__(
        self,
        tensors: List[torch.Tensor],
        requests: List[gpurun.Request],
        finish: Optional[Callable[[], None]],
        seconds: Optional[float],
    ) -> None:
        super().__init__(tensors, device_of(tensors))
        self._stream = None  # until it is complete in the order of one
        self._requests = requests
        self._finish = finish
        self._seconds = seconds
        self._lock = threading.Lock()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        try:
            if self._device is None:
                seconds = timeout.total_seconds() if timeout > timedelta(0) else self._seconds
                for request in self._requests:
                    request.wait(timeout=seconds)
            else:
                stream = _current_stream(self._device)
                for request in self._requests:
                    request.wait(stream=stream)
        except (TimeoutError, gpurun.Error) as error:
            self._error = error
            raise
        self._finish_once()
        if self._device is not None and self._stream is None:
            self._stream = _current_stream(self._device)
        return super().wait()

    def _finish_once(self) -> None:
        if self._finish is None:
            return
        with self._lock:
            if self._finish is not None:
                self._finish()
                if self._device is not None:
                    self._stream = _current_stream(self._device)
                self._finish = None

    def is_completed(self) -> bool:
        try:
            if any(not request.done and request.test(stream=gpurun.HOST) is None for request in self._requests):
                return False
        except gpurun.Error as error:
            self._error = error
            return True
        self._finish_once()
        return super().is_completed()

    def exception(self) -> Optional[BaseException]:
        return self._error

    def source_rank(self) -> int:
        source: int = self._requests[0].wait().source
        return source

    _source_rank = source_rank

    def _complete_future(self) -> None:
        self._left = len(self._requests)
        if not self._requests:
            self._settle()
        for request in self._requests:
            request.add_done_callback(self._one_is_done)

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
            self._order_stream()
        except Exception as error:  # the future raises it where it is waited for
            self._error = error
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)
