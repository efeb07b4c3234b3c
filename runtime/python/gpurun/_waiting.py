"""Waiting for requests with asyncio, and for one of several."""

from __future__ import annotations

import threading

from ._core import refuse_in_callback

TYPE_CHECKING = False  # typing's, whose import takes longer than all of this package's
if TYPE_CHECKING:
    import asyncio
    from typing import Generator, List, Sequence

    from ._core import Request, Status


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _cancel(request: "Request") -> None:
    try:
        request.cancel()
    except RuntimeError:  # a send or a collective goes on
        pass


def await_request(request: "Request") -> Generator[object, None, "Status"]:
    """What `await request` does. If the task is cancelled, a receive that is not matched is cancelled, too."""
    import asyncio

    done = request.test()
    if done is not None:
        return done
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[None]" = loop.create_future()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(_settle, future)
        except RuntimeError:  # the loop was closed: nobody waits any more
            pass

    request.add_done_callback(tell)
    try:
        yield from future
    except asyncio.CancelledError:
        _cancel(request)
        raise
    return request.wait()


def _some_done(requests: Sequence["Request"]) -> List[int]:
    return [index for index, request in enumerate(requests) if request.done or request.test() is not None]


def waitsome(requests: Sequence["Request"]) -> List[int]:
    """Wait until at least one of `requests` is complete on the host; the indices of those that are.

    Raises the error of a message. [] for no requests.
    """
    found = _some_done(requests)
    if found or not requests:
        return found
    refuse_in_callback("waitsome")
    event = threading.Event()
    tell = event.set
    try:
        for request in requests:
            request.add_done_callback(tell)
        event.wait()
    except BaseException:  # of a signal handler: as when it ends a wait for one
        for request in requests:
            _cancel(request)
        raise
    finally:
        for request in requests:
            request.remove_done_callback(tell)
    return _some_done(requests)


def waitany(requests: Sequence["Request"]) -> int:
    """Wait until one of `requests` is complete on the host; its index. Raises ValueError for no requests."""
    if not requests:
        raise ValueError("waitany() of no requests")
    return waitsome(requests)[0]
